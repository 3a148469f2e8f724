"""Protect existing objects from garbage collection before this clone refers to them.

An upload or a new tree may reuse an object that is garbage to all other clones. `GcGuard` follows
the protocol of `lakecli.remote.collection`:

- One GET returns the state. If there never was a collection, that is all.
- An object older than half the grace period gets a new time, so that it is no candidate for now.
- While objects are condemned, the used ones are first kept, then the state is read again.
- While a sweep runs, the guard waits. After a sweep, it checks that everything still exists.

A reading of the state is trusted for `MAX_STATE_AGE`: the collector waits that much longer.

Nothing but `lakecli.repository.guard.claims`, uploads and the writing of trees calls it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Lock
from time import sleep
from typing import TYPE_CHECKING, Final, TypeVar

from lakecli.base.identity import h
from lakecli.base.layout import GC_STATE, MAX_STATE_AGE
from lakecli.base.retry import SWEEPS, Retries, elapsed
from lakecli.errors import LostRace, PermissionDenied
from lakecli.remote.collection import (
    NEVER_RAN,
    REFRESHING,
    GcState,
    Phase,
    may_have_swept,
    read_state,
    store_now,
    wait_for_sweep,
    write_keep,
)
from lakecli.stores.capabilities import renew
from lakecli.stores.contract import ObjectInfo, ObjectNotFound

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

A = TypeVar("A")
B = TypeVar("B")

PARALLELISM: Final = 16
"""Objects checked, or given a new time, at once."""


class Swept(LostRace):
    """Garbage collection deleted an object that was about to be used."""

    def __init__(self, uri: str) -> None:
        super().__init__(
            f"garbage collection ran in {uri} at the same time; nothing refers to what was written",
            hint="run the same command again",
        )


class GcGuard:
    """The garbage collection protocol of a writer to one namespace. Safe to share between threads.

    Args:
        store: the namespace.
        monotonic: returns seconds that only grow, also while the machine is asleep.
        sleep: waits for some seconds.
        new_id: returns random bytes.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        monotonic: Callable[[], float] = elapsed,
        sleep: Callable[[float], None] = sleep,
        new_id: Callable[[], bytes] = lambda: os.urandom(16),
    ) -> None:
        self._store = store
        self._new_id = new_id
        self._monotonic = monotonic
        self._sleep = sleep
        self._lock = Lock()
        self._state = NEVER_RAN
        self._read_at: float | None = None
        self._clock: tuple[datetime, float] | None = None

    @property
    def is_active(self) -> bool:
        """Whether there ever was a collection, as far as this guard knows."""
        return not self._state.never_ran

    def begin(self) -> None:
        """Read the state, unless it was read recently; wait for a sweep to end.

        Call it before checking whether objects exist.

        Raises:
            PermissionDenied: reading the state is not allowed, and it may exist.
            SweepRunning: it does not end.
        """
        with self._lock:
            self._begin()

    def _begin(self) -> None:
        if self._read_at is None or self._is_stale(self._read_at):
            self._await_sweep()

    def settle(
        self, *, found: Collection[str], written: Collection[str], whole: bool = False
    ) -> None:
        """Make sure that objects outlive a collection; call it before anything refers to them.

        Args:
            found: keys of objects that existed already, or may have.
            written: keys of all other objects; they are durable by now.
            whole: the objects may refer to others not listed here; raise `Swept` instead of
                rechecking them after a sweep.

        Raises:
            Swept: one has been deleted.
            SweepRunning: a sweep does not end.
        """
        with self._lock:
            is_stale = False
            if self._read_at is None:
                self._await_sweep()
            else:
                is_stale = self._is_stale(self._read_at)
            before = self._state
            while True:
                keys = set(found)
                if is_stale or before.phase is not Phase.IDLE:
                    now = self._read()
                    if may_have_swept(before, now):
                        self._await_sweep()
                        if whole:
                            raise Swept(self._store.uri)
                        self._heads([*keys, *written])  # raises where one is gone
                if is_stale:
                    # Objects written long before this reading may be condemned by now.
                    keys.update(written)
                state = self._state
                if state.never_ran or not keys:
                    return
                if state.phase is Phase.CONDEMNED and not self._keep(state, keys):
                    # A change between the two readings is handled like a sweep before them.
                    before = state
                    continue
                self._refresh(keys, state.grace / 2)
                return

    def claim(self, keys: Collection[str]) -> Mapping[str, int] | None:
        """Make sure that the existing ones of some objects outlive a collection.

        Returns:
            The sizes of the existing ones; ``None`` if nothing was ever collected, and therefore
            nothing was checked.

        Raises:
            Swept: one was deleted just now.
            SweepRunning: a sweep does not end.
        """
        if not keys:
            return {}
        with self._lock:
            self._begin()
            while True:
                state = self._state
                if state.never_ran:
                    return None
                if state.phase is Phase.SWEEPING:
                    self._await_sweep()
                    continue
                found = zip(keys, self._for_each(self._find, keys), strict=True)
                infos = {key: info for key, info in found if info is not None}
                # Checked after the state was read and before the keep: a sweep that deleted one
                # of them has changed the state.
                if not infos or state.phase is not Phase.CONDEMNED or self._keep(state, set(infos)):
                    self._renew(infos, state.grace / 2)
                    return {key: info.size for key, info in infos.items()}

    def _find(self, key: str) -> ObjectInfo | None:
        try:
            return self._store.head(key)
        except ObjectNotFound:
            return None

    def _is_stale(self, read_at: float) -> bool:
        return self._monotonic() - read_at > MAX_STATE_AGE

    def _read(self) -> GcState:
        started = self._monotonic()
        try:
            self._state = read_state(self._store)
        except PermissionDenied as error:
            self._check_absent(error)
            self._state = NEVER_RAN
        self._read_at = started
        return self._state

    def _check_absent(self, error: PermissionDenied) -> None:
        """Accept an unreadable state only if a listing proves that it does not exist.

        Without permission to list, stores also deny access to missing objects. But a policy, or an
        owner in another account, could hide an existing state; believing that nothing was ever
        collected, a writer would then use what a sweep is about to delete.
        """
        try:
            if all(info.key != GC_STATE for info in self._store.list(GC_STATE)):
                return
        except PermissionDenied:
            raise error from None  # all credentials may be missing
        raise PermissionDenied(
            f"not allowed to read whether garbage is collected: {self._store.uri}/{GC_STATE}",
            hint="allow reading it, and listing the namespace; see what is missing: lakecli doctor "
            f"{self._store.uri}",
        ) from error

    def _await_sweep(self) -> None:
        if self._read().phase is Phase.SWEEPING:
            wait_for_sweep(
                self._store, Retries(SWEEPS, sleep=self._sleep, monotonic=self._monotonic)
            )
            self._read()

    def _keep(self, state: GcState, keys: set[str]) -> bool:
        """Write a keep; tell whether the state is unchanged."""
        # Named by its content: keeping the same objects twice writes one record.
        keep_id = h("\n".join(sorted(keys)).encode("ascii")).hex()[:32]
        write_keep(self._store, state.epoch, keep_id, keys)
        now = self._read()
        return (now.phase, now.epoch) == (state.phase, state.epoch)

    def _refresh(self, keys: Collection[str], limit: timedelta) -> None:
        """Give those of some objects that are older than `limit` a new time.

        Raises:
            Swept: one is gone.
        """
        self._renew(self._heads(keys), limit)

    def _heads(self, keys: Collection[str]) -> dict[str, ObjectInfo]:
        """Return what the store says of objects.

        Raises:
            Swept: one is gone.
        """
        return dict(zip(keys, self._for_each(self._store.head, keys), strict=True))

    def _renew(self, infos: Mapping[str, ObjectInfo], limit: timedelta) -> None:
        """Give those of some objects that are older than `limit` a new time."""
        if not infos:
            return
        now = self._now()
        old = [key for key, info in infos.items() if now - info.modified_at > limit]
        if old:
            self._for_each(self._touch, old)

    def _now(self) -> datetime:
        """Return the time by the store's clock, which is asked once."""
        if self._clock is None:
            self._clock = store_now(self._store), self._monotonic()
        then, at = self._clock
        return then + timedelta(seconds=self._monotonic() - at)

    def _touch(self, key: str) -> None:
        # Each copy has a unique name: two writers that renew one object at once do not delete each
        # other's copy.
        renew(self._store, key, aside=REFRESHING + self._new_id().hex())

    def _for_each(self, function: Callable[[A], B], items: Collection[A]) -> list[B]:
        try:
            if len(items) == 1:
                return [function(item) for item in items]
            with ThreadPoolExecutor(PARALLELISM) as pool:
                return list(pool.map(function, items))
        except ObjectNotFound:
            raise Swept(self._store.uri) from None
