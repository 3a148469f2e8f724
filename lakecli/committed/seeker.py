"""Jumping from path to path of a tree, with the tables that this machine has."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from lakecli.sstable.format import CorruptTable

if TYPE_CHECKING:
    from lakecli.committed.tree_store import TreeStore
    from lakecli.model import MetarangeId
    from lakecli.sstable.reader import Table


class Seeker:
    """Finds the next path of a tree for a TAB: nothing is fetched, few ranges are opened.

    A metarange has the first and the last path of each range. So a range is opened only to look
    between the two, and one block of it is decoded. Where this machine has no copy of a range, or
    enough were opened, its last path is what is known of it.

    Args:
        trees: the store that holds the tree.
        tree: the tree.
        ranges: how many ranges to open, at most.
    """

    def __init__(self, trees: TreeStore, tree: MetarangeId, *, ranges: int) -> None:
        self._trees = trees
        self._metarange = trees.metarange(tree)
        self._left = ranges
        self._position: int | None = None  # of the range being searched
        self._table: Table | None = None
        self._number: int | None = None  # of the decoded block
        self._keys: list[bytes] = []

    def seek(self, start: bytes) -> bytes | None:
        """Return the first path at or after `start`, or ``None``; `start` never goes back.

        Raises:
            IntegrityError: a table that had to be read is damaged.
        """
        position = self._metarange.find(start)
        if position == len(self._metarange):
            return None
        if position == self._position:
            return self._seek_within(position, start)
        record = self._metarange.record(position)
        if start <= record.min_key:
            return record.min_key
        self._position, self._table, self._number, self._keys = position, None, None, []
        if self._left > 0:
            self._left -= 1
            self._table = self._trees.open_copy(record)
        return self._seek_within(position, start)

    def _seek_within(self, position: int, start: bytes) -> bytes:
        """Return the first path at or after `start` of the range at `position`, which has one."""
        last = self._metarange.keys[position]
        table = self._table
        if table is None:
            return last
        number = table.find_block(start)
        while number < table.block_count:
            if number != self._number:
                try:
                    self._number, self._keys = number, table.block(number).keys
                except CorruptTable:
                    if not self._trees.drop_copy(self._metarange.record(position)):
                        raise
                    self._table = None
                    return last
            at = bisect_left(self._keys, start)
            if at < len(self._keys):
                return self._keys[at]
            number += 1
        return last
