"""Compare a clone's branches with the bucket's, and count their uncommitted changes.

The bucket is not read: branches are compared with its state at the last fetch. Uncommitted changes
exist in this clone only.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from lakecli.base.model import Branch, CommitId, RefKind
from lakecli.kv.bucket import IntentStore
from lakecli.kv.local_store import ReadTransaction
from lakecli.refs.graph import count_ahead_behind
from lakecli.repository.contract import Repository
from lakecli.repository.journal import bucket_state
from lakecli.repository.reading.view import branch_at
from lakecli.staging import area


class Distance(NamedTuple):
    """The difference between a branch on this machine and the same branch in the bucket.

    Attributes:
        upstream: commit of the branch in the bucket at the last fetch; null if the bucket did not
            have the branch.
        ahead: commits that are only on this machine; 0 without an upstream.
        behind: commits that are only in the bucket.
        is_deleted: whether the branch was deleted in the bucket.
    """

    upstream: CommitId | None
    ahead: int
    behind: int
    is_deleted: bool = False


class BranchStatus(NamedTuple):
    """A branch, compared with the bucket, and the number of its uncommitted changes.

    Attributes:
        name: name of the branch.
        commit_id: the head of the branch.
        distance: the difference between the branch on this machine and in the bucket.
        added: number of new uncommitted objects.
        changed: number of changed uncommitted objects.
        removed: number of uncommitted removals.
    """

    name: str
    commit_id: CommitId
    distance: Distance
    added: int
    changed: int
    removed: int


def status(repository: Repository, branch: str | None = None) -> Iterator[BranchStatus]:
    """Yield the state of one branch, or of all branches ordered by name.

    Raises:
        NotFound: no such branch.
    """
    with repository.lake.kv.read() as txn:
        one = () if branch is None else (branch_at(repository, txn, branch),)
        for each in one or repository.refs(txn).iter_branches():
            yield _status(txn, repository, each)


def has_unfinished(repository: Repository) -> bool:
    """Return whether earlier commands left moves whose outcome in the bucket is not recorded."""
    with repository.lake.kv.read() as txn:
        return any(True for _ in IntentStore(txn, repository.key).iter())


def last_fetched(repository: Repository) -> datetime | None:
    """Return when this clone last read all refs of the bucket; ``None``: never."""
    with repository.lake.kv.read() as txn:
        fetched = bucket_state.find_fetched(txn, repository)
    return None if fetched is None else fetched.at


def last_pushed(repository: Repository) -> datetime | None:
    """Return when this clone last moved a ref in the bucket; ``None``: never."""
    with repository.lake.kv.read() as txn:
        return bucket_state.find_pushed_at(txn, repository)


def went_back(repository: Repository) -> list[tuple[RefKind, str]]:
    """Return kind and name of each ref that still lacks commits since the bucket was rolled back.

    A bucket is rolled back, for example, by restoring a backup. If there are such refs, a notice is
    added.
    """
    with repository.lake.kv.read() as txn:
        behind = list(bucket_state.iter_behind(txn, repository))
    if behind:
        bucket_state.notify_rollback(repository, behind)
    return behind


def only_in_bucket(repository: Repository) -> Iterator[tuple[str, CommitId]]:
    """Yield name and commit of the branches that only the bucket has, ordered by name."""
    with repository.lake.kv.read() as txn:
        refs = repository.refs(txn)
        for tracked in repository.tracking(txn).iter(RefKind.BRANCH):
            if tracked.commit_id is not None and refs.find_branch(tracked.name) is None:
                yield tracked.name, tracked.commit_id


def with_distances(
    repository: Repository, branches: Iterable[Branch]
) -> Iterator[tuple[Branch, Distance]]:
    """Yield branches, each with its difference from the branch in the bucket."""
    with repository.lake.kv.read() as txn:
        for branch in branches:
            yield branch, distance(txn, repository, branch)


def distance(txn: ReadTransaction, repository: Repository, branch: Branch) -> Distance:
    """Return the difference between a branch on this machine and in the bucket."""
    tracked = repository.tracking(txn).find(RefKind.BRANCH, branch.name)
    if tracked is None or tracked.commit_id is None:
        return Distance(None, 0, 0, is_deleted=tracked is not None)
    if tracked.commit_id == branch.commit_id:
        return Distance(tracked.commit_id, 0, 0)
    refs = repository.refs(txn)
    ahead, behind = count_ahead_behind(refs, branch.commit_id, tracked.commit_id)
    return Distance(tracked.commit_id, ahead, behind)


def _status(txn: ReadTransaction, repository: Repository, branch: Branch) -> BranchStatus:
    added = changed = removed = 0
    if not area.is_clean(txn, branch):
        from lakecli.repository.staged.counts import count_uncommitted

        added, changed, removed = count_uncommitted(repository, txn, branch)
    found = distance(txn, repository, branch)
    return BranchStatus(branch.name, branch.commit_id, found, added, changed, removed)
