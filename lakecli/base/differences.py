"""How paths differ: between two trees, a branch and its head, or a directory and a ref."""

from enum import StrEnum
from typing import NamedTuple


class ChangeType(StrEnum):
    """How a path differs."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    CONFLICT = "conflict"


class Difference(NamedTuple):
    """One path that differs, with the encoded values of both sides (``None`` if absent).

    Attributes:
        unlike_checksums: whether it is a conflict that may be none: entries have one size, but
            one has an MD5 and the other a BLAKE3.
    """

    type: ChangeType
    path: bytes
    left: bytes | None
    right: bytes | None
    unlike_checksums: bool = False


def type_of(old: bytes | None, new: bytes | None) -> ChangeType:
    """Name the change from one value to another."""
    if old is None:
        return ChangeType.ADDED
    return ChangeType.REMOVED if new is None else ChangeType.CHANGED
