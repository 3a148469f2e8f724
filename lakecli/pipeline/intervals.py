"""Cutting the difference of trees into intervals of keys, each of them a part of a plan.

Trees are cut where no range reaches across, so that hardly any range is read by two parts. What is
equal on both sides costs nothing and is not counted; one interval may span it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lakecli.committed.threeway import segments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.committed.metaranges import Metarange
    from lakecli.committed.threeway import Segment, Slice


class Interval(NamedTuple):
    """Keys from `start` to before `stop`.

    Attributes:
        stop: ``None``: to the end.
        ranges: that differ and have to be read, on all sides.
        entries: in them, at most; of the side that has more.
    """

    start: bytes
    stop: bytes | None
    ranges: int
    entries: int


class _Unit(NamedTuple):
    """Ranges that stay together, up to the last key of them."""

    end: bytes
    ranges: int
    entries: int


def intervals(
    base: Metarange,
    source: Metarange,
    destination: Metarange,
    *,
    entries: int,
    start: bytes = b"",
    stop: bytes | None = None,
) -> Iterator[Interval]:
    """Yield the intervals in which a source differs from its base and the destination, in order.

    Together they hold every such key from `start` to before `stop`, each once. For two trees, the
    left one is both base and destination.

    Args:
        base: what the others came from.
        source: whose changes are looked for.
        destination: where they may have been made too.
        entries: of one interval, about; a single range may hold more.
        start: the first key of interest.
        stop: the first key that is of none; ``None``: all are.
    """
    first, ranges, count = start, 0, 0
    for segment in segments(base, source, destination, start=start, stop=stop):
        if segment.keeps_destination:
            continue
        for unit in _units(segment, entries):
            ranges += unit.ranges
            count += unit.entries
            after = unit.end + b"\0"
            if stop is not None and after >= stop:
                break
            if count >= entries and after > first:
                yield Interval(first, after, ranges, count)
                first, ranges, count = after, 0, 0
    if ranges:
        yield Interval(first, stop, ranges, count)


def _units(segment: Segment, entries: int) -> Iterator[_Unit]:
    """Yield a segment in pieces, many only where it is larger than a part."""
    sides = {(side.tree.id, side.first, side.last): side for side in segment}
    counted = [(sum(_counts(side)), side.last - side.first, side) for side in sides.values()]
    ranges = sum(length for _, length, _ in counted)
    most, length, largest = max(counted, key=lambda each: each[:2])
    end = max(side.tree.keys[side.last - 1] for _, length, side in counted if length)
    if most > entries and length > 1:
        others = ranges - length
        for position in range(largest.first, largest.last - 1):
            count = largest.tree.record(position).count
            yield _Unit(largest.tree.keys[position], 1, count)
        last = largest.tree.record(largest.last - 1)
        yield _Unit(end, 1 + others, last.count)
        return
    yield _Unit(end, ranges, most)


def _counts(side: Slice) -> Iterator[int]:
    return (side.tree.record(position).count for position in range(side.first, side.last))
