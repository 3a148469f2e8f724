"""The trees of one repository: `TreeStore` reads each of their tables from the nearest copy.

A table is a range or a metarange. It is read from the namespace itself if the namespace is on this
machine, else from the cache, else from the bucket. Scans and rewrites read a whole table from the
bucket, and cache it. A point read takes two ranged reads; if the first of them returns the whole
table, the table is cached, too. All copies of a table have the same keys and identities, so any
copy may be read. Their bytes may differ, so blocks of two copies must not be mixed.

New tables are written in batches, and claimed against garbage collection before anything refers to
them.
"""

import os
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property, partial
from threading import Lock
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

from lakecli.base import layout
from lakecli.base.identity import DIGEST_SIZE
from lakecli.base.model import MetarangeId, RangeId
from lakecli.base.progress import Progress
from lakecli.committed import metaranges
from lakecli.committed.cache import BUCKET, DISK, MEMORY, Reads, SstableCache, Tier
from lakecli.committed.metaranges import Metarange, RangeRecord, check_described, load_metarange
from lakecli.committed.outline import Columns, Outline, OutlinedBlocks, decode_outline, outline_of
from lakecli.errors import IntegrityError
from lakecli.kv.local_store import LocalStore, Table
from lakecli.sstable.directory import TAIL_SIZE, ReadableFile, Source
from lakecli.sstable.reader import BytesSource, CorruptTable, KeyLookup, SSTable
from lakecli.stores.contract import Guard, ObjectNotFound, ObjectStore, WriteBatch, get_bounded

Loaded = TypeVar("Loaded")

MEMORY_SIZE = 1 << 30
"""Bytes of trees that are kept in memory, unless a setting has another value.

Half of it is for records, a quarter for open ranges, 3/16 for parsed metaranges, and
3/128 for whole ranges. The last metarange and the last range are kept however large they are.
"""


OUTLINED_FROM = 64 << 10
"""Size of a metarange, in bytes, from which its outline is kept: about three million entries."""

_INDEX_ENTRY_SIZE: Final = 200
"""Memory of a block's entry in a decoded index, in bytes."""

_LOCAL_TAIL_SIZE: Final = 4 << 10
"""Bytes read first from the end of a local file, which has the properties and the index's top."""

_MOST_HELD: Final = 8 << 20
"""Largest tail of a table in the bucket, with its whole index, that is kept in memory, in bytes."""


class TreeCounts:
    """Counts of the tables that were opened and written, and of the bytes that were written.

    A table that is already in memory is not counted as opened.
    """

    def __init__(self) -> None:
        self.ranges_opened = 0
        self.ranges_written = 0
        self.metaranges_opened = 0
        self.metaranges_written = 0
        self.bytes_written = 0


class RebuiltTrees(NamedTuple):
    """A mapping from lakeFS's trees to lakecli's trees with equal contents, kept on this machine.

    No commit refers to a rebuilt tree until a commit is made on top of it, so garbage collection
    may have deleted the tree. `TreeStore.claim` checks that before the tree is used. The mapping::

        META  rebuilt/ ‖ repository ‖ metarange ID -> metarange ID, 32 bytes each

    Attributes:
        show: a function that takes the number of entries of a rebuild, and returns its progress
            display.
    """

    store: LocalStore
    repository: bytes
    show: Callable[[int], AbstractContextManager[Progress]]

    def find(self, tree: MetarangeId) -> MetarangeId | None:
        """Return the recorded rebuilt tree, which may be deleted by now, or ``None``."""
        with self.store.read() as txn:
            data = txn.get(Table.META, self._key(tree))
        return None if data is None or len(data) != DIGEST_SIZE else MetarangeId(data.hex())

    def put(self, tree: MetarangeId, rebuilt: MetarangeId) -> None:
        """Record a rebuilt tree; the tree must be durable and claimed."""
        with self.store.write() as txn:
            txn.put(Table.META, self._key(tree), bytes.fromhex(rebuilt))

    def _key(self, tree: MetarangeId) -> bytes:
        return b"rebuilt/" + self.repository + bytes.fromhex(tree)


class TableBatch:
    """Tables that are written together; created by `TreeStore.begin`.

    Attributes:
        guard: the guard that claims the tables; ``None``: they need no protection.
        written: the keys that are not yet claimed; the value is whether the object existed before.
    """

    def __init__(self, objects: WriteBatch, guard: Guard | None) -> None:
        self.objects = objects
        self.guard = guard
        self.written: dict[str, bool] = {}


class TreeStore:
    """The trees of one repository. Safe to share between threads; a `TableBatch` has one writer.

    `counts` is exact only while a single thread uses the store.

    Args:
        cache: the cached tables of this repository; not used if the namespace is on this machine.
        guard: a function that returns the guard, so that only writers import its module. ``None``
            if nothing is written, or the written tables need no protection.
        rebuilt: the record of the lakeFS trees that were rebuilt; ``None``: no tree is rebuilt.

    Attributes:
        counts: how many tables were opened and written since the store was created.
        kept: objects of other modules, by class, with the lifetime of the store; see
            `point_reads.kept_reader`.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        cache: SstableCache | None,
        range_entries: int,
        memory: int = MEMORY_SIZE,
        reads: Reads | None = None,
        guard: Callable[[], Guard] | None = None,
        rebuilt: RebuiltTrees | None = None,
    ) -> None:
        self.store = store
        self.range_entries = range_entries
        self.memory = memory
        self.rebuilt = rebuilt
        self.counts = TreeCounts()
        self.reads: Reads = {MEMORY: 0, DISK: 0, BUCKET: 0} if reads is None else reads
        self._guard = guard
        self.kept: dict[type, Any] = {}
        self._noted = dict(self.reads)
        self._given_cache = cache
        self._metaranges: LruCache[MetarangeId, Metarange] = LruCache(memory * 3 // 16)
        self._tables: LruCache[RangeId, SSTable] = LruCache(memory * 3 // 128)

    @cached_property
    def _cache(self) -> SstableCache | None:
        """The cache; ``None`` without a cache, or if the namespace is a local directory."""
        return None if self._is_local else self._given_cache

    @cached_property
    def _is_local(self) -> bool:
        """Whether the namespace is a directory on this machine."""
        return self.store.local_path(layout.REPOSITORY) is not None

    def metarange(self, tree: MetarangeId) -> Metarange:
        """Return a metarange from memory; else read it by its outline, or verify and parse it."""
        if not tree:  # the empty tree, which has no object
            return Metarange(tree, (), (), range_entries=None)
        found = self._metaranges.get(tree)
        if found is None:
            found = self._open_outlined(tree) or self._load_metarange(tree)
            self.counts.metaranges_opened += 1
            self._metaranges.put(tree, found, found.size)
        else:
            self.reads[MEMORY] += 1
        return found

    def table(self, record: RangeRecord) -> SSTable:
        """Return a range with all its bytes in memory, for callers that read many of its blocks."""
        found = self._tables.get(record.id)
        if found is None:
            found = self._load(record.id, lambda table: self._verified(table, record))
            self.counts.ranges_opened += 1
            self._tables.put(record.id, found, found.size + _INDEX_ENTRY_SIZE * found.block_count)
        else:
            self.reads[MEMORY] += 1
        check_described(found, record)
        return found

    def open_for_points(self, record: RangeRecord, *, is_exact: bool) -> tuple[KeyLookup, Tier]:
        """Open a range for callers that read a few of its blocks.

        Args:
            record: the range's record in its metarange.
            is_exact: whether ``record.size`` is the exact size of the file, as in lakecli's trees;
                lakeFS writes an estimate.

        Returns:
            The table, and the tier from which its blocks are read.
        """
        whole = self._tables.get(record.id)
        if whole is not None:
            self.reads[MEMORY] += 1
            return in_memory(whole), MEMORY
        copy = self.open_copy(record)
        if copy is not None:
            return copy, DISK
        if is_exact and record.size <= TAIL_SIZE and self._cache is not None:
            whole = self.table(record)
            copy = self._open_file(record)
            return (in_memory(whole), MEMORY) if copy is None else (copy, DISK)
        self.counts.ranges_opened += 1
        self.reads[BUCKET] += 1
        key = layout.sstable_key(record.id)
        size = record.size if is_exact else self._size_of(key)
        try:
            found = KeyLookup(RemoteSource(self.store, key, size=size))
        except CorruptTable:
            # The bucket may hold another writer's copy of this range, of another size.
            actual = self._size_of(key)
            if actual == size:
                raise
            found = KeyLookup(RemoteSource(self.store, key, size=actual))
        check_described(found, record)
        found.source = found.tail
        if found.size - found.data_size <= _MOST_HELD:
            found.tail.hold(found.data_size)
        return found.shrink(), BUCKET

    def open_copy(self, record: RangeRecord) -> KeyLookup | None:
        """Open this machine's copy of a range for point reads; ``None`` if there is no copy."""
        found = self._open_file(record)
        if found is not None:
            self.counts.ranges_opened += 1
            self.reads[DISK] += 1
        return found

    def drop_copy(self, record: RangeRecord) -> bool:
        """Drop a damaged copy of a range from the cache; return whether there is a cache.

        The next read fetches the range again. Reads of whole ranges drop damaged copies themselves;
        this method is for callers that open a copy and read single blocks of it.
        """
        if self._cache is None:
            return False
        self._cache.drop(record.id)
        return True

    def remember(self, metarange: Metarange) -> None:
        """Keep a metarange in memory that was just written."""
        self._metaranges.put(metarange.id, metarange, metarange.size)

    def is_outlined(self, size: int) -> bool:
        """Return whether metaranges of this size in bytes get an outline."""
        return self._given_cache is not None and size >= OUTLINED_FROM

    def put_outline(self, tree: MetarangeId, outline: Outline | None) -> None:
        """Keep the outline of a metarange that was verified, or was just written, if it has one."""
        if outline is not None and self._given_cache is not None:
            self._given_cache.put_outline(tree, outline.encode())

    def _open_outlined(self, tree: MetarangeId) -> Metarange | None:
        """Open a metarange by its outline; ``None`` if this machine lacks the outline or a copy."""
        kept = self._given_cache
        parts = None if kept is None else kept.find_outline(tree)
        if parts is None:
            return None
        outline = decode_outline(*parts)
        key = layout.sstable_key(tree)
        path = self.store.local_path(key) if self._cache is None else self._cache.find(tree)
        try:
            if path is None or os.stat(path).st_size != outline.size:
                return None
        except OSError:
            return None
        self.reads[DISK] += 1
        reload, note_whole = partial(self._reload, tree), partial(self._resize, tree)
        blocks = OutlinedBlocks(outline, PathSource(key, path).read, reload, note_whole)
        cut = outline.range_entries
        return Metarange(tree, blocks.keys, blocks.values, range_entries=cut, blocks=blocks)

    def _load_metarange(self, tree: MetarangeId) -> Metarange:
        """Read and verify a whole metarange, and save its outline for later reads."""
        table, found = self._load(tree, lambda table: (table, load_metarange(tree, table)))
        if metaranges.is_ours(table) and self.is_outlined(table.size) and len(found):
            outline = outline_of(table, found.range_entries, found.record_ids)
            self.put_outline(tree, outline)
        return found

    def _reload(self, tree: MetarangeId) -> Columns:
        """Read and verify a whole metarange, keep it in memory, and return its keys and values."""
        found = self._load(tree, partial(load_metarange, tree))
        self.remember(found)
        return found.keys, found.values

    def _resize(self, tree: MetarangeId) -> None:
        """Count the memory of a metarange again, after all its records were read into memory."""
        found = self._metaranges.get(tree)
        if found is not None:
            self.remember(found)

    def note_reads(self) -> None:
        """Record in the cache directory how many reads each tier answered since the last call."""
        if self._cache is not None:
            since = {tier: count - self._noted[tier] for tier, count in self.reads.items()}
            self._noted = dict(self.reads)
            self._cache.add_reads(since)

    def read_object(self, table_id: str) -> SSTable:
        """Read a table from the namespace, bypassing every cache."""
        key = layout.sstable_key(table_id)
        return SSTable(BytesSource(key, self._get(key)))

    def cuts_as(self, tree: Metarange) -> bool:
        """Return whether a tree is empty, or was cut with this repository's ``range_entries``."""
        return not len(tree) or tree.range_entries == self.range_entries

    def claim(self, tree: MetarangeId) -> bool:
        """Claim a tree before it is used; return whether the namespace still has it.

        Raises:
            LostRace: garbage collection is running, or has just deleted the tree.
        """
        guard = None if self._guard is None else self._guard()
        if guard is None or not guard.begin():
            return True
        key = layout.sstable_key(tree)
        sizes = guard.claim([key])
        return sizes is None or key in sizes

    def begin(self) -> TableBatch:
        """Return a batch of tables that become durable together."""
        return TableBatch(self.store.batch(), None if self._guard is None else self._guard())

    def write(self, batch: TableBatch, table_id: str, body: bytes) -> int:
        """Write a table unless it exists; return the size of the table in the namespace, in bytes.

        An existing object is never replaced: its modification times may differ, and another process
        may be reading it. Existence is checked in advance only if the check needs no request.
        """
        key = layout.sstable_key(table_id)
        self.counts.bytes_written += len(body)
        if batch.guard is not None:
            batch.written[key] = batch.guard.begin() and self.store.local_path(key) is not None
        batch.objects.put_new(key, body)
        path = self.store.local_path(key) if self._cache is None else self._cache.find(table_id)
        try:
            if path is None or self._cache is None:
                size = len(body) if path is None else os.stat(path).st_size
            else:
                size = SSTable(BytesSource(key, bytes_of(path))).size
        except (OSError, CorruptTable):
            size, path = len(body), None
        if path is None and self._cache is not None:
            self._cache.put(table_id, body)
        return size

    def flush(self, batch: TableBatch) -> None:
        """Make the tables of a batch durable, and claim them, so that others may refer to them.

        Raises:
            LostRace: garbage collection ran at the same time; write the tables again.
        """
        existing = batch.objects.flush()
        if self._cache is not None:  # cached copies may differ from tables that existed already
            for key in existing:
                self._cache.drop(key.removeprefix(layout.SSTABLES))
        if batch.guard is None or not batch.written:
            return
        for key in existing:
            batch.written[key] = True
        found = [key for key, is_found in batch.written.items() if is_found]
        written = [key for key, is_found in batch.written.items() if not is_found]
        batch.written.clear()
        batch.guard.settle(found=found, written=written, whole=True)

    def _load(self, table_id: str, load: Callable[[SSTable], Loaded]) -> Loaded:
        """Open a table with all its bytes, and return the result of `load`, which verifies it.

        If the copy in the cache is damaged, or is another table, the copy is dropped and the table
        is fetched.
        """
        cache = self._cache
        key = layout.sstable_key(table_id)
        if cache is None:
            self.reads[DISK if self._is_local else BUCKET] += 1
            return load(self.read_object(table_id))
        path = cache.find(table_id)
        if path is not None:
            try:
                found = load(SSTable(BytesSource(key, bytes_of(path))))
            except (OSError, IntegrityError):
                cache.drop(table_id)
            else:
                self.reads[DISK] += 1
                return found
        self.reads[BUCKET] += 1
        data = self._get(key)
        found = load(SSTable(BytesSource(key, data)))
        cache.put(table_id, data)
        return found

    def _verified(self, table: SSTable, record: RangeRecord) -> SSTable:
        """Check a range against its record, and return it.

        If there is a cache, also verify the checksums of all blocks.
        """
        if self._cache is not None:
            table.verify()
        check_described(table, record)
        return table

    def _open_file(self, record: RangeRecord) -> KeyLookup | None:
        """Open a range in the local namespace or in the cache, or return ``None``."""
        key = layout.sstable_key(record.id)
        cache = self._cache
        path = self.store.local_path(key) if cache is None else cache.find(record.id)
        if path is None:
            return None
        try:
            found = KeyLookup(PathSource(key, path), tail_size=_LOCAL_TAIL_SIZE)
            check_described(found, record)
        except (OSError, IntegrityError):
            if cache is None:
                raise
            cache.drop(record.id)
            return None
        return found.shrink()

    def _get(self, key: str) -> bytes:
        try:
            return get_bounded(self.store, key, layout.MAX_TABLE_SIZE)
        except ObjectNotFound:
            raise MissingTable(key, self.store.uri) from None

    def _size_of(self, key: str) -> int:
        try:
            return self.store.head(key).size
        except ObjectNotFound:
            raise MissingTable(key, self.store.uri) from None


def in_memory(table: SSTable) -> KeyLookup:
    """Open a table whose bytes are all in memory for point reads; the index is not decoded."""
    return KeyLookup(table.source).shrink()


def bytes_of(path: str) -> bytes:
    """Return the bytes of a file."""
    with open(path, "rb") as file:
        return file.read()


class MissingTable(IntegrityError):
    """A tree refers to a range or metarange that is not in its namespace."""

    def __init__(self, key: str, uri: str) -> None:
        super().__init__(
            f"missing from {uri}: {key}",
            hint="see which commits and paths it held, or whether retention rules let it go: "
            "`fsck REPOSITORY`",
        )


class PathSource(Source):
    """A table in a local file, opened for each use: thousands of tables may be in use at a time."""

    __slots__ = ("_path", "name")

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self._path = path

    def opened(self) -> "OpenTableFile":
        """Open the file; it is closed when the context ends."""
        return OpenTableFile(self._path)

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`, fewer if the file ends earlier."""
        with self.opened() as file:
            return file.read(offset, length)

    def read_tail(self, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes, fewer if the file is shorter, and the file's size."""
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            return os.pread(descriptor, length, max(0, size - length)), size
        finally:
            os.close(descriptor)


class OpenTableFile(ReadableFile):
    """A local file of a table, open for reading."""

    __slots__ = ("descriptor",)

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`, fewer if the file ends earlier."""
        return os.pread(self.descriptor, length, offset)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)


class RemoteSource(Source):
    """A table in the bucket, read with ranged reads."""

    def __init__(self, store: ObjectStore, key: str, *, size: int) -> None:
        self.name = key
        self._store = store
        self._size = size

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`, fewer if the object ends earlier."""
        try:
            return self._store.get(self.name, start=offset, length=length)
        except ObjectNotFound:
            raise MissingTable(self.name, self._store.uri) from None

    def read_tail(self, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes, fewer if the object is shorter, and its size."""
        offset = max(0, self._size - length)
        return self.read(offset, self._size - offset), self._size


K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """A cache of values by key that evicts the least recently used values first.

    The newest value is kept however large it is. Safe to share between threads.

    Args:
        size_limit: the largest sum of the sizes given to `put`, in bytes.
    """

    def __init__(self, size_limit: int) -> None:
        self._limit = size_limit
        self._size = 0
        self._items: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        """Return the value of `key` and mark it as used, or return ``None``."""
        with self._lock:
            found = self._items.get(key)
            if found is None:
                return None
            self._items.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Keep a value of `size` bytes."""
        with self._lock:
            _, before = self._items.pop(key, (None, 0))
            self._items[key] = value, size
            self._size += size - before
            while self._size > self._limit and len(self._items) > 1:
                _, (_, gone) = self._items.popitem(last=False)
                self._size -= gone
