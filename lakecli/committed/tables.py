"""`TableStore`: ranges and metaranges by their ID, from the nearest copy.

A table is read from the namespace itself if that is on this machine, else from the cache, else from
the bucket: whole (and then cached) for scans and rewrites, by two ranged reads for one point. A
table that the first of them returns whole is cached, too. All copies of a table hold the same keys
and identities, so any copy may be read, but one process must not mix two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TypeVar

from lakecli.base import layout
from lakecli.base.model import MetarangeId, RangeId
from lakecli.committed.cache import (
    BUCKET,
    DISK,
    MEMORY,
    LruCache,
    MissingTable,
    PathSource,
    Reads,
    RemoteSource,
    SstableCache,
    Tier,
    no_reads,
)
from lakecli.committed.metaranges import (
    NO_RANGES,
    Metarange,
    RangeRecord,
    check_described,
    check_kind,
    load_metarange,
)
from lakecli.errors import IntegrityError
from lakecli.sstable.reader import TAIL_SIZE, BytesSource, CorruptTable, SSTable
from lakecli.stores.contract import ObjectNotFound, ObjectStore, get_bounded

Loaded = TypeVar("Loaded")

MEMORY_SIZE = 1 << 30
"""Bytes of the parts of trees that are kept in memory, unless a setting says otherwise.

Half of it is for records, a quarter for the indexes of open ranges, 3/16 for parsed metaranges, and
3/128 for whole ranges. The last metarange and the last range are kept however large they are.
"""


class TreeCounts:
    """The cost of an operation: tables opened and written, excluding those still in memory."""

    def __init__(self) -> None:
        self.ranges_opened = 0
        self.ranges_written = 0
        self.metaranges_opened = 0
        self.metaranges_written = 0
        self.bytes_written = 0


class TableStore:
    """The tables of one repository, to be read. Safe to share between threads.

    `counts` is exact while only one thread works.

    Args:
        store: the storage namespace.
        cache: of this repository's tables, or what opens it when it is first needed; not used if
            the namespace is on this machine.
        memory: bytes of parsed metaranges and whole ranges kept in memory, at most; see
            `MEMORY_SIZE`.
        reads: counts of reads to go on with.

    Attributes:
        counts: tables opened and written so far.
        reads: how many reads of metaranges, ranges and blocks each tier answered.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        cache: SstableCache | Callable[[], SstableCache] | None,
        memory: int = MEMORY_SIZE,
        reads: Reads | None = None,
    ) -> None:
        self.store = store
        self.counts = TreeCounts()
        self.reads = no_reads() if reads is None else reads
        self._noted = dict(self.reads)
        self._given_cache = cache
        self._metaranges: LruCache[MetarangeId, Metarange] = LruCache(memory * 3 // 16)
        self._tables: LruCache[RangeId, SSTable] = LruCache(memory * 3 // 128)

    @cached_property
    def _cache(self) -> SstableCache | None:
        """The cache, unless the namespace is a local directory."""
        if self._is_local:
            return None
        given = self._given_cache
        return given() if callable(given) else given

    @cached_property
    def _is_local(self) -> bool:
        """Whether the namespace is a directory of this machine."""
        return self.store.local_path(layout.REPOSITORY) is not None

    def metarange(self, tree: MetarangeId) -> Metarange:
        """Return a parsed metarange.

        Raises:
            IntegrityError: it is missing or damaged.
        """
        if not tree:
            return NO_RANGES
        found = self._metaranges.get(tree)
        if found is None:
            found = self._load(tree, lambda table: load_metarange(tree, table))
            self.counts.metaranges_opened += 1
            self._metaranges.put(tree, found, found.size)
        else:
            self.reads[MEMORY] += 1
        return found

    def table(self, record: RangeRecord) -> SSTable:
        """Return a range with all its bytes in memory, for reading much of it.

        Raises:
            IntegrityError: it is missing, damaged, or not as its metarange describes it.
        """
        found = self._tables.get(record.id)
        if found is None:
            found = self._load(record.id, lambda table: self._verified(table, record))
            self.counts.ranges_opened += 1
            self._tables.put(record.id, found, found.size)
        else:
            self.reads[MEMORY] += 1
        check_described(found, record)
        return found

    def open_for_points(self, record: RangeRecord, *, is_exact: bool) -> tuple[SSTable, Tier]:
        """Open a range for reading a few of its blocks.

        Args:
            record: the range's record in its metarange.
            is_exact: whether ``record.size`` is the exact size of the file, as in lakecli's trees;
                lakeFS writes an estimate.

        Returns:
            The table, and the tier that its blocks are read from.

        Raises:
            IntegrityError: it is missing, damaged, or not as its metarange describes it.
        """
        found = self._tables.get(record.id)
        if found is not None:
            self.reads[MEMORY] += 1
            return found, MEMORY
        found = self._open_file(record)
        if found is None and is_exact and record.size <= TAIL_SIZE and self._cache is not None:
            whole = self.table(record)
            copy = self._open_file(record)
            return (whole, MEMORY) if copy is None else (copy, DISK)
        self.counts.ranges_opened += 1
        key = layout.sstable_key(record.id)
        tier: Tier = BUCKET if found is None else DISK
        self.reads[tier] += 1
        if found is not None:
            return found, tier
        size = record.size if is_exact else self._size_of(key)

        try:
            found = SSTable(RemoteSource(self.store, key, size=size))
        except CorruptTable:
            # The bucket may hold another writer's copy of this range, of another size.
            actual = self._size_of(key)
            if actual == size:
                raise
            found = SSTable(RemoteSource(self.store, key, size=actual))
        return _described(found, record), tier

    def open_copy(self, record: RangeRecord) -> SSTable | None:
        """Open a range for reading a few of its blocks, if this machine has a copy of it.

        Raises:
            IntegrityError: it is damaged in the local namespace, or not as its metarange describes
                it. A damaged copy in the cache is dropped.
        """
        found = self._open_file(record)
        if found is not None:
            self.counts.ranges_opened += 1
            self.reads[DISK] += 1
        return found

    def drop_copy(self, record: RangeRecord) -> bool:
        """Drop a damaged copy of a range from the cache; return whether there is a cache.

        Its next read fetches it. Reads of whole ranges drop damaged copies themselves; this is for
        those who open a copy and read single blocks of it.
        """
        if self._cache is None:
            return False
        self._cache.drop(record.id)
        return True

    def drop_copies(self, existing: Iterable[str]) -> None:
        """Drop our cached copies of tables that the namespace had already: its own are read."""
        if self._cache is not None:
            for key in existing:
                self._cache.drop(key.removeprefix(layout.SSTABLES))

    def remember(self, metarange: Metarange) -> None:
        """Keep in memory a metarange that was just written."""
        self._metaranges.put(metarange.id, metarange, metarange.size)

    def note_reads(self) -> None:
        """Keep the counts of reads beside the cache, those since the last call."""
        if self._cache is not None:
            since = {tier: count - self._noted[tier] for tier, count in self.reads.items()}
            self._noted = dict(self.reads)
            self._cache.add_reads(since)

    def read_object(self, table_id: str) -> SSTable:
        """Return a table as the namespace holds it now, bypassing every cache.

        Raises:
            IntegrityError: it is missing or damaged.
        """
        key = layout.sstable_key(table_id)
        return SSTable(BytesSource(key, self._get(key)))

    def _load(self, table_id: str, load: Callable[[SSTable], Loaded]) -> Loaded:
        """Open a table with all its bytes, and return what `load`, which verifies it, makes of it.

        A copy in the cache that is damaged, or is another table, is dropped; then the table is
        fetched.
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
        """Return a range that is as its record describes it; whole if it is or will be cached."""
        if self._cache is not None:
            table.verify()
        return _described(table, record)

    def _open_file(self, record: RangeRecord) -> SSTable | None:
        """Open a range in the local namespace or in the cache, or return ``None``."""
        key = layout.sstable_key(record.id)
        cache = self._cache
        if cache is None:
            path = self.store.local_path(key)
            return None if path is None else _described(SSTable(PathSource(key, path)), record)
        path = cache.find(record.id)
        if path is not None:
            try:
                return _described(SSTable(PathSource(key, path)), record)
            except (OSError, IntegrityError):
                cache.drop(record.id)
        return None

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


def _described(table: SSTable, record: RangeRecord) -> SSTable:
    """Return a range that is as its record describes it."""
    check_kind(table, "range")
    check_described(table, record)
    return table


def bytes_of(path: str) -> bytes:
    """Return the bytes of a file."""
    with open(path, "rb") as file:
        return file.read()
