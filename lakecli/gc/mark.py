"""Find garbage: objects that are old, written by lakecli, and reached from no root."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.layout import COMMITS, DATA, LAKEFS_MARKER, SSTABLES
from lakecli.base.progress import Progress
from lakecli.engine.runner import Runner
from lakecli.engine.store_location import OpenStore, StoreLocation, digits_for, location_for
from lakecli.gc.ahead import check_not_ahead
from lakecli.gc.compare import AnyPart, iter_unreached, part_name, part_of
from lakecli.gc.joined import JoinedSet, open_live
from lakecli.gc.known_refs import KnownRefs
from lakecli.gc.lakefs import PART as LAKEFS_PART
from lakecli.gc.lakefs import check_not_newer, check_stopped, lakefs_parts
from lakecli.gc.live import DigestSet, total_of
from lakecli.gc.marks import KINDS, Doomed
from lakecli.gc.packs import superseded
from lakecli.gc.reach import Reach, batches
from lakecli.gc.roots import Roots, expired_reflog, gather
from lakecli.gc.rules import Rules
from lakecli.gc.shared import LakeFsAhead
from lakecli.gc.summary import Summary, summarise
from lakecli.gc.tasks import read_kinds
from lakecli.remote.collection import STALE_AFTER, iter_expired
from lakecli.repository.contract import Notice, Repository
from lakecli.repository.data_index import is_much_less
from lakecli.repository.lakefs.kept import iter_expired_records
from lakecli.repository.lakefs.taken_over import TakenOver
from lakecli.stores.capabilities import UploadNotFound, uploads_of
from lakecli.stores.contract import Version

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

TABLE: Final = re.compile(r"[0-9a-f]{64}")
KINDS_OF_TABLES: Final = {"ranges": "range", "metaranges": "metarange"}
_PART_KINDS: Final = 64


class Tally(NamedTuple):
    """Garbage of one kind.

    Attributes:
        kind: one of `KINDS`.
        objects: how many.
        size: in bytes.
    """

    kind: str
    objects: int
    size: int

    @property
    def prefix(self) -> str:
        """The prefix of the keys."""
        return KINDS[self.kind][0]

    @property
    def why(self) -> str:
        """Why the objects are garbage."""
        return KINDS[self.kind][1]

    def fields(self) -> dict[str, str | int]:
        """Return the fields of reports."""
        return {
            "kind": self.kind,
            "prefix": self.prefix,
            "why": self.why,
            "objects": self.objects,
            "size": self.size,
        }


class Times(NamedTuple):
    """Which objects are old.

    Attributes:
        now: time by the store's clock.
        grace: the grace period.
    """

    now: datetime
    grace: timedelta

    @property
    def cutoff(self) -> datetime:
        """Younger objects are not garbage.

        A reference to an object, or a commit of a tree that has one, may follow some time after
        the object was written.
        """
        return self.now - self.grace - 2 * STALE_AFTER


@dataclass(slots=True)
class Marked:
    """What a mark found.

    Attributes:
        commits: number of commits that keep their objects.
        trees: hex IDs of the metaranges read.
        ranges: hex IDs of the ranges read.
        entries: number of entries in these ranges.
        lost: tables that this clone's own work needs and that are missing.
        objects: number of data objects in the namespace.
        size: bytes of these.
        others: condemned objects other than data.
        counts: number of condemned objects, by kind.
        sizes: bytes of these, by kind.
        foreign: number of objects that lakecli did not write, by kind.
        tables: number of ranges and metaranges in the namespace.
        summary: what is condemned, by branch and tag.
    """

    commits: int = 0
    trees: set[str] = field(default_factory=set)
    ranges: set[str] = field(default_factory=set)
    entries: int = 0
    lost: set[str] = field(default_factory=set)
    objects: int = 0
    size: int = 0
    others: list[Doomed] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    foreign: Counter[str] = field(default_factory=Counter)
    tables: int = 0
    summary: Summary = field(default_factory=Summary)

    def tallies(self) -> list[Tally]:
        """Return what is condemned, by kind."""
        return [
            Tally(kind, self.counts[kind], self.sizes[kind]) for kind in KINDS if self.counts[kind]
        ]

    def doom(self, key: str, size: int, kind: str) -> None:
        """Condemn an object."""
        self.others.append(Doomed(key, size, kind))
        self.counts[kind] += 1
        self.sizes[kind] += size


class Work(NamedTuple):
    """What a collection works with.

    Attributes:
        repository: the repository.
        known: the refs in the bucket, and what was seen of them.
        runner: runs the parts.
        times: which objects are old.
        rules: retention rules; ``None``: keep what refs reach.
        taken: how the namespace was taken over from lakeFS; ``None``: it was not.
        last_dump: when the last refs dump was made that went out or came in; ``None``: as above.
        progress: counts the metaranges and ranges that are read, and the parts of listings.
        tables: number of ranges and metaranges that the last collection left; 0: unknown.
    """

    repository: Repository
    known: KnownRefs
    runner: Runner
    times: Times
    rules: Rules | None
    taken: TakenOver | None
    last_dump: datetime | None
    progress: Progress
    tables: int = 0

    @property
    def lakefs(self) -> TakenOver | None:
        """The lakeFS that wrote to the namespace, if its objects may be garbage."""
        return self.taken if self.taken is not None and self.taken.stopped_at else None

    @property
    def location(self) -> StoreLocation | OpenStore:
        """Where parts find the namespace."""
        return location_for(self.repository, self.runner)


class TableInfo(NamedTuple):
    """A range or metarange in a listing."""

    size: int
    is_old: bool
    version: Version
    modified_at: datetime


def mark(work: Work, *, sink: Callable[[str, bytes], None]) -> Marked:
    """Find everything that may be condemned now, without changing anything.

    Args:
        work: what the collection works with.
        sink: receives the condemned data objects, as (name of the part, records).

    Raises:
        LostHistory, MissingTable, DamagedPack, …: something to keep is missing or damaged, so the
            objects that it needs are unknown.
        LakeFsWrites: lakeFS has not stopped.
        LakeFsAhead: it has written since the last refs dump.
    """
    marked = Marked()
    later: set[str] = set()
    with open_live(work.runner) as live:
        roots, reach = reach_all(work, live)
        marked.commits = roots.commits
        _mark_tables(work, marked, reach)
        marked.trees, marked.ranges, marked.lost = reach.trees, reach.ranges, reach.lost
        marked.entries = reach.entries
        marked.foreign["table"] += reach.foreign
        parts = _parts(work)
        for listed in iter_unreached(work, live, parts):
            if listed.later:
                later.add(listed.name)
            if work.lakefs is not None and listed.newest:
                check_stopped(work.repository, work.lakefs, listed.newest)
            marked.objects += listed.objects
            marked.size += listed.size
            marked.foreign["object"] += listed.foreign
            if listed.records:
                kind = "lakefs" if listed.name.startswith(LAKEFS_PART) else "data"
                objects, size = total_of(listed.records)
                marked.counts[kind] += objects
                marked.sizes[kind] += size
                sink(listed.name, listed.records)
        check_not_ahead(work, live, [each for each in parts if part_name(each) in later])
    for each in iter_rest(work, roots):
        marked.doom(each.key, each.size, each.kind)
    for _ in abandoned(work.repository.store, work.times.cutoff):
        marked.counts["upload"] += 1
    objects = marked.counts["data"] + marked.counts["lakefs"]
    marked.summary = summary_of(work, roots, marked.others, objects=objects)
    return marked


def summary_of(work: Work, roots: Roots, doomed: Iterable[Doomed], *, objects: int) -> Summary:
    """Return what is about to be deleted, by branch and tag."""
    return summarise(
        roots.history,
        roots.refs,
        {each.key.removeprefix(SSTABLES) for each in doomed if each.kind == "metarange"},
        default_branch=work.repository.record.default_branch,
        objects=objects,
    )


def reach_all(
    work: Work, live: DigestSet | JoinedSet, reach: Reach | None = None
) -> tuple[Roots, Reach]:
    """Find the roots, and follow them to the data objects.

    Args:
        work: what the collection works with.
        live: receives the data objects in use.
        reach: what this process has read before; ``None``: nothing.

    Raises:
        LostHistory, MissingTable, DamagedPack, …: something to keep is missing or damaged.
    """
    reach = reach or new_reach(work, live)
    roots = gather(
        work.repository,
        live,
        work.known,
        now=work.times.now,
        grace=work.times.grace,
        rules=work.rules,
        taken=work.taken,
    )
    # No rule lets go the tree of a branch or tag, whatever the list of deleted trees says.
    collected = frozenset(iter_expired(work.repository.store)) - roots.heads
    reach.follow(roots.trees | roots.dumped_trees, must_exist=True, collected=collected)
    reach.dumps = roots.dumps
    reach.follow(roots.own_trees, must_exist=False)
    return roots, reach


def new_reach(work: Work, live: DigestSet | JoinedSet) -> Reach:
    """Return a reach that has read nothing."""
    old_layout = work.lakefs is not None and work.lakefs.old_layout
    return Reach(work.location, work.runner, live, progress=work.progress, old_layout=old_layout)


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
                is_ahead = work.last_dump is not None and at > work.last_dump
                if work.last_dump is not None and is_ahead and each.id not in renewed:
                    raise LakeFsAhead(work.repository, key, work.last_dump)
            elif not each.ours:
                continue
            found[each.id] = each.kind
    return found


def _mark_tables(work: Work, marked: Marked, reach: Reach) -> None:
    """Follow recent tables that no root reaches yet, and condemn old ones."""
    tables = list_tables(work, marked.foreign)
    marked.tables = len(tables)
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
            marked.doom(SSTABLES + each, tables[each].size, KINDS_OF_TABLES[kinds[each]])


def _parts(work: Work) -> list[AnyPart]:
    """Return the parts of the listing of data objects: of lakecli, and of lakeFS if it stopped."""
    before = work.times.cutoff.timestamp()
    # Objects with other names are not lakecli's, and are never garbage.
    is_large = digits_for(work.repository.store) > 0
    names = [f"{number:02x}" for number in range(256)] if is_large else ["all"]
    own: list[AnyPart] = [part_of(name, before) for name in names]
    return own if work.lakefs is None else [*own, *lakefs_parts(work, work.lakefs)]


def iter_rest(work: Work, roots: Roots) -> Iterator[Doomed]:
    """Yield garbage other than data objects, tables and unfinished uploads."""
    store, times = work.repository.store, work.times
    packs = {info.key.removeprefix(COMMITS): info for info in store.list(COMMITS)}
    for replaced, by in sorted(superseded(store, packs, roots.replaces).items()):
        # A process that listed the packs before the new one was written still reads the old one.
        if max(packs[replaced].modified_at, packs[by].modified_at) < times.cutoff:
            info = packs[replaced]
            yield Doomed(info.key, info.size, "pack", info.version)
    for info in expired_reflog(store, now=times.now, grace=times.grace):
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
