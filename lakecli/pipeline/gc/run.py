"""Taking garbage collection as far as time allows, and taking it back.

One call does one thing: where the state is idle, it condemns; where something is condemned and the
grace period is over, it sweeps; a sweep that was interrupted, here or elsewhere, goes on. Killed at
any step, the same call again gets to the same end.
"""

from __future__ import annotations

import json
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.errors import IntegrityError, NothingToDo, Refused, UsageError
from lakecli.layout import GC
from lakecli.objectstore.base import ANY
from lakecli.pipeline.gc.mark import SharedNamespace, Tally, Times, Work, check_not_shared, mark
from lakecli.pipeline.gc.marks import MARKS, Marks
from lakecli.pipeline.gc.rules import find_rules
from lakecli.pipeline.gc.sweep import Sweep, deleter
from lakecli.remote import collection
from lakecli.remote.collection import (
    DEFAULT_GRACE,
    KEEPS,
    REFRESHING,
    SHORTEST_GRACE,
    STALE_AFTER,
    GcState,
    Phase,
    Seen,
    store_now,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lakecli.objectstore.base import ObjectStore
    from lakecli.pipeline.runner import Runner
    from lakecli.repository.lake import Repository

__all__ = ["GcOptions", "GcReport", "GcStatus", "SharedNamespace", "advance", "status", "undo"]

REPORTS: Final = GC + "reports/"
_LEFT_FOR: Final = timedelta(days=1)
"""How long what an interrupted command wrote beside the state is let alone."""


def _nothing() -> None:
    """Tell nobody."""


def _agree(_question: str) -> None:
    """Answer yes."""


class Action(StrEnum):
    """What a run did, or would do."""

    CONDEMNED = "condemned"
    FOUND_NOTHING = "found nothing"
    WAITS = "waits"
    SWEPT = "swept"


class GcOptions(NamedTuple):
    """How to collect.

    Attributes:
        grace: between condemning and sweeping, at least; and how old garbage has to be.
        dry_run: only find out what would be done.
        force_shared: collect although another program works in the namespace.
        confirm: called with a question before anything is deleted; raises if the answer is no.
        on_table: called for each metarange and range that was read.
    """

    grace: timedelta = DEFAULT_GRACE
    dry_run: bool = False
    force_shared: bool = False
    confirm: Callable[[str], None] = _agree
    on_table: Callable[[], None] = _nothing


class GcStatus(NamedTuple):
    """Where a collection stands.

    Attributes:
        phase: ``idle``, ``condemned`` or ``sweeping``.
        epoch: counts the condemnations.
        grace: of this epoch.
        since: when the phase began, by the store's clock; ``None``: there never was a collection.
        sweep_at: from when on what is condemned may be swept; ``None``: nothing is condemned.
    """

    phase: Phase
    epoch: int
    grace: timedelta
    since: datetime | None
    sweep_at: datetime | None


class GcReport(NamedTuple):
    """What a run did.

    Attributes:
        action: in a word; with `GcOptions.dry_run`, what would be done.
        status: afterwards.
        garbage: what was condemned or swept, by kind.
        spared: condemned objects that were in use again.
        commits: that keep their objects; 0 where nothing was marked.
        entries: in the distinct ranges that were read.
        ranges: how many these are.
        objects: data objects in the namespace.
        size: of these, in bytes.
        lost: tables that this clone's own or others' unpushed work needs and that are gone.
    """

    action: Action
    status: GcStatus
    garbage: tuple[Tally, ...] = ()
    spared: int = 0
    commits: int = 0
    entries: int = 0
    ranges: int = 0
    objects: int = 0
    size: int = 0
    lost: tuple[str, ...] = ()


def status(repository: Repository) -> GcStatus:
    """Return where a repository's collection stands."""
    return _status(collection.look(repository.store))


def _status(seen: Seen) -> GcStatus:
    state = seen.state
    sweep_at = None
    if state.phase is Phase.CONDEMNED and seen.since is not None:
        sweep_at = seen.since + state.grace + STALE_AFTER
    return GcStatus(state.phase, state.epoch, state.grace, seen.since, sweep_at)


def advance(repository: Repository, runner: Runner, options: GcOptions) -> GcReport:
    """Take garbage collection as far as time allows.

    Args:
        repository: whose.
        runner: does what grows with the data.
        options: how.

    Raises:
        UsageError: the grace period is too short.
        SharedNamespace: another program works in the namespace.
        StateMoved: another machine collects just now.
        CannotShare: the store has no working compare-and-set.
        LostHistory, MissingTable, DamagedPack, …: it is not known what is in use, so nothing is
            deleted. A sweep is given up then, so that nobody has to wait for it.
        Refused: the answer to the question was no.
        OutcomeUnknown, Unreachable: the same again goes on.
    """
    from lakecli.repository.sharing.publish import check_readable, check_writable

    if options.grace < SHORTEST_GRACE:
        raise UsageError(
            f"a grace period of less than {SHORTEST_GRACE.total_seconds() / 3600:.0f} hours",
            hint="others may be at work on what looks like garbage; the default is 14d",
        )
    if options.dry_run:
        check_readable(repository)
    else:
        check_writable(repository)
    run = _Run(repository, runner, options)
    seen = collection.look(repository.store)
    if seen.state.phase is Phase.IDLE:
        return run.condemn(seen)
    if seen.state.phase is Phase.CONDEMNED:
        present = _status(seen)
        assert present.sweep_at is not None
        if options.dry_run or run.now < present.sweep_at:
            return run.preview(seen) if options.dry_run else GcReport(Action.WAITS, present)
    return run.sweep(seen)


def undo(repository: Repository) -> GcStatus:
    """Take a condemnation back; nothing was deleted yet.

    Raises:
        NothingToDo: nothing is condemned.
        Refused: the sweep has begun.
        StateMoved: it begins just now.
    """
    store = repository.store
    seen = collection.look(store)
    if seen.state.phase is Phase.IDLE:
        raise NothingToDo("nothing is condemned")
    if seen.state.phase is Phase.SWEEPING:
        raise Refused(
            "the sweep has begun, what it has deleted cannot come back",
            hint=f"let it finish: lakecli gc run {repository.uri}",
        )
    after = _move(repository, seen, phase=Phase.IDLE, mark="")
    _clean_up(store, after, store_now(store), ended=seen.state.mark)
    return status(repository)


def _move(repository: Repository, seen: Seen, **changes: Any) -> GcState:  # noqa: ANN401
    """Move the state; every move has a write ID of its own."""
    write_id = repository.lake.surroundings.new_id().hex()
    after = seen.state._replace(write_id=write_id, **changes)
    repository.lake.surroundings.on_step(f"gc:{after.phase}")
    collection.move(repository.store, seen, after)
    return after


class _Run:
    def __init__(self, repository: Repository, runner: Runner, options: GcOptions) -> None:
        self._repository = repository
        self._store = repository.store
        self._options = options
        self._runner = runner
        # A dry run writes nothing, not even what tells the store's time.
        self.now = repository.lake.now() if options.dry_run else store_now(self._store)
        self._rules = find_rules(self._store)

    def _work(self, grace: timedelta) -> Work:
        return Work(
            self._repository,
            self._runner,
            Times(self.now, grace),
            self._rules,
            self._options.on_table,
        )

    def condemn(self, seen: Seen) -> GcReport:
        """Mark, and condemn what was found."""
        lake, options = self._repository.lake, self._options
        if not options.dry_run:
            _clean_up(self._store, seen.state, self.now)
        epoch, mark_id = seen.state.epoch + 1, lake.surroundings.new_id().hex()
        name = f"{epoch}-{mark_id}"
        marks = Marks(self._store, name)
        lake.surroundings.on_step("gc:mark")
        marked = mark(
            self._work(options.grace),
            sink=(lambda _part, _records: None) if options.dry_run else marks.put_data,
        )
        if not options.force_shared:
            if any(marked.foreign.values()) and not options.dry_run:
                marks.delete()
            check_not_shared(marked.foreign, self._store.uri)
        garbage = tuple(marked.tallies())
        if garbage and not options.dry_run:
            lake.surroundings.on_step("gc:write-marks")
            marks.put_others(marked.others)
            marks.put_read(marked.trees, marked.ranges)
            _move(
                self._repository,
                seen,
                phase=Phase.CONDEMNED,
                epoch=epoch,
                mark=name,
                grace=options.grace,
            )
        report = GcReport(
            action=Action.CONDEMNED if garbage else Action.FOUND_NOTHING,
            status=_status(collection.look(self._store)),
            garbage=garbage,
            commits=marked.commits,
            entries=marked.entries,
            ranges=len(marked.ranges),
            objects=marked.objects,
            size=marked.size,
            lost=tuple(sorted(marked.lost)),
        )
        if garbage and not options.dry_run:
            self._save(report, epoch)
        return report

    def preview(self, seen: Seen) -> GcReport:
        """Tell what a sweep would delete if it came now."""
        state = seen.state
        swept = Sweep(self._work(state.grace), Marks(self._store, state.mark), state.epoch).run(
            None
        )
        return GcReport(Action.SWEPT, _status(seen), tuple(swept.tallies), swept.spared)

    def sweep(self, seen: Seen) -> GcReport:
        """Delete what is condemned and still unreached."""
        repository, options = self._repository, self._options
        if options.dry_run:
            return self.preview(seen)
        options.confirm(f"delete what is garbage in {self._store.uri} for good")
        state = _move(repository, seen, phase=Phase.SWEEPING)
        marks = Marks(self._store, state.mark)
        work = self._work(state.grace)
        try:
            swept = Sweep(work, marks, state.epoch).run(deleter(work, state))
        except IntegrityError:
            # It will not get better by waiting, for which all writers would have to wait.
            self._end(state)
            raise
        report = GcReport(Action.SWEPT, _status(seen), tuple(swept.tallies), swept.spared)
        self._save(report, state.epoch)
        self._end(state)
        return report._replace(status=status(repository))

    def _end(self, state: GcState) -> None:
        seen = collection.look(self._store)
        if seen.state.write_id != state.write_id:
            raise collection.StateMoved(
                f"another machine has taken over the garbage collection of {self._store.uri}",
                hint=f"look at it: lakecli gc status {self._repository.uri}",
            )
        ended = _move(self._repository, seen, phase=Phase.IDLE, mark="")
        self._repository.lake.surroundings.on_step("gc:clean-up")
        _clean_up(self._store, ended, self.now, ended=state.mark)

    def _save(self, report: GcReport, epoch: int) -> None:
        """Write a report beside the state: one of what was condemned, one of what was deleted."""
        name = "swept" if report.action is Action.SWEPT else "condemned"
        fields = {
            "epoch": epoch,
            "action": report.action,
            "at": self.now.isoformat(),
            "spared": report.spared,
            "garbage": [each.fields() for each in report.garbage],
        }
        body = json.dumps(fields, indent=2).encode("ascii") + b"\n"
        self._store.put(f"{REPORTS}{epoch}-{name}.json", body, ANY)


def _clean_up(store: ObjectStore, state: GcState, now: datetime, *, ended: str = "") -> None:
    """Delete lists and keeps that no phase needs any more.

    Args:
        store: the namespace.
        state: as it is.
        now: by the store's clock.
        ended: the mark that this state has just let go of.
    """
    stale = []
    for info in store.list(MARKS):
        mark_name = info.key.removeprefix(MARKS).partition("/")[0]
        # Younger ones may be those of another machine that is about to condemn.
        is_left = mark_name != state.mark and info.modified_at < now - _LEFT_FOR
        if is_left or mark_name == ended:
            stale.append(info.key)
    last = state.epoch if state.phase is Phase.IDLE else state.epoch - 1
    for info in store.list(KEEPS):
        epoch = info.key.removeprefix(KEEPS).partition("/")[0]
        if epoch.isdecimal() and int(epoch) <= last:
            stale.append(info.key)
    stale += [info.key for info in store.list(REFRESHING) if info.modified_at < now - _LEFT_FOR]
    if stale:
        store.delete(stale)
