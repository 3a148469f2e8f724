"""JSON answers about commits, branches and tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NotRequired, TypedDict

from lakecli.base.model import CommitId


class Repository(TypedDict):
    """A repository of this machine.

    Attributes:
        name: name on this machine.
        storage_namespace: URI of the storage namespace.
        default_branch: the branch that cannot be deleted.
        created_at: time of its creation.
        range_entries: average number of paths in a range.
        uuid: 32 hex digits, the same in every clone.
    """

    name: str
    storage_namespace: str
    default_branch: str
    created_at: datetime
    range_entries: int
    uuid: str


class Ref(TypedDict):
    """A branch or tag.

    Attributes:
        name: name of the branch or tag.
        commit_id: the commit it points to.
    """

    name: str
    commit_id: CommitId


class ListedBranch(TypedDict):
    """A branch, and its distance from the bucket if the repository is shared.

    Attributes:
        name: name of the branch.
        commit_id: the commit it points to.
        upstream: its commit in the bucket at the last fetch; null if it is not there.
        ahead: commits that are only on this machine.
        behind: commits that are only in the bucket.
    """

    name: str
    commit_id: CommitId
    upstream: NotRequired[CommitId | None]
    ahead: NotRequired[int]
    behind: NotRequired[int]


class BranchStatus(TypedDict):
    """A branch, its distance from the bucket, and its uncommitted changes.

    Attributes:
        name: name of the branch.
        commit_id: its head.
        upstream: its commit in the bucket at the last fetch; null if it is not there.
        ahead: commits that are only on this machine; 0 without an upstream.
        behind: commits that are only in the bucket.
        added: new uncommitted objects.
        changed: changed uncommitted objects.
        removed: uncommitted removals.
    """

    name: str
    commit_id: CommitId
    upstream: CommitId | None
    ahead: int
    behind: int
    added: int
    changed: int
    removed: int


class BranchShown(BranchStatus):
    """A branch, its distance from the bucket, its uncommitted changes, and its head.

    Attributes:
        name: name of the branch.
        commit_id: its head.
        upstream: its commit in the bucket at the last fetch; null if it is not there.
        ahead: commits that are only on this machine; 0 without an upstream.
        behind: commits that are only in the bucket.
        added: new uncommitted objects.
        changed: changed uncommitted objects.
        removed: uncommitted removals.
        is_default: whether it is the default branch of the repository.
        commit: the commit of its head.
    """

    is_default: bool
    commit: Commit


class Status(TypedDict):
    """The state of a repository against its bucket.

    Attributes:
        repository: URI of the repository.
        storage_namespace: URI of the storage namespace.
        fetched_at: time of the last fetch; null if there was none.
        pushed_at: time of the last push from this machine; null if there was none.
        branches: branches, ordered by name.
        only_in_bucket: branches that are not on this machine.
        pending: moves that an interrupted command began.
        went_back: branches and tags that are older in the bucket than this clone has seen them.
        directory: absolute path of the linked directory.
        changes: its files that differ from the commit it was last synced with, here or there.
    """

    repository: str
    storage_namespace: str
    fetched_at: datetime | None
    pushed_at: datetime | None
    branches: Sequence[BranchStatus]
    only_in_bucket: Sequence[Ref]
    pending: Sequence[Move]
    went_back: Sequence[RefName]
    directory: NotRequired[Path]
    changes: NotRequired[Sequence[LocalChange]]


class LocalChange(TypedDict):
    """A path of a working directory that differs from the commit it was last synced with.

    Attributes:
        source: local, remote, or both.
        change: added, removed, changed, or conflict: changed on both sides to different contents.
        path: path of the file, relative to the working directory.
        here: how the file differs: added, removed or changed; null if it does not.
        there: how the ref differs: added, removed or changed; null if it does not.
    """

    source: str
    change: str
    path: bytes | str
    here: str | None
    there: str | None


class RefName(TypedDict):
    """A branch or tag, by its name.

    Attributes:
        kind: branch or tag.
        name: name of the branch or tag.
    """

    kind: str
    name: str


class Move(TypedDict):
    """A move in the bucket that an interrupted command began.

    Attributes:
        kind: branch or tag.
        name: name of the branch or tag.
        before: its commit in the bucket before; null if it was not there.
        after: its new commit there; null if it is deleted.
        state: applied, lost (somebody else moved it first), or open.
    """

    kind: str
    name: str
    before: CommitId | None
    after: CommitId | None
    state: str


class Commit(TypedDict):
    """A commit.

    Attributes:
        id: ID as lakeFS computes it.
        parents: parents, the first parent first.
        committer: name and e-mail; may be empty.
        metarange_id: ID of the list of all paths; empty for no paths.
        generation: 1, or one more than the largest of its parents.
    """

    id: CommitId
    parents: Sequence[CommitId]
    message: str
    committer: str
    created_at: datetime
    metadata: Mapping[str, str]
    metarange_id: str
    generation: int


class ReflogEntry(TypedDict):
    """A move of a branch or tag.

    Attributes:
        ref: ref expression of the new position, such as main@{0}.
        commit_id: new commit; null if it was deleted.
        before_commit_id: previous commit; null if it was created.
        at: time by the clock of the machine that moved it.
        what: the command: push, commit, ….
        who: name and e-mail; empty if unknown.
        shared: whether the move is in the bucket.
    """

    ref: str
    commit_id: CommitId | None
    before_commit_id: CommitId | None
    at: datetime
    what: str
    who: str
    shared: bool


class Resolved(TypedDict):
    """The commit that a ref expression names.

    Attributes:
        uri: the URI as given.
        kind: kind of the base: branch, tag or commit.
        base: name of the branch or tag, or ID of the commit, before any modifier.
        staging: whether reading it includes uncommitted changes.
        steps: one for each modifier.
    """

    uri: str
    commit_id: CommitId
    kind: str
    base: str
    base_commit_id: CommitId
    staging: bool
    steps: Sequence[Step]


class AskedRef(TypedDict):
    """A ref that was asked for; one that is missing has the URI only.

    Attributes:
        uri: the URI as given.
        missing: whether it names no commit.
        kind: kind of the base: branch, tag or commit.
        base: name of the branch or tag, or ID of the commit, before any modifier.
        staging: whether reading it includes uncommitted changes.
        steps: one for each modifier.
    """

    uri: str
    missing: bool
    commit_id: NotRequired[CommitId]
    kind: NotRequired[str]
    base: NotRequired[str]
    base_commit_id: NotRequired[CommitId]
    staging: NotRequired[bool]
    steps: NotRequired[Sequence[Step]]


class Step(TypedDict):
    """A modifier of a ref expression.

    Attributes:
        modifier: modifier such as ~2.
        commit_id: the commit it leads to.
    """

    modifier: str
    commit_id: CommitId


class MergeBase(TypedDict):
    """The common ancestor of two commits.

    Attributes:
        base_commit_id: the best common ancestor.
    """

    base_commit_id: CommitId
    source_commit_id: CommitId
    destination_commit_id: CommitId


class Reverts(TypedDict):
    """The reverts on a branch.

    Attributes:
        commits: new commits, in order.
    """

    branch: str
    commits: Sequence[Commit]
