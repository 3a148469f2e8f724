"""What a collection works with: the caller's options, its times, and what it has read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.base.retry import elapsed
from lakecli.engine.runner import Runner
from lakecli.engine.store_location import OpenStore, StoreLocation, location_for
from lakecli.gc.known_refs import KnownRefs
from lakecli.gc.rules import Rules
from lakecli.remote.collection import DEFAULT_GRACE, STALE_AFTER
from lakecli.repository.contract import Repository
from lakecli.repository.lakefs.kept_dumps import TakenOver


def _agree(_question: str) -> None:
    pass


class GcOptions(NamedTuple):
    """How to collect garbage.

    Attributes:
        grace: shortest time between condemning and sweeping, and minimum age of garbage.
        dry_run: change nothing, and report what would be done.
        force_shared: collect although another program uses the namespace.
        lakefs_stopped: record that lakeFS, from which the namespace was taken over, has stopped.
        accept_restored: accept that refs are missing or older than they were, and begin anew.
        confirm: called with a question before anything is deleted; raises if the answer is no.
        progress: counts the metaranges and ranges that are read.
        elapsed: monotonic seconds, which also pass while the machine is asleep.
    """

    grace: timedelta = DEFAULT_GRACE
    dry_run: bool = False
    force_shared: bool = False
    lakefs_stopped: bool = False
    accept_restored: bool = False
    confirm: Callable[[str], None] = _agree
    progress: Progress = NO_PROGRESS
    elapsed: Callable[[], float] = elapsed


class Times(NamedTuple):
    """Which objects are old.

    Attributes:
        now: time by the store's clock.
        grace: the grace period.
    """

    now: datetime
    grace: timedelta

    @property
    def cutoff(self) -> datetime:
        """Younger objects are not garbage.

        A reference to an object, or a commit of a tree that has one, may follow some time after
        the object was written.
        """
        return self.now - self.grace - 2 * STALE_AFTER


class Work(NamedTuple):
    """What a collection works with.

    Attributes:
        repository: the repository.
        known: the refs in the bucket, and what was seen of them.
        runner: runs the parts.
        times: which objects are old.
        rules: retention rules; ``None``: keep what refs reach.
        taken: how the namespace was taken over from lakeFS; ``None``: it was not.
        last_dump: when the last refs dump was made that went out or came in; ``None``: as above.
        progress: counts the metaranges and ranges that are read, and the parts of listings.
        tables: number of ranges and metaranges that the last collection left; 0: unknown.
    """

    repository: Repository
    known: KnownRefs
    runner: Runner
    times: Times
    rules: Rules | None
    taken: TakenOver | None
    last_dump: datetime | None
    progress: Progress
    tables: int = 0

    @property
    def lakefs(self) -> TakenOver | None:
        """The lakeFS that wrote to the namespace, if its objects may be garbage."""
        return self.taken if self.taken is not None and self.taken.stopped_at else None

    @property
    def location(self) -> StoreLocation | OpenStore:
        """Where parts find the namespace."""
        return location_for(self.repository, self.runner)
