"""Large diffs in parts: a runner compares intervals of keys, the driver joins them in order.

Intervals end where ranges end, so that two parts rarely read the same range. Ranges that are equal
on both sides are neither read nor counted; an interval may contain them.
"""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from lakecli.base.model import Difference
from lakecli.committed.merge import Sides
from lakecli.committed.merge_base import MergeBase
from lakecli.committed.scan import prefix_end
from lakecli.committed.segments import Segment
from lakecli.committed.tree_store import TreeStore
from lakecli.engine.runner import Runner, StoreLocation
from lakecli.engine.scratch import in_order
from lakecli.repository.contract import Repository
from lakecli.repository.diff import TreesToCompare, compare_here

PART_ENTRIES: Final = 50_000
"""Approximate number of entries that one part compares."""


class DiffInterval(NamedTuple):
    """An interval of keys, from `start` (inclusive) to `stop` (exclusive).

    Attributes:
        stop: the key before which the interval ends; ``None`` for no end.
        entries: upper bound of the number of entries in the ranges that differ and must be read, on
            the side with the most.
    """

    start: bytes
    stop: bytes | None
    entries: int


def intervals(
    trees: TreeStore, compared: TreesToCompare, *, entries: int
) -> Iterator[DiffInterval]:
    """Yield the intervals in which a source differs from its base and the destination, in order.

    Together, the intervals contain every differing key with the prefix exactly once.

    Args:
        entries: approximate number of entries in one interval; a single range may have more.
    """
    base, left, right, start = compared
    stop = prefix_end(start)
    sides = Sides(trees, base or MergeBase.of(left), trees.metarange(right), trees.metarange(left))
    first, count, is_open = start, 0, False
    for segment in sides.segments(start=start, stop=stop):
        if segment.keeps_destination:
            continue
        for end, size in _units(segment, entries):
            is_open = True
            count += size
            after = end + b"\0"
            if stop is not None and after >= stop:
                break
            if count >= entries and after > first:
                yield DiffInterval(first, after, count)
                first, count, is_open = after, 0, False
    if is_open:
        yield DiffInterval(first, stop, count)


def _units(segment: Segment, entries: int) -> Iterator[tuple[bytes, int]]:
    """Yield the last key and the number of entries of a segment, which stays in one interval.

    If the segment has more than `entries` entries, yield those of each range of its largest side.
    """
    sides = {(side.tree.id, side.first, side.last): side for side in segment[:3]}
    counts = [
        [side.tree.record(position).count for position in range(side.first, side.last)]
        for side in sides.values()
    ]
    largest, counted = max(
        zip(sides.values(), counts, strict=True), key=lambda each: (sum(each[1]), len(each[1]))
    )
    if sum(counted) <= entries:
        yield segment.end, sum(counted)
        return
    yield from zip(largest.tree.keys[largest.first : largest.last - 1], counted, strict=False)
    yield segment.end, counted[-1]


def compare_by(
    repository: Repository, compared: TreesToCompare, *, runner: Runner, entries: int = PART_ENTRIES
) -> Iterator[Difference]:
    """Yield the differences of trees in path order, like `repository.diff.compare_here`."""
    task = partial(_compare, location=StoreLocation.of(repository), compared=compared)
    found = intervals(repository.trees, compared, entries=entries)
    results = runner.run(task, enumerate(found))
    yield from chain.from_iterable(in_order((number, each) for (number, _), each in results))


def _compare(
    numbered: tuple[int, DiffInterval], *, location: StoreLocation, compared: TreesToCompare
) -> list[Difference]:
    interval = numbered[1]
    return list(compare_here(location.trees(), compared, interval.start, interval.stop))
