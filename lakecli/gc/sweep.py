"""Delete condemned objects that are still old, still unreached, and not kept.

The lists of condemned objects name candidates only. The sweep finds out what is in use by following
the refs again, and checks each candidate by the rules that condemned it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, NamedTuple

from lakecli.base.identity import h
from lakecli.base.layout import SSTABLES, data_digest, lakefs_object
from lakecli.gc.ahead import check_not_ahead
from lakecli.gc.compare import AnyPart, Garbage, iter_found, part_name, part_of
from lakecli.gc.joined import JoinedSet
from lakecli.gc.lakefs import PART as LAKEFS_PART
from lakecli.gc.lakefs import check_stopped, lakefs_part, list_lakefs, recent_parts
from lakecli.gc.lease import Lease
from lakecli.gc.live import RECORD, DigestSet
from lakecli.gc.mark import (
    KINDS_OF_TABLES,
    TableInfo,
    Tally,
    Work,
    abandoned,
    iter_rest,
    kinds_of,
    list_tables,
    new_reach,
    reach_all,
    summary_of,
)
from lakecli.gc.marks import KINDS, Doomed, Marks, add_expired
from lakecli.gc.reach import batches
from lakecli.gc.roots import Roots
from lakecli.gc.summary import Summary
from lakecli.remote.collection import iter_keeps
from lakecli.stores.capabilities import DeletesMatching, UploadId, uploads_of
from lakecli.stores.contract import Version

BATCH: Final = 1_000
"""Keys of one deletion, as many as stores take; the lease is checked before each."""

_PARALLELISM: Final = 8
_KEPT: Final = 50_000
"""Kept keys held in memory, at most."""


Delete = Callable[[Iterable[Garbage]], int]


class Swept(NamedTuple):
    """What a sweep deletes, by kind and by ref; what it spares; how many tables it leaves."""

    tallies: list[Tally]
    spared: int
    summary: Summary
    tables: int


class Sweep:
    """One sweep, or its preview.

    Args:
        work: what the collection works with.
        marks: the lists of condemned objects.
        epoch: of the condemnation.
        live: receives the data objects in use; empty at first.
    """

    def __init__(self, work: Work, marks: Marks, epoch: int, live: DigestSet | JoinedSet) -> None:
        self._work = work
        self._repository = work.repository
        self._store = work.repository.store
        self._marks = marks
        self._epoch = epoch
        self._live = live
        self._reach = new_reach(work, live)
        self._by_version = isinstance(self._store, DeletesMatching)
        self._counts: Counter[str] = Counter()
        self._sizes: Counter[str] = Counter()
        self._spared = 0

    def prepare(self) -> None:
        """Follow all roots before the sweep begins, as writers wait for its end.

        Tables never change, so `run` reads only those that came into use after this.

        Raises:
            LostHistory, MissingTable, DamagedPack, …: something to keep is missing or damaged.
        """
        self._marks.others()
        reach_all(self._work, self._live, self._reach)
        self._keep()
        self._check_lakefs()

    def run(
        self,
        delete: Delete | None,
        *,
        beat: Callable[[], None] = lambda: None,
        log: Callable[[Summary], None] = lambda _: None,
    ) -> Swept:
        """Find garbage among the condemned objects, and delete it.

        Args:
            delete: deletes objects, and returns how many it kept; ``None``: only count.
            beat: called every few seconds while Spark compares listings with what is in use.
            log: called before the first deletion with what is about to be deleted; of the data
                objects, as many as were condemned.

        Raises:
            LostMarks: a list of condemned objects is missing or damaged.
            LostHistory, MissingTable, DamagedPack, …: something to keep is missing or damaged.
        """
        roots, tables = self._remark()
        self._check_lakefs()
        others = [*self._tables(tables), *self._rest(roots)]
        condemned = self._marks.summary() or Summary()
        summary = summary_of(self._work, roots, others, objects=condemned.objects)
        if delete is not None:
            log(summary)
            trees = [each for each in others if each.kind == "metarange"]
            add_expired(
                self._store, self._epoch, (each.key.removeprefix(SSTABLES) for each in trees)
            )
            # A tree is deleted before the objects that it refers to.
            self._spared += delete(_garbage(trees))
            self._spared += delete(_garbage(each for each in others if each.kind != "metarange"))
        for objects in self._data(beat):
            if delete is not None:
                self._spared += delete(objects)
        self._uploads(really=delete is not None)
        tallies = [
            Tally(kind, self._counts[kind], self._sizes[kind])
            for kind in KINDS
            if self._counts[kind]
        ]
        deleted = self._counts["data"] + self._counts["lakefs"]
        left = len(tables) - self._counts["range"] - self._counts["metarange"]
        return Swept(tallies, self._spared, summary._replace(objects=deleted), left)

    def _check_lakefs(self) -> None:
        """Refuse to sweep objects of lakeFS that has written since, or since the last refs dump."""
        work, taken = self._work, self._work.lakefs
        if taken is None:
            return
        later = []
        for part, listed in work.runner.run(
            partial(list_lakefs, location=work.location), recent_parts(work)
        ):
            check_stopped(self._repository, taken, listed.newest)
            later += [part] * bool(listed.later)
        check_not_ahead(work, self._live, later)

    def _remark(self) -> tuple[Roots, dict[str, TableInfo]]:
        """Follow what came into use since: refs, recent tables, and keeps, in this order."""
        work, reach = self._work, self._reach
        roots, _ = reach_all(work, self._live, reach)
        tables = list_tables(work, Counter())
        kept = self._keep()
        wanted = {each for each, info in tables.items() if not info.is_old} | kept
        kinds = kinds_of(work, tables, (wanted & tables.keys()) - reach.tables, renewed=kept)
        reach.follow(
            [each for each, kind in kinds.items() if kind == "metaranges"],
            [each for each, kind in kinds.items() if kind == "ranges"],
            must_exist=False,
        )
        return roots, tables

    def _keep(self) -> set[str]:
        """Spare the data objects that other processes keep; return the tables that they keep."""
        tables: set[str] = set()
        digests: set[bytes] = set()
        for key in iter_keeps(self._store):
            digest = _digest_of(key)
            if digest is not None:
                digests.add(digest)
                if len(digests) >= _KEPT:
                    self._live.add(b"".join(sorted(digests)))
                    digests.clear()
            elif key.startswith(SSTABLES):
                tables.add(key.removeprefix(SSTABLES))
        self._live.add(b"".join(sorted(digests)))
        return tables

    def _tables(self, tables: dict[str, TableInfo]) -> list[Doomed]:
        """Return the condemned ranges and metaranges that are garbage."""
        reached = self._reach.tables
        found = []
        for each in self._marks.others():
            name = each.key.removeprefix(SSTABLES)
            if each.kind not in KINDS_OF_TABLES.values() or name not in tables:
                continue
            if name in reached or not tables[name].is_old:
                self._spared += 1
            else:
                found.append(each._replace(size=tables[name].size, version=tables[name].version))
        names = [each.key.removeprefix(SSTABLES) for each in found]
        kinds = kinds_of(self._work, tables, names)
        may_go = []
        for name, each in zip(names, found, strict=True):
            if KINDS_OF_TABLES.get(kinds.get(name, "")) == each.kind:
                self._count(each)
                may_go.append(each)
            else:
                self._spared += 1
        return may_go

    def _rest(self, roots: Roots) -> list[Doomed]:
        """Return the other condemned objects that are still garbage."""
        doomed = {
            (each.key, each.kind)
            for each in self._marks.others()
            if each.kind not in KINDS_OF_TABLES.values()
        }
        if not doomed:
            return []
        found = [each for each in iter_rest(self._work, roots) if (each.key, each.kind) in doomed]
        for each in found:
            self._count(each)
        return found

    def _count(self, each: Doomed) -> None:
        self._counts[each.kind] += 1
        self._sizes[each.kind] += each.size

    def _data(self, beat: Callable[[], None]) -> Iterator[Iterable[Garbage]]:
        """Yield the data objects that are garbage, part by part."""
        work, before = self._work, self._work.times.cutoff.timestamp()
        names = self._marks.data_parts()
        own = [
            part_of(name, before, keys=self._by_version)
            for name in names
            if not name.startswith(LAKEFS_PART)
        ]
        lakefs = [
            lakefs_part(work, name, keys=True) for name in names if name.startswith(LAKEFS_PART)
        ]
        if work.lakefs is None:
            self._spared += sum(len(self._marks.data(part_name(each))) // RECORD for each in lakefs)
            lakefs = []
        parts: list[AnyPart] = [*own, *lakefs]
        if not parts:
            return
        for found in iter_found(work, self._live, self._marks, parts, beat=beat):
            kind = "lakefs" if found.name.startswith(LAKEFS_PART) else "data"
            self._spared += found.spared
            self._counts[kind] += found.objects
            self._sizes[kind] += found.size
            yield found.garbage

    def _uploads(self, *, really: bool) -> None:

        uploads = uploads_of(self._store)
        if uploads is None:
            return
        for key, upload in list(abandoned(self._store, self._work.times.cutoff)):
            self._counts["upload"] += 1
            if really:
                uploads.abort(key, UploadId(upload))


def _digest_of(key: str) -> bytes | None:
    """Return what a `DigestSet` has for the key of a data object; ``None`` for other keys."""
    digest = data_digest(key)
    if digest is not None:
        return bytes.fromhex(digest)
    name = lakefs_object(key)
    return None if name is None else h(name.encode("ascii"))


def _garbage(doomed: Iterable[Doomed]) -> Iterator[Garbage]:
    return ((each.key, Version(each.version)) for each in doomed)


def deleter(work: Work, lease: Lease) -> Delete:
    """Return a function that deletes objects while the lease holds, and returns how many it kept.

    If the store can, an object is deleted only if it still has the listed version. Then even a
    delayed request does not delete an object that has come into use again.
    """
    store = work.repository.store
    on_step = work.repository.lake.runtime.on_step

    def delete(objects: list[Garbage]) -> int:
        if isinstance(store, DeletesMatching):
            return len(store.delete_matching(objects))
        store.delete([key for key, _ in objects])
        return 0

    def delete_all(objects: Iterable[Garbage]) -> int:
        kept = 0
        with ThreadPoolExecutor(_PARALLELISM) as pool:
            for several in batches(objects, BATCH * _PARALLELISM):
                on_step("gc:delete")
                tasks = [partial(delete, batch) for batch in batches(several, BATCH)]
                kept += sum(pool.map(lease.run, tasks))
        return kept

    return delete_all
