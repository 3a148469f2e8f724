"""Advance garbage collection as far as time allows, and undo it.

One step does one thing: in the idle state it condemns; if something is condemned and the grace
period is over, it sweeps; it continues an interrupted sweep, of this or another machine, once its
lease is over. After a kill at any point, the same command leads to the same result.

`prepare` finds out what the next step is, `take` takes it. Between the two a person may be asked.
A step moves the state only from what `prepare` has seen, so that only is deleted about which a
person was asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import timedelta
from operator import attrgetter
from typing import NamedTuple

from lakecli.base.layout import SHORTEST_GRACE
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.engine.runner import Runner
from lakecli.engine.spark_runner import SparkRunner
from lakecli.errors import NothingToDo
from lakecli.gc.data_objects import DigestSet, LiveSet
from lakecli.gc.known_refs import (
    KnownRefs,
    RefsWentBack,
    UncertainRefs,
    observe,
    put_last,
    read_known_refs,
)
from lakecli.gc.mark import Mark, Reach
from lakecli.gc.policy import GcOptions, SharedNamespace, Work, begin, check_published, find_sharing
from lakecli.gc.report import Action, GcReport, GcStatus, write_report
from lakecli.gc.roots import check_refs, reflog_cutoff
from lakecli.gc.spark_live_set import SparkLiveSet
from lakecli.gc.state import Marks, clean_up, move_state, undo_condemnation
from lakecli.gc.sweep import sweep
from lakecli.remote import gc_protocol
from lakecli.remote.gc_protocol import LEASE, STALE_AFTER, ObservedState, Phase
from lakecli.remote.ref_records import RemoteRef
from lakecli.repository.contract import Repository
from lakecli.repository.handle.namespace import check_readable, check_writable
from lakecli.repository.journal import bucket_state
from lakecli.repository.lakefs.kept_dumps import all_kept, confirm_stopped, find_take_over
from lakecli.settings.keys import check_grace
from lakecli.stores.capabilities import clear_temporaries

__all__ = [
    "Action",
    "GcOptions",
    "GcReport",
    "GcStatus",
    "SharedNamespace",
    "Step",
    "advance",
    "prepare",
    "status",
    "take",
    "undo",
]


class Step(NamedTuple):
    """The next step of a collection, which `take` takes.

    Attributes:
        question: what it deletes or accepts, for a person to confirm; ``""``: nothing.
        work: what the collection works with.
        options: how to collect.
        refs: the refs in the bucket.
        status: the state before the step.
        waits: whether nothing is to be done yet.
        accepts: the refusal of the refs that the step accepts; ``None``: there is none.
    """

    question: str
    work: Work
    options: GcOptions
    refs: Sequence[RemoteRef]
    status: GcStatus
    waits: bool = False
    accepts: UncertainRefs | None = None


def advance(
    repository: Repository,
    runner: Runner,
    options: GcOptions,
    *,
    progress: Progress = NO_PROGRESS,
) -> GcReport:
    """Advance garbage collection as far as time allows, without a question.

    Args:
        repository: the repository.
        runner: runs the work that grows with the data.
        options: how to collect.
        progress: as in `take`.

    Raises:
        LakeError: as `prepare` and `take` do.
    """
    return take(prepare(repository, runner, options), progress=progress)


def prepare(repository: Repository, runner: Runner, options: GcOptions) -> Step:
    """Return the next step; nothing is condemned or deleted before it is taken.

    Args:
        repository: the repository.
        runner: runs the work that grows with the data.
        options: how to collect.

    Raises:
        UsageError: the grace period is too short or too long; or lakeFS is said to have stopped,
            but the namespace was not taken over from it.
        CannotShare: the store has no working compare-and-set.
        DamagedState: the state is damaged.
        RefsWentBack, UnreadableRef, DamagedObservation: a ref is missing, older than it was, or
            damaged, or what the last collection saw of the refs is.
    """
    check_grace(options.grace)
    if options.dry_run:
        check_readable(repository)
    else:
        check_writable(repository)
        clear_temporaries(repository.store)
    work = begin(repository, runner, options)
    refs, uncertain = check_refs(work)
    present = _status(repository, work.seen, options.grace)
    step = Step("", work, options, refs, present, accepts=uncertain)
    if uncertain is not None:
        if not options.accept_restored:
            raise uncertain
        if options.dry_run:
            idle = work.seen.state._replace(phase=Phase.IDLE, mark="")
            work = work._replace(
                seen=ObservedState(idle, None, None),
                known=KnownRefs(repository.uri),
                times=work.times._replace(grace=options.grace),
            )
            return step._replace(work=work)
        question = f"accept the branches and tags of {repository.uri} as they are"
        return step._replace(question=f"{question} ({uncertain.what})")
    if options.dry_run:
        return step
    now = work.times.now
    put_last(work.store, refs)
    cutoff = reflog_cutoff(now, options.grace)
    observe(work.store, repository.lake.runtime.new_id().hex(), refs, now=now, cutoff=cutoff)
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


def take(step: Step, *, progress: Progress = NO_PROGRESS) -> GcReport:
    """Take a step, if the state is still as it was when the step was prepared.

    A step that accepts refs ends a collection that has begun, and looks at the state anew.

    Args:
        step: what `prepare` returned.
        progress: counts the parts of the work that are done: tables to read, and listings.

    Raises:
        SharedNamespace: another program uses the namespace, or lakeFS may do so; or lakeFS has
            written since the last refs dump.
        StateMoved: another machine collects at the same time, or has collected meanwhile.
        RefsWentBack, UnreadableRef: a ref is missing, older than it was, or damaged.
        LostHistory, MissingTable, LostMarks, …: the objects in use, or those condemned, are
            unknown, so nothing is deleted.
        SweepTooSlow: the store answers too slowly for a safe sweep; a later call continues it.
        OutcomeUnknown, Unreachable: the same call continues.
    """
    if step.waits:
        return GcReport(Action.WAITS, step.status)
    if step.accepts is not None and not step.options.dry_run:
        return _accept_refs(step, step.accepts, progress)
    with closing(open_live(step.work.runner)) as live:
        reach = Reach(step.work._replace(progress=progress), step.refs, live)
        if step.work.is_idle:
            return _condemn(step, reach)
        report = sweep(reach, step.status, dry_run=step.options.dry_run)
    if step.options.dry_run:
        return report
    return report._replace(status=status(step.work.repository, grace=step.options.grace))


def open_live(runner: Runner) -> LiveSet:
    """Return an empty set for the data objects in use.

    On Spark the set is in the namespace, unless that may not be written.
    """
    if isinstance(runner, SparkRunner) and runner.scratch and runner.scratch.is_writable():
        return SparkLiveSet(runner, runner.scratch)
    return DigestSet()


def undo(
    repository: Repository, *, force: bool = False, grace: timedelta = SHORTEST_GRACE
) -> GcStatus:
    """Undo a condemnation; with `force` end an interrupted sweep, or replace a damaged state.

    Args:
        repository: the repository.
        force: accept that what a sweep has deleted stays deleted.
        grace: as in `status`.

    Raises:
        NothingToDo: nothing is condemned.
        Refused: the sweep has begun; with `force`: it may be running.
        DamagedState: the state is damaged.
        StateMoved: another machine moved the state at the same time.
    """
    undo_condemnation(repository, force=force)
    return status(repository, grace=grace)


def status(repository: Repository, *, grace: timedelta = SHORTEST_GRACE) -> GcStatus:
    """Return the state of a repository's garbage collection.

    Args:
        repository: the repository.
        grace: the shortest grace period that this machine accepts.

    Raises:
        DamagedState: the state is damaged.
        BadRecord: the record of a refs dump that is kept is not valid.
    """
    store, now = repository.store, repository.lake.runtime.now()
    found = _status(repository, gc_protocol.look(store), grace)
    taken = find_take_over(store)
    kept = all_kept(store, taken, now)
    return found._replace(
        dumps=tuple(sorted(kept, key=attrgetter("since"))),
        lakefs_stopped=None if taken is None else taken.stopped_at,
    )


def _status(repository: Repository, seen: ObservedState, grace: timedelta) -> GcStatus:
    state = seen.state
    sweep_at = resume_at = None
    summary = Marks(repository.store, state.mark).summary() if state.mark else None
    if seen.since is not None and state.phase is Phase.CONDEMNED:
        newest = Marks(repository.store, state.mark).newest() or seen.since
        sweep_at = max(seen.since, newest) + max(state.grace, grace) + STALE_AFTER
    if seen.since is not None and state.phase is Phase.SWEEPING:
        resume_at = seen.since + LEASE
    return GcStatus(
        state.phase, state.epoch, state.grace, seen.since, sweep_at, resume_at, summary=summary
    )


def _accept_refs(step: Step, uncertain: UncertainRefs, progress: Progress) -> GcReport:
    """Accept the present refs, end a collection that began before, and begin another one.

    So a whole grace period is left to push what only clones have.
    """
    work = step.work
    repository, store = work.repository, work.store
    if not work.is_idle:
        with suppress(NothingToDo):  # another machine has ended it since the question
            undo_condemnation(repository, force=True)
    from lakecli.repository.sharing.fetch import fetch  # needed only to accept refs

    fetch(repository)
    refs, gone_back = read_known_refs(store, KnownRefs(repository.uri), step.refs)
    if gone_back:  # since the question
        raise RefsWentBack(repository.uri, gone_back)
    put_last(store, refs)
    with repository.lake.kv.write() as txn:
        bucket_state.forget_rollback(txn, repository)
    options = step.options._replace(accept_restored=False)
    next_step = prepare(repository, work.runner, options)
    if next_step.question:  # another machine has condemned, and nobody has confirmed to delete that
        next_step = next_step._replace(waits=True)
    return take(next_step, progress=progress)._replace(accepted=uncertain.lost)


def _condemn(step: Step, reach: Reach) -> GcReport:
    """Mark garbage, and condemn it."""
    work, seen, options = step.work, step.work.seen, step.options
    repository, store, now = work.repository, work.store, work.times.now
    runtime = repository.lake.runtime
    check_published(work)
    if not options.dry_run:
        clean_up(store, seen.state, now)
    epoch, mark_id = seen.state.epoch + 1, runtime.new_id().hex()
    marks = Marks(store, f"{epoch}-{mark_id}")
    runtime.on_step("gc:mark")
    roots = reach.follow_roots()
    mark = Mark(reach, roots)
    mark.run(None if options.dry_run else marks)
    report = mark.report(step.status)
    shared = None if options.force_shared else find_sharing(work, mark.foreign)
    if shared is not None:
        if not options.dry_run:
            marks.delete()
        raise shared
    if options.dry_run:
        return report._replace(accepted=() if step.accepts is None else step.accepts.lost)
    if options.lakefs_stopped:
        confirm_stopped(store)
    put_last(store, roots.refs)
    if report.summary is not None:
        runtime.on_step("gc:write-marks")
        marks.put_others(mark.others)
        marks.put_summary(report.summary)
        move_state(
            repository,
            seen,
            phase=Phase.CONDEMNED,
            epoch=epoch,
            mark=marks.name,
            grace=options.grace,
        )
        write_report(store, epoch, report, now)
    return report._replace(status=_status(repository, gc_protocol.look(store), options.grace))
