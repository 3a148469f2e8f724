"""Point reads: ranges kept open, and their blocks kept as dictionaries while there is room.

A block that is read is decoded once and then answers from memory. Where the room is taken, most
reads search one block and forget it, and a few let their block in for the one that came first: so
the dictionaries follow what is asked, and reads all over a tree larger than the room stay cheap.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Final

from lakecli.committed.metaranges import NO_RANGES
from lakecli.committed.ranges import Mismatch

if TYPE_CHECKING:
    from lakecli.committed.metaranges import RangeRecord
    from lakecli.committed.store import TreeStore
    from lakecli.model import MetarangeId, RangeId
    from lakecli.sstable.reader import Table

BLOCKS_SIZE: Final = 512 << 20
"""Bytes that decoded blocks may take, enough for some 1,200,000 entries of common size."""

TABLES_SIZE: Final = 64 << 20
"""Bytes that the indexes of open ranges may take, enough for some 1,000 ranges."""

FETCH_AFTER: Final = 8
"""Blocks read from an uncached range in the bucket after which it is fetched whole."""

_ADMIT_EVERY = 16
_RECORD_SIZE = 150
"""What a record takes in a dictionary beside the bytes of its key and value."""
_INDEX_ENTRY_SIZE = 250


class _OpenRange:
    """An open range and its decoded blocks by number."""

    __slots__ = ("blocks", "find_block", "is_remote", "reads", "record", "size", "table")

    def __init__(self, record: RangeRecord, table: Table, *, is_remote: bool) -> None:
        self.record = record
        self.is_remote = is_remote
        self.reads = 0
        self.blocks: dict[int, dict[bytes, bytes]] = {}
        self.size = _INDEX_ENTRY_SIZE * table.block_count
        self.use(table)

    def use(self, table: Table) -> None:
        """Read from this table from now on; it holds the same blocks."""
        self.table = table
        self.find_block = table.find_block


class PointReader:
    """Answers point reads of one `TreeStore`.

    Args:
        trees: where ranges are opened.
        blocks_limit: bytes that decoded blocks may take.

    Attributes:
        blocks_size: bytes that decoded blocks take now.
    """

    def __init__(self, trees: TreeStore, *, blocks_limit: int = BLOCKS_SIZE) -> None:
        self._trees = trees
        self._tree = NO_RANGES
        self._ranges: list[_OpenRange | None] = []  # of that tree, by position
        self._open: dict[RangeId, _OpenRange] = {}  # of any tree, the oldest first
        self._open_size = 0
        self._blocks_limit = blocks_limit
        self.blocks_size = 0
        self._kept: deque[tuple[_OpenRange, int, int]] = deque()
        self._misses = 0

    def find(self, tree: MetarangeId, key: bytes) -> bytes | None:
        """Return the encoded value of a path, or ``None``.

        Raises:
            IntegrityError: a table that had to be read is missing or damaged.
        """
        if tree != self._tree.id:
            self._tree = self._trees.metarange(tree)
            self._ranges = [None] * len(self._tree)
        position = bisect_left(self._tree.keys, key)
        if position == len(self._ranges):
            return None
        opened = self._ranges[position]
        if opened is None:
            record = self._tree.record(position)
            if key < record.min_key:
                return None
            opened = self._open.get(record.id) or self._open_range(record)
            self._ranges[position] = opened
        number = opened.find_block(key)
        block = opened.blocks.get(number)
        if block is not None:
            return block.get(key)
        if number == opened.table.block_count:
            return None
        try:
            return self._read(opened, number, key)
        except FileNotFoundError:  # another process evicted it from the cache
            self._close(opened)
            return self._read(self._open_range(opened.record), number, key)

    def _read(self, opened: _OpenRange, number: int, key: bytes) -> bytes | None:
        opened.reads += 1
        if opened.is_remote and opened.reads > FETCH_AFTER:
            opened.use(self._trees.table(opened.record))
            opened.is_remote = False
        self._misses += 1
        if self.blocks_size >= self._blocks_limit and self._misses % _ADMIT_EVERY:
            return opened.table.get(key)
        return self._keep(opened, number).get(key)

    def _keep(self, opened: _OpenRange, number: int) -> dict[bytes, bytes]:
        """Decode a block and keep it, in the place of the oldest ones if need be."""
        block = opened.table.block(number)
        record, keys = opened.record, block.keys
        if keys and not record.min_key <= keys[0] <= keys[-1] <= record.max_key:
            raise Mismatch(opened.table.name, f"a block from {keys[0]!r} to {keys[-1]!r}")
        found = dict(zip(keys, block.values, strict=True))
        size = sum(map(len, keys)) + sum(map(len, block.values)) + _RECORD_SIZE * len(keys)
        opened.blocks[number] = found
        self._kept.append((opened, number, size))
        self.blocks_size += size
        while self.blocks_size > self._blocks_limit and len(self._kept) > 1:
            oldest, at, gone = self._kept.popleft()
            oldest.blocks.pop(at, None)
            self.blocks_size -= gone
        return found

    def _open_range(self, record: RangeRecord) -> _OpenRange:
        is_exact = self._tree.range_entries is not None
        table, is_remote = self._trees.open_for_points(record, is_exact=is_exact)
        opened = _OpenRange(record, table, is_remote=is_remote)
        self._open[record.id] = opened
        self._open_size += opened.size
        while self._open_size > TABLES_SIZE and len(self._open) > 1:
            self._close(next(iter(self._open.values())))
        return opened

    def _close(self, opened: _OpenRange) -> None:
        opened.blocks.clear()
        self._open.pop(opened.record.id, None)
        self._open_size -= opened.size
        self._ranges = [None] * len(self._tree)
