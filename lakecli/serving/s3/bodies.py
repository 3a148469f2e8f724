"""Decodes and verifies plain and chunked bodies of requests, piece by piece.

Decoded bytes are returned as soon as they arrive, so memory is bounded even if a client announces a
huge chunk. The bytes are verified only when `Body.finish` returns: until then, the caller must not
make them visible.

Chunked bodies have this form:

::

    SIZE[;chunk-signature=HEX] CRLF DATA CRLF   for each chunk; the last one has size 0 and no data
    NAME:VALUE CRLF                             for each trailer, if the form has trailers
    x-amz-trailer-signature:HEX CRLF            if the chunks are signed, too
    CRLF
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping
from hashlib import md5, sha256
from hmac import compare_digest, digest
from typing import Final

from lakecli.serving.s3 import checksums
from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.signature import SIGNED_CHUNKS, SIGNED_TRAILER, UNSIGNED_TRAILER, Signed
from lakecli.stores.s3.signing import UNSIGNED

_CHUNKED: Final = frozenset({UNSIGNED_TRAILER, SIGNED_CHUNKS, SIGNED_TRAILER})
_SIGNED: Final = frozenset({SIGNED_CHUNKS, SIGNED_TRAILER})
_LONGEST_LINE: Final = 1024
_MOST_LINES: Final = 32
"""The maximum number of lines after the last chunk."""

_NUMBER: Final = re.compile("[0-9]{1,18}", re.ASCII)
_CHUNK: Final = re.compile(
    rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[ \t]*chunk-signature=([0-9a-f]{64}))?[ \t]*"
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
        also: checksum algorithms to compute even if the client sends no such checksum.
        of_upload: whether the request is CompleteMultipartUpload: the checksums in its headers are
            those of the object, not of the body.

    Raises:
        S3Error: the headers are malformed, or announce a body that is too large.
    """

    def __init__(
        self,
        signed: Signed,
        headers: Mapping[str, str],
        *,
        limit: int,
        also: Iterable[str] = (),
        of_upload: bool = False,
    ) -> None:
        self._signed = signed
        self._limit = limit
        self._is_chunked = signed.payload in _CHUNKED
        self._sent_size = _number(headers, "content-length")
        self._size = announced_size(signed, headers)
        if self._size is None and self._is_chunked:
            raise S3Error("MissingContentLength", "x-amz-decoded-content-length is missing.")
        if self._size is not None and self._size > limit:
            raise _too_large(limit)
        self._taken = self._decoded = 0
        self._sha256 = None if self._is_chunked or signed.payload == UNSIGNED else sha256()
        self._expected = {} if of_upload else checksums.sent(headers)
        self._announced = _trailers_of(headers) if self._is_chunked else frozenset()
        named = {*self._expected, *self._announced, *also}
        self._hashers = {name: checksums.ALGORITHMS[name]() for name in named}
        if "content-md5" in headers:
            self._expected = {**self._expected, _MD5: _md5_of(headers["content-md5"])}
            self._hashers[_MD5] = md5(usedforsecurity=False)
        self._line = bytearray()
        self._left = 0
        self._is_at_trailers = False
        self._chunk = sha256() if signed.payload in _SIGNED else None
        self._last_signature = signed.seed
        self._trailers: dict[str, str] = {}
        self._lines = self._take_lines()
        next(self._lines)

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next received bytes, and return the decoded pieces.

        Raises:
            S3Error: the body is malformed, too large, or does not match its signature.
        """
        self._taken += len(data)
        if not self._is_chunked:
            self._take(data)
            return [data] if data else []
        pieces: list[bytes] = []
        position = 0
        while position < len(data):
            if self._left:
                piece = data[position : position + self._left]
                self._take(piece)
                pieces.append(piece)
                position += len(piece)
                self._left -= len(piece)
                if not self._left:
                    self._lines.send(b"")
                continue
            end = data.find(b"\n", position)
            self._line += data[position : len(data) if end < 0 else end]
            if len(self._line) > _LONGEST_LINE:
                raise _incomplete("a line between chunks is too long")
            if end < 0:
                break
            position = end + 1
            self._read_line()
        return pieces

    def _take(self, data: bytes) -> None:
        """Count and hash decoded bytes."""
        self._decoded += len(data)
        if self._decoded > self._limit:
            raise _too_large(self._limit)
        if self._size is not None and self._decoded > self._size:
            raise _incomplete("more bytes were sent than announced")
        for hasher in (self._sha256, self._chunk, *self._hashers.values()):
            if hasher is not None:
                hasher.update(data)

    def _read_line(self) -> None:
        whole = bytes(self._line)
        self._line.clear()
        if not whole.endswith(b"\r") and not self._is_at_trailers:
            raise _incomplete("a line does not end with CRLF")
        self._left = self._lines.send(whole.removesuffix(b"\r"))

    def _take_lines(self) -> Generator[int, bytes]:
        """Receive the lines between the data of chunks, and the trailers.

        Yields:
            the size of the data before the next line; resume the generator after the data.
        """
        size = 1
        while size:
            found = _CHUNK.fullmatch((yield 0))
            if found is None:
                raise _incomplete("the size of a chunk is malformed")
            size = int(found[1], 16)
            if self._chunk is not None and not found[2]:
                raise _mismatch("a chunk has no signature")
            if size:
                yield size
            if self._chunk is not None:
                text = f"{_NOTHING}\n{self._chunk.hexdigest()}"
                self._check("PAYLOAD", text, found[2].decode())
                self._chunk = sha256()
            if size and (yield 0):
                raise _incomplete("a chunk is longer than announced")
        self._is_at_trailers = True
        for _ in range(_MOST_LINES):
            if line := (yield 0):  # some clients send an extra line break
                self._read_trailer(line.decode("latin-1"))
        yield 0
        raise _bad_trailer("there are too many lines after the last chunk")

    def _check(self, kind: str, rest: str, signature: str) -> None:
        """Verify a chunk or trailer signature, which is chained to the previous signature."""
        signed = self._signed
        text = f"AWS4-HMAC-SHA256-{kind}\n{signed.date}\n{signed.scope}\n{self._last_signature}"
        right = digest(signed.key, f"{text}\n{rest}".encode(), "sha256").hex()
        if not compare_digest(right, signature):
            raise _mismatch("a chunk or trailer was not signed with this signature")
        self._last_signature = right

    def _read_trailer(self, line: str) -> None:
        found = _TRAILER.fullmatch(line)
        name = found[1].lower() if found else ""
        if found is None or name in self._trailers or _TRAILER_SIGNATURE in self._trailers:
            raise _bad_trailer("a line after the last chunk is malformed")
        self._trailers[name] = found[2]

    def finish(self) -> dict[str, str]:
        """Verify the whole body after its last byte, and return its checksums by algorithm.

        The checksums are base64: those that the client sent, and those of the argument `also`.
        Their names are the keys of `checksums.ALGORITHMS`.

        Raises:
            S3Error: BadDigest, XAmzContentSHA256Mismatch, SignatureDoesNotMatch, IncompleteBody,
                MalformedTrailerError and others.
        """
        if self._sent_size is not None and self._taken != self._sent_size:
            raise _incomplete("fewer or more bytes were sent than Content-Length says")
        if self._is_chunked and not self._is_at_trailers:
            raise _incomplete("the last chunk is missing")
        if self._line:
            self._read_line()
        self._lines.close()  # breaks the reference cycle
        if self._size is not None and self._decoded != self._size:
            raise _incomplete("fewer bytes were sent than announced")
        if self._sha256 is not None and self._sha256.hexdigest() != self._signed.payload:
            raise S3Error(
                "XAmzContentSHA256Mismatch",
                "The x-amz-content-sha256 that was signed is not the SHA-256 of the body.",
            )
        expected = [*self._expected.items(), *self._checked_trailers()]
        computed = {
            name: checksums.encoded(hasher.digest()) for name, hasher in self._hashers.items()
        }
        for name, text in expected:
            if computed[name] != text:
                raise S3Error("BadDigest", f"The {name.upper()} is not the one of the body.")
        computed.pop(_MD5, None)
        return computed

    def _checked_trailers(self) -> list[tuple[str, str]]:
        """Verify the signature and names of the trailers, and return their checksums."""
        signature = self._trailers.pop(_TRAILER_SIGNATURE, None)
        if self._signed.payload == SIGNED_TRAILER:
            written = "".join(f"{name}:{value}\n" for name, value in self._trailers.items())
            if signature is None:
                raise _mismatch("the trailer has no signature")
            self._check("TRAILER", sha256(written.encode()).hexdigest(), signature)
        elif signature is not None:
            raise _bad_trailer("the trailer is signed, but not announced as signed")
        if self._trailers.keys() != {checksums.PREFIX + name for name in self._announced}:
            raise _bad_trailer("the trailers are not those that x-amz-trailer announces")
        return [
            (name, checksums.checked(name, self._trailers[checksums.PREFIX + name]))
            for name in self._announced
        ]


def announced_size(signed: Signed, headers: Mapping[str, str]) -> int | None:
    """Return the number of decoded bytes that a client announces, or ``None`` if it does not.

    Raises:
        S3Error: InvalidArgument; the header is not a number.
    """
    is_chunked = signed.payload in _CHUNKED
    return _number(headers, "x-amz-decoded-content-length" if is_chunked else "content-length")


def stored_encoding(content_encoding: str) -> str:
    """Return the Content-Encoding of the object, which is the request's without ``aws-chunked``."""
    parts = (part.strip() for part in content_encoding.split(","))
    return ", ".join(part for part in parts if part and part.lower() != "aws-chunked")


def _number(headers: Mapping[str, str], name: str) -> int | None:
    text = headers.get(name)
    if text is None:
        return None
    if _NUMBER.fullmatch(text.strip()) is None:
        raise S3Error("InvalidArgument", f"The header {name} must be a number of bytes.")
    return int(text)


def _md5_of(text: str) -> str:
    """Return a Content-MD5 in canonical base64; raise `S3Error` InvalidDigest if it is no MD5."""
    found = checksums.decoded(text.strip())
    if len(found) != md5(usedforsecurity=False).digest_size:
        raise S3Error("InvalidDigest", "The Content-MD5 is not an MD5 in base64.")
    return checksums.encoded(found)


def _trailers_of(headers: Mapping[str, str]) -> frozenset[str]:
    """Return the algorithms of the checksums that ``x-amz-trailer`` announces."""
    names = [part.strip().lower() for part in headers.get("x-amz-trailer", "").split(",")]
    found = [name for name in names if name]
    if not all(name.startswith(checksums.PREFIX) for name in found):
        raise S3Error("InvalidRequest", "The only trailers that are supported are checksums.")
    return frozenset(checksums.named(name.removeprefix(checksums.PREFIX)) for name in found)


def _too_large(limit: int) -> S3Error:
    text = f"The body is larger than {limit} bytes."
    return S3Error("EntityTooLarge", text, MaxSizeAllowed=str(limit))


def _incomplete(problem: str) -> S3Error:
    return S3Error(
        "IncompleteBody", f"The body is not complete, or its chunks are malformed: {problem}."
    )


def _bad_trailer(problem: str) -> S3Error:
    return S3Error("MalformedTrailerError", f"The trailer is malformed: {problem}.")


def _mismatch(problem: str) -> S3Error:
    return S3Error("SignatureDoesNotMatch", f"The body does not match its signatures: {problem}.")
