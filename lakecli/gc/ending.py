"""Move and end the state of a collection, and delete what it no longer needs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from lakecli.errors import NothingToDo, Refused
from lakecli.gc.marks import MARKS
from lakecli.remote import collection
from lakecli.remote.collection import (
    KEEPS,
    LEASE,
    REFRESHING,
    DamagedState,
    GcState,
    NewerState,
    Phase,
    Seen,
    store_now,
)
from lakecli.repository.contract import Repository

if TYPE_CHECKING:
    from lakecli.stores.base import ObjectStore


class SweepBegan(Refused):
    """A condemnation cannot be undone any more, only ended by force."""


_LEFT_FOR: Final = timedelta(days=1)
"""How long files that an interrupted command left beside the state are kept."""


def move_state(repository: Repository, seen: Seen, **changes: Any) -> GcState:  # noqa: ANN401
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
    after = move_state(repository, seen, phase=Phase.IDLE, mark="")
    clean_up(store, after, store_now(store), ended=seen.state.mark)
    return after


def _check_lease_is_over(repository: Repository, seen: Seen) -> None:
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
