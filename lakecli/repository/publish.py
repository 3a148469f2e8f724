"""Write, audit, publish: merge into a branch exactly the tree that was checked, and push it.

The merge commit is recorded on this machine, on no branch, and the checks read it by its ID. If all
checks pass, the branch moves: first in the bucket, by compare-and-set. If somebody else moved the
branch there meanwhile, the merge is built again on the new head, and checked again unless its tree
has passed already. So the branch never has a tree that was not checked.

With ``sync = manual``, only the destination is fetched, followed and pushed.
"""

import copy
from collections.abc import Sequence

from lakecli.base.model import Commit, RefKind
from lakecli.kv.bucket import TrackingStore
from lakecli.repository.check import TreeCheck, reviewer
from lakecli.repository.contract import Repository
from lakecli.repository.handle.namespace import check_readable
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.reading.view import branch_at
from lakecli.repository.sharing.automatic import SharedMover, check_ahead
from lakecli.repository.undo.remote_undo import put_back


def publish(
    repository: Repository,
    source: str,
    destination: str,
    options: MergeOptions,
    checks: Sequence[TreeCheck] = (),
) -> Commit:
    """Merge a ref into a branch if every check passes on the tree that the branch gets; push it.

    Uncommitted changes of the source are ignored.

    Args:
        options: the options of `lakecli.repository.merge.merge`.
        checks: the checks, in the order in which they run; the first failure ends the publication.

    Raises:
        CheckFailed: a check failed; the branch was not moved. Other errors of a check are raised
            as they are.
        LostRace: the branch here and in the bucket have diverged, or it kept moving.
        LakeError: any error of `lakecli.repository.merge.merge` or of a push.
    """
    moving = moving_first(repository, destination, who=options.committer)
    with moving.lake.kv.read() as txn:
        here = branch_at(moving, txn, destination)
        there = TrackingStore(txn, moving.key).position(RefKind.BRANCH, destination)
        check_ahead(txn, moving, here, there)
    review = reviewer(moving, destination, checks, who=options.committer)
    return merge(moving, source, destination, options, review=review)


def moving_first(repository: Repository, branch: str, *, who: str) -> Repository:
    """Return a handle that moves a branch in the bucket before it moves the branch here.

    Without automatic sharing, the branch is fetched, and follows the bucket if it has no commits of
    its own.

    Raises:
        Refused: the namespace belongs to lakeFS.
        Unreachable: the store does not answer.
    """
    check_readable(repository)
    if repository.syncs:
        return repository
    runtime = repository.lake.runtime
    mover = SharedMover(runtime.new_id(), who=lambda: who, put_back=put_back, only=branch)
    moving = with_mover(repository, mover)
    mover.catch_up(moving)
    return moving


def with_mover(repository: Repository, mover: SharedMover | None) -> Repository:
    """Return another handle to a repository, with the same store, trees and notices."""
    _ = repository.store, repository.trees  # opened here, so that both handles share them
    handle = copy.copy(repository)
    handle.mover = mover
    return handle
