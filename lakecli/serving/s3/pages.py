"""Parameters of listings, and the tokens with which they continue.

A token has the position at which the next page begins. It is authenticated by a secret of the run,
for the bucket, the prefix and the delimiter of the listing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MOST: Final = 1000
"""Most names on a page."""


def token_of(secret: bytes, listing: Sequence[str], position: bytes) -> str:
    """Return the token of the next page.

    Args:
        secret: the secret of this run.
        listing: what the token is for: bucket, prefix, delimiter.
    """
    raise NotImplementedError


def position_of(secret: bytes, listing: Sequence[str], token: str) -> bytes:
    """Return the position of a token; raise `S3Error`: InvalidArgument."""
    raise NotImplementedError


def most_of(text: str | None, name: str = "max-keys") -> int:
    """Return how many names a page has at most: 0 to `MOST`; raise `S3Error`: InvalidArgument."""
    raise NotImplementedError


def encoding_of(text: str | None) -> str:
    """Return the encoding of names, ``url`` or ``""``; raise `S3Error`: InvalidArgument."""
    raise NotImplementedError
