"""Advance garbage collection as far as time allows, and undo it.

One call does one thing: in the idle state it condemns; if something is condemned and the grace
period is over, it sweeps; it continues an interrupted sweep, of this or another machine, once its
lease is over. After a kill at any step, the same call leads to the same result.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from operator import attrgetter

from lakecli.base.layout import SHORTEST_GRACE
from lakecli.engine.runner import Runner, location_for
from lakecli.engine.spark_runner import SparkRunner
from lakecli.errors import UsageError
from lakecli.gc.data_objects import DigestSet, LiveSet
from lakecli.gc.known_refs import (
    DamagedObservation,
    KnownRefs,
    LostRef,
    RefsWentBack,
    observe,
    put_last,
)
from lakecli.gc.mark import Mark, Reach
from lakecli.gc.policy import (
    GcOptions,
    SharedNamespace,
    Times,
    Work,
    check_published,
    find_rules,
    find_sharing,
)
from lakecli.gc.report import (
    Action,
    GcReport,
    GcStatus,
    fields_of,
    write_fields,
    write_report,
)
from lakecli.gc.roots import check_refs, reflog_cutoff
from lakecli.gc.spark_live_set import SparkLiveSet
from lakecli.gc.state import LostMarks, Marks, SweepLease, clean_up, move_state, undo_condemnation
from lakecli.gc.sweep import Sweep
from lakecli.remote import gc_protocol
from lakecli.remote.gc_protocol import LEASE, STALE_AFTER, ObservedState, Phase, store_now
from lakecli.repository.contract import Repository
from lakecli.repository.handle.namespace import check_readable, check_writable
from lakecli.repository.journal import tracking
from lakecli.repository.lakefs.kept_dumps import (
    TakenOver,
    all_kept,
    confirm_stopped,
    find_take_over,
    last_dump_at,
)
from lakecli.settings.keys import check_grace
from lakecli.stores.capabilities import clear_temporaries

__all__ = [
    "Action",
    "GcOptions",
    "GcReport",
    "GcStatus",
    "SharedNamespace",
    "advance",
    "status",
    "undo",
]


class NotTakenOver(UsageError):
    """It is confirmed that lakeFS has stopped, where it never was."""


def advance(repository: Repository, runner: Runner, options: GcOptions) -> GcReport:
    """Advance garbage collection as far as time allows.

    Args:
        repository: the repository.
        runner: runs the work that grows with the data.
        options: how to collect.

    Raises:
        UsageError: the grace period is too short or too long; or lakeFS is said to have stopped,
            but the namespace was not taken over from it.
        SharedNamespace: another program uses the namespace, or lakeFS may do so; or lakeFS has
            written since the last refs dump.
        StateMoved: another machine collects at the same time.
        CannotShare: the store has no working compare-and-set.
        DamagedState: the state is damaged.
        RefsWentBack, UnreadableRef, DamagedObservation: a ref is missing, older than it was, or
            damaged, or what the last collection saw of the refs is.
        LostHistory, MissingTable, LostMarks, …: the objects in use, or those condemned, are
            unknown, so nothing is deleted.
        SweepTooSlow: the store answers too slowly for a safe sweep; a later call continues it.
        Refused: the answer to the question was no.
        OutcomeUnknown, Unreachable: the same call continues.
    """
    check_grace(options.grace)
    if options.dry_run:
        check_readable(repository)
    else:
        check_writable(repository)
        clear_temporaries(repository.store)
    store, runtime = repository.store, repository.lake.runtime
    # A dry run writes nothing, not even to learn the store's time.
    now = runtime.now() if options.dry_run else store_now(store)
    rules = find_rules(store)
    taken = _find_take_over(repository, options, now)
    last_dump = None if taken is None else last_dump_at(store, taken.dump)
    seen = gc_protocol.look(store)
    accepted: tuple[LostRef, ...] = ()
    if options.accept_restored:
        seen, known, accepted = _accept_refs(repository, options, seen)
    else:
        known = KnownRefs.of(repository)
    refs = check_refs(known, store)
    if not options.dry_run:
        cutoff = reflog_cutoff(now, options.grace)
        put_last(store, refs)
        observe(store, runtime.new_id().hex(), refs, now=now, cutoff=cutoff)
    state, present = seen.state, _status(repository, seen, options.grace)
    is_idle = state.phase is Phase.IDLE
    # Nothing younger than this machine's grace period is garbage, whatever the state says.
    grace = options.grace if is_idle else max(options.grace, state.grace)
    work = Work(
        repository,
        store,
        known,
        runner,
        location_for(repository, runner),
        Times(now, grace),
        rules,
        taken,
        last_dump,
        options.progress,
        state.epoch,
    )
    if not is_idle and not options.dry_run:
        if options.lakefs_stopped:
            confirm_stopped(store)
        at = present.sweep_at or present.resume_at
        assert at is not None
        if now <= at:
            return GcReport(Action.WAITS, present)
    with open_live(runner) as live:
        reach = Reach(work, live)
        if is_idle:
            return _condemn(reach, options, seen, present)._replace(accepted=accepted)
        sweep = Sweep(reach, Marks(store, state.mark))
        if options.dry_run:
            sweep.find()
            sweep.preview()
            return sweep.report(present)
        return _sweep(sweep, options, seen, present)


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
        sweep_at = seen.since
        with suppress(LostMarks):
            # The state may be forged, with lists written just now.
            sweep_at = max(sweep_at, Marks(repository.store, state.mark).newest())
        sweep_at += max(state.grace, grace) + STALE_AFTER
    if seen.since is not None and state.phase is Phase.SWEEPING:
        resume_at = seen.since + LEASE
    return GcStatus(
        state.phase, state.epoch, state.grace, seen.since, sweep_at, resume_at, summary=summary
    )


def _find_take_over(repository: Repository, options: GcOptions, now: datetime) -> TakenOver | None:
    """Return how the namespace was taken over, and that lakeFS has stopped if that is said."""
    taken = find_take_over(repository.store)
    if not options.lakefs_stopped:
        return taken
    if taken is None:
        raise NotTakenOver(
            f"{repository.uri} was not taken over from lakeFS",
            hint="leave out the confirmation that lakeFS has stopped: --lakefs-stopped",
        )
    return taken._replace(stopped_at=now)


def _accept_refs(
    repository: Repository, options: GcOptions, seen: ObservedState
) -> tuple[ObservedState, KnownRefs, tuple[LostRef, ...]]:
    """Accept the present refs if some went back, and end a collection that began before.

    So a whole grace period is left to push what only clones have.

    Returns:
        The state to go on with, what is known of the refs then, and which were accepted.
    """
    store = repository.store
    lost: tuple[LostRef, ...] = ()
    try:
        known = KnownRefs.of(repository)
        check_refs(known, store)
    except RefsWentBack as error:
        question, lost = error.what, error.lost
    except DamagedObservation as error:
        question = error.message
    else:
        return seen, known, ()
    present = KnownRefs(store, repository.uri)  # whatever was seen of them
    if options.dry_run:
        idle = seen.state._replace(phase=Phase.IDLE, mark="")
        return ObservedState(idle, None, None), present, lost
    options.confirm(f"accept the branches and tags of {repository.uri} as they are ({question})")
    if seen.state.phase is not Phase.IDLE:
        undo_condemnation(repository, force=True)
    from lakecli.repository.sharing.fetch import fetch  # needed only to accept refs

    fetch(repository)
    put_last(store, present.read())
    with repository.lake.kv.write() as txn:
        tracking.forget_rollback(txn, repository)
    return gc_protocol.look(store), KnownRefs.of(repository), lost


def _condemn(reach: Reach, options: GcOptions, seen: ObservedState, present: GcStatus) -> GcReport:
    """Mark garbage, and condemn it."""
    work = reach.work
    repository, store, now = work.repository, work.store, work.times.now
    runtime = repository.lake.runtime
    check_published(work)
    if not options.dry_run:
        clean_up(store, seen.state, now)
    epoch, mark_id = work.epoch + 1, runtime.new_id().hex()
    marks = Marks(store, f"{epoch}-{mark_id}")
    runtime.on_step("gc:mark")
    roots = reach.follow_roots()
    mark = Mark(reach, roots)
    for part, records in mark.run():
        if not options.dry_run:
            marks.put_data(part, records)
    report = mark.report(present)
    shared = None if options.force_shared else find_sharing(work, mark.foreign)
    if shared is not None:
        if not options.dry_run:
            marks.delete()
        raise shared
    if options.lakefs_stopped and not options.dry_run:
        confirm_stopped(store)
    if not options.dry_run:
        put_last(store, roots.refs)
    if report.summary is not None and not options.dry_run:
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


def _sweep(sweep: Sweep, options: GcOptions, seen: ObservedState, present: GcStatus) -> GcReport:
    """Delete condemned objects that are still unreached."""
    work = sweep.work
    repository, store, now = work.repository, work.store, work.times.now
    marks = Marks(store, seen.state.mark)
    what = "" if present.summary is None else f" ({present.summary})"
    options.confirm(f"permanently delete the garbage in {store.uri}{what}")
    if seen.state.phase is Phase.CONDEMNED:
        # Before the sweep begins, as writers wait for its end. A failure changes nothing.
        repository.lake.runtime.on_step("gc:prepare")
        try:
            sweep.prepare()
        except LostMarks as error:
            _check_unmoved(repository, seen, error)
            raise
    with SweepLease(repository, seen, now) as lease:
        _check_age(marks, work.times)
        write_fields(store, work.epoch, "sweeping", fields_of(sweep.find()), now)
        sweep.run(lease)
        report = sweep.report(present)
        write_report(store, work.epoch, report, now)
        put_last(store, sweep.refs)
    return report._replace(status=status(repository, grace=options.grace))


def _check_unmoved(repository: Repository, seen: ObservedState, error: LostMarks) -> None:
    """Tell lost lists from lists that another machine deleted when it ended the collection."""
    if gc_protocol.look(repository.store).version != seen.version:
        raise gc_protocol.StateMoved(
            f"another machine has ended the garbage collection of {repository.store.uri}",
            hint=f"see its state: lakecli gc status {repository.uri}",
        ) from error


def _check_age(marks: Marks, times: Times) -> None:
    """Refuse lists younger than the grace period, whatever the state says."""
    age = times.now - marks.newest()
    if age < times.grace + STALE_AFTER:
        raise LostMarks(
            marks.prefix, f"it was written {age.days} days ago, less than the grace period"
        )


def open_live(runner: Runner) -> LiveSet:
    """Return an empty set of the data objects in use, as a context manager.

    On Spark the set is in the namespace, unless that may not be written.
    """
    if isinstance(runner, SparkRunner) and runner.scratch and runner.scratch.is_writable():
        return SparkLiveSet(runner, runner.scratch)
    return DigestSet()
