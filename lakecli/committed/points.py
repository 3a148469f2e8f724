"""Point reads: open ranges, and a cache of their blocks.

The compiled core searches blocks as they are, and keeps their payloads; without it blocks are kept
as dictionaries. Either way a block is decoded and verified whole before it is kept.

A cached block answers from memory. When the cache is full, one miss in 16 admits its block, in the
place of the oldest one (FIFO); the other misses search the stored block. So the cache follows the
keys that are read, and reads spread over a tree larger than the cache stay cheap.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from threading import Lock
from typing import TYPE_CHECKING, Final

from lakecli import native
from lakecli.committed.ranges import Mismatch
from lakecli.sstable.reader import search_block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakecli.committed.metaranges import Metarange, RangeRecord
    from lakecli.committed.tree_store import TreeStore
    from lakecli.model import MetarangeId, RangeId
    from lakecli.sstable.reader import Table

    _Found = bytes | dict[bytes, bytes]
    _Blocks = list[_Found | None]

BLOCKS_SIZE: Final = 512 << 20
"""Bytes of blocks, at most; enough for 1,200,000 entries of common size, compiled 1,900,000."""

TABLES_SIZE: Final = 64 << 20
"""Bytes of the indexes of open ranges, at most; enough for some 1,000 ranges."""

FETCH_AFTER: Final = 8
"""Blocks read one by one from a range in the bucket before it is fetched whole."""

MOST_TREES: Final = 4
"""Trees whose open ranges are kept by position, for refs that are read alternately."""

_ADMIT_EVERY = 16
_RECORD_SIZE = 150
"""Memory of a record in a dictionary, besides the bytes of its key and value."""
_PAYLOAD_SIZE = 150
"""Memory of a payload besides its bytes."""
_INDEX_ENTRY_SIZE = 250


def _get(block: _Found, key: bytes) -> bytes | None:
    return block.get(key) if isinstance(block, dict) else search_block(block, key)


class _OpenRange:
    """An open range and its blocks by number: payloads or dictionaries, ``None`` if not cached."""

    __slots__ = ("is_remote", "reads", "record", "size", "source", "view")

    def __init__(self, record: RangeRecord, table: Table, *, is_remote: bool) -> None:
        self.record = record
        self.is_remote = is_remote
        self.reads = 0
        self.size = _INDEX_ENTRY_SIZE * table.block_count
        blocks: _Blocks = [None] * table.block_count
        self.source = table, blocks
        self.view = table.separators, blocks

    def use(self, table: Table) -> None:
        """Read from another copy of the table from now on."""
        separators, blocks = self.view
        if table.separators != separators:
            blocks = [None] * table.block_count
        self.source = table, blocks
        self.view = table.separators, blocks


class _Tree:
    """A tree, and its open ranges by position; `views` has what the compiled core needs of them."""

    __slots__ = ("keys", "metarange", "ranges", "views")

    def __init__(self, metarange: Metarange) -> None:
        self.metarange = metarange
        self.keys = list(metarange.keys)
        self.forget()

    def forget(self) -> None:
        """Forget the open ranges."""
        count = len(self.keys)
        self.views: list[tuple[list[bytes], _Blocks] | None] = [None] * count
        self.ranges: list[_OpenRange | None] = [None] * count


class PointReader:
    """Answers point reads of one `TreeStore`. Safe to share between threads.

    A read that finds its block in memory takes no lock. The lock protects the bookkeeping only and
    is never held while a file or the bucket is read: of two threads that miss the same block at
    once, both read it, and one copy is kept.

    Args:
        trees: the store that opens ranges.
        blocks_limit: bytes of blocks, at most.

    Attributes:
        blocks_size: bytes of blocks in memory.
    """

    def __init__(self, trees: TreeStore, *, blocks_limit: int = BLOCKS_SIZE) -> None:
        self._store = trees
        self._lock = Lock()
        self._trees: dict[MetarangeId, _Tree] = {}  # the oldest first
        self._open: dict[RangeId, _OpenRange] = {}  # of any tree, the oldest first
        self._open_size = 0
        self._blocks_limit = blocks_limit
        self.blocks_size = 0
        self._kept: deque[tuple[_Blocks, int, int]] = deque()
        self._misses = 0

    def find(self, tree: MetarangeId, key: bytes) -> bytes | None:
        """Return the encoded value of a path, or ``None``.

        Raises:
            IntegrityError: a table that had to be read is missing or damaged.
        """
        # All state of this tree is in `known`: other threads may be reading other trees.
        known = self._trees.get(tree) or self._open_tree(tree)
        core = native.core()
        if core is not None:
            value: bytes | None = core.find_many(known.keys, known.views, [key])[0]
            if value is not NotImplemented:
                return value
        return self._find(known, key)

    def _find(self, known: _Tree, key: bytes) -> bytes | None:
        ranges, views = known.ranges, known.views
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
        views[position] = opened.view
        table, blocks = opened.source
        number = table.find_block(key)
        if number == len(blocks):
            return None
        block = blocks[number]
        if block is not None:
            return _get(block, key)
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
        core = native.core()
        if core is not None:
            values = core.find_many(known.keys, known.views, list(keys))
            for at, value in enumerate(values):
                if value is NotImplemented:
                    values[at] = self.find(tree, keys[at])
            return values
        last_keys = known.keys
        count = len(last_keys)
        found: list[bytes | None] = []
        for key in keys:
            # As `find` does for a block in memory, which is what most reads meet.
            position = bisect_left(last_keys, key)
            opened = known.ranges[position] if position < count else None
            block = None
            if opened is not None:
                table, blocks = opened.source
                number = table.find_block(key)
                block = blocks[number] if number < len(blocks) else None
            found.append(self.find(tree, key) if block is None else _get(block, key))
        return found

    def _open_tree(self, tree: MetarangeId) -> _Tree:
        opened = _Tree(self._store.metarange(tree))
        with self._lock:
            if len(self._trees) >= MOST_TREES:
                del self._trees[next(iter(self._trees))]
            self._trees[tree] = opened
        return opened

    def _read(self, opened: _OpenRange, key: bytes) -> bytes | None:
        opened.reads += 1
        if opened.is_remote and opened.reads > FETCH_AFTER:
            opened.use(self._store.table(opened.record))
            opened.is_remote = False
        self._misses += 1
        table, blocks = opened.source
        number = table.find_block(key)
        is_full = self.blocks_size >= self._blocks_limit and self._misses % _ADMIT_EVERY
        if is_full or number == len(blocks):
            return table.get(key)
        return _get(self._keep(opened.record, table, blocks, number), key)

    def _keep(self, record: RangeRecord, table: Table, blocks: _Blocks, number: int) -> _Found:
        """Read and verify a block and keep it, dropping the oldest ones if the cache is full."""
        block = table.block(number)
        keys = block.keys
        if keys and not record.min_key <= keys[0] <= keys[-1] <= record.max_key:
            raise Mismatch(table.name, f"a block from {keys[0]!r} to {keys[-1]!r}")
        found: _Found = block.payload
        size = len(block.payload) + _PAYLOAD_SIZE
        if native.core() is None:
            found = dict(zip(keys, block.values, strict=True))
            size = sum(map(len, keys)) + sum(map(len, block.values)) + _RECORD_SIZE * len(keys)
        with self._lock:
            if blocks[number] is not None:  # another thread was faster
                return found
            blocks[number] = found
            self._kept.append((blocks, number, size))
            self.blocks_size += size
            while self.blocks_size > self._blocks_limit and len(self._kept) > 1:
                oldest, at, gone = self._kept.popleft()
                oldest[at] = None
                self.blocks_size -= gone
        return found

    def _open_range(self, record: RangeRecord, tree: _Tree) -> _OpenRange:
        is_exact = tree.metarange.range_entries is not None
        table, is_remote = self._store.open_for_points(record, is_exact=is_exact)
        opened = _OpenRange(record, table, is_remote=is_remote)
        with self._lock:
            present = self._open.get(record.id)
            if present is not None:  # another thread was faster
                return present
            self._open[record.id] = opened
            self._open_size += opened.size
            while self._open_size > TABLES_SIZE and len(self._open) > 1:
                self._close(next(iter(self._open.values())))
        return opened

    def _close(self, opened: _OpenRange) -> None:
        """Drop a range, if it is still open; reads under way are not disturbed."""
        _, blocks = opened.source
        blocks[:] = [None] * len(blocks)
        if self._open.get(opened.record.id) is not opened:
            return
        del self._open[opened.record.id]
        self._open_size -= opened.size
        for tree in self._trees.values():
            tree.forget()
