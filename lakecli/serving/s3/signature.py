"""Verifying Signature Version 4, in the headers of a request and in presigned URLs.

The server computes the signature that the client should have made, with the secret key that both
know. What the client signed is the request as it was sent, so the raw path and query are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple


class Signed(NamedTuple):
    """A request whose signature is right; its body is still to be verified.

    Attributes:
        payload: what was signed as the body: SHA-256 in hex, or the name of a form of bodies.
        seed: the signature in hex, with which those of chunks begin.
        key: the key that signs chunks.
        date: the moment of signing as in ``x-amz-date``.
        is_presigned: whether the signature was in the URL.
    """

    access_key: str
    payload: str
    seed: str
    key: bytes
    scope: str
    date: str
    is_presigned: bool


def verify(
    method: str,
    raw_path: bytes,
    raw_query: bytes,
    headers: Sequence[tuple[bytes, bytes]],
    *,
    secret_of: Callable[[str], str | None],
    now: datetime,
    region: str | None = None,
) -> Signed:
    """Verify the signature of a request.

    Args:
        raw_path: path as the client sent it, percent-encoded.
        raw_query: query as the client sent it, without the question mark.
        headers: names in lower case, and values; as an ASGI scope has them.
        secret_of: returns the secret key of an access key, or ``None`` if there is no such key.
        now: the current time, with its zone.
        region: the only region that may be signed for; ``None``: any.

    Raises:
        S3Error: SignatureDoesNotMatch, InvalidAccessKeyId, RequestTimeTooSkewed, AccessDenied
            (unsigned or expired) and others.
    """
    raise NotImplementedError


def query_of(raw_query: bytes) -> list[tuple[str, str]]:
    """Return the decoded parameters of a query as they are signed; ``+`` is a blank.

    Bytes that are no UTF-8 are kept as surrogates.
    """
    raise NotImplementedError
