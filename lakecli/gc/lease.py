"""The right to delete, which one process has at a time.

The process that wrote the state owns the sweep for a limited time: the lease. The lease begins at
the date that the bucket gives to the state's object, and ends `LEASE` later. Only then may another
machine take over the sweep. The owner measures the time from before its request that wrote the
state, by a clock that also runs while the machine is asleep. The owner

- begins no deletion later than `RENEW_AFTER`: it writes the state again first. If another machine
  has taken over the sweep, this write fails, and the owner deletes nothing more;
- gives up if a deletion took longer than `LONGEST_DELETE`, since the store may still receive
  requests of this deletion.

The rest of the lease, after `RENEW_AFTER`, is for the deletion: `LONGEST_DELETE` including the
SDK's retries, and the 15 minutes for which S3 and Azure accept a signed request.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Lock
from typing import Final, Self

from lakecli.errors import LakeError, PermissionDenied, Unreachable
from lakecli.gc.state import Garbage, end_state, move_state
from lakecli.remote import gc_protocol
from lakecli.remote.gc_protocol import LEASE, DamagedState, GcState, ObservedState, Phase
from lakecli.repository.contract import Repository
from lakecli.stores.capabilities import DeletesMatching

RENEW_AFTER: Final = LEASE / 6
"""Age of the lease above which it must be renewed before a deletion may begin."""

LONGEST_DELETE: Final = LEASE / 3
"""Maximum time of one deletion, including the SDK's retries."""


class SweepTooSlow(Unreachable):
    """A deletion took so long that its requests may still arrive; the sweep ends."""


class SweepLease:
    """The lease of one sweep; creating the object takes it. Safe to share between threads.

    Leaving the context ends the sweep, since all writers wait for its end. After a failure the
    sweep is ended only if no deletion can still be in progress. Otherwise writers wait until the
    lease expires.

    Attributes:
        state: the state as this process wrote it last.

    Raises:
        StateMoved: another machine changed the state at the same time.
    """

    def __init__(self, repository: Repository, seen: ObservedState, now: datetime) -> None:
        self._repository = repository
        self._now = now
        self._store = repository.store
        self._elapsed = repository.lake.runtime.elapsed
        self._lock = Lock()
        self._taken_at = self._elapsed()  # before the request that writes the state
        self.state = move_state(repository, seen, phase=Phase.SWEEPING)
        self._is_unsure = False

    def __enter__(self) -> Self:
        """Return the lease."""
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """End the sweep.

        Raises:
            StateMoved: another machine has taken over or ended the sweep; raised only if the
                ``with`` block succeeded.
        """
        if error is None:
            self._end()
        elif isinstance(error, (Exception, KeyboardInterrupt)) and not self._is_unsure:
            with suppress(LakeError):
                self._end()

    def renew_if_due(self) -> None:
        """Call `check` if the lease must be renewed; cheap enough to call in every loop."""
        if self._used() > RENEW_AFTER:
            self.check()

    def check(self) -> None:
        """Check that a deletion may begin now; renew the lease if needed.

        Raises:
            StateMoved: another machine has taken over or ended the sweep.
            SweepTooSlow: the store takes too long to answer for a safe sweep.
        """
        with self._lock:
            try:
                self._check_owner(gc_protocol.read_state(self._store))
                if self._used() > RENEW_AFTER:
                    before = self._elapsed()
                    seen = gc_protocol.look(self._store)
                    self._check_owner(seen.state)
                    self.state, self._taken_at = move_state(self._repository, seen), before
            except DamagedState:
                raise self._taken_over() from None
            if self._used() > RENEW_AFTER:
                what = f"the store of {self._store.uri} takes too long to answer for a safe sweep"
                raise self._too_slow(what)

    def delete(self, objects: Iterable[Garbage]) -> int:
        """Delete objects with one request, if `check` allows it; return how many the store kept.

        If the store supports it, an object is deleted only if it still has the listed version. So a
        delayed request cannot delete an object that was written again in the meantime.

        Raises:
            SweepTooSlow: the deletion took so long that the sweep must end.
        """
        self.check()
        begun, kept = self._elapsed(), 0
        try:
            if isinstance(self._store, DeletesMatching):
                kept = len(self._store.delete_matching(objects))
            else:
                self._store.delete([key for key, _ in objects])
        except PermissionDenied:
            raise  # the store refused, so no deletion is in progress
        except BaseException:
            self._is_unsure = True
            raise
        if self._elapsed() - begun > LONGEST_DELETE.total_seconds():
            self._is_unsure = True
            longest = f"{LONGEST_DELETE.total_seconds() / 60:.0f} minutes"
            what = f"a deletion in {self._store.uri} took longer than {longest}"
            raise self._too_slow(f"{what}, so the sweep ended")
        return kept

    def _end(self) -> None:
        """Change the state to idle, and delete the lists and keeps that no phase needs any more."""
        seen = gc_protocol.look(self._store)
        self._check_owner(seen.state)
        end_state(self._repository, seen, self._now)

    def _check_owner(self, state: GcState) -> None:
        """Check that the state is still the one that this process wrote."""
        if state != self.state:
            raise self._taken_over()

    def _taken_over(self) -> gc_protocol.StateMoved:
        return gc_protocol.StateMoved(
            f"another machine has taken over the garbage collection of {self._store.uri}",
            hint=f"see its state: `gc status {self._repository.uri}`",
        )

    def _used(self) -> timedelta:
        return timedelta(seconds=self._elapsed() - self._taken_at)

    def _too_slow(self, what: str) -> SweepTooSlow:
        minutes = LEASE.total_seconds() / 60
        hint = f"continue it in {minutes:.0f} minutes: `gc run {self._repository.uri}`"
        return SweepTooSlow(what, hint=hint)
