"""What a command reads and writes, and when two commands touch nothing in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

Place = tuple[str, bytes]
"""A key, and the space that it lies in: a machine's local store, the bucket, or files."""

AFTER_ALL: Final = b"\xff" * 600
"""Sorts after whatever a prefix is followed by; keys of the local store are shorter."""


class Access(NamedTuple):
    """One key or range of keys that was read, or one key that was written.

    Attributes:
        position: how many steps the command had reached by then; in a transaction, at its
            beginning.
        space: where the key lies.
        key: the key, or the first one of a range.
        end: the last one of a range that was read.
        change: the value before and after a write.
    """

    position: int
    space: str
    key: bytes
    end: bytes | None = None
    change: tuple[object, object] | None = None


class Accesses:
    """What a command, or a part of one, reads and writes.

    A key that has its old value again at the end was not changed, as nobody looks in between.
    """

    def __init__(self, accesses: Iterable[Access]) -> None:
        points: set[Place] = set()
        ranges: set[tuple[str, bytes, bytes]] = set()
        first: dict[Place, object] = {}
        last: dict[Place, object] = {}
        for each in accesses:
            place = each.space, each.key
            if each.end is not None:
                ranges.add((*place, each.end))
            else:
                points.add(place)
            if each.change is not None:
                first.setdefault(place, each.change[0])
                last[place] = each.change[1]
        self._points = points
        self._ranges = tuple(ranges)
        self.changed = {place for place in first if first[place] != last[place]}

    def touch(self, places: set[Place]) -> bool:
        """Tell whether any of these keys was read or written."""
        return not self._points.isdisjoint(places) or any(
            space == within and first <= key <= last
            for space, key in places
            for within, first, last in self._ranges
        )

    def conflict(self, other: Accesses) -> bool:
        """Tell whether it matters in which order the two run.

        If it does not, neither changes a key that the other one touches: both read the same in
        either order, so they write the same, and to different keys.
        """
        return self.touch(other.changed) or other.touch(self.changed)
