"""`TreeStore`: the trees of one repository, read and written.

Reads of tables are those of `lakecli.committed.tables`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Protocol

from lakecli.base import layout
from lakecli.base.model import MetarangeId
from lakecli.base.progress import Progress
from lakecli.committed.cache import Reads, SstableCache
from lakecli.committed.metaranges import Metarange
from lakecli.committed.points import PointReader
from lakecli.committed.tables import MEMORY_SIZE, TableStore, bytes_of
from lakecli.sstable.reader import BytesSource, CorruptTable, SSTable
from lakecli.stores.contract import ObjectStore, WriteBatch


class TableGuard(Protocol):
    """Protects tables, new ones and those that existed already, from garbage collection."""

    @property
    def is_active(self) -> bool:
        """Whether tables that existed already need protection."""

    def begin(self) -> None:
        """Prepare; called before any check for existing tables."""

    def settle(
        self, *, found: Collection[str], written: Collection[str], whole: bool = False
    ) -> None:
        """Claim objects against collection; called before anything refers to them.

        Args:
            found: keys of objects that existed already.
            written: keys of new objects, durable by now.
            whole: the objects refer to others that are not listed here.
        """


class Rebuilt(Protocol):
    """Remembers which tree of lakecli has the contents of a tree of lakeFS."""

    def find(self, tree: MetarangeId) -> MetarangeId | None:
        """Return the tree of lakecli if it is still there; it is claimed."""

    def put(self, tree: MetarangeId, rebuilt: MetarangeId) -> None:
        """Remember the tree of lakecli, which is durable and claimed."""

    def show(self, entries: int) -> AbstractContextManager[Progress]:
        """Show the progress of rebuilding a tree of so many entries."""


class TableBatch:
    """Tables that are written together; made by `TreeStore.begin`.

    Attributes:
        objects: the batch of the namespace.
        written: keys not yet claimed, and whether each object existed already.
    """

    def __init__(self, objects: WriteBatch) -> None:
        self.objects = objects
        self.written: dict[str, bool] = {}


class TreeStore(TableStore):
    """The trees of one repository. Safe to share between threads.

    A `TableBatch` belongs to one writer.

    Args:
        store: the storage namespace.
        cache: as of `TableStore`.
        range_entries: the repository's tree parameter N.
        memory: bytes of parts of trees kept in memory, at most.
        reads: counts of reads to go on with.
        guard: returns the guard, called with the first table written; ``None`` if nothing is
            written, or needs no protection.
        rebuilt: returns what remembers rebuilt trees of lakeFS, called with the first tree of
            lakeFS that something is built on; ``None``: none is rebuilt.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        cache: SstableCache | Callable[[], SstableCache] | None,
        range_entries: int,
        memory: int = MEMORY_SIZE,
        reads: Reads | None = None,
        guard: Callable[[], TableGuard] | None = None,
        rebuilt: Callable[[], Rebuilt] | None = None,
    ) -> None:
        super().__init__(store, cache=cache, memory=memory, reads=reads)
        self.range_entries = range_entries
        self.rebuilt = rebuilt
        self._guard = guard
        self._memory = memory

    @cached_property
    def points(self) -> PointReader:
        """Answers point reads.

        It is made when it is first needed: it and this store refer to each other, so without it a
        store and its tables are freed at once, and an executor opens one store for each task.
        """
        size = self._memory
        made = PointReader(self, blocks_limit=size // 2, tables_limit=size // 4)
        points: PointReader = vars(self).setdefault("_points", made)  # two threads take the same
        return points

    def cuts_as(self, tree: Metarange) -> bool:
        """Return whether a tree is cut as this repository cuts trees, or is empty."""
        return not len(tree) or tree.range_entries == self.range_entries

    def begin(self) -> TableBatch:
        """Return a batch of tables that become durable together."""
        return TableBatch(self.store.batch())

    def write(self, batch: TableBatch, table_id: str, body: bytes) -> int:
        """Write a table unless it exists, and return the size of the table that remains.

        An existing object is never replaced: its times may differ, and it may be being read.
        Existence is only checked in advance where that costs no request.
        """
        key = layout.sstable_key(table_id)
        self.counts.bytes_written += len(body)
        if self._guard is not None:
            guard = self._guard()
            guard.begin()
            batch.written[key] = guard.is_active and self.store.local_path(key) is not None
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
        """Make the tables of a batch durable, and claim them, so that they may be referred to.

        Raises:
            LostRace: garbage collection ran meanwhile; write the tables again.
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
