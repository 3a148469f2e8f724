"""Decodes and verifies plain and chunked bodies of requests, piece by piece.

Decoded bytes are yielded as soon as they arrive, so memory is bounded even if a client announces a
huge chunk. The bytes are verified only when `Body.read` has ended: until then, the caller must not
make them visible.

Chunked bodies have this form:

::

    SIZE[;chunk-signature=HEX] CRLF DATA CRLF   for each chunk; the last one has size 0 and no data
    NAME:VALUE CRLF                             for each trailer, if the form has trailers
    x-amz-trailer-signature:HEX CRLF            if the chunks are signed, too
    CRLF
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import md5, sha256
from hmac import compare_digest, digest
from io import BufferedReader
from itertools import islice
from typing import Final

from lakecli.serving.s3 import checksums
from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.signature import SIGNED_CHUNKS, SIGNED_TRAILER, UNSIGNED_TRAILER, Signed
from lakecli.stores.s3.signing import UNSIGNED
from lakecli.stores.streams import PieceReader

_CHUNKED: Final = frozenset({UNSIGNED_TRAILER, SIGNED_CHUNKS, SIGNED_TRAILER})
_SIGNED: Final = frozenset({SIGNED_CHUNKS, SIGNED_TRAILER})
_PIECE: Final = 64 << 10
_LONGEST_LINE: Final = 1024
_MOST_LINES: Final = 32
"""The maximum number of lines after the last chunk."""

_NUMBER: Final = re.compile("[0-9]{1,18}", re.ASCII)
_CHUNK: Final = re.compile(
    rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[ \t]*chunk-signature=([0-9a-f]{64}))?[ \t]*\r\n"
)
_TRAILER: Final = re.compile(r"([A-Za-z0-9-]+)[ \t]*:[ \t]*([!-~]*)[ \t]*", re.ASCII)
_TRAILER_SIGNATURE: Final = "x-amz-trailer-signature"
_NOTHING: Final = sha256().hexdigest()
_MD5: Final = "md5"


class Body:
    """The body of a request.

    Args:
        signed: the request's verified signature.
        headers: the request's headers by lower-case names.
        limit: the maximum number of decoded bytes.
        of_upload: whether the request is CompleteMultipartUpload: the checksums in its headers are
            those of the object, not of the body.

    Attributes:
        sums: after `read`, the checksums that the client sent, in base64, by their names in
            `checksums.ALGORITHMS`.

    Raises:
        S3Error: the headers are malformed, or announce a body that is too large.
    """

    def __init__(
        self, signed: Signed, headers: Mapping[str, str], *, limit: int, of_upload: bool = False
    ) -> None:
        self.sums: dict[str, str] = {}
        self._signed = signed
        self._is_chunked = signed.payload in _CHUNKED
        self._size = announced_size(signed, headers)
        if self._size > limit:
            raise S3Error("EntityTooLarge", f"The body is larger than {limit} bytes.")
        self._decoded = 0
        self._sha256 = None if self._is_chunked or signed.payload == UNSIGNED else sha256()
        self._expected = {} if of_upload else checksums.sent(headers)
        self._announced = _announced_by(headers) if self._is_chunked else frozenset()
        named = {*self._expected, *self._announced}
        self._hashers = {name: checksums.ALGORITHMS[name]() for name in named}
        if "content-md5" in headers:
            self._expected = {**self._expected, _MD5: _md5_of(headers["content-md5"])}
            self._hashers[_MD5] = md5(usedforsecurity=False)
        self._last_signature = signed.seed

    def read(self, received: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the decoded pieces of the body; at the end, verify all of it.

        Args:
            received: the body as it was sent, in pieces of any size.

        Raises:
            S3Error: BadDigest, XAmzContentSHA256Mismatch, SignatureDoesNotMatch, IncompleteBody,
                EntityTooLarge, MalformedTrailerError and others.
        """
        lines: list[bytes] = []
        if self._is_chunked:
            reader = BufferedReader(PieceReader(iter(received)))
            yield from self._chunks(reader)
            lines += islice(iter(partial(_line_of, reader), b""), _MOST_LINES + 1)
        else:
            yield from map(self._take, received)
        if self._decoded != self._size:
            raise _incomplete("fewer bytes were sent than announced")
        if self._sha256 is not None and self._sha256.hexdigest() != self._signed.payload:
            raise S3Error(
                "XAmzContentSHA256Mismatch",
                "The x-amz-content-sha256 that was signed is not the SHA-256 of the body.",
            )
        expected = [*self._expected.items(), *self._trailers_of(lines)]
        self.sums = {
            name: checksums.encoded(hasher.digest()) for name, hasher in self._hashers.items()
        }
        for name, text in expected:
            if self.sums[name] != text:
                raise S3Error("BadDigest", f"The {name.upper()} is not the one of the body.")
        self.sums.pop(_MD5, None)

    def _take(self, data: bytes) -> bytes:
        """Count, hash and return decoded bytes."""
        self._decoded += len(data)
        if self._decoded > self._size:
            raise _incomplete("more bytes were sent than announced")
        for hasher in (self._sha256, *self._hashers.values()):
            if hasher is not None:
                hasher.update(data)
        return data

    def _chunks(self, received: "BufferedReader[PieceReader]") -> Iterator[bytes]:
        """Yield the data of the chunks."""
        size = 1
        while size:
            found = _CHUNK.fullmatch(_line_of(received))
            if found is None:
                raise _incomplete("the size of a chunk is missing or malformed")
            size = left = int(found[1], 16)
            chunk = sha256() if self._signed.payload in _SIGNED else None
            if chunk is not None and not found[2]:
                raise _mismatch("a chunk has no signature")
            while left:
                piece = self._take(received.read1(min(left, _PIECE)))
                if not piece:
                    raise _incomplete("the last chunk is missing")
                left -= len(piece)
                if chunk is not None:
                    chunk.update(piece)
                yield piece
            if chunk is not None:
                self._check("PAYLOAD", f"{_NOTHING}\n{chunk.hexdigest()}", found[2].decode())
            if size and _line_of(received) != b"\r\n":
                raise _incomplete("a chunk is longer than announced")

    def _check(self, kind: str, rest: str, signature: str) -> None:
        """Verify a chunk or trailer signature, which is chained to the previous signature."""
        signed = self._signed
        text = f"AWS4-HMAC-SHA256-{kind}\n{signed.date}\n{signed.scope}\n{self._last_signature}"
        right = digest(signed.key, f"{text}\n{rest}".encode(), "sha256").hex()
        if not compare_digest(right, signature):
            raise _mismatch("a chunk or trailer was not signed with this signature")
        self._last_signature = right

    def _trailers_of(self, lines: Sequence[bytes]) -> Iterator[tuple[str, str]]:
        """Verify the lines after the last chunk, and yield the checksums in them."""
        trailers: dict[str, str] = {}
        # Some clients send more line breaks.
        for line in (text for each in lines if (text := each.rstrip(b"\r\n"))):
            found = _TRAILER.fullmatch(line.decode("latin-1"))
            name = found[1].lower() if found else ""
            if found is None or name in trailers or _TRAILER_SIGNATURE in trailers:
                raise _bad_trailer("a line after the last chunk is malformed")
            trailers[name] = found[2]
        if len(lines) > _MOST_LINES:
            raise _bad_trailer("there are too many lines after the last chunk")
        signature = trailers.pop(_TRAILER_SIGNATURE, None)
        if self._signed.payload == SIGNED_TRAILER:
            written = "".join(f"{name}:{value}\n" for name, value in trailers.items())
            if signature is None:
                raise _mismatch("the trailer has no signature")
            self._check("TRAILER", sha256(written.encode()).hexdigest(), signature)
        elif signature is not None:
            raise _bad_trailer("the trailer is signed, but not announced as signed")
        if trailers.keys() != {checksums.PREFIX + name for name in self._announced}:
            raise _bad_trailer("the trailers are not those that x-amz-trailer announces")
        for name in self._announced:
            yield name, checksums.checked(name, trailers[checksums.PREFIX + name])


def _line_of(received: "BufferedReader[PieceReader]") -> bytes:
    """Return the next line with its line break; at the end of the body, the remaining bytes."""
    line = received.readline(_LONGEST_LINE)
    if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
        raise _incomplete("a line between chunks is too long")
    return line


def announced_size(signed: Signed, headers: Mapping[str, str]) -> int:
    """Return the number of decoded bytes that a client announces.

    Raises:
        S3Error: MissingContentLength; or InvalidArgument, if the header is not a number.
    """
    is_chunked = signed.payload in _CHUNKED
    name = "x-amz-decoded-content-length" if is_chunked else "content-length"
    text = headers.get(name)
    if text is None and (is_chunked or "transfer-encoding" in headers):
        raise S3Error("MissingContentLength", f"The header {name} is missing.")
    if text is not None and _NUMBER.fullmatch(text) is None:
        raise S3Error("InvalidArgument", f"The header {name} must be a number of bytes.")
    return int(text or 0)


def stored_encoding(content_encoding: str) -> str:
    """Return the Content-Encoding of the object, which is the request's without ``aws-chunked``."""
    parts = (part.strip() for part in content_encoding.split(","))
    return ", ".join(part for part in parts if part and part.lower() != "aws-chunked")


def _md5_of(text: str) -> str:
    """Return a Content-MD5 in canonical base64; raise `S3Error` InvalidDigest if it is invalid."""
    found = checksums.decoded(text.strip())
    if len(found) != md5(usedforsecurity=False).digest_size:
        raise S3Error("InvalidDigest", "The Content-MD5 is not an MD5 in base64.")
    return checksums.encoded(found)


def _announced_by(headers: Mapping[str, str]) -> frozenset[str]:
    """Return the algorithms of the checksums that ``x-amz-trailer`` announces."""
    names = [part.strip().lower() for part in headers.get("x-amz-trailer", "").split(",")]
    found = [name for name in names if name]
    if not all(name.startswith(checksums.PREFIX) for name in found):
        raise S3Error("InvalidRequest", "The only trailers that are supported are checksums.")
    return frozenset(checksums.named(name.removeprefix(checksums.PREFIX)) for name in found)


def _incomplete(problem: str) -> S3Error:
    return S3Error(
        "IncompleteBody", f"The body is not complete, or its chunks are malformed: {problem}."
    )


def _bad_trailer(problem: str) -> S3Error:
    return S3Error("MalformedTrailerError", f"The trailer is malformed: {problem}.")


def _mismatch(problem: str) -> S3Error:
    return S3Error("SignatureDoesNotMatch", f"The body does not match its signatures: {problem}.")
