"""The right to delete: a sweep belongs to the process that wrote the state, for a limited time.

The lease begins with the date that the bucket gives to the state's object and ends `LEASE` later.
Only then may another machine take over the sweep. The owner measures from before the request that
wrote the state, by a clock that also runs while the machine is asleep, and

- begins no deletion later than `RENEW_AFTER`: it writes the state again first. If another machine
  has taken over the sweep, that fails, and nothing more is deleted;
- gives up if a deletion took longer than `LONGEST_DELETE`: the store may still receive requests
  that are under way.

The rest of the lease, after `RENEW_AFTER`, is for the deletion: `LONGEST_DELETE` including the
SDK's retries, and the 15 minutes for which S3 and Azure accept a signed request.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from lakecli.errors import PermissionDenied, Unreachable
from lakecli.remote import collection
from lakecli.remote.collection import LEASE, DamagedState, GcState, Seen, StateMoved

if TYPE_CHECKING:
    from lakecli.stores.base import ObjectStore

T = TypeVar("T")

RENEW_AFTER: Final = LEASE / 6
"""Time since the lease began after which no deletion begins without renewing it."""

LONGEST_DELETE: Final = LEASE / 3
"""How long one deletion may take, including the SDK's retries."""


class SweepTooSlow(Unreachable):
    """A deletion took so long that it may still be under way; the sweep ends."""


class Lease:
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
            raise self._lost() from None
        state = found.state if isinstance(found, Seen) else found
        if state != self.state:
            raise self._lost()
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

    def _lost(self) -> StateMoved:
        return StateMoved(
            f"another machine has taken over the garbage collection of {self._store.uri}",
            hint=f"see its state: lakecli gc status {self._uri}",
        )
