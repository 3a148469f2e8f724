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
    trees = base, source, destination
    ends: Sequence[int] = [tree.find(start) for tree in trees]
    while any(at < len(tree) for tree, at in zip(trees, ends, strict=True)):
        starts = ends
        ends = _pass_common(trees, starts) or _pass_different(trees, starts)
        before, theirs, ours = map(Slice, trees, starts, ends)
        segment = Segment(before, theirs, ours)
        yield segment
        if stop is not None and segment.end >= stop:
            return


def _pass_common(trees: Sequence[Metarange], starts: Sequence[int]) -> Sequence[int] | None:
    """Return the positions after the next ranges that all trees share; ``None`` if there are none.

    All consecutive shared ranges form one segment, which costs only one comparison.
    """
    count = min(len(tree) - at for tree, at in zip(trees, starts, strict=True))
    for tree, at in zip(trees[1:], starts[1:], strict=True):
        count = trees[0].count_equal(starts[0], tree, at, count)
    return [at + count for at in starts] if count else None


def _pass_different(trees: Sequence[Metarange], starts: Sequence[int]) -> Sequence[int]:
    """Return the positions after the next key that no range of any tree spans."""
    ends = [*starts]
    while True:
        left = [number for number, tree in enumerate(trees) if ends[number] < len(tree)]
        key = min(trees[number].keys[ends[number]] for number in left)
        is_spanned = False
        for number in left:
            tree, at = trees[number], ends[number]
            if tree.keys[at] == key:
                ends[number] += 1
            elif tree.record(at).min_key <= key:
                is_spanned = True
        if not is_spanned:
            return ends
