"""JSON answers about clone, fetch, push and pull."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NotRequired, TypedDict

from lakecli.base.model import CommitId


class RefUpdate(TypedDict):
    """A branch or tag that moved in the bucket.

    Attributes:
        kind: branch or tag.
        name: name of the branch or tag.
        before: its commit in the bucket at the last fetch; null if it was not there.
        after: its commit there now; null if it was deleted.
        change: new, moved, forced, deleted, incomplete or differs; illegal name in a refs dump.
    """

    kind: str
    name: str
    before: CommitId | None
    after: CommitId | None
    change: str


class Damage(TypedDict):
    """A record in the bucket that was left out because it is damaged.

    Attributes:
        kind: branch, tag, pack or commit.
        name: name of the branch or tag, or ID of the pack or commit.
        key: key of the object in the storage namespace.
        what: what is wrong.
    """

    kind: str
    name: str
    key: str
    what: str


class Fetched(TypedDict):
    """The result of a fetch.

    Attributes:
        repository: URI of the repository.
        refs: number of branches and tags in the bucket.
        commits: number of new commits.
        packs: number of commit packs that were read.
        updated: branches and tags that moved since the last fetch.
        damaged: records that were left out because they are damaged.
    """

    repository: str
    refs: int
    commits: int
    packs: int
    updated: Sequence[RefUpdate]
    damaged: Sequence[Damage]


class OutsidePlace(TypedDict):
    """A place outside the storage namespace where objects are.

    Attributes:
        place: bucket or directory.
        objects: number of objects there, as far as counted.
        allowed: whether this machine may read them.
    """

    place: str
    objects: int
    allowed: bool


class Cloned(TypedDict):
    """A new clone.

    Attributes:
        repository: URI of the repository.
        storage_namespace: URI of the storage namespace.
        commits: number of commits that are new on this machine.
        left_out: branches and tags of the bucket that were not cloned, and why.
        outside: places of objects outside the storage namespace.
        damaged: records that were left out because they are damaged.
        updated: with --from-lakefs, where the repository existed, the refs that are not as they
            were; the change of one is new, moved, diverged (made as lakefs:NAME) or differs.
    """

    repository: str
    storage_namespace: str
    default_branch: str
    branches: int
    tags: int
    commits: int
    left_out: Sequence[RefUpdate]
    damaged: Sequence[Damage]
    outside: Sequence[OutsidePlace]
    updated: Sequence[RefUpdate]


class PushedRef(TypedDict):
    """A branch or tag that was pushed.

    Attributes:
        kind: branch or tag.
        name: name of the branch or tag.
        before: its commit in the bucket before; null if it was not there.
        after: its commit there now; null if it was deleted.
        state: created, updated, forced, deleted, up to date or behind.
    """

    kind: str
    name: str
    before: CommitId | None
    after: CommitId | None
    state: str


class FailedRef(TypedDict):
    """A branch or tag that was not pushed.

    Attributes:
        kind: branch or tag.
        name: name of the branch or tag.
        error: the reason.
    """

    kind: str
    name: str
    error: str


class Pushed(TypedDict):
    """The result of a push.

    Attributes:
        repository: URI of the repository.
        dry_run: whether nothing was moved because of --dry-run.
        refs: branches and tags that are in the bucket as on this machine.
        failed: branches and tags that were refused.
    """

    repository: str
    dry_run: bool
    refs: Sequence[PushedRef]
    failed: Sequence[FailedRef]


class Pulled(TypedDict):
    """The result of a pull.

    Attributes:
        repository: URI of the repository.
        name: name of the branch or tag.
        before: its commit on this machine before; null if it was not there.
        after: its commit now; for a merge with --dry-run, the commit that would be merged.
        state: created, fast-forward, merged, up to date, ahead or tag.
        dry_run: whether nothing was moved because of --dry-run.
        updated: branches and tags that moved since the last fetch.
        damaged: records that were left out because they are damaged.
    """

    repository: str
    name: str
    before: CommitId | None
    after: CommitId
    state: str
    dry_run: bool
    updated: Sequence[RefUpdate]
    damaged: Sequence[Damage]


class RefsManifest(TypedDict):
    """The three lists of a refs dump, as lakectl prints it.

    Attributes:
        commits_meta_range_id: ID of the list of commits.
        tags_meta_range_id: ID of the list of tags.
        branches_meta_range_id: ID of the list of branches.
    """

    commits_meta_range_id: str
    tags_meta_range_id: str
    branches_meta_range_id: str


class RestoredRefs(TypedDict):
    """The refs of a dump that are in a repository now.

    Attributes:
        repository: URI of the repository.
        branches: number of branches.
        tags: number of tags.
        commits: number of commits.
        left_out: branches and tags of the dump whose names lakecli does not allow.
        updated: with --update, the refs that are not as they were here; the change of one is new,
            moved, diverged (made as lakefs:NAME) or differs (another one stays here).
    """

    repository: str
    branches: int
    tags: int
    commits: int
    left_out: Sequence[RefUpdate]
    updated: Sequence[RefUpdate]


class StoredRecord(TypedDict):
    """A record of a range, a metarange, a list of a refs dump, or a commit pack.

    Attributes:
        path: path of an entry.
        identity: identity of an entry in hex digits.
        size: size of an object in bytes.
        checksum: BLAKE3 in 64 hex digits if lakecli uploaded it, else an ETag.
        modified_at: time of the upload.
        physical_address: where the bytes of an object are.
        metadata: metadata of an entry or a commit.
        range_id: ID of a range.
        min_key: first path of a range.
        max_key: last path of a range.
        count: number of entries of a range.
        estimated_size: size of a range in bytes; exact if lakecli wrote it.
        branch: name of a branch.
        tag: name of a tag.
        commit_id: ID of a commit.
        committer: name and e-mail of a commit.
        message: message of a commit.
        created_at: time of a commit.
        parents: IDs of the parents in the order in which they are recorded.
        metarange_id: ID of the tree of a commit.
        version: 1; 0 if the first parent is the last one recorded.
        generation: generation of a commit.
    """

    path: NotRequired[bytes]
    identity: NotRequired[str]
    size: NotRequired[int]
    checksum: NotRequired[str]
    modified_at: NotRequired[datetime]
    physical_address: NotRequired[str]
    metadata: NotRequired[Mapping[str, str]]
    range_id: NotRequired[str]
    min_key: NotRequired[bytes]
    max_key: NotRequired[bytes]
    count: NotRequired[int]
    estimated_size: NotRequired[int]
    branch: NotRequired[str]
    tag: NotRequired[str]
    commit_id: NotRequired[CommitId]
    committer: NotRequired[str]
    message: NotRequired[str]
    created_at: NotRequired[datetime]
    parents: NotRequired[Sequence[CommitId]]
    metarange_id: NotRequired[str]
    version: NotRequired[int]
    generation: NotRequired[int]
