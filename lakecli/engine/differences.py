"""Large diffs in parts: a runner compares intervals of keys, the driver joins them in order.

Intervals end where ranges end, so that two parts rarely read the same range. Ranges that are equal
on both sides are neither read nor counted; an interval may contain them.
"""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from lakecli.base.model import Difference
from lakecli.committed.diff import diff
from lakecli.committed.merge import Sides, compare
from lakecli.committed.merge_base import MergeBase
from lakecli.committed.scan import prefix_end
from lakecli.committed.segments import Segment, Slice
from lakecli.engine.runner import Runner, StoreLocation
from lakecli.engine.scratch import in_order
from lakecli.repository.contract import Repository
from lakecli.repository.diff import TreesToCompare

PART_ENTRIES: Final = 50_000
"""Approximate number of entries that one part compares."""


class DiffInterval(NamedTuple):
    """An interval of keys, from `start` (inclusive) to `stop` (exclusive).

    Attributes:
        stop: the key before which the interval ends; ``None`` for no end.
        ranges: number of ranges on all sides that differ and must be read.
        entries: upper bound of the number of entries in these ranges, on the side with the most.
    """

    start: bytes
    stop: bytes | None
    ranges: int
    entries: int


class _Unit(NamedTuple):
    """Ranges that always stay in one interval; `end` is their last key."""

    end: bytes
    ranges: int
    entries: int


def intervals(
    sides: Sides, *, entries: int, start: bytes = b"", stop: bytes | None = None
) -> Iterator[DiffInterval]:
    """Yield the intervals in which a source differs from its base and the destination, in order.

    Together, the intervals contain every differing key from `start` up to `stop` exactly once.

    Args:
        sides: the trees; to compare two trees, the left one is both base and destination.
        entries: approximate number of entries in one interval; a single range may have more.
        start: the first key to compare.
        stop: the first key after the last interval; ``None`` for no limit.
    """
    first, ranges, count = start, 0, 0
    for segment in sides.segments(start=start, stop=stop):
        if segment.keeps_destination:
            continue
        for unit in _units(segment, entries):
            ranges += unit.ranges
            count += unit.entries
            after = unit.end + b"\0"
            if stop is not None and after >= stop:
                break
            if count >= entries and after > first:
                yield DiffInterval(first, after, ranges, count)
                first, ranges, count = after, 0, 0
    if ranges:
        yield DiffInterval(first, stop, ranges, count)


def _units(segment: Segment, entries: int) -> Iterator[_Unit]:
    """Yield a segment as one unit, or range by range if it has more than `entries` entries."""
    sides = {(side.tree.id, side.first, side.last): side for side in segment[:3]}
    counted = [(sum(_counts(side)), side.last - side.first, side) for side in sides.values()]
    ranges = sum(length for _, length, _ in counted)
    most, length, largest = max(counted, key=lambda each: each[:2])
    if most > entries and length > 1:
        others = ranges - length
        for position in range(largest.first, largest.last - 1):
            count = largest.tree.record(position).count
            yield _Unit(largest.tree.keys[position], 1, count)
        last = largest.tree.record(largest.last - 1)
        yield _Unit(segment.end, 1 + others, last.count)
        return
    yield _Unit(segment.end, ranges, most)


def _counts(side: Slice) -> Iterator[int]:
    return (side.tree.record(position).count for position in range(side.first, side.last))


def compare_by(
    repository: Repository, compared: TreesToCompare, *, runner: Runner, entries: int = PART_ENTRIES
) -> Iterator[Difference]:
    """Yield the differences of trees in path order, like `repository.diff.compare_here`."""
    task = partial(_compare, location=StoreLocation.of(repository), compared=compared)
    trees = repository.trees
    left, right = trees.metarange(compared.left), trees.metarange(compared.right)
    sides = Sides(trees, compared.base or MergeBase.of(left.id), right, left)
    start, stop = compared.prefix, prefix_end(compared.prefix)
    found = intervals(sides, entries=entries, start=start, stop=stop)
    results = runner.run(task, enumerate(found))
    yield from chain.from_iterable(in_order((number, each) for (number, _), each in results))


def _compare(
    numbered: tuple[int, DiffInterval], *, location: StoreLocation, compared: TreesToCompare
) -> list[Difference]:
    trees, (_, interval) = location.trees(), numbered
    base, left, right, _ = compared
    start, stop = interval.start, interval.stop
    if base is None:
        return list(diff(trees, left, right, start=start, stop=stop))
    return list(compare(trees, base=base, left=left, right=right, start=start, stop=stop))
