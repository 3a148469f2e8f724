"""Records of what was brought in."""

from __future__ import annotations

from typing import NamedTuple


class Done(NamedTuple):
    """What was done with the bytes of a file; see `Ingested`."""

    digest: str
    found: bool = False
    is_kept: bool = False


class Ingested(NamedTuple):
    """An object that the namespace now holds.

    Attributes:
        digest: BLAKE3 of its contents, 64 hex digits.
        size: in bytes.
        mtime: modification time of the file, in unix seconds; 0 for a stream.
        found: whether the namespace held, or may have held, it before.
        is_kept: the contents are those of the expected object by its MD5, so nothing was brought
            in, and the namespace may have no object named by `digest`.
    """

    digest: str
    size: int
    mtime: int
    found: bool = False
    is_kept: bool = False
