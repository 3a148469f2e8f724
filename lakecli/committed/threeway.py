"""Three trees side by side: a base and two that came from it.

They are cut into segments where no range of any of the three reaches across: that is as far as
their ranges can be compared by name alone. Where two of three are equal, a segment is decided
unread; a contested one is read record by record, past what base and source have in common.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lakecli.committed.cursor import Cursor, iter_windows
from lakecli.committed.pairs import is_same, iter_pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.committed.metaranges import Metarange
    from lakecli.committed.store import TreeStore


class Slice(NamedTuple):
    """Consecutive ranges of a tree, maybe none."""

    tree: Metarange
    first: int
    last: int

    def ids(self) -> list[bytes]:
        """Return the IDs of the ranges."""
        return [value[2:66] for value in self.tree.values[self.first : self.last]]

    def is_same(self, other: Slice) -> bool:
        """Whether both hold the same ranges."""
        return self.last - self.first == other.last - other.first and self.ids() == other.ids()


@dataclass(frozen=True, slots=True)
class Segment:
    """What the three trees hold in one interval of keys."""

    base: Slice
    source: Slice
    destination: Slice

    @property
    def keeps_destination(self) -> bool:
        """Whether the source changed nothing here, or the same as the destination."""
        return self.source.is_same(self.base) or self.source.is_same(self.destination)

    @property
    def is_contested(self) -> bool:
        """Whether all three differ, so that only their records can tell."""
        return not (self.keeps_destination or self.base.is_same(self.destination))

    @property
    def is_last(self) -> bool:
        """Whether no tree has anything behind this segment."""
        return all(
            side.last == len(side.tree) for side in (self.base, self.source, self.destination)
        )


class Candidate(NamedTuple):
    """A path where the source differs from the base and from the destination.

    Values are encoded entries, ``None`` where the path is absent.
    """

    path: bytes
    base: bytes | None
    source: bytes | None
    destination: bytes | None

    @property
    def is_conflict(self) -> bool:
        """Whether the destination changed the path too."""
        return not is_same(self.destination, self.base)


def segments(
    base: Metarange,
    source: Metarange,
    destination: Metarange,
    *,
    start: bytes = b"",
    stop: bytes | None = None,
) -> Iterator[Segment]:
    """Cut three trees into segments, in key order.

    Args:
        base: what the others came from.
        source: to be merged.
        destination: to be merged into.
        start: segments that end before this key are left out.
        stop: segments from this key on are left out.
    """
    walks = [_Walk(tree, start) for tree in (base, source, destination)]
    for key in sorted({key for walk in walks for key in walk.keys}):
        passed = [walk.passes(key) for walk in walks]  # every walk has to move
        if not all(passed):
            continue
        yield Segment(*[walk.cut() for walk in walks])
        if stop is not None and key >= stop:
            return


class _Walk:
    """A position among the ranges of one tree."""

    def __init__(self, tree: Metarange, start: bytes) -> None:
        self._tree = tree
        self._cut = self._position = tree.find(start)
        self.keys = tree.keys[self._cut :]

    def passes(self, key: bytes) -> bool:
        """Move past the ranges that end at or before `key`; tell whether none reaches across."""
        keys = self._tree.keys
        position = self._position
        if position == len(keys):
            return True
        if keys[position] <= key:  # never more than one: all ends of ranges are asked in order
            self._position = position + 1
            return True
        return key < self._tree.record(position).min_key

    def cut(self) -> Slice:
        """Return the ranges passed since the last cut."""
        passed = Slice(self._tree, self._cut, self._position)
        self._cut = self._position
        return passed


def iter_candidates(
    trees: TreeStore, segment: Segment, *, start: bytes = b"", stop: bytes | None = None
) -> Iterator[Candidate]:
    """Yield the paths of a segment where the source differs from base and destination.

    Args:
        trees: where the trees lie.
        segment: to be read, as far as its trees differ.
        start: paths before it are left out.
        stop: paths from it on are left out.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
    base, source = (
        Cursor(trees, side.tree, first=side.first, last=side.last, start=start, stop=stop)
        for side in (segment.base, segment.source)
    )
    finder = _Finder(trees, segment.destination)
    for path, before, after in iter_pairs(iter_windows(base, source)):
        destination = finder.find(path)
        if not is_same(after, destination):
            yield Candidate(path, before, after, destination)


class _Finder:
    """Looks up ascending paths in some ranges of a tree, a block at a time."""

    def __init__(self, trees: TreeStore, ranges: Slice) -> None:
        self._trees = trees
        self._ranges = ranges
        self._position = ranges.first
        self._number = -1
        self._keys: list[bytes] = []
        self._values: list[bytes] = []

    def find(self, key: bytes) -> bytes | None:
        tree, _, last = self._ranges
        position = bisect_left(tree.keys, key, self._position, last)
        if position == last:
            return None
        if position != self._position:
            self._position, self._number = position, -1
        record = tree.record(position)
        if key < record.min_key:
            return None
        table = self._trees.table(record)
        number = table.find_block(key)
        if number == table.block_count:
            return None
        if number != self._number:
            block = table.block(number)
            self._number, self._keys, self._values = number, block.keys, block.values
        at = bisect_left(self._keys, key)
        return self._values[at] if at < len(self._keys) and self._keys[at] == key else None
