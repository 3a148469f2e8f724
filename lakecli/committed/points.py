"""Point reads: open ranges, and a cache of their records.

A block is decoded and verified whole, and its records kept in the dictionary of its range: a read
that finds its key there needs no search for the block. Where an eighth of the blocks of a range on
this machine was read, and there is room for all its records, the other blocks are read at once.

When the cache is full, one miss in 16 admits its block, in the place of the oldest one (FIFO); the
other misses search the stored block. So the cache follows the keys that are read, and reads spread
over a tree larger than the cache stay cheap.
"""

from __future__ import annotations

from _thread import allocate_lock  # `threading` takes 0.5 ms of every start
from bisect import bisect_left
from collections import deque

from lakecli.committed.ranges import Mismatch
from lakecli.committed.reads import BUCKET, MEMORY
from lakecli.typed import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakecli.committed.metaranges import Metarange, RangeRecord
    from lakecli.committed.reads import Tier
    from lakecli.committed.tree_store import TreeStore
    from lakecli.model import MetarangeId, RangeId
    from lakecli.sstable.reader import Table

    _Source = tuple[Table, dict[bytes, bytes], set[int]]

BLOCKS_SIZE: Final = 512 << 20
"""Bytes of records, at most; enough for some 1,200,000 entries of common size."""

TABLES_SIZE: Final = 256 << 20
"""Bytes of the indexes of open ranges, at most; enough for some 2,700, of 15 million entries."""

LOAD_AFTER: Final = 1 / 8
"""The part of a range's blocks that is read one by one before the others are read at once."""

FETCH_AFTER: Final = 8
"""Blocks read one by one from a range in the bucket before it is fetched whole."""

MOST_TREES: Final = 4
"""Trees whose open ranges are kept by position, for refs that are read alternately."""

_ADMIT_EVERY = 16
_RECORD_SIZE = 150
"""Memory of a record in a dictionary, besides the bytes of its key and value."""
_NO_RECORDS: Final[dict[bytes, bytes]] = {}
_INDEX_ENTRY_SIZE = 250
_LARGEST_LOADED: Final = 32 << 20
"""Bytes of the file of a range that is read at once, at most."""
_MOST_OF_SIZE: Final = 4
"""The memory of the keys and values of a range, in sizes of its file; a cautious estimate."""


class _OpenRange:
    """An open range, and those of its records that are in memory.

    Attributes:
        tier: where its blocks are read from.
        source: the table, records by key, and the numbers of the blocks that they are all of.
    """

    __slots__ = ("reads", "record", "size", "source", "tier")

    def __init__(self, record: RangeRecord, table: Table, tier: Tier) -> None:
        self.record = record
        self.tier: Tier = tier
        self.reads = 0
        self.size = _INDEX_ENTRY_SIZE * table.block_count
        self.source: _Source = table, {}, set()

    def use(self, table: Table) -> None:
        """Read from another copy of the table from now on."""
        before, records, loaded = self.source
        if table.separators != before.separators:
            records, loaded = {}, set()
        self.source = table, records, loaded


class _Tree:
    """A tree, its open ranges by position, and what of their records is in memory."""

    __slots__ = ("keys", "metarange", "ranges", "records")

    def __init__(self, metarange: Metarange) -> None:
        self.metarange = metarange
        self.keys = metarange.keys
        self.forget()

    def forget(self) -> None:
        """Forget the open ranges."""
        count = len(self.keys)
        self.ranges: list[_OpenRange | None] = [None] * count
        self.records = [_NO_RECORDS] * (count + 1)  # the last one is of keys after all ranges


class PointReader:
    """Answers point reads of one `TreeStore`. Safe to share between threads.

    A read that finds its block in memory takes no lock. The lock protects the bookkeeping only and
    is never held while a file or the bucket is read: of two threads that miss the same block at
    once, both read it, and one copy is kept.

    Args:
        trees: the store that opens ranges.
        blocks_limit: bytes of records, at most.
        tables_limit: bytes of the indexes of open ranges, at most.

    Attributes:
        blocks_size: bytes of records in memory.
    """

    def __init__(
        self,
        trees: TreeStore,
        *,
        blocks_limit: int = BLOCKS_SIZE,
        tables_limit: int = TABLES_SIZE,
    ) -> None:
        self._store = trees
        self._lock = allocate_lock()
        self._trees: dict[MetarangeId, _Tree] = {}  # the oldest first
        self._open: dict[RangeId, _OpenRange] = {}  # of any tree, the oldest first
        self._open_size = 0
        self._blocks_limit = blocks_limit
        self._tables_limit = tables_limit
        self._reads = trees.reads
        self.blocks_size = 0
        self._kept: deque[tuple[_Source, Sequence[int], list[bytes], int]] = deque()
        self._misses = 0
        self._has_dropped = False  # after a block was dropped, the size is below the limit again

    def find(self, tree: MetarangeId, key: bytes) -> bytes | None:
        """Return the encoded value of a path, or ``None``.

        Raises:
            IntegrityError: a table that had to be read is missing or damaged.
        """
        # All state of this tree is in `known`: other threads may be reading other trees.
        known = self._trees.get(tree) or self._open_tree(tree)
        value = known.records[bisect_left(known.keys, key)].get(key)
        if value is None:
            return self._find(known, key)
        self._reads[MEMORY] += 1
        return value

    def _find(self, known: _Tree, key: bytes) -> bytes | None:
        """Return the value of a key that was not in memory."""
        # All state of this tree is in `known`: other threads may be reading other trees.
        ranges, records = known.ranges, known.records
        position = bisect_left(known.keys, key)
        if position == len(ranges):
            return None
        opened = ranges[position]
        if opened is None:
            record = known.metarange.record(position)
            if key < record.min_key:
                return None
            opened = self._open.get(record.id) or self._open_range(record, known)
            ranges[position] = opened
        records[position] = opened.source[1]
        try:
            return self._read(opened, key)
        except FileNotFoundError:  # another process evicted it from the cache
            with self._lock:
                self._close(opened)
            return self._read(self._open_range(opened.record, known), key)

    def find_many(self, tree: MetarangeId, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the encoded value of each path, or ``None``; `find` for many at once.

        Raises:
            IntegrityError: a table that had to be read is missing or damaged.
        """
        known = self._trees.get(tree) or self._open_tree(tree)
        last_keys, records = known.keys, known.records
        values = [records[bisect_left(last_keys, key)].get(key) for key in keys]
        missed = 0
        for at, value in enumerate(values):
            if value is None:
                missed += 1
                values[at] = self._find(known, keys[at])
        self._reads[MEMORY] += len(values) - missed
        return values

    def _open_tree(self, tree: MetarangeId) -> _Tree:
        opened = _Tree(self._store.metarange(tree))
        with self._lock:
            if len(self._trees) >= MOST_TREES:
                del self._trees[next(iter(self._trees))]
            self._trees[tree] = opened
        return opened

    def _read(self, opened: _OpenRange, key: bytes) -> bytes | None:
        source = table, records, loaded = opened.source
        number = table.find_block(key)
        if number == table.block_count:
            return None
        with self._lock:
            if number in loaded:
                self._reads[MEMORY] += 1
                return records.get(key)
        self._reads[opened.tier] += 1
        opened.reads += 1
        if opened.tier == BUCKET and opened.reads > FETCH_AFTER:
            opened.use(self._store.table(opened.record))
            opened.tier = MEMORY
            source = table, _, _ = opened.source
            number = table.find_block(key)
        self._misses += 1
        is_full = self._has_dropped and self._misses % _ADMIT_EVERY
        if number == table.block_count:
            return None
        if is_full:
            return table.search(number, key)
        numbers: Sequence[int] = (number,)
        is_known = opened.reads > LOAD_AFTER * table.block_count
        if is_known and opened.tier != BUCKET and self._has_room_for(table):
            with self._lock:
                numbers = [each for each in range(table.block_count) if each not in loaded]
            if number not in numbers:  # another thread was faster
                numbers = (number,)
        return self._keep(opened.record, source, numbers, key)

    def _has_room_for(self, table: Table) -> bool:
        """Tell whether all records of a range fit into the cache, and its file is not large."""
        if self._has_dropped or table.size > _LARGEST_LOADED:
            return False
        size = _MOST_OF_SIZE * table.size + _RECORD_SIZE * table.count
        return self.blocks_size + size <= self._blocks_limit

    def _keep(
        self, record: RangeRecord, source: _Source, numbers: Sequence[int], key: bytes
    ) -> bytes | None:
        """Read some blocks, keep their records, and return the value of a key.

        If the cache is full, the oldest blocks are dropped.
        """
        table, records, loaded = source
        keys: list[bytes] = []
        values: list[bytes] = []
        for block in table.blocks(numbers):
            keys += block.keys
            values += block.values
        # Each block lies within the bounds of its index entry, so the keys ascend.
        if keys and not record.min_key <= keys[0] <= keys[-1] <= record.max_key:
            raise Mismatch(table.name, f"a block from {keys[0]!r} to {keys[-1]!r}")
        size = sum(map(len, keys)) + sum(map(len, values)) + _RECORD_SIZE * len(keys)
        with self._lock:
            if not loaded.isdisjoint(numbers):  # another thread was faster
                return records[key] if key in records else _value_of(key, keys, values)
            records.update(zip(keys, values, strict=True))
            loaded.update(numbers)
            value = records.get(key)
            self._kept.append((source, numbers, keys, size))
            self.blocks_size += size
            while self.blocks_size > self._blocks_limit and len(self._kept) > 1:
                self._has_dropped = True
                (_, records, loaded), numbers, keys, size = self._kept.popleft()
                if not loaded.isdisjoint(numbers):
                    loaded.difference_update(numbers)
                    for each in keys:
                        records.pop(each, None)
                self.blocks_size -= size
        return value

    def _open_range(self, record: RangeRecord, tree: _Tree) -> _OpenRange:
        is_exact = tree.metarange.range_entries is not None
        table, tier = self._store.open_for_points(record, is_exact=is_exact)
        opened = _OpenRange(record, table, tier)
        with self._lock:
            present = self._open.get(record.id)
            if present is not None:  # another thread was faster
                return present
            self._open[record.id] = opened
            self._open_size += opened.size
            while self._open_size > self._tables_limit and len(self._open) > 1:
                self._close(next(iter(self._open.values())))
        return opened

    def _close(self, opened: _OpenRange) -> None:
        """Drop a range, if it is still open; reads under way are not disturbed."""
        _, records, loaded = opened.source
        records.clear()
        loaded.clear()
        if self._open.get(opened.record.id) is not opened:
            return
        del self._open[opened.record.id]
        self._open_size -= opened.size
        for tree in self._trees.values():
            tree.forget()


def _value_of(key: bytes, keys: list[bytes], values: list[bytes]) -> bytes | None:
    """Return the value of a key among sorted keys, or ``None``."""
    at = bisect_left(keys, key)
    return values[at] if at < len(keys) and keys[at] == key else None
