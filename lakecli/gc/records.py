"""Garbage collection options, status and report."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.base.retry import elapsed
from lakecli.gc.known_refs import LostRef
from lakecli.gc.mark import Tally
from lakecli.gc.summary import Summary
from lakecli.remote.collection import DEFAULT_GRACE, Phase
from lakecli.repository.lakefs.kept import KeptDump


def _agree(_question: str) -> None:
    pass


class Action(StrEnum):
    """What a run did, or in a dry run would do."""

    CONDEMNED = "condemned"
    FOUND_NOTHING = "found nothing"
    WAITS = "waits"
    SWEPT = "swept"


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


class GcStatus(NamedTuple):
    """The state of garbage collection.

    Attributes:
        phase: ``idle``, ``condemned`` or ``sweeping``.
        epoch: number of condemnations so far.
        grace: grace period of this epoch.
        since: when the phase began, by the store's clock; ``None``: there was no collection yet.
        sweep_at: when condemned objects may be swept; ``None``: nothing is condemned.
        resume_at: when an interrupted sweep may be continued or ended; ``None``: no sweep has
            begun.
        dumps: refs dumps that are kept, by date.
        summary: what is condemned, by branch and tag; ``None``: nothing is, or it is not known.
        lakefs_stopped: when somebody confirmed that lakeFS, from which the namespace was taken
            over, has stopped; ``None``: nobody did, or it was not taken over.
    """

    phase: Phase
    epoch: int
    grace: timedelta
    since: datetime | None
    sweep_at: datetime | None
    resume_at: datetime | None = None
    dumps: tuple[KeptDump, ...] = ()
    lakefs_stopped: datetime | None = None
    summary: Summary | None = None


class GcReport(NamedTuple):
    """What a run did.

    Attributes:
        action: what the run did; with `GcOptions.dry_run`, what it would do.
        status: the state afterwards.
        garbage: condemned or swept objects, by kind.
        spared: number of condemned objects that are in use again.
        commits: number of commits that keep their objects; 0 if nothing was marked.
        entries: number of entries in the distinct ranges that were read.
        ranges: number of these ranges.
        objects: number of data objects in the namespace.
        size: bytes of these.
        lost: tables that unpushed work of this or another clone needs and that are missing.
        tables: number of ranges and metaranges that are left; 0: unknown.
        summary: what was condemned or swept, by branch and tag.
        accepted: refs that went back, which somebody accepted.
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
    tables: int = 0
    summary: Summary | None = None
    accepted: tuple[LostRef, ...] = ()
