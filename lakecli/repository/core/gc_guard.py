"""Referring to objects that are in the bucket already, while garbage collection may be at work.

Whoever uploads what is there already, or writes a range that is there already, takes an object
into use that may be garbage to everybody else. What has to be done about it, before anything
refers to the object, is in `lakecli.remote.collection`; `GcGuard` does it:

- One GET tells the state. Where there never was a collection, that is all.
- An object that is older than half the grace period gets a new time, so that it is no candidate
  for the time being.
- While something is condemned, what is taken into use is first kept, then the state is read again.
- While a sweep runs, it waits. If one has gone by, it looks whether everything is still there.

A reading of the state is trusted for `STALE_AFTER`: the collector waits that much longer.

Nothing but `lakecli.repository.core.gate`, uploads and the writing of trees calls it.
"""

from __future__ import annotations

import os
from datetime import timedelta
from threading import Lock
from time import sleep
from typing import TYPE_CHECKING, Final, TypeVar

from lakecli.errors import LostRace, PermissionDenied
from lakecli.objectstore.base import ObjectNotFound
from lakecli.repository.core.clock import elapsed
from lakecli.retry import SWEEPS, Retries

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from datetime import datetime

    from lakecli.objectstore.base import ObjectInfo, ObjectStore
    from lakecli.remote.collection import GcState

A = TypeVar("A")
B = TypeVar("B")

PARALLELISM: Final = 16
"""Objects looked at, or given a new time, at once."""


def random_id() -> bytes:
    """Return 16 random bytes."""
    return os.urandom(16)


class Swept(LostRace):
    """Garbage collection deleted something that was about to be referred to."""

    def __init__(self, uri: str) -> None:
        super().__init__(
            f"garbage was collected in {uri} meanwhile; nothing refers to what was just written",
            hint="run the same command again",
        )


class GcGuard:
    """What writers into one namespace do about garbage collection. Safe to share between threads.

    Args:
        store: the namespace.
        monotonic: seconds that only ever grow, also while the machine is asleep.
        sleep: waits for some seconds.
        new_id: returns random bytes.

    Attributes:
        sleep: as given.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        monotonic: Callable[[], float] = elapsed,
        sleep: Callable[[float], None] = sleep,
        new_id: Callable[[], bytes] = random_id,
    ) -> None:
        self._store = store
        self._new_id = new_id
        self._monotonic = monotonic
        self.sleep = sleep
        self._lock = Lock()
        self._state: GcState | None = None
        self._read_at = 0.0
        self._clock: tuple[datetime, float] | None = None

    @property
    def is_active(self) -> bool:
        """Whether there ever was a collection, as far as is known."""
        return self._state is not None and not self._state.never_ran

    def begin(self) -> None:
        """Read the state, unless that was done lately; wait for a sweep to end.

        Call it before looking whether anything is there.

        Raises:
            PermissionDenied: the state may not be read, and it is not known to be absent.
            SweepRunning: it does not end.
        """
        with self._lock:
            if self._state is None or self._is_stale():
                self._settle()

    def settle(
        self, *, found: Collection[str], written: Collection[str], whole: bool = False
    ) -> None:
        """Make sure that objects outlive a collection; call it before anything refers to them.

        Args:
            found: keys of those that were there already, or may have been.
            written: keys of all others; what is durable by now.
            whole: they refer to more that is not named here; so if a sweep may have gone by, that
                is not looked for, and `Swept` raised.

        Raises:
            Swept: one has been deleted.
            SweepRunning: a sweep does not end.
        """
        from lakecli.remote.collection import Phase, may_have_swept

        with self._lock:
            before = self._state
            is_stale = before is not None and self._is_stale()
            while True:
                if before is None:
                    self._settle()
                    before = self._state
                    continue
                keys = set(found)
                if is_stale or before.phase is not Phase.IDLE:
                    now = self._read()
                    if may_have_swept(before, now):
                        self._settle()
                        if whole:
                            raise Swept(self._store.uri)
                        self._ages([*keys, *written])  # raises where one is gone
                if is_stale:
                    # What was put long before this reading may be condemned itself by now.
                    keys.update(written)
                state = self._state
                if state is None or state.never_ran or not keys:
                    return
                if state.phase is Phase.CONDEMNED and not self._keep(state, keys):
                    # What went by between the two readings is looked at like a sweep before them.
                    before = state
                    continue
                self._refresh(keys, state.grace / 2)
                return

    def claim(self, keys: Collection[str]) -> Mapping[str, int] | None:
        """Make sure that those of some objects which are there outlive a collection.

        Returns:
            The sizes of those that are there; ``None`` where nothing was ever collected, so that
            it was not asked.

        Raises:
            Swept: one was deleted just now.
            SweepRunning: a sweep does not end.
        """
        from lakecli.remote.collection import Phase

        if not keys:
            return {}
        with self._lock:
            if self._state is None or self._is_stale():
                self._settle()
            while True:
                state = self._state
                if state is None or state.phase is Phase.SWEEPING:
                    self._settle()
                    continue
                if state.never_ran:
                    return None
                found = zip(keys, self._for_each(self._find, keys), strict=True)
                infos = {key: info for key, info in found if info is not None}
                # Looked for after the state was read, and before the keep: a sweep that took one
                # of them has moved the state.
                if not infos or state.phase is not Phase.CONDEMNED or self._keep(state, set(infos)):
                    self._renew(infos, state.grace / 2)
                    return {key: info.size for key, info in infos.items()}

    def _find(self, key: str) -> ObjectInfo | None:
        try:
            return self._store.head(key)
        except ObjectNotFound:
            return None

    def _is_stale(self) -> bool:
        from lakecli.remote.collection import STALE_AFTER

        return self._monotonic() - self._read_at > STALE_AFTER.total_seconds()

    def _read(self) -> GcState:
        from lakecli.remote.collection import NEVER_RAN, read_state

        started = self._monotonic()
        try:
            self._state = read_state(self._store)
        except PermissionDenied as error:
            self._check_absent(error)
            self._state = NEVER_RAN
        self._read_at = started
        return self._state

    def _check_absent(self, error: PermissionDenied) -> None:
        """Accept that the state may not be read only where a listing proves that there is none.

        Stores refuse what is absent, too, to who may not list. But a policy, or an owner of the
        object in another account, could hide a state that is there; whoever believed that nothing
        was ever collected would then use what a sweep is about to delete.
        """
        from lakecli.remote.collection import STATE_KEY

        try:
            if all(info.key != STATE_KEY for info in self._store.list(STATE_KEY)):
                return
        except PermissionDenied:
            raise error from None  # it says best what is missing: maybe all credentials
        raise PermissionDenied(
            f"not allowed to read whether garbage is collected: {self._store.uri}/{STATE_KEY}",
            hint="allow reading it, and listing the namespace; see what is missing: lakecli doctor "
            f"{self._store.uri}",
        ) from error

    def _settle(self) -> None:
        from lakecli.remote.collection import Phase, wait_for_sweep

        if self._read().phase is Phase.SWEEPING:
            wait_for_sweep(
                self._store, Retries(SWEEPS, sleep=self.sleep, monotonic=self._monotonic)
            )
            self._read()

    def _keep(self, state: GcState, keys: set[str]) -> bool:
        """Write a keep; return whether the state still is as it was."""
        from lakecli.identity import h
        from lakecli.remote.collection import write_keep

        # Named by what it says: whoever wants the same kept, says so once.
        keep_id = h("\n".join(sorted(keys)).encode("ascii")).hex()[:32]
        write_keep(self._store, state.epoch, keep_id, keys)
        now = self._read()
        return (now.phase, now.epoch) == (state.phase, state.epoch)

    def _refresh(self, keys: Iterable[str], limit: timedelta) -> None:
        """Give what is older than `limit` a new time."""
        ages = self._ages(sorted(keys))
        old = [key for key, age in ages.items() if age > limit]
        if old:
            self._for_each(self._touch, old)

    def _renew(self, infos: Mapping[str, ObjectInfo], limit: timedelta) -> None:
        """Give those of some objects that are older than `limit` a new time."""
        if not infos:
            return
        now = self._now()
        old = [key for key, info in infos.items() if now - info.modified_at > limit]
        if old:
            self._for_each(self._touch, old)

    def _ages(self, keys: Collection[str]) -> dict[str, timedelta]:
        """Return how old objects are by the store's clock.

        Raises:
            Swept: one is gone.
        """
        if not keys:
            return {}
        now = self._now()
        infos = self._for_each(self._store.head, keys)
        return {key: now - info.modified_at for key, info in zip(keys, infos, strict=True)}

    def _now(self) -> datetime:
        from lakecli.remote.collection import store_now

        if self._clock is None:
            self._clock = store_now(self._store), self._monotonic()
        then, at = self._clock
        return then + timedelta(seconds=self._monotonic() - at)

    def _touch(self, key: str) -> None:
        # The copy has a name of its own each time: of two writers that renew one object at once,
        # neither deletes the other's copy.
        from lakecli.objectstore.capabilities import renew
        from lakecli.remote.collection import REFRESHING

        renew(self._store, key, aside=REFRESHING + self._new_id().hex())

    def _for_each(self, function: Callable[[A], B], items: Collection[A]) -> list[B]:
        from concurrent.futures import ThreadPoolExecutor

        try:
            if len(items) == 1:
                return [function(item) for item in items]
            with ThreadPoolExecutor(PARALLELISM) as pool:
                return list(pool.map(function, items))
        except ObjectNotFound:
            raise Swept(self._store.uri) from None
