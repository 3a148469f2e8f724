"""Advance garbage collection as far as time allows, and undo it.

One call does one thing: in the idle state it condemns; if something is condemned and the grace
period is over, it sweeps; it continues an interrupted sweep, of this or another machine, once its
lease is over. After a kill at any step, the same call leads to the same result.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from functools import cached_property
from operator import attrgetter
from typing import Any, Final

from lakecli.base.layout import GC, SHORTEST_GRACE
from lakecli.base.parsing import Unparsable, parse_json_object
from lakecli.base.validation import Invalid, whole
from lakecli.engine.runner import Runner, location_for
from lakecli.engine.spark_runner import SparkRunner
from lakecli.errors import LakeError, UsageError
from lakecli.gc.data_objects import DigestSet, LiveSet
from lakecli.gc.known_refs import (
    DamagedObservation,
    KnownRefs,
    LostRef,
    RefsWentBack,
    observe,
    put_last,
)
from lakecli.gc.mark import Mark
from lakecli.gc.policy import (
    GcOptions,
    SharedNamespace,
    Times,
    Work,
    check_not_shared,
    check_published,
    find_rules,
)
from lakecli.gc.report import Action, GcReport, GcStatus, fields_of
from lakecli.gc.roots import check_refs, reflog_cutoff
from lakecli.gc.spark_live_set import SparkLiveSet
from lakecli.gc.state import (
    LostMarks,
    Marks,
    SweepLease,
    clean_up,
    end_state,
    move_state,
    take_back,
    taken_over,
)
from lakecli.gc.sweep import Sweep
from lakecli.remote import gc_protocol
from lakecli.remote.gc_protocol import (
    LEASE,
    STALE_AFTER,
    GcState,
    ObservedState,
    Phase,
    store_now,
)
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
from lakecli.stores.contract import ANY, ObjectNotFound, TooLarge, get_bounded

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

REPORTS: Final = GC + "reports/"

MAX_REPORT_SIZE: Final = 1 << 20
"""Bytes of a report, at most."""


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
    run = _Run(repository, runner, options)
    seen = gc_protocol.look(repository.store)
    accepted: tuple[LostRef, ...] = ()
    if options.accept_restored:
        seen, accepted = run.accept(seen)
    run.observe()
    if seen.state.phase is Phase.IDLE:
        return run.condemn(seen, accepted)
    if options.dry_run:
        return run.preview(seen)
    run.confirm_stopped()
    return run.has_to_wait(seen) or run.sweep(seen)


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
    take_back(repository, force=force)
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


class _Run:
    """One step of a collection.

    A dry run writes nothing, not even to learn the store's time.
    """

    def __init__(self, repository: Repository, runner: Runner, options: GcOptions) -> None:
        self._repository = repository
        self._store = repository.store
        self._options = options
        self._runner = runner
        self._now = repository.lake.runtime.now() if options.dry_run else store_now(self._store)
        self._rules = find_rules(self._store)
        self._taken = self._find_take_over()
        self._last_dump = (
            None if self._taken is None else last_dump_at(self._store, self._taken.dump)
        )

    def _find_take_over(self) -> TakenOver | None:
        """Return how the namespace was taken over, and that lakeFS has stopped if that is said."""
        taken = find_take_over(self._store)
        if not self._options.lakefs_stopped:
            return taken
        if taken is None:
            raise NotTakenOver(
                f"{self._repository.uri} was not taken over from lakeFS",
                hint="leave out the confirmation that lakeFS has stopped: --lakefs-stopped",
            )
        return taken._replace(stopped_at=self._now)

    @cached_property
    def _known(self) -> KnownRefs:
        """The refs in the bucket, and what was seen of them before this run."""
        return KnownRefs.of(self._repository)

    def accept(self, seen: ObservedState) -> tuple[ObservedState, tuple[LostRef, ...]]:
        """Accept the present refs if some went back, and end a collection that began before.

        So a whole grace period is left to push what only clones have.

        Returns:
            The state to go on with, and what was accepted.
        """
        from lakecli.repository.sharing.fetch import fetch  # needed only to accept refs

        repository, options = self._repository, self._options
        lost: tuple[LostRef, ...] = ()
        try:
            check_refs(KnownRefs.of(repository), self._store)
        except RefsWentBack as error:
            question, lost = error.what, error.lost
        except DamagedObservation as error:
            question = error.message
        else:
            return seen, ()
        present = KnownRefs(self._store, repository.uri)  # whatever was seen of them
        if options.dry_run:
            self._known = present
            return ObservedState(seen.state._replace(phase=Phase.IDLE, mark=""), None, None), lost
        options.confirm(
            f"accept the branches and tags of {repository.uri} as they are ({question})"
        )
        if seen.state.phase is not Phase.IDLE:
            take_back(repository, force=True)
        fetch(repository)
        present.read()
        put_last(self._store, present.seen_now())
        with repository.lake.kv.write() as txn:
            tracking.forget_rollback(txn, repository)
        return gc_protocol.look(self._store), lost

    def observe(self) -> None:
        """Read the refs, and record the last move of each."""
        check_refs(self._known, self._store)
        if not self._options.dry_run:
            cutoff = reflog_cutoff(self._now, self._options.grace)
            name = self._repository.lake.runtime.new_id().hex()
            observe(self._store, name, self._known.seen_now(), now=self._now, cutoff=cutoff)
            self._record_refs()

    def _record_refs(self) -> None:
        """Record the refs as they were read last, for the next collection."""
        put_last(self._store, self._known.seen_now())

    def condemn(self, seen: ObservedState, accepted: tuple[LostRef, ...]) -> GcReport:
        """Mark garbage, and condemn it."""
        lake, options = self._repository.lake, self._options
        work = self._work(seen.state.epoch, options.grace)
        check_published(work)
        if not options.dry_run:
            clean_up(self._store, seen.state, self._now)
        epoch, mark_id = seen.state.epoch + 1, lake.runtime.new_id().hex()
        marks = Marks(self._store, f"{epoch}-{mark_id}")
        lake.runtime.on_step("gc:mark")
        with open_live(self._runner) as live:
            mark = Mark(work, live, None if options.dry_run else marks)
            report = mark.run(self._status(seen))
        if not options.force_shared:
            try:
                check_not_shared(work, mark.foreign)
            except SharedNamespace:
                if not options.dry_run:
                    marks.delete()
                raise
        self.confirm_stopped()
        if not options.dry_run:
            self._record_refs()
        if report.summary is not None and not options.dry_run:
            lake.runtime.on_step("gc:write-marks")
            marks.put_others(mark.others)
            marks.put_summary(report.summary)
            move_state(
                self._repository,
                seen,
                phase=Phase.CONDEMNED,
                epoch=epoch,
                mark=marks.name,
                grace=options.grace,
            )
            self._write_report(report, epoch)
        return report._replace(
            status=self._status(gc_protocol.look(self._store)), accepted=accepted
        )

    def confirm_stopped(self) -> None:
        """Record that lakeFS has stopped, if that is said."""
        if self._options.lakefs_stopped and not self._options.dry_run:
            confirm_stopped(self._store)

    def preview(self, seen: ObservedState) -> GcReport:
        """Report what a sweep would delete now."""
        with open_live(self._runner) as live:
            sweep = self._new_sweep(seen.state, live)
            sweep.find()
            return sweep.run(None, self._status(seen))

    def has_to_wait(self, seen: ObservedState) -> GcReport | None:
        """Return the report if it is too early to sweep, or to continue an interrupted sweep."""
        present = self._status(seen)
        at = present.sweep_at or present.resume_at
        assert at is not None
        return GcReport(Action.WAITS, present) if self._now <= at else None

    def sweep(self, seen: ObservedState) -> GcReport:
        """Delete condemned objects that are still unreached."""
        repository, options = self._repository, self._options
        condemned = Marks(self._store, seen.state.mark).summary()
        what = "" if condemned is None else f" ({condemned})"
        options.confirm(f"permanently delete the garbage in {self._store.uri}{what}")
        with open_live(self._runner) as live:
            sweep = self._new_sweep(seen.state, live)
            if seen.state.phase is Phase.CONDEMNED:
                # Before the sweep begins, as writers wait for its end. A failure changes nothing.
                repository.lake.runtime.on_step("gc:prepare")
                try:
                    sweep.prepare()
                except LostMarks as error:
                    self._check_unmoved(seen, error)
                    raise
            taken_at = options.elapsed()
            state = move_state(repository, seen, phase=Phase.SWEEPING)
            lease = SweepLease(
                self._store,
                state,
                taken_at=taken_at,
                elapsed=options.elapsed,
                new_id=lambda: repository.lake.runtime.new_id().hex(),
                uri=repository.uri,
            )
            try:
                self._check_age(state)
                self._put_json(state.epoch, "sweeping", fields_of(sweep.find()))
                report = sweep.run(lease, self._status(seen))
                self._write_report(report, state.epoch)
                self._record_refs()
            except (Exception, KeyboardInterrupt):
                # All writers wait for the end of a sweep. If a deletion may be under way, they have
                # to wait for the end of the lease.
                if not lease.is_unsure:
                    with suppress(LakeError):
                        self._end(lease.state)
                raise
        self._end(lease.state)
        return report._replace(status=status(repository, grace=options.grace))

    def _new_sweep(self, state: GcState, live: LiveSet) -> Sweep:
        work = self._work(state.epoch, state.grace)
        return Sweep(work, Marks(self._store, state.mark), state.epoch, live)

    def _check_unmoved(self, seen: ObservedState, error: LostMarks) -> None:
        """Tell lost lists from lists that another machine deleted when it ended the collection."""
        if gc_protocol.look(self._store).version != seen.version:
            raise gc_protocol.StateMoved(
                f"another machine has ended the garbage collection of {self._store.uri}",
                hint=f"see its state: lakecli gc status {self._repository.uri}",
            ) from error

    def _check_age(self, state: GcState) -> None:
        """Refuse lists younger than the grace period, whatever the state says."""
        marks = Marks(self._store, state.mark)
        age = self._now - marks.newest()
        if age < max(state.grace, self._options.grace) + STALE_AFTER:
            raise LostMarks(
                marks.prefix, f"it was written {age.days} days ago, less than the grace period"
            )

    def _end(self, state: GcState) -> None:
        seen = gc_protocol.look(self._store)
        if seen.state.write_id != state.write_id:
            raise taken_over(self._store, self._repository.uri)
        end_state(self._repository, seen, self._now)

    def _status(self, seen: ObservedState) -> GcStatus:
        return _status(self._repository, seen, self._options.grace)

    def _work(self, epoch: int, grace: timedelta) -> Work:
        return Work(
            self._repository,
            self._store,
            self._repository.uri,
            self._known,
            self._runner,
            location_for(self._repository, self._runner),
            # Nothing younger than this machine's grace period is garbage, whatever the state says.
            Times(self._now, max(grace, self._options.grace)),
            self._rules,
            self._taken,
            self._last_dump,
            self._options.progress,
            self._tables_before(epoch),
        )

    def _tables_before(self, epoch: int) -> int:
        """Return how many tables the last collection left, by its report; 0: unknown."""
        for name in ("swept", "condemned"):
            try:
                report = get_bounded(self._store, _report_key(epoch, name), MAX_REPORT_SIZE)
                fields = parse_json_object(report, max_size=MAX_REPORT_SIZE)
                return whole(0, 1 << 60)(fields.get("tables"))
            except (ObjectNotFound, TooLarge, Unparsable, Invalid):
                continue
        return 0

    def _write_report(self, report: GcReport, epoch: int) -> None:
        """Write a report beside the state: of what was condemned, or of what was deleted."""
        fields = {
            "action": report.action,
            "spared": report.spared,
            "tables": report.tables,
            "garbage": [each.fields() for each in report.garbage],
            "summary": None if report.summary is None else fields_of(report.summary),
        }
        self._put_json(epoch, "swept" if report.action is Action.SWEPT else "condemned", fields)

    def _put_json(self, epoch: int, name: str, fields: dict[str, Any]) -> None:
        fields = {"epoch": epoch, "at": self._now.isoformat(), **fields}
        body = json.dumps(fields, indent=2).encode("ascii") + b"\n"
        self._store.put(_report_key(epoch, name), body, ANY)


def open_live(runner: Runner) -> LiveSet:
    """Return an empty set of the data objects in use, as a context manager.

    On Spark the set is in the namespace, unless that may not be written.
    """
    if isinstance(runner, SparkRunner) and runner.scratch and runner.scratch.is_writable():
        return SparkLiveSet(runner, runner.scratch)
    return DigestSet()


def _report_key(epoch: int, name: str) -> str:
    return f"{REPORTS}{epoch}-{name}.json"
