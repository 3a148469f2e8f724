"""Delete condemned objects that are still old, still unreached, and not kept.

The lists of condemned objects name candidates only. The sweep finds out what is in use by following
the refs again, and checks each candidate by the rules that condemned it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain
from typing import Final

from lakecli.base.identity import h
from lakecli.base.layout import SSTABLES, data_digest, lakefs_object
from lakecli.gc.data_objects import kind_of_part, list_part, part_named, recent_lakefs_parts
from lakecli.gc.known_refs import put_last
from lakecli.gc.mark import (
    KINDS_OF_TABLES,
    Reach,
    TableInfo,
    abandoned,
    iter_rest,
    kinds_of,
    list_tables,
    summary_of,
)
from lakecli.gc.policy import check_stopped
from lakecli.gc.report import (
    Action,
    Doomed,
    GarbageCounter,
    GcReport,
    GcStatus,
    Summary,
    fields_of,
    write_fields,
    write_report,
)
from lakecli.gc.roots import Roots
from lakecli.gc.state import RECORD, Garbage, Marks, SweepLease, add_expired, check_lists
from lakecli.remote.gc_protocol import Phase, iter_keeps
from lakecli.stores.capabilities import DeletesMatching, UploadId, uploads_of
from lakecli.stores.contract import Version
from lakecli.stores.streams import batches

BATCH: Final = 1_000
"""Keys of one deletion, as many as stores take; the lease is checked before each."""

_PARALLELISM: Final = 8
_KEPT: Final = 50_000
"""Kept keys held in memory, at most."""


def sweep(reach: Reach, before: GcStatus, *, dry_run: bool) -> GcReport:
    """Delete condemned objects that are still unreached.

    Args:
        reach: has followed nothing yet.
        before: the state before the sweep.
        dry_run: only count them.

    Raises:
        StateMoved: another machine collects at the same time, or has collected since `before`.
        SweepTooSlow: a deletion took so long that the sweep must end.
        LostMarks: a list of condemned objects is missing or damaged.
        LostHistory, MissingTable, DamagedPack, …: something to keep is missing or damaged.
    """
    this, work = Sweep(reach), reach.work
    repository, store, seen, now = work.repository, work.store, work.seen, work.times.now
    if dry_run:
        this.find()
        this.preview()
        return this.report(before)
    if seen.state.phase is Phase.CONDEMNED:
        # Before the sweep begins, as writers wait for its end. A failure changes nothing.
        repository.lake.runtime.on_step("gc:prepare")
        check_lists(repository, seen)
        this.prepare()
    with SweepLease(repository, seen, now) as lease:
        Marks(store, seen.state.mark).check_age(now, work.times.grace)
        write_fields(store, seen.state.epoch, "sweeping", fields_of(this.find()), now)
        this.run(lease)
        report = this.report(before)
        write_report(store, seen.state.epoch, report, now)
        put_last(store, reach.refs)
    return report


class Sweep:
    """What one sweep finds and deletes, or what its preview counts.

    Args:
        reach: has followed nothing yet.
    """

    def __init__(self, reach: Reach) -> None:
        self._work = reach.work
        self._store = reach.work.store
        self._marks = Marks(reach.work.store, reach.work.seen.state.mark)
        self._reach = reach
        self._garbage = GarbageCounter()
        self._spared = 0
        self._others: list[Doomed] = []
        self._left = 0
        self._summary = Summary()

    def prepare(self) -> None:
        """Follow all roots before the sweep begins, as writers wait for its end.

        Tables never change, so `run` reads only those that came into use after this.

        Raises:
            LostHistory, MissingTable, DamagedPack, …: something to keep is missing or damaged.
        """
        self._reach.follow_roots()
        self._keep()
        self._check_lakefs()

    def find(self) -> Summary:
        """Find garbage among the condemned objects; return it by branch and tag.

        Of the data objects, it counts as many as were condemned: `run` finds out which are garbage.

        Raises:
            LostMarks: a list of condemned objects is missing or damaged.
            LostHistory, MissingTable, DamagedPack, …: something to keep is missing or damaged.
        """
        roots, tables = self._remark()
        self._check_lakefs()
        self._others = [*self._tables(tables), *self._rest(roots)]
        self._left = len(tables) - self._garbage.objects("range", "metarange")
        condemned = self._marks.summary() or Summary()
        self._summary = summary_of(self._work, roots, self._others, condemned.objects)
        return self._summary

    def preview(self) -> None:
        """Count the data objects and the uploads in parts that are garbage.

        Raises:
            LostMarks: a list of condemned objects is missing or damaged.
        """
        for _ in chain(self._data(), self._uploads()):
            pass

    def run(self, lease: SweepLease) -> None:
        """Delete what `find` has found, and the data objects and uploads that are garbage.

        Args:
            lease: the right to delete.

        Raises:
            LostMarks: a list of condemned objects is missing or damaged.
            StateMoved: another machine has taken over or ended the sweep.
            SweepTooSlow: a deletion took so long that the sweep must end.
        """
        trees = [each for each in self._others if each.kind == "metarange"]
        names = (each.key.removeprefix(SSTABLES) for each in trees)
        add_expired(self._store, self._work.seen.state.epoch, names)
        # A tree is deleted before the objects that it refers to.
        self._delete(_garbage(trees), lease)
        self._delete(_garbage(each for each in self._others if each.kind != "metarange"), lease)
        with closing(self._data()) as found:
            for objects in found:
                lease.renew_if_due()  # there may be nothing to delete for long
                self._delete(objects, lease)
        uploads = uploads_of(self._store)
        for key, upload in self._uploads():
            if uploads is not None:
                uploads.abort(key, UploadId(upload))

    def report(self, status: GcStatus) -> GcReport:
        """Return the report of what `run` has deleted, or `preview` has counted."""
        return GcReport(
            Action.SWEPT,
            status,
            self._garbage.totals(),
            self._spared,
            tables=self._left,
            summary=self._summary._replace(objects=self._garbage.objects("data", "lakefs")),
        )

    def _delete(self, objects: Iterable[Garbage], lease: SweepLease) -> None:
        """Delete objects while the lease holds; count those that the store has kept."""
        with ThreadPoolExecutor(_PARALLELISM) as pool:
            for several in batches(objects, BATCH * _PARALLELISM):
                self._work.repository.lake.runtime.on_step("gc:delete")
                self._spared += sum(pool.map(lease.delete, batches(several, BATCH)))

    def _check_lakefs(self) -> None:
        """Refuse to sweep objects of lakeFS that has written since, or since the last refs dump."""
        work = self._work
        if work.lakefs is None:
            return
        later = []
        for part, listed in work.run(list_part, recent_lakefs_parts(work)):
            check_stopped(work, listed.newest)
            later += [part] * bool(listed.later)
        self._reach.check_not_ahead(later)

    def _remark(self) -> tuple[Roots, dict[str, TableInfo]]:
        """Follow what came into use since: refs, recent tables, and keeps, in this order."""
        work, reach = self._work, self._reach
        roots = reach.follow_roots()
        tables, _ = list_tables(work)
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
                    self._reach.live.add(b"".join(sorted(digests)))
                    digests.clear()
            elif key.startswith(SSTABLES):
                tables.add(key.removeprefix(SSTABLES))
        self._reach.live.add(b"".join(sorted(digests)))
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
                self._garbage.add(each.kind, each.size)
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
            self._garbage.add(each.kind, each.size)
        return found

    def _data(self) -> Generator[Iterable[Garbage]]:
        """Yield the data objects that are garbage, part by part; none now and then before that."""
        work, parts = self._work, []
        for name in self._marks.data_parts():
            kind = kind_of_part(name)
            if kind == "lakefs" and work.lakefs is None:
                self._spared += len(self._marks.data(name)) // RECORD
            else:
                keys = kind == "lakefs" or isinstance(self._store, DeletesMatching)
                parts.append(part_named(work, name, keys=keys))
        if not parts:
            return
        for found in self._reach.live.iter_garbage(work, self._marks, parts):
            if found is not None:
                self._spared += found.spared
                self._garbage.add(kind_of_part(found.name), found.size, objects=found.objects)
            yield () if found is None else found.garbage

    def _uploads(self) -> Iterator[tuple[str, str]]:
        """Yield key and ID of abandoned uploads in parts."""
        for each in list(abandoned(self._store, self._work.times.cutoff)):
            self._garbage.add("upload")
            yield each


def _digest_of(key: str) -> bytes | None:
    """Return what a `DigestSet` has for the key of a data object; ``None`` for other keys."""
    digest = data_digest(key)
    if digest is not None:
        return bytes.fromhex(digest)
    name = lakefs_object(key)
    return None if name is None else h(name.encode("ascii"))


def _garbage(doomed: Iterable[Doomed]) -> Iterator[Garbage]:
    return ((each.key, Version(each.version)) for each in doomed)
