"""Several trees cut into segments, at keys that no range of any tree spans.

The ranges of a segment can be compared by ID: if two sides have the same ranges, no range is read.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lakecli.committed.metaranges import Metarange


class Slice(NamedTuple):
    """Consecutive ranges of a tree, from `first` to before `last`; possibly none."""

    tree: Metarange
    first: int
    last: int

    def is_same(self, other: "Slice") -> bool:
        """Return whether both slices have the same ranges."""
        return self == other or (
            self.last - self.first == other.last - other.first
            and self.tree.has_ranges(self.first, self.last, other.tree, other.first)
        )


class Segment(NamedTuple):
    """The ranges of three trees in one interval of keys.

    Attributes:
        is_decided: whether `base` has the content of the merge's base. Otherwise `base` is from one
            of several base trees, and the content must be found path by path.
    """

    base: Slice
    source: Slice
    destination: Slice
    is_decided: bool = True

    @property
    def keeps_destination(self) -> bool:
        """Whether the source changed nothing, or made the same change as the destination."""
        is_unchanged = self.is_decided and self.source.is_same(self.base)
        return is_unchanged or self.source.is_same(self.destination)

    @property
    def takes_source(self) -> bool:
        """Whether the destination changed nothing."""
        return self.is_decided and self.base.is_same(self.destination)

    @property
    def is_contested(self) -> bool:
        """Whether all three sides differ, so that their records must be compared."""
        return not (self.keeps_destination or self.takes_source)

    @property
    def is_last(self) -> bool:
        """Whether source and destination have no ranges after this segment."""
        return all(side.last == len(side.tree) for side in (self.source, self.destination))

    @property
    def end(self) -> bytes:
        """The last key of the segment's ranges."""
        return max(side.tree.keys[side.last - 1] for side in self[:3] if side.last > side.first)


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
        start: segments that end before this key are not yielded.
        stop: the first segment that ends at or after this key is the last one that is yielded;
            ``None``: all segments are yielded.
    """
    cursors = [_RangeCursor(tree, start) for tree in (base, source, destination)]
    while any(cursor.has_more for cursor in cursors):
        key = _pass_common(cursors)
        if key is None:
            key = _pass_different(cursors)
        before, theirs, ours = (cursor.cut() for cursor in cursors)
        yield Segment(before, theirs, ours)
        if stop is not None and key >= stop:
            return


class _RangeCursor:
    """A position among the ranges of one tree, and the position of the last cut."""

    def __init__(self, tree: Metarange, start: bytes) -> None:
        self.tree = tree
        self.position = self._cut = tree.find(start)

    @property
    def has_more(self) -> bool:
        """Whether ranges are left."""
        return self.position < len(self.tree)

    def passes(self, key: bytes) -> bool:
        """Move past the next range if it ends at `key`; return whether no range spans `key`.

        Args:
            key: the smallest last key of the ranges left in the three trees.
        """
        if not self.has_more:
            return True
        if self.tree.keys[self.position] == key:
            self.position += 1
            return True
        return key < self.tree.record(self.position).min_key

    def cut(self) -> Slice:
        """Return the ranges passed since the last cut."""
        passed = Slice(self.tree, self._cut, self.position)
        self._cut = self.position
        return passed


def _pass_common(cursors: Sequence[_RangeCursor]) -> bytes | None:
    """Move past the next ranges that all trees share; return the last key passed, or ``None``.

    All consecutive shared ranges form one segment, which costs only one comparison.
    """
    tree, first = cursors[0].tree, cursors[0].position
    count = min(len(cursor.tree) - cursor.position for cursor in cursors)
    for cursor in cursors[1:]:
        count = tree.count_equal(first, cursor.tree, cursor.position, count)
    for cursor in cursors:
        cursor.position += count
    return tree.keys[first + count - 1] if count else None


def _pass_different(cursors: Sequence[_RangeCursor]) -> bytes:
    """Move to the next key that no range of any tree spans, and return it."""
    while True:
        key = min(cursor.tree.keys[cursor.position] for cursor in cursors if cursor.has_more)
        passed = [cursor.passes(key) for cursor in cursors]  # a list: every cursor must move
        if all(passed):
            return key
