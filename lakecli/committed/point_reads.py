"""Point reads: open ranges, and a cache of their records.

A block is decoded and verified whole, and its records kept in the dictionary of its range: a read
that finds its key there needs no search for the block. `PointReader.fill` reads the blocks of many
ranges before anybody asks for them.

When the cache is full, one miss in 16 admits its block, in the place of the oldest one (FIFO); the
other misses search the stored block. So the cache follows the keys that are read, and reads spread
over a tree larger than the cache stay cheap.

`PointReader` keeps `OpenRange` and `OpenTree`; `Fill` is the thread that fills one while others
read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from threading import Event, Lock, Thread
from typing import Final

from lakecli.base.model import MetarangeId, RangeId
from lakecli.committed.cache import BUCKET, DISK, MEMORY, Tier
from lakecli.committed.metaranges import Metarange, Mismatch, RangeRecord
from lakecli.committed.tree_store import TreeStore
from lakecli.errors import IntegrityError
from lakecli.sstable.reader import SSTable

Source = tuple[SSTable, dict[bytes, bytes], set[int]]
Records = tuple[list[bytes], list[bytes]]

_NO_RECORDS: Final[dict[bytes, bytes]] = {}
_INDEX_ENTRY_SIZE: Final = 250


class OpenRange:
    """An open range, and those of its records that are in memory.

    Attributes:
        tier: where its blocks are read from.
        source: the table, records by key, and the numbers of the blocks that they are all of.
    """

    __slots__ = ("reads", "record", "size", "source", "tier")

    def __init__(self, record: RangeRecord, table: SSTable, tier: Tier) -> None:
        self.record = record
        self.tier: Tier = tier
        self.reads = 0
        self.size = _INDEX_ENTRY_SIZE * table.block_count
        self.source: Source = table, {}, set()

    def use(self, table: SSTable) -> None:
        """Read from another copy of the table from now on."""
        before, records, loaded = self.source
        if table.separators != before.separators:
            records, loaded = {}, set()
        self.source = table, records, loaded


class OpenTree:
    """A tree, its open ranges by position, and what of their records is in memory.

    Attributes:
        keys: the last keys of the ranges; empty until so many reads searched the metarange that it
            is worth its decoding.
        ranges: the open ranges.
        records: of each range, those in memory.
    """

    __slots__ = ("_searches", "keys", "metarange", "ranges", "records")

    def __init__(self, metarange: Metarange) -> None:
        self.metarange = metarange
        self.keys: Sequence[bytes] = ()
        self._searches = 0
        self.forget()

    def find(self, key: bytes) -> int:
        """Return the position of the first range that may hold a key >= `key`."""
        if self.keys:
            return bisect_left(self.keys, key)
        self._searches += 1
        if self._searches < SEARCHES:
            return self.metarange.find(key)
        self.keys = list(self.metarange.keys)
        return bisect_left(self.keys, key)

    def forget(self) -> None:
        """Forget the open ranges."""
        count = len(self.metarange)
        self.ranges: list[OpenRange | None] = [None] * count
        self.records = [_NO_RECORDS] * (count + 1)  # the last one is of keys after all ranges


SEARCHES: Final = 32
"""Reads that search the metarange, which may be on disk, before its keys are kept in memory."""

FETCH_AFTER: Final = 8
"""Blocks read one by one from a range in the bucket before it is fetched whole."""

FILL_AT_ONCE: Final = 64
"""Blocks that a fill reads at a time: a millisecond passes until it notices that it is stopped."""

MOST_TREES: Final = 4
"""Trees whose open ranges are kept by position, for refs that are read alternately."""

_ADMIT_EVERY = 16
_RECORD_SIZE = 150
"""Memory of a record in a dictionary, besides the bytes of its key and value."""
_MOST_OF_SIZE: Final = 4
"""The memory of the keys and values of a range, in sizes of its file; a cautious estimate."""


class PointReader:
    """Answers point reads of one `TreeStore`. Safe to share between threads.

    A read that finds its block in memory takes no lock. The lock protects the bookkeeping only and
    is never held while a file or the bucket is read: of two threads that miss the same block at
    once, both read it, and one copy is kept.

    Args:
        trees: the store that opens ranges.
        blocks_limit: bytes of records, at most; by default half of the memory of the store.
        tables_limit: bytes of the indexes of open ranges, at most; by default a quarter of it.

    Attributes:
        blocks_size: bytes of records in memory.
    """

    def __init__(
        self,
        trees: TreeStore,
        *,
        blocks_limit: int | None = None,
        tables_limit: int | None = None,
    ) -> None:
        self._store = trees
        self._lock = Lock()
        self._trees: dict[MetarangeId, OpenTree] = {}  # the oldest first
        self._open: dict[RangeId, OpenRange] = {}  # of any tree, the oldest first
        self._open_size = 0
        self._blocks_limit = trees.memory // 2 if blocks_limit is None else blocks_limit
        self._tables_limit = trees.memory // 4 if tables_limit is None else tables_limit
        self._reads = trees.reads
        self.blocks_size = 0
        self._kept: deque[tuple[Source, Sequence[int], list[bytes], int]] = deque()
        self._misses = 0
        self._has_dropped = False  # after a block was dropped, the size is below the limit again

    def find(self, tree: MetarangeId, key: bytes) -> bytes | None:
        """Return the encoded value of a path, or ``None``.

        Raises:
            IntegrityError: a table that had to be read is missing or damaged.
        """
        # All state of this tree is in `known`: other threads may be reading other trees.
        known = self._trees.get(tree) or self._open_tree(tree)
        return self._find_in(known, key)

    def _find_in(self, known: OpenTree, key: bytes) -> bytes | None:
        value = known.records[bisect_left(known.keys, key)].get(key)
        if value is None:
            return self._find_on_disk(known, key)
        self._reads[MEMORY] += 1
        return value

    def _find_on_disk(self, known: OpenTree, key: bytes) -> bytes | None:
        """Return the value of a key that was not in memory."""
        position = known.find(key)
        if position == len(known.ranges):
            return None
        if known.ranges[position] is None and key < known.metarange.record(position).min_key:
            return None
        opened = self._opened(known, position)
        try:
            return self._read(opened, key)
        except (FileNotFoundError, IntegrityError) as error:
            self._check_reopens(opened, error)
            return self._read(self._reopen(opened, known), key)

    def find_many(self, tree: MetarangeId, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the encoded value of each path, or ``None``; `find` for many at once.

        Raises:
            IntegrityError: a table that had to be read is missing or damaged.
        """
        known = self._trees.get(tree) or self._open_tree(tree)
        return [self._find_in(known, key) for key in keys]

    def fill(self, tree: MetarangeId, *, prefix: bytes, is_stopped: Callable[[], bool]) -> bool:
        """Read the records of a tree into memory, in key order, while there is room.

        Other threads may read meanwhile. Nothing is dropped for what is read here.

        Args:
            tree: the tree to read.
            prefix: only ranges that may have a path that begins with it.
            is_stopped: asked after every few blocks; when it is true, the fill ends.

        Returns:
            Whether all of them are in memory.

        Raises:
            IntegrityError: a table is missing or damaged; a read of it finds the same.
        """
        known = self._trees.get(tree) or self._open_tree(tree)
        for position in range(known.find(prefix), len(known.ranges)):
            first = known.metarange.record(position).min_key
            if first > prefix and not first.startswith(prefix):
                break
            opened = self._opened(known, position)
            try:
                is_whole = self._fill_range(opened, is_stopped)
            except (FileNotFoundError, IntegrityError) as error:
                self._check_reopens(opened, error)
                opened = self._reopen(opened, known)
                is_whole = self._fill_range(opened, is_stopped)
            if not is_whole:
                return False
        return True

    def _fill_range(self, opened: OpenRange, is_stopped: Callable[[], bool]) -> bool:
        """Read all records of a range; return false if there is no room, or the fill is stopped."""
        while not is_stopped():
            source = table, _, loaded = opened.source
            with self._lock:
                missing = [each for each in range(table.block_count) if each not in loaded]
            if not missing:
                return True
            numbers = missing[:FILL_AT_ONCE]
            if not self._has_room_for(table, len(numbers)):
                return False
            if opened.tier == BUCKET:
                self._fetch(opened)
                continue
            self._reads[opened.tier] += 1
            self._keep(opened.record, source, numbers)
        return False

    def _open_tree(self, tree: MetarangeId) -> OpenTree:
        opened = OpenTree(self._store.metarange(tree))
        with self._lock:
            present = self._trees.get(tree)
            if present is not None:  # another thread was faster
                return present
            if len(self._trees) >= MOST_TREES:
                self._trees.pop(next(iter(self._trees))).forget()
            self._trees[tree] = opened
        return opened

    def _opened(self, known: OpenTree, position: int) -> OpenRange:
        """Return a range of a tree, opened if it is not open."""
        # If ranges are closed meanwhile, `known` gets new lists, and these are nobody's any more.
        ranges, records = known.ranges, known.records
        opened = ranges[position]
        if opened is None:
            record = known.metarange.record(position)
            opened = self._open.get(record.id) or self._open_range(record, known)
            ranges[position] = opened
        records[position] = opened.source[1]
        return opened

    def _read(self, opened: OpenRange, key: bytes) -> bytes | None:
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
            self._fetch(opened)
            source = table, records, _ = opened.source
            number = table.find_block(key)
        self._misses += 1
        is_full = self._has_dropped and self._misses % _ADMIT_EVERY
        if number == table.block_count:
            return None
        if is_full:
            return table.get(key)
        return self._keep(opened.record, source, (number,), key)

    def _fetch(self, opened: OpenRange) -> None:
        """Read a range of the bucket from this machine from now on."""
        table = self._store.table(opened.record)
        copy = self._store.open_copy(opened.record)
        if copy is not None:
            opened.use(copy)
            opened.tier = DISK
            return
        opened.use(table)  # without a cache on disk its bytes stay in memory
        with self._lock:
            if opened.tier == BUCKET and self._open.get(opened.record.id) is opened:
                opened.size += table.size
                self._open_size += table.size
            opened.tier = MEMORY

    def _has_room_for(self, table: SSTable, blocks: int) -> bool:
        """Tell whether the records of so many blocks of a range fit into the cache."""
        size = (_MOST_OF_SIZE * table.size + _RECORD_SIZE * table.count) * blocks
        room = self._blocks_limit - self.blocks_size
        return not self._has_dropped and size <= room * table.block_count

    def _keep(
        self, record: RangeRecord, source: Source, numbers: Sequence[int], key: bytes = b""
    ) -> bytes | None:
        """Read some blocks, keep their records, and return the value of a key.

        If the cache is full, the oldest blocks are dropped.
        """
        table, records, loaded = source
        blocks = [(block.keys, block.values) for block in table.blocks(numbers)]
        keys, values = _records_of(blocks)
        # Each block lies within the bounds of its index entry, so the keys ascend.
        if keys and not record.min_key <= keys[0] <= keys[-1] <= record.max_key:
            raise Mismatch(table.name, f"a block from {keys[0]!r} to {keys[-1]!r}")
        with self._lock:
            if not loaded.isdisjoint(numbers):  # another thread was faster with some of them
                new = dict(zip(numbers, blocks, strict=True))
                for number in loaded.intersection(numbers):
                    del new[number]
                numbers = list(new)
                keys, values = _records_of(new.values())
            size = sum(map(len, keys)) + sum(map(len, values)) + _RECORD_SIZE * len(keys)
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

    def _open_range(self, record: RangeRecord, tree: OpenTree) -> OpenRange:
        is_exact = tree.metarange.range_entries is not None
        table, tier = self._store.open_for_points(record, is_exact=is_exact)
        opened = OpenRange(record, table, tier)
        with self._lock:
            present = self._open.get(record.id)
            if present is not None:  # another thread was faster
                return present
            self._open[record.id] = opened
            self._open_size += opened.size
            while self._open_size > self._tables_limit and len(self._open) > 1:
                self._close(next(iter(self._open.values())))
        return opened

    def _check_reopens(self, opened: OpenRange, error: FileNotFoundError | IntegrityError) -> None:
        """Drop a damaged copy from the cache; another process may have evicted the copy.

        Raises:
            IntegrityError: `error`, if it is about the bucket or a local namespace.
        """
        if isinstance(error, FileNotFoundError):
            return
        if opened.tier != DISK or not self._store.drop_copy(opened.record):
            raise error

    def _reopen(self, opened: OpenRange, tree: OpenTree) -> OpenRange:
        """Open a range anew, since its file is gone."""
        with self._lock:
            self._close(opened)
        return self._open_range(opened.record, tree)

    def _close(self, opened: OpenRange) -> None:
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


def _records_of(blocks: Iterable[Records]) -> Records:
    """Return the keys and the values of some blocks."""
    keys: list[bytes] = []
    values: list[bytes] = []
    for more, of_more in blocks:
        keys += more
        values += of_more
    return keys, values


def kept_reader(trees: TreeStore) -> PointReader:
    """Return the reader that is kept as long as a store, and made when it is first needed.

    It refers to the store. Without it a store and its tables are freed at once, and an executor
    opens one store for each task.
    """
    found: PointReader | None = trees.kept.get(PointReader)
    # Two threads take the same.
    return trees.kept.setdefault(PointReader, PointReader(trees)) if found is None else found


def find(trees: TreeStore, tree: MetarangeId, key: bytes) -> bytes | None:
    """Return the encoded value of one path, or ``None``.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
    return kept_reader(trees).find(tree, key)


def find_many(trees: TreeStore, tree: MetarangeId, keys: Sequence[bytes]) -> list[bytes | None]:
    """Return the encoded value of each path, or ``None``; `find` for many at once.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
    return kept_reader(trees).find_many(tree, keys)


class Fill:
    """A thread that reads the entries of a tree into memory, in the order of their paths.

    It ends with the last entry, when the memory for entries is used, or at the first error, which
    disturbs no read: one that needs the same table meets it, too. Close it; any thread may.

    Args:
        points: keeps the entries.
        tree: the tree to read.
        prefix: only ranges that may have a path that begins with it.
    """

    def __init__(self, points: PointReader, tree: MetarangeId, *, prefix: bytes) -> None:
        self._points = points
        self._tree = tree
        self._prefix = prefix
        self._is_whole = False
        self._error: Exception | None = None
        self._stop = Event()
        # A daemon, so that a fill that nobody closes does not delay the end of the process.
        self._thread = Thread(target=self._run, name="lakecli-fill", daemon=True)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; return whether all entries are in memory.

        Args:
            timeout: seconds to wait at most.

        Raises:
            IntegrityError: a table is missing or damaged.
            Unreachable, PermissionDenied, …: the bucket could not be read.
        """
        self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        return self._is_whole

    def close(self) -> None:
        """End it, within the time that a few blocks or one request take; safe to repeat."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._is_whole = self._points.fill(
                self._tree, prefix=self._prefix, is_stopped=self._stop.is_set
            )
        except Exception as error:  # noqa: BLE001 - `wait` raises it
            self._error = error
