"""Parameters of listings, and the tokens with which they continue.

A token has the position at which the next page begins. It is authenticated by a secret of the run,
for the bucket, the prefix and the delimiter of the listing.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Sequence
from hashlib import blake2b
from hmac import compare_digest
from typing import Final

from lakecli.serving.s3.errors import S3Error

MOST: Final = 1000
"""Most names on a page."""

_MAC_SIZE: Final = 16
_NUMBER: Final = re.compile("[0-9]{1,10}", re.ASCII)
_LARGEST: Final = (1 << 31) - 1


def token_of(secret: bytes, listing: Sequence[str], position: bytes) -> str:
    """Return the token of the next page.

    Args:
        secret: the secret of this run, at most 64 bytes.
        listing: what the token is for: bucket, prefix, delimiter.
    """
    sealed = _mac_of(secret, listing, position) + position
    return urlsafe_b64encode(sealed).decode().rstrip("=")


def position_of(secret: bytes, listing: Sequence[str], token: str) -> bytes:
    """Return the position of a token; raise `S3Error`: InvalidArgument."""
    try:
        sealed = urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
    except (Error, UnicodeEncodeError):
        sealed = b""
    position = sealed[_MAC_SIZE:]
    if not compare_digest(sealed[:_MAC_SIZE], _mac_of(secret, listing, position)):
        raise S3Error(
            "InvalidArgument",
            "The continuation token is not of this listing, or of an earlier run of the endpoint.",
        )
    return position


def _mac_of(secret: bytes, listing: Sequence[str], position: bytes) -> bytes:
    mac = blake2b(key=secret, digest_size=_MAC_SIZE)
    for part in (*(text.encode("utf-8", "surrogateescape") for text in listing), position):
        mac.update(len(part).to_bytes(8) + part)
    return mac.digest()


def most_of(text: str | None, name: str = "max-keys") -> int:
    """Return how many names a page has at most: 0 to `MOST`; raise `S3Error`: InvalidArgument."""
    return min(number_of(text, name), MOST) if text else MOST


def number_of(text: str, name: str) -> int:
    """Return a parameter that is a number; raise `S3Error`: InvalidArgument."""
    if _NUMBER.fullmatch(text) is None or int(text) > _LARGEST:
        raise S3Error("InvalidArgument", f"{name} must be an integer between 0 and {_LARGEST}.")
    return int(text)


def encoding_of(text: str | None) -> str:
    """Return the encoding of names, ``url`` or ``""``; raise `S3Error`: InvalidArgument."""
    if text and text.lower() != "url":
        raise S3Error("InvalidArgument", "encoding-type must be url.")
    return "url" if text else ""
