"""JSON answers about garbage collection."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict


class Garbage(TypedDict):
    """Garbage of one kind.

    Attributes:
        kind: data, lakefs, range, metarange, pack, dump, reflog, incoming, doctor or upload.
        prefix: prefix of the keys.
        why: why it is garbage.
        size: size in bytes.
    """

    kind: str
    prefix: str
    why: str
    objects: int
    size: int


class KeptDump(TypedDict):
    """A refs dump that garbage collection keeps, with all that it refers to.

    Attributes:
        commits_meta_range_id: ID of the list of commits.
        tags_meta_range_id: ID of the list of tags.
        branches_meta_range_id: ID of the list of branches.
        since: date of the dump, by the store's clock.
        until: time from which it may be deleted.
    """

    commits_meta_range_id: str
    tags_meta_range_id: str
    branches_meta_range_id: str
    since: datetime
    until: datetime


class RefGarbage(TypedDict):
    """The garbage of one branch or tag.

    Attributes:
        kind: branch or tag.
        deleted: whether the branch or tag is deleted.
        trees: number of trees of its old commits, which retention rules let go.
        former_trees: number of trees that it reached before it was deleted or moved elsewhere.
    """

    kind: str
    name: str
    deleted: bool
    trees: int
    former_trees: int


class GarbageSummary(TypedDict):
    """Garbage by branch and tag.

    Attributes:
        refs: the default branch first, then branches and tags that have garbage.
        other_trees: number of trees that no branch or tag had.
        objects: number of data objects that no branch or tag reaches.
    """

    refs: Sequence[RefGarbage]
    other_trees: int
    objects: int


class AcceptedRef(TypedDict):
    """A branch or tag that --accept-restored accepted as it is now.

    Attributes:
        kind: branch or tag.
        commit_id: the commit on which it was seen last, if it is known.
        sequence: number of its last move when it was seen; 0 if it is not known.
        seen_by: who saw it: this clone, or the last garbage collection.
        now: how it is now.
    """

    kind: str
    name: str
    commit_id: str | None
    sequence: int
    seen_by: str
    now: str


class CollectionState(TypedDict):
    """The state of garbage collection.

    Attributes:
        phase: idle, condemned or sweeping.
        epoch: number of condemnations so far.
        grace_seconds: grace period in seconds.
        since: time when the phase began, by the store's clock.
        sweep_at: time from which garbage can be deleted.
        resume_at: time from which an interrupted sweep can be finished or ended.
        dumps: refs dumps that are kept, oldest first.
        lakefs_stopped: time when --lakefs-stopped confirmed that lakeFS has stopped.
        summary: what is condemned, by branch and tag; null if nothing is.
    """

    phase: str
    epoch: int
    grace_seconds: int
    since: datetime | None
    sweep_at: datetime | None
    resume_at: datetime | None
    dumps: Sequence[KeptDump]
    lakefs_stopped: datetime | None
    summary: GarbageSummary | None


class Collection(TypedDict):
    """The result of a run of garbage collection.

    Attributes:
        phase: idle, condemned or sweeping.
        epoch: number of condemnations so far.
        grace_seconds: grace period in seconds.
        since: time when the phase began, by the store's clock.
        sweep_at: time from which garbage can be deleted.
        resume_at: time from which an interrupted sweep can be finished or ended.
        action: condemned, found nothing, waits or swept.
        dry_run: whether nothing was done because of --dry-run.
        objects: number of garbage objects.
        size: bytes of the garbage objects.
        spared: number of condemned objects that are in use again.
        garbage: garbage by kind.
        commits: number of commits that keep their objects; 0 if there was no search.
        ranges: number of distinct ranges of these commits.
        entries: number of entries in these ranges.
        lost: ranges and metaranges that unpushed commits need and that are gone.
        summary: the garbage by branch and tag; null if there is none.
        accepted: branches and tags that went back in time, and that --accept-restored accepted.
    """

    action: str
    dry_run: bool
    phase: str
    epoch: int
    grace_seconds: int
    since: datetime | None
    sweep_at: datetime | None
    resume_at: datetime | None
    objects: int
    size: int
    spared: int
    garbage: Sequence[Garbage]
    commits: int
    ranges: int
    entries: int
    lost: Sequence[str]
    summary: GarbageSummary | None
    accepted: Sequence[AcceptedRef]


class RetentionRule(TypedDict):
    """The retention of one branch.

    Attributes:
        branch_id: name of the branch.
    """

    branch_id: str
    retention_days: int


class RetentionRules(TypedDict):
    """How long commits keep their objects.

    Attributes:
        branches: branches with a retention of their own, by name.
    """

    default_retention_days: int
    branches: Sequence[RetentionRule]
