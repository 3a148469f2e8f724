"""The right to delete: a sweep belongs to whoever wrote the state, and only for a while.

The lease begins with the date that the bucket gives to the state's object and ends `LEASE` later.
Only then may another machine take the sweep over. Its owner measures from before the request that
wrote the state, by a clock that goes on while the machine is asleep, and

- begins no deletion later than `RENEW_AFTER`: it writes the state again first. Where another
  machine has taken the sweep over, that fails, and nothing more is deleted;
- gives up where a deletion took longer than `LONGEST_DELETE`: nobody knows then when the store gets
  to see what is still on its way.

The rest of the lease, after `RENEW_AFTER`, is for the deletion: `LONGEST_DELETE` with the retries
of an SDK, and then the 15 minutes for which S3 and Azure accept a request after it was signed.
"""

from __future__ import annotations

from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from lakecli.errors import PermissionDenied, Unreachable
from lakecli.remote import collection
from lakecli.remote.collection import LEASE, DamagedState, Seen, StateMoved

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.objectstore.base import ObjectStore
    from lakecli.remote.collection import GcState

T = TypeVar("T")

RENEW_AFTER: Final = LEASE / 6
"""How much of a lease may be used up when a deletion begins."""

LONGEST_DELETE: Final = LEASE / 3
"""How long one deletion may take, the retries of the SDK included."""


class SweepTooSlow(Unreachable):
    """A deletion took so long that its end is not known for sure; the sweep stops."""


class Lease:
    """The lease of one sweep. Safe to share between threads.

    Args:
        store: the namespace.
        state: as this process has just written it.
        taken_at: what `elapsed` said before that was sent.
        elapsed: seconds that only ever grow, also while the machine is asleep.
        new_id: makes the write ID of a renewal.
        uri: of the repository, for hints.

    Attributes:
        state: as this process wrote it last.
        is_unsure: whether a deletion may still be under way somewhere, so that the sweep must not
            be ended before the lease is over.
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
        """Make sure that a deletion may begin now.

        Raises:
            StateMoved: another machine has taken the sweep over, or ended it.
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
        """Read the state, which must be as this process wrote it."""
        try:
            found = read(self._store)
        except DamagedState:
            raise self._lost() from None
        state = found.state if isinstance(found, Seen) else found
        if state != self.state:
            raise self._lost()
        return found

    def run(self, delete: Callable[[], T]) -> T:
        """Delete something, by a request that begins now.

        Args:
            delete: does it; of not more than the store takes at one time.

        Raises:
            StateMoved: another machine has taken the sweep over, or ended it.
            SweepTooSlow: it took so long that the sweep must not go on.
        """
        self.check()
        begun = self._elapsed()
        try:
            found = delete()
        except PermissionDenied:
            raise  # the store has said no, so nothing is on its way
        except BaseException:
            self.is_unsure = True
            raise
        if self._elapsed() - begun > LONGEST_DELETE.total_seconds():
            self.is_unsure = True
            raise SweepTooSlow(
                f"a deletion in {self._store.uri} took longer than "
                f"{LONGEST_DELETE.total_seconds() / 60:.0f} minutes, the sweep is given up",
                hint=self._continue_hint(),
            )
        return found

    def _used(self) -> timedelta:
        return timedelta(seconds=self._elapsed() - self._taken_at)

    def _continue_hint(self) -> str:
        minutes = LEASE.total_seconds() / 60
        return f"continue it {minutes:.0f} minutes later: lakecli gc run {self._uri}"

    def _lost(self) -> StateMoved:
        return StateMoved(
            f"another machine has taken over the garbage collection of {self._store.uri}",
            hint=f"look at it: lakecli gc status {self._uri}",
        )
