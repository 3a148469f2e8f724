"""Which of some known paths differ between two trees, without reading what nobody asks about.

The ranges of both trees are compared by ID first. Where they differ, only ranges that may hold one
of the wanted paths are opened.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from lakecli.committed.cursor import Cursor, iter_windows
from lakecli.committed.diff import differs_at
from lakecli.committed.keys import prefix_end
from lakecli.committed.metaranges import ID_PART, Metarange, RangeRecord, decode_range_record
from lakecli.committed.pairs import iter_pairs
from lakecli.committed.tree_store import TreeStore
from lakecli.model import MetarangeId

POINTS: Final = 2
"""Up to so many wanted paths are looked up one by one; for more, ranges are read whole."""

DELIMITER: Final = b"/"


class Items(NamedTuple):
    """How paths are grouped: objects, and common prefixes that stand for all paths below them.

    Attributes:
        prefix: all paths start with it.
        is_grouped: whether a path is reduced to its part up to the first slash after the prefix.
    """

    prefix: bytes
    is_grouped: bool

    def item_of(self, path: bytes) -> bytes:
        """Return the item that a path belongs to."""
        if not self.is_grouped:
            return path
        at = path.find(DELIMITER, len(self.prefix))
        return path if at < 0 else path[: at + 1]

    def is_prefix(self, item: bytes) -> bool:
        """Tell whether an item is a common prefix."""
        return self.is_grouped and item.endswith(DELIMITER) and item != self.prefix


def touched(
    trees: TreeStore, left: MetarangeId, right: MetarangeId, wanted: Sequence[bytes], items: Items
) -> set[bytes]:
    """Return the wanted items that differ between two trees.

    Args:
        trees: the store that holds the trees.
        left: the old tree.
        right: the new tree.
        wanted: items in ascending order; the new tree has all of them.
        items: how paths are grouped.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
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
    trees: TreeStore,
    sides: tuple[MetarangeId, MetarangeId],
    wanted: Sequence[bytes],
    items: Items,
) -> set[bytes]:
    """Return those of some neighbouring items that differ.

    A range that no range of the other tree overlaps stays closed: everything in it differs.
    """
    found: set[bytes] = set()
    pending = set(wanted)
    last = wanted[-1]
    stop = prefix_end(last) if items.is_prefix(last) else last + b"\0"

    def add_whole(cursor: Cursor, record: RangeRecord) -> None:
        if cursor is new:  # each wanted item has something there, and the old tree has nothing
            first = bisect_left(wanted, items.item_of(record.min_key))
            found.update(wanted[first : bisect_right(wanted, record.max_key)])
        else:  # of the items between the ends, the new tree would have nothing
            found.update({items.item_of(record.min_key), items.item_of(record.max_key)} & pending)

    old, new = (Cursor(trees, trees.metarange(side), start=wanted[0], stop=stop) for side in sides)
    for path, _, _ in iter_pairs(iter_windows(old, new, skip_whole=add_whole)):
        item = items.item_of(path)
        if item in pending:
            found.add(item)
            if len(found) == len(wanted):
                break
    return found


def _differing(
    left: Metarange, right: Metarange, wanted: Sequence[bytes]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the intervals of keys, first and last, in which two trees have different ranges.

    Intervals before the first wanted item, or after all that the last one stands for, may be left
    out.
    """
    records = sorted(
        (*_only_in(left, right, wanted), *_only_in(right, left, wanted)),
        key=lambda record: record.min_key,
    )
    if not records:
        return
    start, stop = records[0].min_key, records[0].max_key
    for record in records:
        if record.min_key > stop:
            yield start, stop
            start = record.min_key
        stop = max(stop, record.max_key)
    yield start, stop


def _only_in(tree: Metarange, other: Metarange, wanted: Sequence[bytes]) -> Iterator[RangeRecord]:
    first = tree.find(wanted[0])
    ids = {value[ID_PART] for value in other.values}
    for value in tree.values[first:]:
        if value[ID_PART] not in ids:
            record = decode_range_record(value)
            if record.min_key > wanted[-1] and not record.min_key.startswith(wanted[-1]):
                break
            yield record
