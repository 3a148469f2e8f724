"""Find the objects in use, and garbage: lakecli's own old objects that no root reaches.

`Mark` follows the roots to every object in use, and condemns the listed objects that are old and
not in use. A sweep finds the objects in use by the same functions. `Reach` follows roots and trees
to the data objects. It reads each distinct metarange and range once, in tasks.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from lakecli.base.layout import DATA, INCOMING, LAKEFS_MARKER, SSTABLES, is_of_link_set, sstable_key
from lakecli.base.model import CommitId, RefKind
from lakecli.committed.tree_store import MissingTable
from lakecli.engine.runner import OpenStore
from lakecli.gc import live_set, report, tasks
from lakecli.gc.policy import LakeFsAhead, Work
from lakecli.gc.report import Doomed, GarbageSummary
from lakecli.gc.roots import Roots
from lakecli.gc.state import DIGEST, split, total_of
from lakecli.remote import attestations, gc_protocol
from lakecli.stores import capabilities, contract, presigned_urls

TABLE: Final = re.compile(r"[0-9a-f]{64}")


class Mark:
    """One mark phase: finds everything that may be condemned now.

    Attributes:
        others: the garbage other than data objects.
        foreign: number of objects that lakecli did not write, by kind.
    """

    def __init__(self, reach: "Reach", roots: Roots) -> None:
        self.others: list[Doomed] = []
        self.foreign: Counter[str] = Counter()
        self._reach = reach
        self._roots = roots
        self._garbage = report.GarbageCounter()
        self._tables_left = self._objects = self._size = 0

    def run(self) -> Iterator[tasks.PartListing]:
        """Find the objects that may be condemned; yield the garbage, part by part.

        Once the caller has consumed all parts, `others` and `result` are complete.

        Raises:
            LakeFsWrites: a table shows that lakeFS has not stopped.
            LakeFsAhead: lakeFS has written since the last refs dump.
        """
        self._tables()
        yield from self._data()
        for each in iter_rest(self._reach, self._roots):
            self._doom(each)
        for _ in abandoned(self._reach.work.store, self._reach.work.times.cutoff):
            self._garbage.add("upload")

    def result(self, status: report.GcStatus) -> report.GcReport:
        """Return the report of the garbage that `run` has found."""
        reach, roots, garbage = self._reach, self._roots, self._garbage.totals()
        total = self._garbage.objects("data", "lakefs")
        return report.GcReport(
            report.Action.CONDEMNED if garbage else report.Action.FOUND_NOTHING,
            status,
            garbage,
            commits=roots.commits,
            entries=reach.entries,
            ranges=len(reach.ranges),
            objects=self._objects,
            size=self._size,
            lost=tuple(sorted(reach.lost)),
            tables=self._tables_left,
            summary=summary_of(self._reach.work, roots, self.others, total) if garbage else None,
        )

    def _tables(self) -> None:
        """Follow recent tables that no root reaches yet, and condemn old tables."""
        work, reach = self._reach.work, self._reach
        tables, self.foreign["file"] = list_tables(work)
        unreached = tables.keys() - reach.tables
        kinds = tasks.kinds_of(work, tables, unreached)
        self.foreign["table"] += len(unreached) - len(kinds)
        # These tables belong to recent, unpushed commits, whose objects may already be lost.
        reach.follow_tables({each: kinds[each] for each in kinds if not tables[each].is_old})
        self.foreign["table"] += reach.foreign
        for each in sorted(unreached - reach.tables):
            kind = tasks.KINDS_OF_TABLES.get(kinds.get(each, ""))
            if kind is not None and tables[each].is_old:
                self._doom(Doomed(SSTABLES + each, tables[each].size, kind))
        self._tables_left = len(tables)

    def _data(self) -> Iterator[tasks.PartListing]:
        """Yield each part, with only the records of its old, unused objects; count all objects."""
        work, live = self._reach.work, self._reach.live
        parts = tasks.all_parts(work)
        later: set[str] = set()
        for listed in live.iter_unreached(work, parts):
            if listed.later:
                later.add(listed.name)
            self._objects += listed.objects
            self._size += listed.size
            self.foreign["object"] += listed.foreign
            if listed.records:
                number, total = total_of(listed.records)
                self._garbage.add(tasks.kind_of_part(listed.name), total, objects=number)
            yield listed
        self._reach.check_not_ahead([part for part in parts if part.name in later])

    def _doom(self, doomed: Doomed) -> None:
        """Add garbage that is not a data object to `others`, and count it."""
        self.others.append(doomed)
        self._garbage.add(doomed.kind, doomed.size)


class Reach:
    """Reads trees and ranges, and records the objects that they refer to.

    Attributes:
        live: the data objects in use; the caller closes this set.
        trees: hex IDs of the metaranges that were read.
        ranges: hex IDs of the ranges that were read.
        dumps: hex IDs of the tables of refs dumps that are kept.
        lost: metaranges and ranges that are missing.
        entries: number of entries in the ranges.
        foreign: number of tables that lakecli did not write.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self.live = live_set.open_live(work.runner)
        self.trees: set[str] = set()
        self.ranges: set[str] = set()
        self.dumps: frozenset[str] = frozenset()
        self.lost: set[str] = set()
        self.entries = 0
        self.foreign = 0

    @property
    def tables(self) -> set[str]:
        """The hex IDs of all tables that are in use."""
        return self.trees.union(self.ranges, self.dumps)

    def follow_roots(self, roots: Roots) -> None:
        """Follow the roots to the data objects.

        Raises:
            MissingTable: a tree that refs reach, or a range of such a tree, is missing.
        """
        # No retention rule deletes the trees of heads, even if the list of deleted trees has them.
        collected = frozenset(gc_protocol.iter_expired(self.work.store)) - roots.heads
        self.follow(roots.trees | roots.dumped_trees, must_exist=True, collected=collected)
        self.dumps = roots.dumps
        self.follow(roots.own_trees, must_exist=False)

    def follow(
        self,
        trees: Collection[str],
        ranges: Collection[str] = (),
        *,
        must_exist: bool,
        collected: Collection[str] = (),
    ) -> None:
        """Read metaranges and ranges that were not read yet.

        Args:
            trees: metaranges, whose ranges are read too.
            must_exist: whether to raise `MissingTable` if a table is missing.
            collected: metaranges that an earlier collection deleted: they may be missing even if
                `must_exist` is true.
        """
        wanted: set[str] = set(ranges)
        for ids, read in tasks.iter_trees(self.work, set(trees) - self.trees):
            self.lost.update(read.missing)
            self.foreign += read.foreign
            for tree in read.missing:
                if must_exist and tree not in collected:
                    raise MissingTable(sstable_key(tree), self.work.store.uri)
            self.trees.update(ids)
            wanted.update(map(bytes.hex, split(read.references, DIGEST)))
        for ids, read in tasks.iter_ranges(
            self.work, wanted - self.ranges, must_exist=must_exist, scratch=self.live.scratch
        ):
            self.lost.update(read.missing)
            self.foreign += read.foreign
            self.ranges.update(ids)
            self.entries += read.entries
            self.live.add(read.references)
            if read.kept is not None:
                assert isinstance(self.live, live_set.SparkLiveSet), "the set has no scratch prefix"
                self.live.add_written(read.kept)

    def follow_tables(self, kinds: Mapping[str, str]) -> None:
        """Read tables that may refer to missing ones; `kinds` has the kind of each, by hex ID."""
        trees, ranges = (
            [each for each in kinds if kinds[each] == kind] for kind in ("metaranges", "ranges")
        )
        self.follow(trees, ranges, must_exist=False)

    def check_not_ahead(self, later: Iterable[tasks.ListingPart]) -> None:
        """Refuse to delete objects of lakeFS if an unused one is younger than the last refs dump.

        Objects in use are ignored, since writers renew the dates of objects that they use.

        Args:
            later: the parts that have younger objects; they are listed again.
        """
        work = self.work
        parts = [each._replace(is_later=True) for each in later]
        for listed in self.live.iter_unreached(work, parts) if parts else ():
            if listed.records:
                part = next(part for part in parts if part.name == listed.name)
                found = tasks.list_part(OpenStore(work.store), part._replace(keys=True))
                keys = dict(zip(split(found.records), found.keys, strict=True))
                key = keys.get(next(split(listed.records)), DATA)
                assert part.last_dump is not None  # without a dump, no object is later
                raise LakeFsAhead(work, key, part.last_dump)


def list_tables(work: Work) -> tuple[dict[str, tasks.TableInfo], int]:
    """Return the ranges and metaranges in the namespace, and the number of other files beside them.

    A young table protects the objects that it refers to. So if a listing lacks young tables, their
    objects could be lost. If far fewer tables are listed than the last collection left, the tables
    are listed twice, and the tables of both listings are returned.
    """
    tables, files = _list_tables(work)
    before = report.tables_left(work.store, work.seen.state.epoch)
    if not contract.is_much_less(len(tables), before):
        return tables, files
    both = tables | _list_tables(work)[0]
    work.repository.notify(
        f"{len(tables):,} ranges and metaranges are listed in {work.store.uri}, but "
        f"the last garbage collection left {before:,}; they were listed twice, and "
        f"{len(both):,} count",
        hint=f"check that nothing is missing: `fsck {work.repository.uri}`",
    )
    return both, files


def _list_tables(work: Work) -> tuple[dict[str, tasks.TableInfo], int]:
    tables, files = {}, 0
    for info in work.store.list(SSTABLES):
        name = info.key.removeprefix(SSTABLES)
        if TABLE.fullmatch(name):
            is_old = info.modified_at < work.times.cutoff
            tables[name] = tasks.TableInfo(info.size, is_old, info.version, info.modified_at)
        elif info.key != LAKEFS_MARKER:
            files += 1
    return tables, files


def iter_rest(reach: Reach, roots: Roots) -> Iterator[Doomed]:
    """Yield garbage other than data objects, tables and unfinished uploads.

    Args:
        reach: the objects in use; all roots have been followed.
    """
    work = reach.work
    yield from roots.unneeded
    for info in attestations.iter_ended(work.store, reach.trees, before=work.times.cutoff):
        yield Doomed(info.key, info.size, "statement", info.version)
    for kind in ("incoming", "doctor", "scratch"):
        for info in work.store.list(report.KINDS[kind][0]):
            # While the links of a set are valid, somebody may upload objects with them.
            needed = presigned_urls.LONGEST if is_of_link_set(info.key) else timedelta(0)
            if info.modified_at + needed < work.times.cutoff:
                yield Doomed(info.key, info.size, kind, info.version)


def abandoned(store: contract.ObjectStore, cutoff: datetime) -> Iterator[tuple[str, str]]:
    """Yield the key and the ID of each multipart upload that has not changed since `cutoff`."""
    uploads = capabilities.uploads_of(store)
    if uploads is None:
        return
    incoming = uploads.iter_unfinished(INCOMING)  # large objects sent to upload links
    for each in chain(uploads.iter_unfinished(DATA), incoming):
        needed = presigned_urls.LONGEST if each.key.startswith(INCOMING) else timedelta(0)
        if each.started_at + needed >= cutoff:
            continue
        try:
            changed_at = uploads.changed_at(each.key, each.id)
        except capabilities.UploadNotFound:
            continue
        if changed_at is None or changed_at < cutoff:
            yield each.key, each.id


def summary_of(work: Work, roots: Roots, doomed: Iterable[Doomed], objects: int) -> GarbageSummary:
    """Return a summary, by branch and tag, of the objects that are about to be deleted.

    Args:
        doomed: garbage; only its metaranges are counted.
        objects: number of data objects that are garbage.
    """
    default = (RefKind.BRANCH, work.repository.record.default_branch)
    refs = {(ref.kind, ref.name): ref for ref in roots.refs}
    ordered = [refs[each] for each in sorted(refs, key=lambda each: (each != default, each))]
    seen: set[CommitId] = set()
    left = {each.key.removeprefix(SSTABLES) for each in doomed if each.kind == "metarange"}

    def take(starts: Iterable[CommitId | None]) -> int:
        before = len(left)
        waiting = [each for each in starts if each is not None]
        while waiting:
            commit_id = waiting.pop()
            commit = roots.history.get(commit_id)
            if commit is not None and commit_id not in seen:
                seen.add(commit_id)
                left.discard(commit.tree)
                waiting += commit.parents
        return before - len(left)

    heads = former = [0] * len(ordered)
    if left:
        heads = [take([ref.commit_id]) for ref in ordered]
        moves = ([(move.after, move.before) for move in ref.moves] for ref in ordered)
        former = [take(chain.from_iterable(each)) for each in moves]
    counts = zip(ordered, heads, former, strict=True)
    found = [
        report.RefGarbage(ref.kind, ref.name, ref.commit_id is None, old, gone)
        for ref, old, gone in counts
        if old or gone or (ref.kind, ref.name) == default
    ]
    return GarbageSummary(tuple(found[: report.MOST_REFS]), len(left), objects)
