"""Move and end the state of a collection; and the right to delete, which one process has.

A sweep belongs to the process that wrote the state, for a limited time. This lease begins with the
date that the bucket gives to the state's object and ends `LEASE` later. Only then may another
machine take over the sweep. The owner measures from before the request that wrote the state, by a
clock that also runs while the machine is asleep, and

- begins no deletion later than `RENEW_AFTER`: it writes the state again first. If another machine
  has taken over the sweep, that fails, and nothing more is deleted;
- gives up if a deletion took longer than `LONGEST_DELETE`: the store may still receive requests
  that are under way.

The rest of the lease, after `RENEW_AFTER`, is for the deletion: `LONGEST_DELETE` including the
SDK's retries, and the 15 minutes for which S3 and Azure accept a signed request.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lakecli.errors import NothingToDo, PermissionDenied, Refused, Unreachable
from lakecli.gc.marks import MARKS
from lakecli.remote import collection
from lakecli.remote.collection import (
    KEEPS,
    LEASE,
    REFRESHING,
    DamagedState,
    GcState,
    NewerState,
    ObservedState,
    Phase,
    StateMoved,
    store_now,
)
from lakecli.repository.contract import Repository

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

T = TypeVar("T")

RENEW_AFTER: Final = LEASE / 6
"""Time since the lease began after which no deletion begins without renewing it."""

LONGEST_DELETE: Final = LEASE / 3
"""How long one deletion may take, including the SDK's retries."""


class SweepTooSlow(Unreachable):
    """A deletion took so long that it may still be under way; the sweep ends."""


class SweepLease:
    """The lease of one sweep. Safe to share between threads.

    Args:
        store: the namespace.
        state: the state as this process has just written it.
        taken_at: `elapsed` before that request was sent.
        elapsed: monotonic seconds, which also pass while the machine is asleep.
        new_id: creates the write ID of a renewal.
        uri: the repository's URI, for hints.

    Attributes:
        state: the state as this process wrote it last.
        is_unsure: whether a deletion may still be under way, so that the sweep must not end before
            the lease does.
    """

    def __init__(
        self,
        store: ObjectStore,
        state: GcState,
        *,
        taken_at: float,
        elapsed: Callable[[], float],
        new_id: Callable[[], str],
        uri: str,
    ) -> None:
        self._store = store
        self._elapsed = elapsed
        self._new_id = new_id
        self._uri = uri
        self._taken_at = taken_at
        self._lock = Lock()
        self.state = state
        self.is_unsure = False

    def check(self) -> None:
        """Check that a deletion may begin now; renew the lease if needed.

        Raises:
            StateMoved: another machine has taken over or ended the sweep.
        """
        with self._lock:
            self._look(collection.read_state)
            if self._used() > RENEW_AFTER:
                before = self._elapsed()
                seen = self._look(collection.look)
                after = self.state._replace(write_id=self._new_id())
                collection.move(self._store, seen, after)
                self.state, self._taken_at = after, before
            if self._used() > RENEW_AFTER:
                raise SweepTooSlow(
                    f"the store of {self._store.uri} takes too long to answer for a safe sweep",
                    hint=self._continue_hint(),
                )

    def _look(self, read: Callable[[ObjectStore], T]) -> T:
        """Read the state, and check that it is as this process wrote it."""
        try:
            found = read(self._store)
        except DamagedState:
            raise taken_over(self._store, self._uri) from None
        state = found.state if isinstance(found, ObservedState) else found
        if state != self.state:
            raise taken_over(self._store, self._uri)
        return found

    def run(self, delete: Callable[[], T]) -> T:
        """Run a deletion, which begins now.

        Args:
            delete: sends one request, with no more keys than the store takes at once.

        Raises:
            StateMoved: another machine has taken over or ended the sweep.
            SweepTooSlow: it took so long that the sweep must end.
        """
        self.check()
        begun = self._elapsed()
        try:
            found = delete()
        except PermissionDenied:
            raise  # the store refused, so nothing is under way
        except BaseException:
            self.is_unsure = True
            raise
        if self._elapsed() - begun > LONGEST_DELETE.total_seconds():
            self.is_unsure = True
            raise SweepTooSlow(
                f"a deletion in {self._store.uri} took longer than "
                f"{LONGEST_DELETE.total_seconds() / 60:.0f} minutes, so the sweep ended",
                hint=self._continue_hint(),
            )
        return found

    def _used(self) -> timedelta:
        return timedelta(seconds=self._elapsed() - self._taken_at)

    def _continue_hint(self) -> str:
        minutes = LEASE.total_seconds() / 60
        return f"continue it in {minutes:.0f} minutes: lakecli gc run {self._uri}"


def taken_over(store: ObjectStore, uri: str) -> StateMoved:
    """Return the error for a sweep that another machine has taken over or ended."""
    return StateMoved(
        f"another machine has taken over the garbage collection of {store.uri}",
        hint=f"see its state: lakecli gc status {uri}",
    )


class SweepBegan(Refused):
    """A condemnation cannot be undone any more, only ended by force."""


_LEFT_FOR: Final = timedelta(days=1)
"""How long files that an interrupted command left beside the state are kept."""


def move_state(repository: Repository, seen: ObservedState, **changes: Any) -> GcState:  # noqa: ANN401
    """Move the state; each move has its own write ID."""
    write_id = repository.lake.runtime.new_id().hex()
    after = seen.state._replace(write_id=write_id, **changes)
    repository.lake.runtime.on_step(f"gc:{after.phase}")
    collection.move(repository.store, seen, after)
    return after


def take_back(repository: Repository, *, force: bool = False) -> GcState:
    """Undo a condemnation, or end an interrupted sweep.

    Args:
        repository: the repository.
        force: also end a sweep, and replace a damaged state by an idle one.

    Raises:
        NothingToDo: nothing is condemned.
        Refused: a sweep has begun and `force` is not given, or a sweep may still be running.
        DamagedState: the state is damaged and `force` is not given, or a newer lakecli wrote it.
        StateMoved: another machine moved the state at the same time.
    """
    store = repository.store
    try:
        seen = collection.look(store)
    except NewerState:
        raise
    except DamagedState:
        if not force:
            raise
        seen = collection.look_at_damage(store)
        _check_lease_is_over(repository, seen)
    else:
        if seen.state.phase is Phase.IDLE:
            raise NothingToDo("nothing is condemned")
        if seen.state.phase is Phase.SWEEPING:
            if not force:
                raise SweepBegan(
                    "the sweep has begun; what it has deleted cannot be restored",
                    hint="let it finish, or end it by force if it was interrupted: "
                    f"lakecli gc undo --force {repository.uri}",
                )
            _check_lease_is_over(repository, seen)
    return end_state(repository, seen, store_now(store))


def end_state(repository: Repository, seen: ObservedState, now: datetime) -> GcState:
    """Move the state to idle, and delete what no phase needs any more by the store's time."""
    after = move_state(repository, seen, phase=Phase.IDLE, mark="")
    repository.lake.runtime.on_step("gc:clean-up")
    clean_up(repository.store, after, now, ended=seen.state.mark)
    return after


def _check_lease_is_over(repository: Repository, seen: ObservedState) -> None:
    assert seen.since is not None
    until = seen.since + LEASE
    if store_now(repository.store) <= until:
        raise SweepBegan(
            "a sweep may be running and may still delete objects",
            hint=f"end it by force after {until:%Y-%m-%dT%H:%M:%SZ}: "
            f"lakecli gc undo --force {repository.uri}",
        )


def clean_up(store: ObjectStore, state: GcState, now: datetime, *, ended: str = "") -> None:
    """Delete lists and keeps that no phase needs any more.

    Args:
        store: the namespace.
        state: the present state.
        now: time by the store's clock.
        ended: the mark that the last move of the state ended.
    """
    stale = []
    for info in store.list(MARKS):
        mark_name = info.key.removeprefix(MARKS).partition("/")[0]
        # Younger lists may belong to another machine that is about to condemn.
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
