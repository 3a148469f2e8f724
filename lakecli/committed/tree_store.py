"""`TreeStore`: ranges and metaranges by their ID, from wherever they are nearest.

A table is read from the namespace's own file where that is on this machine, else from the cache,
else from the bucket: whole (and then cached) for scans and rewrites, by two ranged reads for one
point. Every table of one ID holds the same keys and identities, so it does not matter which copy
is read, only that one process stays with one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from lakecli import layout
from lakecli.committed.lru_cache import LruCache
from lakecli.committed.metaranges import (
    NO_RANGES,
    TREE_PROPERTY,
    Metarange,
    decode_tree_property,
)
from lakecli.committed.points import PointReader
from lakecli.committed.ranges import check_described
from lakecli.committed.sources import MissingTable, PathSource, RemoteSource
from lakecli.errors import IntegrityError
from lakecli.objectstore.base import ObjectNotFound, get_bounded
from lakecli.sstable.reader import BytesSource, CorruptTable, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from lakecli.committed.cache import SstableCache
    from lakecli.committed.metaranges import RangeRecord
    from lakecli.model import MetarangeId, RangeId
    from lakecli.objectstore.base import Batch, ObjectStore

WHOLE_TABLES_SIZE = 24 << 20
"""Bytes of whole ranges kept in memory; the one in use is kept however large it is."""

METARANGES_SIZE = 32 << 20
"""Bytes of parsed metaranges kept in memory, likewise."""


class WrongTable(IntegrityError):
    """A sound table under a name that should be another kind of table."""

    def __init__(self, key: str, kind: str) -> None:
        super().__init__(
            f"{key} is no {kind}, although its properties should say so",
            hint="`lakecli fsck lakefs://REPOSITORY` names the commits and paths that need it",
        )


class MisnamedTable(IntegrityError):
    """A sound table that is not the one its name says."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"{key}: its name is not the digest of its records",
            hint="`lakecli fsck lakefs://REPOSITORY` names the commits and paths that need it",
        )


@dataclass(slots=True)
class TreeCounts:
    """What an operation cost: tables opened and written, not counting those still in memory."""

    ranges_opened: int = 0
    ranges_written: int = 0
    metaranges_opened: int = 0
    metaranges_written: int = 0
    bytes_written: int = 0


class GcGuard(Protocol):
    """Keeps garbage collection from tables that are written, or were there already."""

    @property
    def is_active(self) -> bool:
        """Whether it matters what was there already."""

    def begin(self) -> None:
        """Prepare; called before it is found out whether anything is there."""

    def settle(
        self, *, found: Collection[str], written: Collection[str], whole: bool = False
    ) -> None:
        """Make sure that objects last; called before anything refers to them.

        Args:
            found: keys of those that were there already.
            written: keys of the others, durable by now.
            whole: they refer to more that is not named.
        """


class TableBatch:
    """Tables that are written together; get one from `TreeStore.begin`.

    Attributes:
        objects: the batch of the namespace.
        written: keys that are not settled yet, and whether they were found there.
    """

    def __init__(self, objects: Batch) -> None:
        self.objects = objects
        self.written: dict[str, bool] = {}


class TreeStore:
    """The trees of one repository. Safe to share between threads.

    A `TableBatch` belongs to one writer. `counts` is exact while only one thread works.

    Args:
        store: the storage namespace.
        cache: of this repository's tables; not used where the namespace is on this machine.
        range_entries: the repository's tree parameter N.
        guard: returns what is told of tables that are written, asked for with the first of them;
            ``None`` where none are.

    Attributes:
        counts: what was opened and written so far.
        points: answers point reads.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        cache: SstableCache | None,
        range_entries: int,
        guard: Callable[[], GcGuard] | None = None,
    ) -> None:
        self.store = store
        self._guard = guard
        self.range_entries = range_entries
        self.counts = TreeCounts()
        self.points = PointReader(self)
        self._given_cache = cache
        self._metaranges: LruCache[MetarangeId, Metarange] = LruCache(METARANGES_SIZE)
        self._tables: LruCache[RangeId, Table] = LruCache(WHOLE_TABLES_SIZE)

    @cached_property
    def _cache(self) -> SstableCache | None:
        """The cache, unless the namespace is a directory of this machine."""
        return None if self.store.local_path(layout.REPOSITORY) else self._given_cache

    def metarange(self, tree: MetarangeId) -> Metarange:
        """Return a parsed metarange.

        Raises:
            IntegrityError: it is missing or damaged.
        """
        if not tree:
            return NO_RANGES
        found = self._metaranges.get(tree)
        if found is None:
            table, data = self._open_whole(tree)
            self.counts.metaranges_opened += 1
            found = load_metarange(tree, table)
            self._keep(tree, data)
            self._metaranges.put(tree, found, found.size)
        return found

    def table(self, record: RangeRecord) -> Table:
        """Return a range whose bytes are all in memory, for reading much of it.

        Raises:
            IntegrityError: it is missing, damaged, or not as its metarange describes it.
        """
        found = self._tables.get(record.id)
        if found is None:
            found, data = self._open_whole(record.id)
            self.counts.ranges_opened += 1
            check_kind(found, "range")
            check_described(found, record)
            self._keep(record.id, data)
            self._tables.put(record.id, found, found.size)
        check_described(found, record)
        return found

    def open_for_points(self, record: RangeRecord, *, is_exact: bool) -> tuple[Table, bool]:
        """Open a range for reading a few of its blocks.

        Args:
            record: of the range.
            is_exact: whether ``record.size`` is the size of the file: it is in trees of ours,
                lakeFS's own writes an estimate.

        Returns:
            The table, and whether its blocks come from the bucket one by one.

        Raises:
            IntegrityError: it is missing, damaged, or not as its metarange describes it.
        """
        found = self._tables.get(record.id)
        if found is not None:
            return found, False
        self.counts.ranges_opened += 1
        key = layout.sstable_key(record.id)
        found = self._open_file(record.id)
        is_remote = found is None
        if found is None:
            size = record.size if is_exact else self._size_of(key)
            try:
                found = Table(RemoteSource(self.store, key, size=size))
            except CorruptTable:
                # The bucket may hold another writer's copy of this range, of another size.
                actual = self._size_of(key)
                if actual == size:
                    raise
                found = Table(RemoteSource(self.store, key, size=actual))
        check_kind(found, "range")
        check_described(found, record)
        return found, is_remote

    def begin(self) -> TableBatch:
        """Return a batch of tables that become durable together."""
        return TableBatch(self.store.batch())

    def write(self, batch: TableBatch, table_id: str, body: bytes) -> int:
        """Write a table unless there is one, and return the size of the one that stays.

        An object that is there already is never replaced: its times may differ, and somebody may
        be reading it. Whether it is there is only asked where the answer costs nothing.
        """
        key = layout.sstable_key(table_id)
        self.counts.bytes_written += len(body)
        if self._guard is not None:
            guard = self._guard()
            guard.begin()
            batch.written[key] = guard.is_active and self.store.local_path(key) is not None
        batch.objects.put_new(key, body)
        path = self.store.local_path(key) if self._cache is None else self._cache.find(table_id)
        if path is None and self._cache is not None:
            self._cache.put(table_id, body)
        try:
            return len(body) if path is None else path.stat().st_size
        except OSError:
            return len(body)

    def flush(self, batch: TableBatch) -> None:
        """Make the tables of a batch durable, and fit to be referred to.

        Raises:
            LostRace: garbage collection has gone by meanwhile; write them again.
        """
        existing = batch.objects.flush()
        self.drop_copies(existing)
        if self._guard is None or not batch.written:
            return
        for key in existing:
            batch.written[key] = True
        found = [key for key, is_found in batch.written.items() if is_found]
        written = [key for key, is_found in batch.written.items() if not is_found]
        batch.written.clear()
        self._guard().settle(found=found, written=written, whole=True)

    def drop_copies(self, existing: Iterable[str]) -> None:
        """Forget cached copies of ours where the namespace had the table already: its is read."""
        if self._cache is not None:
            for key in existing:
                self._cache.drop(key.removeprefix(layout.SSTABLES))

    def remember(self, metarange: Metarange) -> None:
        """Keep a metarange just written, as if it had been opened."""
        self._metaranges.put(metarange.id, metarange, metarange.size)

    def read_object(self, table_id: str) -> Table:
        """Return a table as the namespace holds it now, past every cache.

        Raises:
            IntegrityError: it is missing or damaged.
        """
        key = layout.sstable_key(table_id)
        return Table(BytesSource(key, self._get(key)))

    def _open_whole(self, table_id: str) -> tuple[Table, bytes]:
        """Return a table, and its bytes if they are to be cached once they are verified."""
        cache = self._cache
        if cache is None:
            return self.read_object(table_id), b""
        key = layout.sstable_key(table_id)
        path = cache.find(table_id)
        if path is not None:
            try:
                return Table(BytesSource(f"{key} in the cache", path.read_bytes())), b""
            except (OSError, CorruptTable):
                cache.drop(table_id)
        data = self._get(key)
        return Table(BytesSource(key, data)), data

    def _keep(self, table_id: str, data: bytes) -> None:
        if data and self._cache is not None:
            self._cache.put(table_id, data)

    def _open_file(self, table_id: str) -> Table | None:
        """Open a table in its own file or in the cache's, or return ``None``."""
        key = layout.sstable_key(table_id)
        cache = self._cache
        if cache is None:
            path = self.store.local_path(key)
            return None if path is None else Table(PathSource(key, path))
        path = cache.find(table_id)
        if path is not None:
            try:
                return Table(PathSource(f"{key} in the cache", path))
            except (OSError, CorruptTable):
                cache.drop(table_id)
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


def load_metarange(tree: MetarangeId, table: Table) -> Metarange:
    """Parse an open metarange, and verify that it is the one its name says.

    Raises:
        IntegrityError: it is damaged, a range, or another metarange.
    """
    from lakecli.committed.naming import name_of_table

    metarange = parse_metarange(tree, table)
    if name_of_table(table, metarange.keys, metarange.values) != tree:
        raise MisnamedTable(table.name)
    return metarange


def parse_metarange(tree: MetarangeId, table: Table) -> Metarange:
    """Parse an open metarange without verifying its name, for who looks for all that is wrong.

    Raises:
        IntegrityError: it is damaged, or a range.
    """
    check_kind(table, "metarange")
    keys: list[bytes] = []
    values: list[bytes] = []
    for number in range(table.block_count):
        block = table.block(number)
        keys += block.keys
        values += block.values
    return Metarange(
        tree,
        keys,
        values,
        range_entries=decode_tree_property(table.properties.get(TREE_PROPERTY)),
    )


def check_kind(table: Table, kind: str) -> None:
    """Refuse a range where a metarange is expected, and the other way round.

    Raises:
        WrongTable: it is the other.
    """
    if table.properties.get("type") != f"{kind}s".encode():
        raise WrongTable(table.name, kind)
