"""What a collection is told, and what it reports."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from lakecli.progress import NO_PROGRESS, Progress
from lakecli.remote.collection import DEFAULT_GRACE
from lakecli.repository.core.clock import elapsed

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from lakecli.pipeline.gc.mark import Tally
    from lakecli.remote.collection import Phase


def _agree(_question: str) -> None:
    pass


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
        progress: counts the metaranges and ranges that are read.
        elapsed: seconds that only ever grow, also while the machine is asleep.
    """

    grace: timedelta = DEFAULT_GRACE
    dry_run: bool = False
    force_shared: bool = False
    confirm: Callable[[str], None] = _agree
    progress: Progress = NO_PROGRESS
    elapsed: Callable[[], float] = elapsed


class GcStatus(NamedTuple):
    """Where a collection stands.

    Attributes:
        phase: ``idle``, ``condemned`` or ``sweeping``.
        epoch: counts the condemnations.
        grace: of this epoch.
        since: when the phase began, by the store's clock; ``None``: there never was a collection.
        sweep_at: from when on what is condemned may be swept; ``None``: nothing is condemned.
        resume_at: from when on a sweep that was interrupted may be finished or ended; ``None``:
            none is under way.
    """

    phase: Phase
    epoch: int
    grace: timedelta
    since: datetime | None
    sweep_at: datetime | None
    resume_at: datetime | None = None


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
