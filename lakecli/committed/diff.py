"""Differences between two trees: all differences, or only the differences at some wanted paths.

The ranges of both trees are first compared by ID, and only ranges that differ are opened. If only
some paths are wanted, only differing ranges that may have a wanted path are opened.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from lakecli.base.model import EMPTY_TREE, Difference, Entry, MetarangeId, RangeId
from lakecli.committed import scan
from lakecli.committed.metaranges import Metarange, RangeRecord, range_id_of
from lakecli.committed.point_reads import find
from lakecli.committed.scan import Cursor, iter_pairs, prefix_end
from lakecli.committed.segments import Segment, segments
from lakecli.committed.tree_store import TreeStore
from lakecli.committed.values import decode_entry, find_owned, is_same


def diff(
    trees: TreeStore,
    left: MetarangeId,
    right: MetarangeId,
    *,
    prefix: bytes = b"",
    start: bytes = b"",
    stop: bytes | None = None,
) -> Iterator[Difference]:
    """Yield the paths that differ, in order: the changes that turn `left` into `right`.

    Args:
        start: the first path to compare.
        stop: the path before which the comparison ends; ``None``: the end of the prefix.
    """
    start, stop = interval(prefix, start, stop)
    old_side, new_side = (
        Cursor(trees, trees.metarange(tree), start=start, stop=stop) for tree in (left, right)
    )
    yield from differences(iter_pairs(old_side, new_side))


def differences(pairs: Iterable[scan.Pair]) -> Iterator[Difference]:
    """Yield a `Difference` for each pair of different values."""
    make = partial(tuple.__new__, Difference)  # like `Difference(…)`, in a third of the time
    for path, old, new in pairs:
        yield make((scan.type_of(old, new), path, old, new, False))


def new_ranges(
    trees: TreeStore, tree: MetarangeId, parents: Sequence[MetarangeId]
) -> Iterator[RangeId]:
    """Yield the ranges that the tree of a commit has and the trees of its parents do not have."""
    before = [trees.metarange(parent) for parent in parents or [EMPTY_TREE]]
    after = trees.metarange(tree)
    for _, (_, first, last), *_ in _differing_segments(before[0], after):
        for record in map(after.record, range(first, last)):
            if all(parent.value_of(record.id, record.max_key) is None for parent in before):
                yield record.id


def changed_ranges(left: Metarange, right: Metarange) -> set[RangeId]:
    """Return the IDs of the ranges that are in only one of the two trees."""
    found: set[RangeId] = set()
    for segment in _differing_segments(left, right):
        for tree, first, last in segment[:2]:
            found ^= {*map(range_id_of, tree.values[first:last])}
    return found


def new_entries(
    trees: TreeStore, tree: MetarangeId, parents: Sequence[MetarangeId]
) -> Iterator[tuple[bytes, Entry]]:
    """Yield the paths and entries, in path order, that no tree of the parents has.

    Entries of external objects may be missing.
    """
    before, after = map(trees.metarange, parents or [EMPTY_TREE]), trees.metarange(tree)
    cursors = ((Cursor(trees, parent), Cursor(trees, after)) for parent in before)
    sides = [scan.iter_new(*both, find_owned) for both in cursors]
    groups = (list(group) for _, group in groupby(merge(*sides), key=itemgetter(0)))
    in_all = (records[0] for records in groups if len(records) == len(sides))
    for path, value in in_all if len(sides) > 1 else sides[0]:
        yield path, decode_entry(value)


def differs_at(trees: TreeStore, left: MetarangeId, right: MetarangeId, path: bytes) -> bool:
    """Return whether two trees differ at one path.

    A range that both trees have is not opened.
    """
    ranges = [_range_at(trees.metarange(tree), path) for tree in (left, right)]
    if ranges[0] == ranges[1]:
        return False
    return not is_same(find(trees, left, path), find(trees, right, path))


def _range_at(tree: Metarange, path: bytes) -> RangeId | None:
    """Return the range of a tree that may have a path, or ``None``."""
    position = tree.find(path)
    return None if position == len(tree) else range_id_of(tree.values[position])


def interval(prefix: bytes, start: bytes, stop: bytes | None) -> tuple[bytes, bytes | None]:
    """Return the bounds of a comparison: the first path, and the path before which it ends."""
    return max(start, prefix), prefix_end(prefix) if stop is None else stop


POINTS: Final = 2
"""Largest number of wanted paths that are looked up one by one; for more, ranges are read whole."""

DELIMITER: Final = b"/"


class Items(NamedTuple):
    """The rule that turns paths into items: single paths, or common prefixes of many paths.

    Attributes:
        is_grouped: whether a path is reduced to its part up to the first slash after the prefix.
        may_be_absent: whether the new (right) tree may lack wanted paths. If so, `is_grouped` must
            be false.
    """

    prefix: bytes
    is_grouped: bool
    may_be_absent: bool = False

    def item_of(self, path: bytes) -> bytes:
        """Return the item that contains a path: the path itself, or its common prefix."""
        if not self.is_grouped:
            return path
        at = path.find(DELIMITER, len(self.prefix))
        return path if at < 0 else path[: at + 1]

    def is_prefix(self, item: bytes) -> bool:
        """Return whether an item is a common prefix."""
        return self.is_grouped and item.endswith(DELIMITER) and item != self.prefix


def touched(
    trees: TreeStore, left: MetarangeId, right: MetarangeId, wanted: Sequence[bytes], items: Items
) -> set[bytes]:
    """Return the wanted items that differ between two trees.

    Args:
        wanted: items in ascending order. Unless `items.may_be_absent`, `right` has all of them.
    """
    found: set[bytes] = set()
    if left == right or not wanted:
        return found
    for start, stop in _differing(trees.metarange(left), trees.metarange(right), wanted):
        first = bisect_left(wanted, items.item_of(start))
        last = bisect_right(wanted, stop)
        here = wanted[first:last]
        if not here:
            continue
        if len(here) <= POINTS and not any(map(items.is_prefix, here)):
            found.update(path for path in here if differs_at(trees, left, right, path))
        else:
            found |= _touched_between(trees, (left, right), here, items)
    return found


def _touched_between(
    trees: TreeStore, sides: tuple[MetarangeId, MetarangeId], wanted: Sequence[bytes], items: Items
) -> set[bytes]:
    """Return which of some consecutive items differ between two trees.

    A range that overlaps no range of the other tree is not opened: everything in it differs.
    """
    found: set[bytes] = set()
    pending = set(wanted)
    last = wanted[-1]
    stop = prefix_end(last) if items.is_prefix(last) else last + b"\0"

    def add_whole(cursor: Cursor, record: RangeRecord) -> None:
        if cursor is new:  # only the new tree has paths here, so all items in the range differ
            first = bisect_left(wanted, items.item_of(record.min_key))
            found.update(wanted[first : bisect_right(wanted, record.max_key)])
        else:  # the new tree has all wanted items, but no paths here: only the ends can be wanted
            found.update({items.item_of(record.min_key), items.item_of(record.max_key)} & pending)

    old, new = (Cursor(trees, trees.metarange(side), start=wanted[0], stop=stop) for side in sides)
    for path, _, _ in iter_pairs(old, new, skip_whole=None if items.may_be_absent else add_whole):
        item = items.item_of(path)
        if item in pending:
            found.add(item)
            if len(found) == len(wanted):
                break
    return found


def _differing(
    left: Metarange, right: Metarange, wanted: Sequence[bytes]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the first and last key of each interval in which two trees have different ranges.

    Intervals before the first wanted item may be missing, and so may intervals after the last
    wanted item and all paths below it.
    """
    for segment in _differing_segments(left, right, wanted[0]):
        sides = [side for side in segment[:2] if side.last > side.first]
        start = min(side.tree.record(side.first).min_key for side in sides)
        if start > wanted[-1] and not start.startswith(wanted[-1]):
            return
        yield start, segment.end


def _differing_segments(left: Metarange, right: Metarange, start: bytes = b"") -> Iterator[Segment]:
    """Yield the segments in which two trees differ; `Segment.base` is the left tree."""
    for segment in segments(left, right, right, start=start):
        if not segment.base.is_same(segment.source):
            yield segment


def prefix_of(path: bytes, depth: int) -> bytes:
    """Return the first `depth` directories of a path (or all, if fewer), with a slash at the end.

    For a path without a directory, return ``b""``.
    """
    parts = path.split(DELIMITER, depth)
    return path[: len(path) - len(parts.pop())] if parts else b""
