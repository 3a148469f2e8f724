"""Point reads: open ranges, and a cache of their records.

Only the top level of an open range's index is in memory. To find a key, a read fetches a partition
of the index and then a block, and searches both as they are stored. Once as many keys of a range
were read as a sixteenth of its blocks, blocks are decoded whole, and their records kept in the
dictionary of their range: a read that finds its key in the dictionary needs no search.
`PointReader.fill` reads the blocks of many ranges before the first read needs them.

When the cache is full, one miss in 16 admits its block, which replaces the oldest blocks (FIFO);
the other misses search the stored block. So the cache follows the keys that are read, and reads of
keys all over a large tree stay cheap.

`PointReader` keeps `OpenRange` and `OpenTree`; `Fill` is the thread that fills a reader while other
threads read.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from threading import Event, Lock, Thread
from typing import Final, NamedTuple, TypeVar

from lakecli.base.model import MetarangeId, RangeId
from lakecli.committed.cache import BUCKET, DISK, MEMORY, Tier
from lakecli.committed.metaranges import Metarange, Mismatch, RangeRecord
from lakecli.committed.tree_store import TreeStore, in_memory
from lakecli.errors import IntegrityError
from lakecli.sstable.directory import ReadableFile
from lakecli.sstable.reader import Block, KeyLookup, SSTable

T = TypeVar("T")
Records = dict[bytes, bytes]
Blocks = dict[int, tuple[Sequence[bytes], int]]
"""For the offset of each block: the block's keys, and the memory that its records take."""

_NO_RECORDS: Final[Records] = {}


class RangeCopy(NamedTuple):
    """A copy of a range, and the records of the copy that are in memory.

    Attributes:
        lookup: the open table, which finds blocks of the copy.
        blocks: the blocks whose records are in memory.
        records: the values of these records, by key.
    """

    lookup: KeyLookup
    blocks: Blocks
    records: Records


class OpenRange:
    """A range that is open for point reads.

    Attributes:
        copy: the copy from which blocks are read.
        tier: the tier of this copy: memory, disk or the bucket.
        size: the memory that the open range takes, in bytes, without its cached records.
        reads: the number of keys read that were not in memory; after enough of them, a range in
            the bucket is fetched whole, and blocks of another range are kept in memory.
    """

    __slots__ = ("copy", "reads", "record", "size", "tier")

    def __init__(self, record: RangeRecord, lookup: KeyLookup, tier: Tier) -> None:
        self.record = record
        self.reads = 0
        self.use(lookup, tier)

    def use(self, lookup: KeyLookup, tier: Tier) -> None:
        """Use another copy for later reads; no records of that copy are in memory yet."""
        self.copy = RangeCopy(lookup, {}, {})
        self.tier: Tier = tier
        self.size = _RANGE_SIZE + len(lookup.top)
        if tier == MEMORY:
            self.size += lookup.size
        elif tier == BUCKET:
            self.size += lookup.size - lookup.data_size


class OpenTree:
    """A tree, its open ranges by position, and the records of these ranges that are in memory.

    Attributes:
        keys: the last keys of the ranges; empty until `SEARCHES` reads have searched the metarange,
            since decoding all its keys pays off only then.
        ranges: the open ranges; ``None`` at the position of a range that is not open.
        records: the records of each range that are in memory.
    """

    __slots__ = ("_searches", "keys", "metarange", "ranges", "records")

    def __init__(self, metarange: Metarange) -> None:
        self.metarange = metarange
        self.keys: Sequence[bytes] = ()
        self._searches = 0
        count = len(metarange)
        self.ranges: list[OpenRange | None] = [None] * count
        self.records = [_NO_RECORDS] * (count + 1)  # the last item: keys after all ranges

    def find(self, key: bytes) -> int:
        """Return the position of the first range that may have a key >= `key`."""
        if not self.keys:
            self._searches += 1
            if self._searches < SEARCHES:
                return self.metarange.find(key)
            self.keys = list(self.metarange.keys)
        return bisect_left(self.keys, key)

    def find_all(self, keys: Sequence[bytes]) -> list[int]:
        """Return the result of `find` for each of several keys."""
        if not self.keys and self._searches + len(keys) < SEARCHES:
            return [self.find(key) for key in keys]
        self.keys = bounds = self.keys or list(self.metarange.keys)
        return [bisect_left(bounds, key) for key in keys]

    def close(self, opened: OpenRange) -> None:
        """Remove a range from the open ranges of the tree."""
        position = self.find(opened.record.max_key)
        if self.ranges[position : position + 1] == [opened]:
            self.ranges[position] = None
            self.records[position] = _NO_RECORDS


SEARCHES: Final = 32
"""Number of reads of a tree that search its metarange before all its keys are kept in memory."""

FETCH_AFTER: Final = 8
"""Number of single blocks read from a range in the bucket before the whole range is fetched."""

FILL_AT_ONCE: Final = 64
"""Number of blocks that `PointReader.fill` reads between two checks for a stop, in about 1 ms."""

MOST_TREES: Final = 4
"""Largest number of trees with open ranges; several, since callers read several refs in turn."""

_ADMIT_EVERY = 16
_RECORD_SIZE = 150
"""Memory of a record in a dictionary, in bytes, in addition to its key and value."""
_BLOCK_SIZE: Final = 300
"""Memory of the bookkeeping for a block, in bytes."""
_RANGE_SIZE: Final = 1_500
"""Memory of an open range, in bytes, in addition to the top of its index."""
_MOST_OF_SIZE: Final = 4
"""Memory of a range's keys and values, as a multiple of its file size: a cautious estimate."""


class PointReader:
    """Answers point reads of one `TreeStore`. Safe to share between threads.

    A read that finds its block in memory takes no lock. The lock protects the bookkeeping only and
    is never held while a file or the bucket is read: if two threads miss the same block at the same
    time, both read it, and one copy is kept.

    Args:
        trees: the store that opens ranges.
        blocks_limit: the largest size of the records in memory, in bytes; by default half of the
            memory of the store.
        tables_limit: the largest size of the open ranges, in bytes; by default a quarter of the
            memory of the store.

    Attributes:
        blocks_size: the size of the records in memory, in bytes.
    """

    def __init__(
        self, trees: TreeStore, *, blocks_limit: int | None = None, tables_limit: int | None = None
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
        self._kept: OrderedDict[tuple[RangeId, int], RangeCopy] = OrderedDict()
        """The copy that has each block in memory, by range and offset; the oldest block first."""
        self._misses = 0
        self._has_dropped = False  # whether the cache was full: the size alone does not show it

    def find(self, tree: MetarangeId, key: bytes) -> bytes | None:
        """Return the encoded value of a path, or ``None``.

        Raises:
            IntegrityError: a table that had to be read is missing or damaged.
        """
        # All state of this tree is in `known`: other threads may be reading other trees.
        known = self._trees.get(tree) or self._open_tree(tree)
        position = known.find(key)
        value = known.records[position].get(key)
        if value is None:
            return self._find_on_disk(known, position, [key])[0]
        self._reads[MEMORY] += 1
        return value

    def find_many(self, tree: MetarangeId, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the encoded value of each path, or ``None``; faster than `find` for many paths.

        Records that are not in memory are read in key order, so each range is opened once.

        Raises:
            IntegrityError: a table that had to be read is missing or damaged.
        """
        known = self._trees.get(tree) or self._open_tree(tree)
        records, positions = known.records, known.find_all(keys)
        found = [records[at].get(key) for at, key in zip(positions, keys, strict=True)]
        missing = [at for at, value in enumerate(found) if value is None]
        missing.sort(key=keys.__getitem__)
        self._reads[MEMORY] += len(found) - len(missing)
        for position, group in groupby(missing, positions.__getitem__):
            part = list(group)
            values = self._find_on_disk(known, position, [keys[at] for at in part])
            for at, value in zip(part, values, strict=True):
                found[at] = value
        return found

    def _find_on_disk(
        self, known: OpenTree, position: int, keys: list[bytes]
    ) -> list[bytes | None]:
        """Return the values of some keys of one range; `keys` are sorted, and not in memory yet."""
        if position == len(known.ranges):
            return [None] * len(keys)
        record = None
        if known.ranges[position] is None:
            record = known.metarange.record(position)
            if keys[-1] < record.min_key:
                return [None] * len(keys)
        return self._use(known, position, lambda opened: self._read(opened, keys), record)

    def fill(self, tree: MetarangeId, *, prefix: bytes, is_stopped: Callable[[], bool]) -> bool:
        """Read the records of a tree into memory, in key order, while memory is left.

        Other threads may read at the same time. The fill never evicts records from memory.

        Args:
            prefix: only ranges that may have a path that begins with `prefix` are read.
            is_stopped: a function that is called after every few blocks; the fill ends when it
                returns true.

        Returns:
            Whether all records of these ranges are in memory.

        Raises:
            IntegrityError: a table is missing or damaged; a read of the same table raises this
                error, too.
        """
        known = self._trees.get(tree) or self._open_tree(tree)
        for position in range(known.find(prefix), len(known.ranges)):
            record = known.metarange.record(position)
            if record.min_key > prefix and not record.min_key.startswith(prefix):
                break
            fill = partial(self._fill_range, is_stopped=is_stopped)
            if not self._use(known, position, fill, record):
                return False
        return True

    def _fill_range(self, opened: OpenRange, is_stopped: Callable[[], bool]) -> bool:
        """Read all records of a range; return false if memory is full, or the fill is stopped."""
        table: SSTable | None = None
        while not is_stopped():
            copy = opened.copy
            if table is None or table.source is not copy.lookup.source:
                if opened.tier == BUCKET:
                    if not self._has_room_for(copy.lookup, FILL_AT_ONCE):
                        return False
                    self._fetch(opened)
                    continue
                table = SSTable(copy.lookup.source)
            with self._lock:
                missing = [at for at, each in enumerate(table.offsets) if each not in copy.blocks]
            if not missing:
                return True
            numbers = missing[:FILL_AT_ONCE]
            if not self._has_room_for(table, len(numbers)):
                return False
            self._reads[opened.tier] += 1
            offsets = [table.offsets[number] for number in numbers]
            self._keep(opened, copy, dict(zip(offsets, table.blocks(numbers), strict=True)))
        return False

    def _open_tree(self, tree: MetarangeId) -> OpenTree:
        opened = OpenTree(self._store.metarange(tree))
        with self._lock:
            present = self._trees.get(tree)
            if present is not None:  # another thread was faster
                return present
            if len(self._trees) >= MOST_TREES:
                del self._trees[next(iter(self._trees))]
            self._trees[tree] = opened
        return opened

    def _opened(self, known: OpenTree, position: int, record: RangeRecord | None) -> OpenRange:
        """Return the open range at a position of a tree; open the range if necessary.

        Args:
            record: the record of the range, if the caller has decoded it.
        """
        opened = known.ranges[position]
        if opened is None or known.records[position] is not opened.copy.records:
            record = record or known.metarange.record(position)
            opened = self._open.get(record.id) or self._open_range(record, known)
            with self._lock:
                if self._open.get(record.id) is opened:  # else it was closed meanwhile
                    known.ranges[position] = opened
                    known.records[position] = opened.copy.records
        return opened

    def _read(self, opened: OpenRange, keys: list[bytes]) -> list[bytes | None]:
        copy = opened.copy
        admitted = self._count_admitted(opened, len(keys))
        by_block = len(keys) if opened.tier == BUCKET else admitted
        with copy.lookup.source.opened() as file:
            values = [
                self._read_block(opened, copy, file, key, is_kept=number < admitted)
                for number, key in enumerate(keys[:by_block])
            ]
            if by_block < len(keys):
                self._count(opened, len(keys) - by_block)
                values += copy.lookup.get_many(keys[by_block:], file)
        return values

    def _count_admitted(self, opened: OpenRange, keys: int) -> int:
        """Return for how many of some missed keys of a range the cache admits their blocks."""
        few = opened.copy.lookup.block_count // _ADMIT_EVERY
        if opened.reads <= few and opened.tier != BUCKET:
            return 0
        if not self._has_dropped:
            return keys
        return (self._misses + keys) // _ADMIT_EVERY - self._misses // _ADMIT_EVERY

    def _count(self, opened: OpenRange, reads: int) -> None:
        self._reads[opened.tier] += reads
        opened.reads += reads
        self._misses += reads

    def _read_block(
        self, opened: OpenRange, copy: RangeCopy, file: ReadableFile, key: bytes, *, is_kept: bool
    ) -> bytes | None:
        """Return the value of a key in a range.

        Args:
            file: the open file of the range's copy.
            is_kept: whether to decode the key's block whole, and keep its records in memory.
        """
        if copy is not opened.copy:
            return self._read(opened, [key])[0]
        lookup = copy.lookup
        handle = lookup.locate(file, key)
        if handle is None:
            return None
        with self._lock:
            if handle[0] in copy.blocks:
                self._reads[MEMORY] += 1
                return copy.records.get(key)
        if opened.tier == BUCKET and opened.reads >= FETCH_AFTER:
            self._fetch(opened)
            return self._read(opened, [key])[0]
        self._count(opened, 1)
        if not is_kept:
            return lookup.value(file, handle, key)
        return self._keep(opened, copy, {handle[0]: lookup.block_at(file, handle)}, key)

    def _fetch(self, opened: OpenRange) -> None:
        """Fetch a whole range from the bucket to this machine; later reads use the fetched copy."""
        whole = self._store.table(opened.record)
        copy = self._store.open_copy(opened.record)
        with self._lock:
            if opened.tier != BUCKET:  # another thread was faster
                return
            self._forget(opened)
            before = opened.size
            if copy is None:  # there is no cache on disk, so the bytes stay in memory
                opened.use(in_memory(whole), MEMORY)
            else:
                opened.use(copy, DISK)
            if self._open.get(opened.record.id) is opened:
                self._open_size += opened.size - before

    def _has_room_for(self, table: KeyLookup, blocks: int) -> bool:
        """Return whether the records of `blocks` blocks of a range fit into the cache."""
        size = (_MOST_OF_SIZE * table.size + _RECORD_SIZE * table.count) * min(
            blocks, table.block_count
        )
        room = self._blocks_limit - self.blocks_size
        return not self._has_dropped and size <= room * table.block_count

    def _keep(
        self, opened: OpenRange, copy: RangeCopy, blocks: Mapping[int, Block], key: bytes = b""
    ) -> bytes | None:
        """Keep the records of some blocks in memory, and return the value of a key.

        Args:
            blocks: the blocks, by their offset.
        """
        record = opened.record
        for keys, _ in blocks.values():
            if keys and not record.min_key <= keys[0] <= keys[-1] <= record.max_key:
                raise Mismatch(copy.lookup.name, f"a block from {keys[0]!r} to {keys[-1]!r}")
        with self._lock:
            if copy is not opened.copy or self._open.get(record.id) is not opened:
                # The range was closed or fetched meanwhile, so keep nothing.
                return next((b[1][b[0].index(key)] for b in blocks.values() if key in b[0]), None)
            for offset, (keys, values) in blocks.items():
                if offset not in copy.blocks:  # else another thread was faster
                    copy.records.update(zip(keys, values, strict=True))
                    size = sum(map(len, keys)) + sum(map(len, values)) + _RECORD_SIZE * len(keys)
                    size += _BLOCK_SIZE
                    copy.blocks[offset] = keys, size
                    self._kept[record.id, offset] = copy
                    self.blocks_size += size
            value = copy.records.get(key)
            while self.blocks_size > self._blocks_limit and len(self._kept) > 1:
                self._has_dropped = True
                (_, offset), copy = self._kept.popitem(last=False)
                gone, size = copy.blocks.pop(offset)
                self.blocks_size -= size
                for each in gone:
                    copy.records.pop(each, None)
        return value

    def _open_range(self, record: RangeRecord, tree: OpenTree) -> OpenRange:
        is_exact = tree.metarange.range_entries is not None
        opened = OpenRange(record, *self._store.open_for_points(record, is_exact=is_exact))
        with self._lock:
            present = self._open.get(record.id)
            if present is not None:  # another thread was faster
                return present
            self._open[record.id] = opened
            self._open_size += opened.size
            while self._open_size > self._tables_limit and len(self._open) > 1:
                self._close(next(iter(self._open.values())))
        return opened

    def _use(
        self,
        known: OpenTree,
        position: int,
        use: Callable[[OpenRange], T],
        record: RangeRecord | None,
    ) -> T:
        """Return the result of `use` for a range of a tree, which is opened first if necessary.

        If the file of the range is missing, another process may have evicted it; if a copy of the
        range is damaged, it is dropped. Then the range is opened again.

        Args:
            record: the record of the range, if the caller has decoded it.

        Raises:
            IntegrityError: the bucket or a local namespace is damaged.
        """
        opened = self._opened(known, position, record)
        try:
            return use(opened)
        except FileNotFoundError:
            pass
        except IntegrityError:
            if opened.tier != DISK or not self._store.drop_copy(opened.record):
                raise
        with self._lock:
            self._close(opened)
        return use(self._open_range(opened.record, known))

    def _close(self, opened: OpenRange) -> None:
        """Close a range if it is still open; reads in progress continue."""
        self._forget(opened)
        if self._open.get(opened.record.id) is not opened:
            return
        del self._open[opened.record.id]
        self._open_size -= opened.size
        for tree in self._trees.values():
            tree.close(opened)

    def _forget(self, opened: OpenRange) -> None:
        """Drop a range's records from memory."""
        blocks = opened.copy.blocks
        for offset, (_, size) in blocks.items():
            del self._kept[opened.record.id, offset]
            self.blocks_size -= size
        blocks.clear()
        opened.copy.records.clear()


def kept_reader(trees: TreeStore) -> PointReader:
    """Return the reader of a store; it is created on first use and kept as long as the store.

    The reader refers to the store, so the garbage collector must free both. A store without a
    reader is freed immediately with its tables, which matters since an executor opens one store for
    each task.
    """
    found: PointReader | None = trees.kept.get(PointReader)
    # `setdefault`, so that two threads get the same reader.
    return trees.kept.setdefault(PointReader, PointReader(trees)) if found is None else found


def find(trees: TreeStore, tree: MetarangeId, key: bytes) -> bytes | None:
    """Return the encoded value of one path, or ``None``.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
    return kept_reader(trees).find(tree, key)


def find_many(trees: TreeStore, tree: MetarangeId, keys: Sequence[bytes]) -> list[bytes | None]:
    """Return the encoded value of each path, or ``None``; faster than `find` for many paths.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
    return kept_reader(trees).find_many(tree, keys)


class Fill:
    """A thread that reads the entries of a tree into memory, in path order.

    The thread ends after the last entry, when the memory for entries is used up, or at the first
    error. The error does not affect other reads, but a read of the same table raises the same
    error. When done, call `close` from any thread.

    Args:
        prefix: only ranges that may have a path that begins with `prefix` are read.
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
        """Wait until the thread ends; return whether all entries are in memory.

        Args:
            timeout: the longest time to wait, in seconds.

        Raises:
            IntegrityError: a table is missing or damaged.
            Unreachable, PermissionDenied, …: the bucket could not be read.
        """
        self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        return self._is_whole

    def close(self) -> None:
        """Stop the thread, which may finish a few blocks or one request first; safe to repeat."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._is_whole = self._points.fill(
                self._tree, prefix=self._prefix, is_stopped=self._stop.is_set
            )
        except Exception as error:  # noqa: BLE001 - `wait` raises it
            self._error = error
