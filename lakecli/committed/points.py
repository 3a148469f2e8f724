"""Point reads: open ranges, and a cache of their records.

A block is decoded and verified whole, and its records kept in the dictionary of its range: a read
that finds its key there needs no search for the block. Where an eighth of the blocks of a range on
this machine was read, and there is room for all its records, the other blocks are read at once.
`PointReader.fill` reads the blocks of many ranges before anybody asks for them. The records of
ranges that were read at once or by a fill are in one dictionary of their tree, too, in which a
batch is found in half of the time.

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
from itertools import repeat
from operator import itemgetter
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Final

from lakecli.base.model import MetarangeId
from lakecli.committed.cache import BUCKET, DISK, MEMORY
from lakecli.committed.metaranges import Mismatch
from lakecli.errors import IntegrityError

if TYPE_CHECKING:
    from lakecli.base.model import RangeId
    from lakecli.committed.cache import Tier
    from lakecli.committed.metaranges import Metarange, RangeRecord
    from lakecli.committed.tree_store import TreeStore
    from lakecli.sstable.reader import Table

    Source = tuple[Table, dict[bytes, bytes], set[int]]
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

    def __init__(self, record: RangeRecord, table: Table, tier: Tier) -> None:
        self.record = record
        self.tier: Tier = tier
        self.reads = 0
        self.size = _INDEX_ENTRY_SIZE * table.block_count
        self.source: Source = table, {}, set()

    def use(self, table: Table) -> None:
        """Read from another copy of the table from now on."""
        before, records, loaded = self.source
        if table.separators != before.separators:
            records, loaded = {}, set()
        self.source = table, records, loaded


class OpenTree:
    """A tree, its open ranges by position, and what of their records is in memory.

    Attributes:
        ranges: the open ranges.
        records: of each range, those in memory.
        whole: the records of ranges that are wholly in memory, in one dictionary.
        whole_size: bytes of that dictionary without its keys and values.
    """

    __slots__ = ("keys", "metarange", "ranges", "records", "whole", "whole_size")

    def __init__(self, metarange: Metarange) -> None:
        self.metarange = metarange
        self.keys = metarange.keys
        self.forget()

    def forget(self) -> None:
        """Forget the open ranges."""
        count = len(self.keys)
        self.ranges: list[OpenRange | None] = [None] * count
        self.records = [_NO_RECORDS] * (count + 1)  # the last one is of keys after all ranges
        self.whole: dict[bytes, bytes] = {}
        self.whole_size = 0

    def in_memory(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each key whose block is in memory, and ``None`` for the others.

        Of ten million records most of a lookup is waiting for memory. The processor begins the
        next lookups while it waits, if they are near in the code: so all keys are hashed before,
        and looked up in one dictionary if it has them all. That takes half of the time.
        """
        deque(map(hash, keys), 0)
        whole = self.whole
        if len(whole) > len(keys) > 1:
            try:
                return list(itemgetter(*keys)(whole))
            except KeyError:
                pass
        ranges = list(map(self.records.__getitem__, map(bisect_left, repeat(self.keys), keys)))
        return list(map(dict.get, ranges, keys))


BLOCKS_SIZE: Final = 512 << 20
"""Bytes of records, at most; enough for some 1,200,000 entries of common size."""

TABLES_SIZE: Final = 256 << 20
"""Bytes of the indexes of open ranges, at most; enough for some 2,700, of 15 million entries."""

LOAD_AFTER: Final = 1 / 8
"""The part of a range's blocks that is read one by one before the others are read at once."""

FETCH_AFTER: Final = 8
"""Blocks read one by one from a range in the bucket before it is fetched whole."""

FILL_AT_ONCE: Final = 64
"""Blocks that a fill reads at a time: a millisecond passes until it notices that it is stopped."""

MOST_TREES: Final = 4
"""Trees whose open ranges are kept by position, for refs that are read alternately."""

BATCH: Final = 1_000
"""Keys that are looked up at a time. Other threads wait meanwhile, a millisecond at most."""

_ADMIT_EVERY = 16
_RECORD_SIZE = 150
"""Memory of a record in a dictionary, besides the bytes of its key and value."""
_LARGEST_LOADED: Final = 32 << 20
"""Bytes of the file of a range that is read at once, at most."""
_MOST_OF_SIZE: Final = 4
"""The memory of the keys and values of a range, in sizes of its file; a cautious estimate."""


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
        blocks_size: bytes of records in memory, and of the dictionaries of trees.
    """

    def __init__(
        self,
        trees: TreeStore,
        *,
        blocks_limit: int = BLOCKS_SIZE,
        tables_limit: int = TABLES_SIZE,
    ) -> None:
        self._store = trees
        self._lock = Lock()
        self._trees: dict[MetarangeId, OpenTree] = {}  # the oldest first
        self._open: dict[RangeId, OpenRange] = {}  # of any tree, the oldest first
        self._open_size = 0
        self._blocks_limit = blocks_limit
        self._tables_limit = tables_limit
        self._reads = trees.reads
        self.blocks_size = 0
        self._kept: deque[tuple[Source, Sequence[int], list[bytes], int]] = deque()
        self._misses = 0
        self._has_dropped = False  # after a block was dropped, the size is below the limit again
        self._may_merge = True  # until there was no room for the dictionary of a tree

    def find(self, tree: MetarangeId, key: bytes) -> bytes | None:
        """Return the encoded value of a path, or ``None``.

        Raises:
            IntegrityError: a table that had to be read is missing or damaged.
        """
        # All state of this tree is in `known`: other threads may be reading other trees.
        known = self._trees.get(tree) or self._open_tree(tree)
        value = known.whole.get(key)
        if value is None:
            return self._find_in_range(known, key)
        self._reads[MEMORY] += 1
        return value

    def _find_in_range(self, known: OpenTree, key: bytes) -> bytes | None:
        """Return the value of a key that was not in the dictionary of its tree."""
        value = known.records[bisect_left(known.keys, key)].get(key)
        if value is None:
            return self._find(known, key)
        self._reads[MEMORY] += 1
        return value

    def _find(self, known: OpenTree, key: bytes) -> bytes | None:
        """Return the value of a key that was not in memory."""
        # All state of this tree is in `known`: other threads may be reading other trees.
        position = bisect_left(known.keys, key)
        if position == len(known.keys):
            return None
        if known.ranges[position] is None and key < known.metarange.record(position).min_key:
            return None
        opened = self._opened(known, position)
        try:
            return self._read(known, opened, key)
        except (FileNotFoundError, IntegrityError) as error:
            self._check_reopens(opened, error)
            return self._read(known, self._reopen(opened, known), key)

    def find_many(self, tree: MetarangeId, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the encoded value of each path, or ``None``; `find` for many at once.

        Raises:
            IntegrityError: a table that had to be read is missing or damaged.
        """
        known = self._trees.get(tree) or self._open_tree(tree)
        values: list[bytes | None] = []
        for start in range(0, len(keys), BATCH):
            batch = keys[start : start + BATCH]
            found = known.in_memory(batch)
            missed = 0 if all(found) else found.count(None)
            self._reads[MEMORY] += len(batch) - missed
            if missed:
                for at, value in enumerate(found):
                    if value is None:  # an earlier miss may have read its block
                        found[at] = self._find_in_range(known, batch[at])
            values += found
        return values

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
        from lakecli.committed.listing import prefix_end  # `find` needs none

        known = self._trees.get(tree) or self._open_tree(tree)
        stop = prefix_end(prefix)
        for position in range(bisect_left(known.keys, prefix), len(known.keys)):
            if stop is not None and known.metarange.record(position).min_key >= stop:
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
            self._merge(known, opened)
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
                with self._lock:
                    self._unmerge()
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
                self._forget(self._trees.pop(next(iter(self._trees))))
            self._trees[tree] = opened
        return opened

    def _forget(self, known: OpenTree) -> None:
        """Forget the open ranges of a tree; the lock is held."""
        self.blocks_size -= known.whole_size
        known.forget()

    def _merge(self, known: OpenTree, opened: OpenRange) -> None:
        """Add a range that is wholly in memory to the dictionary of its tree, if there is room."""
        record, (_, records, _) = opened.record, opened.source
        with self._lock:
            is_open = self._open.get(record.id) is opened
            is_kept = is_open and self._trees.get(known.metarange.id) is known
            if self._may_merge and is_kept and record.max_key not in known.whole:
                known.whole.update(records)
                size = known.whole.__sizeof__()
                self.blocks_size += size - known.whole_size
                known.whole_size = size
                if self.blocks_size > self._blocks_limit:
                    self._unmerge()

    def _unmerge(self) -> None:
        """Give the room of the dictionaries of trees to blocks, permanently; the lock is held."""
        self._may_merge = False
        for known in self._trees.values():
            self.blocks_size -= known.whole_size
            known.whole, known.whole_size = {}, 0

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

    def _read(self, known: OpenTree, opened: OpenRange, key: bytes) -> bytes | None:
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
            return table.search(number, key)
        numbers: Sequence[int] = (number,)
        is_known = opened.reads > LOAD_AFTER * table.block_count
        is_small = table.size <= _LARGEST_LOADED
        if (
            is_known
            and is_small
            and opened.tier != BUCKET
            and self._has_room_for(table, table.block_count)
        ):
            with self._lock:
                numbers = [each for each in range(table.block_count) if each not in loaded]
            if number not in numbers:  # another thread was faster
                numbers = (number,)
        value = self._keep(opened.record, source, numbers, key)
        if len(numbers) > 1:
            self._merge(known, opened)
        return value

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

    def _has_room_for(self, table: Table, blocks: int) -> bool:
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
            if self.blocks_size > self._blocks_limit:
                self._unmerge()
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
            self._forget(tree)


def _records_of(blocks: Iterable[Records]) -> Records:
    """Return the keys and the values of some blocks."""
    keys: list[bytes] = []
    values: list[bytes] = []
    for more, of_more in blocks:
        keys += more
        values += of_more
    return keys, values


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
