"""Find garbage: objects that are old, written by lakecli, and reached from no root."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.layout import COMMITS, DATA, LAKEFS_MARKER, SSTABLES, sstable_key
from lakecli.committed.metaranges import is_ours
from lakecli.committed.tree_store import RemoteSource
from lakecli.engine.store_location import OpenStore, StoreLocation
from lakecli.errors import IntegrityError
from lakecli.gc.data_objects import all_parts, kind_of_part, total_of
from lakecli.gc.joined import open_live
from lakecli.gc.live import LiveSet
from lakecli.gc.options import Work
from lakecli.gc.reach import Reach
from lakecli.gc.report import (
    KINDS,
    Action,
    Doomed,
    GarbageCounter,
    GcReport,
    Summary,
    summarise,
)
from lakecli.gc.roots import Roots, expired_reflog, gather, superseded_packs
from lakecli.gc.shared import LakeFsAhead, check_not_ahead, check_not_newer, check_stopped
from lakecli.remote.collection import iter_expired
from lakecli.repository.contract import Notice
from lakecli.repository.data_index import is_much_less
from lakecli.repository.lakefs.kept_dumps import iter_expired_records
from lakecli.sstable.reader import SSTable
from lakecli.stores.capabilities import UploadNotFound, uploads_of
from lakecli.stores.contract import Version
from lakecli.stores.streams import batches

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

TABLE: Final = re.compile(r"[0-9a-f]{64}")
KINDS_OF_TABLES: Final = {"ranges": "range", "metaranges": "metarange"}
_PART_KINDS: Final = 64


@dataclass(slots=True)
class Marked:
    """What a mark found.

    Attributes:
        report: receives what is counted.
        others: condemned objects other than data.
        garbage: counts what is condemned.
        foreign: number of objects that lakecli did not write, by kind.
    """

    report: GcReport
    others: list[Doomed] = field(default_factory=list)
    garbage: GarbageCounter = field(default_factory=GarbageCounter)
    foreign: Counter[str] = field(default_factory=Counter)

    def doom(self, doomed: Doomed) -> None:
        """Condemn an object other than data."""
        self.others.append(doomed)
        self.garbage.add(doomed.kind, doomed.size)


def mark(work: Work, report: GcReport, *, sink: Callable[[str, bytes], None]) -> Marked:
    """Find everything that may be condemned now, without changing anything.

    Args:
        work: what the collection works with.
        report: receives what is counted, and what may be condemned.
        sink: receives the condemned data objects, as (name of the part, records).

    Raises:
        LostHistory, MissingTable, DamagedPack, …: something to keep is missing or damaged, so the
            objects that it needs are unknown.
        LakeFsWrites: lakeFS has not stopped.
        LakeFsAhead: it has written since the last refs dump.
    """
    marked = Marked(report)
    with open_live(work.runner) as live:
        roots, reach = reach_all(work, live)
        report.commits = roots.commits
        _mark_tables(work, marked, reach)
        report.ranges, report.entries = len(reach.ranges), reach.entries
        report.lost = tuple(sorted(reach.lost))
        marked.foreign["table"] += reach.foreign
        _mark_data(work, marked, live, sink)
    for each in iter_rest(work, roots):
        marked.doom(each)
    for _ in abandoned(work.repository.store, work.times.cutoff):
        marked.garbage.add("upload")
    report.garbage = marked.garbage.totals()
    if report.garbage:
        report.action = Action.CONDEMNED
        objects = marked.garbage.objects("data", "lakefs")
        report.summary = summary_of(work, roots, marked.others, objects=objects)
    return marked


def reach_all(work: Work, live: LiveSet, reach: Reach | None = None) -> tuple[Roots, Reach]:
    """Find the roots, and follow them to the data objects.

    Args:
        work: what the collection works with.
        live: receives the data objects in use.
        reach: what this process has read before; ``None``: nothing.

    Raises:
        LostHistory, MissingTable, DamagedPack, …: something to keep is missing or damaged.
    """
    reach = reach or Reach(work, live)
    roots = gather(work, live)
    # No rule lets go the tree of a branch or tag, whatever the list of deleted trees says.
    collected = frozenset(iter_expired(work.repository.store)) - roots.heads
    reach.follow(roots.trees | roots.dumped_trees, must_exist=True, collected=collected)
    reach.dumps = roots.dumps
    reach.follow(roots.own_trees, must_exist=False)
    return roots, reach


def _mark_tables(work: Work, marked: Marked, reach: Reach) -> None:
    """Follow recent tables that no root reaches yet, and condemn old ones."""
    tables = list_tables(work, marked.foreign)
    marked.report.tables = len(tables)
    unreached = tables.keys() - reach.tables
    kinds = kinds_of(work, tables, unreached)
    marked.foreign["table"] += len(unreached) - len(kinds)
    young = [each for each in kinds if not tables[each].is_old]
    # From recent commits that are not pushed yet. Some of their objects may be lost already.
    reach.follow(
        [each for each in young if kinds[each] == "metaranges"],
        [each for each in young if kinds[each] == "ranges"],
        must_exist=False,
    )
    for each in sorted(unreached - reach.tables):
        if each in kinds and tables[each].is_old and kinds[each] in KINDS_OF_TABLES:
            kind = KINDS_OF_TABLES[kinds[each]]
            marked.doom(Doomed(SSTABLES + each, tables[each].size, kind))


class TableInfo(NamedTuple):
    """A range or metarange in a listing."""

    size: int
    is_old: bool
    version: Version
    modified_at: datetime


def list_tables(work: Work, foreign: Counter[str]) -> dict[str, TableInfo]:
    """Return the ranges and metaranges in the namespace; count other objects in `foreign`.

    Young ones are in use, so a listing that lacks some would cost their objects. If much fewer are
    listed than the last collection left, they are listed twice, and what either has counts.
    """
    tables = _list_tables(work, foreign)
    if not is_much_less(len(tables), work.tables):
        return tables
    both = tables | _list_tables(work, Counter())
    work.repository.notify(
        Notice(
            f"{len(tables):,} ranges and metaranges are listed in {work.repository.store.uri}, but "
            f"the last garbage collection left {work.tables:,}; they were listed twice, and "
            f"{len(both):,} count",
            hint=f"check that nothing is missing: lakecli fsck {work.repository.uri}",
        )
    )
    return both


def _list_tables(work: Work, foreign: Counter[str]) -> dict[str, TableInfo]:
    tables = {}
    for info in work.repository.store.list(SSTABLES):
        name = info.key.removeprefix(SSTABLES)
        if TABLE.fullmatch(name):
            is_old = info.modified_at < work.times.cutoff
            tables[name] = TableInfo(info.size, is_old, info.version, info.modified_at)
        elif info.key != LAKEFS_MARKER:
            foreign["file"] += 1
    return tables


def kinds_of(
    work: Work,
    tables: dict[str, TableInfo],
    ids: Collection[str],
    *,
    renewed: Collection[str] = (),
) -> dict[str, str]:
    """Return ``ranges`` or ``metaranges`` for each table that may be garbage.

    Those of lakeFS may be garbage if it has stopped.

    Args:
        work: what the collection works with.
        tables: the tables that are listed.
        ids: of those to look at.
        renewed: those of them whose date a writer has renewed.

    Raises:
        LakeFsWrites: lakeFS wrote one of them after it was confirmed to have stopped.
        LakeFsAhead: lakeFS wrote one of them after the last refs dump.
    """
    task = partial(read_kinds, location=work.location)
    sizes = ((each, tables[each].size) for each in sorted(ids))
    lakefs = work.lakefs
    found = {}
    for _, kinds in work.runner.run(task, batches(sizes, _PART_KINDS)):
        for each in kinds:
            if not each.ours and lakefs is not None and each.kind in KINDS_OF_TABLES:
                key, at = SSTABLES + each.id, tables[each.id].modified_at
                check_not_newer(work.repository, lakefs, key, at)
                dumped = work.last_dump
                if dumped is not None and at > dumped and each.id not in renewed:
                    raise LakeFsAhead(work.repository, key, dumped)
            elif not each.ours:
                continue
            found[each.id] = each.kind
    return found


class TableKind(NamedTuple):
    """The kind of a table: ``ranges``, ``metaranges`` or another; and whether lakecli wrote it."""

    id: str
    kind: str
    ours: bool


def read_kinds(
    part: Sequence[tuple[str, int]], *, location: StoreLocation | OpenStore
) -> list[TableKind]:
    """Return the kinds of tables by their properties; one that cannot be read is not lakecli's.

    Args:
        part: IDs and sizes in bytes.
        location: where to find the namespace.
    """
    found = []
    for table_id, size in part:
        source = RemoteSource(location.store(), sstable_key(table_id), size=size)
        try:
            table = SSTable(source)
        except IntegrityError:
            found.append(TableKind(table_id, "", ours=False))
            continue
        kind = table.properties.get("type", b"").decode("ascii", "replace")
        found.append(TableKind(table_id, kind, is_ours(table)))
    return found


def _mark_data(
    work: Work, marked: Marked, live: LiveSet, sink: Callable[[str, bytes], None]
) -> None:
    """Condemn old data objects that are not in use."""
    parts = all_parts(work)
    later: set[str] = set()
    for listed in live.iter_unreached(work, parts):
        if listed.later:
            later.add(listed.name)
        if work.lakefs is not None and listed.newest:
            check_stopped(work.repository, work.lakefs, listed.newest)
        marked.report.objects += listed.objects
        marked.report.size += listed.size
        marked.foreign["object"] += listed.foreign
        if listed.records:
            objects, size = total_of(listed.records)
            marked.garbage.add(kind_of_part(listed.name), size, objects=objects)
            sink(listed.name, listed.records)
    check_not_ahead(work, live, [part for part in parts if part.name in later])


def iter_rest(work: Work, roots: Roots) -> Iterator[Doomed]:
    """Yield garbage other than data objects, tables and unfinished uploads."""
    store, times = work.repository.store, work.times
    packs = {info.key.removeprefix(COMMITS): info for info in store.list(COMMITS)}
    for replaced, by in sorted(superseded_packs(store, packs, roots.replaces).items()):
        # A process that listed the packs before the new one was written still reads the old one.
        if max(packs[replaced].modified_at, packs[by].modified_at) < times.cutoff:
            info = packs[replaced]
            yield Doomed(info.key, info.size, "pack", info.version)
    for info in expired_reflog(store, times):
        yield Doomed(info.key, info.size, "reflog", info.version)
    for info in iter_expired_records(store, times.now):
        yield Doomed(info.key, info.size, "dump", info.version)
    for kind in ("incoming", "doctor", "scratch"):
        for info in store.list(KINDS[kind][0]):
            if info.modified_at < times.cutoff:
                yield Doomed(info.key, info.size, kind, info.version)


def abandoned(store: ObjectStore, cutoff: datetime) -> Iterator[tuple[str, str]]:
    """Yield key and ID of multipart uploads that have not changed since `cutoff`."""
    uploads = uploads_of(store)
    if uploads is None:
        return
    for each in uploads.iter_unfinished(DATA):
        if each.started_at >= cutoff:
            continue
        try:
            changed_at = uploads.changed_at(each.key, each.id)
        except UploadNotFound:
            continue
        if changed_at is None or changed_at < cutoff:
            yield each.key, each.id


def summary_of(work: Work, roots: Roots, doomed: Iterable[Doomed], *, objects: int) -> Summary:
    """Return what is about to be deleted, by branch and tag."""
    return summarise(
        roots.history,
        roots.refs,
        {each.key.removeprefix(SSTABLES) for each in doomed if each.kind == "metarange"},
        default_branch=work.repository.record.default_branch,
        objects=objects,
    )
