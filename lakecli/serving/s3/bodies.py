"""Bodies of requests: decoded and verified piece by piece, whatever form they have.

Each piece is given out as soon as it has arrived, so memory is bounded whatever a client calls the
size of a chunk. What was given out is known to be what the client sent only after `Body.finish`:
until then, the caller must not make it visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lakecli.serving.s3.signature import Signed


class Finished(NamedTuple):
    """A whole body that matches everything that was said about it.

    Attributes:
        size: number of decoded bytes.
        checksums: base64 by algorithm (`checksums.ALGORITHMS`): those that the client sent, and
            those that were asked for.
        md5: in hex, if the client sent ``Content-MD5``; else ``""``.
    """

    size: int
    checksums: dict[str, str]
    md5: str


class Body:
    """The body of a request.

    Args:
        signed: the request's verified signature.
        headers: the request's headers by lower-case names.
        limit: largest number of decoded bytes.
        also: algorithms to compute although the client does not mention them.

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
    ) -> None:
        raise NotImplementedError

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes as they arrive; return what they decode to."""
        raise NotImplementedError

    def finish(self) -> Finished:
        """Verify the whole body after its last byte.

        Raises:
            S3Error: BadDigest, XAmzContentSHA256Mismatch, SignatureDoesNotMatch, IncompleteBody,
                MalformedTrailerError and others.
        """
        raise NotImplementedError


def stored_encoding(content_encoding: str) -> str:
    """Return a request's Content-Encoding as it belongs to the object: without ``aws-chunked``."""
    raise NotImplementedError
