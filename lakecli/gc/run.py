"""Advance garbage collection as far as time allows: condemn garbage, and delete it later.

A run takes one step. In the idle state, the step condemns garbage. If objects are condemned and the
grace period is over, the step sweeps. If a sweep of this or another machine was interrupted and its
lease is over, the step continues the sweep. If a step is killed at any point, the same command
leads to the same result.

`prepare` determines the next step, and `take` takes it. Between these calls, the caller may ask a
person for confirmation. A step changes the state only if it is still the state that `prepare` read.
So a step deletes only objects that the person has confirmed.

The lists of condemned objects name candidates only. A sweep finds the objects in use by following
the refs again, and deletes only objects that are still old, still unreached, and not kept.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import chain
from typing import Final, NamedTuple

from lakecli.base.layout import SSTABLES
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.engine.runner import Runner
from lakecli.errors import NothingToDo
from lakecli.gc import known_refs, policy, report, state, tasks
from lakecli.gc.lease import SweepLease
from lakecli.gc.mark import Mark, Reach, abandoned, iter_rest, list_tables, summary_of
from lakecli.gc.policy import GcOptions, SharedNamespace, Work
from lakecli.gc.report import Action, Doomed, GarbageSummary, GcReport, GcStatus
from lakecli.gc.roots import Roots, check_refs, gather, iter_staged, reflog_cutoff
from lakecli.gc.state import Garbage, status, undo
from lakecli.remote import gc_protocol, ref_records
from lakecli.remote.gc_protocol import ObservedState, Phase, iter_keeps
from lakecli.repository.contract import Repository
from lakecli.repository.handle.namespace import check_readable, check_writable
from lakecli.repository.journal import bucket_state
from lakecli.repository.lakefs.kept_dumps import confirm_stopped, find_last_dump, find_take_over
from lakecli.settings.keys import check_grace
from lakecli.stores import capabilities, contract, streams

__all__ = ["Action", "GcOptions", "GcReport", "GcStatus", "SharedNamespace", "Step"]
__all__ += ["prepare", "status", "take", "undo"]


BATCH: Final = 1_000
"""Keys in one delete request, the maximum of stores; the lease is checked before each request."""

_PARALLELISM: Final = 8
"""Number of delete requests that a sweep sends at a time."""

_KEPT: Final = 50_000
"""Maximum number of kept keys in memory."""


class Step(NamedTuple):
    """The next step of a collection, which `take` takes.

    Attributes:
        question: the deletion or the refs that a person must confirm; ``""`` if nothing.
        status: the state before the step.
        waits: whether there is nothing to do yet.
        accepts: the error about missing or older refs that the step overrides, or ``None``.
    """

    question: str
    work: Work
    options: GcOptions
    refs: Sequence[ref_records.RemoteRef]
    status: GcStatus
    waits: bool = False
    accepts: known_refs.UncertainRefs | None = None


def prepare(repository: Repository, runner: Runner, options: GcOptions) -> Step:
    """Return the next step; this function condemns and deletes nothing.

    Raises:
        UsageError: the grace period is too short or too long; or the caller confirmed that lakeFS
            has stopped, but the namespace was not taken over; or the retention rules are invalid.
        CannotShare: the store has no working compare-and-set.
        DamagedState: the state is damaged.
        BadRecord: the record of a refs dump that is kept is not valid.
        RefsWentBack, UnreadableRef: a ref is missing, older than when last seen, or damaged.
        DamagedObservation: the record of the refs that the last collection saw is damaged.
    """
    check_grace(options.grace)
    if options.dry_run:
        check_readable(repository)
    else:
        check_writable(repository)
        capabilities.clear_temporaries(repository.store)
    work = _begin(repository, runner, options)
    refs, uncertain = check_refs(work.store, work.known)
    present = state.status_of(repository, work.seen).with_grace(options.grace)
    step = Step("", work, options, refs, present, accepts=uncertain)
    if uncertain is not None:
        if not options.accept_restored:
            raise uncertain
        if options.dry_run:
            idle = ObservedState(work.seen.state._replace(phase=Phase.IDLE, mark=""), None, None)
            anew = work._replace(seen=idle, known=known_refs.KnownRefs(repository.uri))
            times = work.times._replace(grace=options.grace)
            return step._replace(work=anew._replace(times=times))
        question = f"accept the branches and tags of {repository.uri} as they are"
        return step._replace(question=f"{question} ({uncertain.what})")
    if options.dry_run:
        return step
    now = work.times.now
    known_refs.put_last(work.store, refs)
    cutoff = reflog_cutoff(now, options.grace)
    name = repository.lake.runtime.new_id().hex()
    known_refs.observe(work.store, name, refs, now=now, cutoff=cutoff)
    if work.is_idle:
        return step
    if options.lakefs_stopped:
        confirm_stopped(work.store)
    at = present.sweep_at or present.resume_at
    assert at is not None
    if now <= at:
        return step._replace(waits=True)
    what = "" if present.summary is None else f" ({present.summary})"
    return step._replace(question=f"permanently delete the garbage in {work.store.uri}{what}")


def _begin(repository: Repository, runner: Runner, options: GcOptions) -> Work:
    """Read the inputs of a collection.

    A dry run uses this machine's clock, because asking the store for its time writes an object.
    """
    store = repository.store
    now = repository.lake.runtime.now() if options.dry_run else gc_protocol.store_now(store)
    rules, taken = policy.find_rules(store), find_take_over(store)
    if options.lakefs_stopped:
        if taken is None:
            raise policy.NotTakenOver(repository.uri)
        taken = taken._replace(stopped_at=now)
    last_dump = None if taken is None else find_last_dump(store, taken.dump)
    seen = gc_protocol.look(store)
    # Objects younger than the requested grace period are never garbage, whatever the state says.
    begun = seen.state.phase is not Phase.IDLE
    times = policy.Times(now, max(options.grace, seen.state.grace) if begun else options.grace)
    known = known_refs.find_known(repository)
    return Work(repository, store, runner, times, rules, taken, last_dump, known, seen)


def take(step: Step, *, progress: Progress = NO_PROGRESS) -> GcReport:
    """Take a step, if the state has not changed since the step was prepared.

    A step that accepts refs ends a collection in progress and prepares a new one.

    Args:
        progress: counts the finished parts of the work, such as tables read and prefixes listed.

    Raises:
        SharedNamespace: another program uses the namespace, or lakeFS may do so; or lakeFS has
            written since the last refs dump.
        StateMoved: another machine collects at the same time, or has collected meanwhile.
        RefsWentBack, UnreadableRef: a ref is missing, older than when last seen, or damaged.
        LostHistory, MissingTable, LostMarks, …: the objects in use, or the condemned objects, are
            unknown, so nothing is deleted.
        SweepTooSlow: the store answers too slowly for a safe sweep; a later call continues it.
        OutcomeUnknown, Unreachable: the store failed; the same call continues the step.
    """
    if step.waits:
        return GcReport(Action.WAITS, step.status)
    if step.accepts is not None and not step.options.dry_run:
        return _accept_refs(step, step.accepts, progress)
    reach = Reach(step.work._replace(progress=progress))
    with closing(reach.live):
        return _condemn(step, reach) if step.work.is_idle else _sweep(step, reach)


def _accept_refs(step: Step, uncertain: known_refs.UncertainRefs, progress: Progress) -> GcReport:
    """Accept the present refs, end a collection in progress, and begin a new one.

    During the grace period of the new collection, clones can push the objects and commits that the
    bucket lacks.
    """
    work = step.work
    repository, store = work.repository, work.store
    if not work.is_idle:
        with suppress(NothingToDo):  # another machine has ended it since the question
            state.undo_condemnation(repository, force=True)
    from lakecli.repository.sharing.fetch import fetch  # needed only to accept refs

    fetch(repository)
    unknown = known_refs.KnownRefs(repository.uri)
    refs, gone_back = known_refs.read_known_refs(store, unknown, step.refs)
    if gone_back:  # since the question
        raise known_refs.RefsWentBack(repository.uri, gone_back)
    known_refs.put_last(store, refs)
    with repository.lake.kv.write() as txn:
        bucket_state.forget_rollback(txn, repository)
    options = step.options._replace(accept_restored=False)
    next_step = prepare(repository, work.runner, options)
    if next_step.question:  # another machine has condemned objects, which nobody has confirmed
        next_step = next_step._replace(waits=True)
    return take(next_step, progress=progress)._replace(accepted=uncertain.lost)


def _follow_roots(reach: Reach, before: Iterable[ref_records.RemoteRef]) -> Roots:
    """Find the roots, and follow them to the data objects."""
    work = reach.work
    for digests in iter_staged(work.repository, work.times.now):
        reach.live.add(digests)
    roots = gather(work, before)
    reach.follow_roots(roots)
    return roots


def _condemn(step: Step, reach: Reach) -> GcReport:
    """Find garbage and condemn it; in a dry run, only report it."""
    work, seen, options = step.work, step.work.seen, step.options
    repository, store, now = work.repository, work.store, work.times.now
    runtime = repository.lake.runtime
    policy.check_published(work)
    if not options.dry_run:
        state.clean_up(store, seen.state, now)
    epoch, mark_id = seen.state.epoch + 1, runtime.new_id().hex()
    marks = state.Marks(store, f"{epoch}-{mark_id}")
    runtime.on_step("gc:mark")
    roots = _follow_roots(reach, step.refs)
    mark = Mark(reach, roots)
    for listed in mark.run():
        policy.check_stopped(work, listed.newest)
        if listed.records and not options.dry_run:
            marks.put_data(listed.name, listed.records)
    result = mark.result(step.status)
    shared = None if options.force_shared else policy.find_sharing(work, mark.foreign)
    if shared is not None:
        if not options.dry_run:
            marks.delete()
        raise shared
    if options.dry_run:
        return result._replace(accepted=() if step.accepts is None else step.accepts.lost)
    if options.lakefs_stopped:
        confirm_stopped(store)
    known_refs.put_last(store, roots.refs)
    if result.summary is not None:
        runtime.on_step("gc:write-marks")
        marks.put_others(mark.others)
        marks.put_summary(result.summary)
        changes = {"epoch": epoch, "mark": marks.name, "grace": options.grace}
        state.move_state(repository, seen, phase=Phase.CONDEMNED, **changes)
        report.write_report(store, epoch, result, now)
    return result._replace(status=state.status_of(repository, gc_protocol.look(store)))


def _sweep(step: Step, reach: Reach) -> GcReport:
    """Delete condemned objects that are still unreached; in a dry run, only count them."""
    work, seen = step.work, step.work.seen
    repository, store, now = work.repository, work.store, work.times.now
    this = Sweep(step, reach)
    if step.options.dry_run:
        this.find()
        this.preview()
        return this.result(step.status)
    if seen.state.phase is Phase.CONDEMNED:
        # Do this before the sweep begins, because writers wait for its end. A failure changes
        # nothing.
        repository.lake.runtime.on_step("gc:prepare")
        state.check_lists(repository, seen)
        this.prepare()
    with SweepLease(repository, seen, now) as lease:
        this.marks.check_age(now, work.times.grace)
        report.write_fields(store, seen.state.epoch, "sweeping", report.fields_of(this.find()), now)
        this.run(lease)
        result = this.result(step.status)
        report.write_report(store, seen.state.epoch, result, now)
        known_refs.put_last(store, this.refs)
    return result._replace(status=status(repository))


class Sweep:
    """Finds and deletes the garbage of one sweep, or counts it for a preview.

    Attributes:
        refs: the refs in the bucket as they were last read.
    """

    def __init__(self, step: Step, reach: Reach) -> None:
        self.marks = state.Marks(step.work.store, step.work.seen.state.mark)
        self.refs = step.refs
        self._work = reach.work
        self._store = reach.work.store
        self._reach = reach
        self._garbage = report.GarbageCounter()
        self._spared = 0
        self._others: list[Doomed] = []
        self._left = 0
        self._summary = GarbageSummary()

    def prepare(self) -> None:
        """Follow all roots before the sweep begins, because writers wait until the sweep ends.

        Tables never change, so `find` reads only tables that came into use after this call.

        Raises:
            LostHistory, MissingTable, DamagedPack, …: a table or commit to keep is missing or
                damaged.
        """
        self.refs = _follow_roots(self._reach, self.refs).refs
        self._keep()
        self._check_lakefs()

    def find(self) -> GarbageSummary:
        """Find garbage among the condemned objects; return a summary of it by branch and tag.

        The summary counts all condemned data objects: only `run` determines which of them are still
        garbage.
        """
        roots, tables = self._remark()
        self._check_lakefs()
        self._others = [*self._tables(tables), *self._rest(roots)]
        self._left = len(tables) - self._garbage.objects("range", "metarange")
        condemned = self.marks.summary() or GarbageSummary()
        self._summary = summary_of(self._work, roots, self._others, condemned.objects)
        return self._summary

    def preview(self) -> None:
        """Count the data objects and the multipart uploads that are garbage."""
        for _ in chain(self._data(), self._uploads()):
            pass

    def run(self, lease: SweepLease) -> None:
        """Delete the garbage that `find` has found, garbage data objects, and abandoned uploads.

        Raises:
            LostMarks: a list of condemned objects is missing or damaged.
            StateMoved: another machine has taken over or ended the sweep.
            SweepTooSlow: a deletion took so long that the sweep must end.
        """
        trees = [each for each in self._others if each.kind == "metarange"]
        names = [each.key.removeprefix(SSTABLES) for each in trees]
        state.add_expired(self._store, lease.state.epoch, names)
        # A tree is deleted before the objects that it refers to.
        self._delete(_garbage(trees), lease)
        self._delete(_garbage(each for each in self._others if each.kind != "metarange"), lease)
        with closing(self._data()) as found:
            for objects in found:
                lease.renew_if_due()  # there may be nothing to delete for a long time
                self._delete(objects, lease)
        uploads = capabilities.uploads_of(self._store)
        for key, upload in self._uploads():
            if uploads is not None:
                uploads.abort(key, capabilities.UploadId(upload))

    def result(self, status: GcStatus) -> GcReport:
        """Return the report of the objects that `run` has deleted, or `preview` has counted."""
        totals, objects = self._garbage.totals(), self._garbage.objects("data", "lakefs")
        found = GcReport(Action.SWEPT, status, totals, self._spared, tables=self._left)
        return found._replace(summary=self._summary._replace(objects=objects))

    def _delete(self, objects: Iterable[Garbage], lease: SweepLease) -> None:
        """Delete objects while the lease is valid; count the objects that the store kept."""
        with ThreadPoolExecutor(_PARALLELISM) as pool:
            for several in streams.batches(objects, BATCH * _PARALLELISM):
                self._work.repository.lake.runtime.on_step("gc:delete")
                self._spared += sum(pool.map(lease.delete, streams.batches(several, BATCH)))

    def _check_lakefs(self) -> None:
        """Refuse to sweep objects of lakeFS if it wrote after its confirmed stop or last dump."""
        work = self._work
        if work.lakefs is None:
            return
        later = []
        for part, listed in tasks.list_parts(work, tasks.recent_lakefs_parts(work)):
            policy.check_stopped(work, listed.newest)
            later += [part] * bool(listed.later)
        self._reach.check_not_ahead(later)

    def _remark(self) -> tuple[Roots, dict[str, tasks.TableInfo]]:
        """Follow refs, recent tables and keeps that were added since `prepare`, in this order."""
        work, reach = self._work, self._reach
        roots = _follow_roots(reach, self.refs)
        self.refs = roots.refs
        tables, _ = list_tables(work)
        kept = self._keep()
        wanted = {each for each, info in tables.items() if not info.is_old} | kept
        kinds = tasks.kinds_of(work, tables, (wanted & tables.keys()) - reach.tables, renewed=kept)
        reach.follow_tables(kinds)
        return roots, tables

    def _keep(self) -> set[str]:
        """Add the data objects named by keeps to the live set; return the tables named by keeps."""
        tables: set[str] = set()
        digests: set[bytes] = set()
        for key in iter_keeps(self._store):
            digest = tasks.digest_of_key(key)
            if digest is not None:
                digests.add(digest)
                if len(digests) >= _KEPT:
                    self._reach.live.add(b"".join(sorted(digests)))
                    digests.clear()
            elif key.startswith(SSTABLES):
                tables.add(key.removeprefix(SSTABLES))
        self._reach.live.add(b"".join(sorted(digests)))
        return tables

    def _tables(self, tables: dict[str, tasks.TableInfo]) -> list[Doomed]:
        """Return the condemned tables that are still garbage; count the other ones as spared."""
        reached = self._reach.tables
        found = []
        for each in self.marks.others():
            name = each.key.removeprefix(SSTABLES)
            if each.kind not in tasks.KINDS_OF_TABLES.values() or name not in tables:
                continue
            if name in reached or not tables[name].is_old:
                self._spared += 1
            else:
                found.append(each._replace(size=tables[name].size, version=tables[name].version))
        names = [each.key.removeprefix(SSTABLES) for each in found]
        kinds = tasks.kinds_of(self._work, tables, names)
        may_go = []
        for name, each in zip(names, found, strict=True):
            if tasks.KINDS_OF_TABLES.get(kinds.get(name, "")) == each.kind:
                self._garbage.add(each.kind, each.size)
                may_go.append(each)
            else:
                self._spared += 1
        return may_go

    def _rest(self, roots: Roots) -> list[Doomed]:
        """Return condemned objects, other than data objects and tables, that are still garbage."""
        others = ((each.key, each.kind) for each in self.marks.others())
        doomed = {each for each in others if each[1] not in tasks.KINDS_OF_TABLES.values()}
        if not doomed:
            return []
        found = [each for each in iter_rest(self._reach, roots) if (each.key, each.kind) in doomed]
        for each in found:
            self._garbage.add(each.kind, each.size)
        return found

    def _data(self) -> Generator[Iterable[Garbage]]:
        """Yield garbage data objects, part by part, and empty batches while waiting for a part."""
        work, parts = self._work, []
        for name in self.marks.data_parts():
            kind = tasks.kind_of_part(name)
            if kind == "lakefs" and work.lakefs is None:
                self._spared += len(self.marks.data(name)) // state.RECORD
            else:
                keys = kind == "lakefs" or isinstance(self._store, capabilities.DeletesMatching)
                parts.append(tasks.part_named(work, name, keys=keys))
        if not parts:
            return
        for found in self._reach.live.iter_garbage(work, self.marks.name, parts):
            if found is not None:
                self._spared += found.spared
                self._garbage.add(tasks.kind_of_part(found.name), found.size, objects=found.objects)
            yield () if found is None else found.garbage

    def _uploads(self) -> Iterator[tuple[str, str]]:
        """Yield the key and the ID of each abandoned multipart upload, and count it."""
        for each in list(abandoned(self._store, self._work.times.cutoff)):
            self._garbage.add("upload")
            yield each


def _garbage(doomed: Iterable[Doomed]) -> Iterator[Garbage]:
    return ((each.key, contract.Version(each.version)) for each in doomed)
