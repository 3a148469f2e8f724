"""Claim commits against garbage collection before anything refers to them.

`lakecli.repository.core.gate` claims the objects of entries, and says why. Only this module makes
`ClaimedCommit`.

A claimed tree protects everything that it refers to: a sweep follows the trees that are recent or
kept, and deletes trees before what they refer to.

Refs are local: without the bucket, branches and tags are created and operations undone unclaimed;
a push finds out what was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from lakecli.base.layout import sstable_key
from lakecli.base.model import Commit, MetarangeId
from lakecli.errors import IntegrityError, PermissionDenied, Unreachable
from lakecli.stores.base import BucketNotFound

if TYPE_CHECKING:
    from lakecli.kv.env import ReadTransaction
    from lakecli.repository.core.commit_record import ClaimedCommit
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.core.view import View


class Gone(IntegrityError):
    """An object that is needed is no longer in the bucket."""


def claim_head(view: View) -> ClaimedCommit:
    """Return the head of a branch as the parent of a new commit.

    Trees of its history that only this clone knows are claimed as far as they exist. A push finds
    the missing ones, which can be uploaded again.

    Raises:
        Swept: its tree was deleted just now.
        SweepRunning: a sweep does not end.
    """
    claim_history(view.txn, view.repository, view.commit)
    return cast("ClaimedCommit", view.commit)


def claim_tree(view: View) -> None:
    """Claim the tree of a view's commit, so that all that it refers to stays.

    Raises:
        Gone: the tree is no longer in the bucket.
        Swept: it was deleted just now.
        SweepRunning: a sweep does not end.
    """
    claim_commit(view.txn, view.repository, view.commit)


def claim_target(txn: ReadTransaction, repository: Repository, commit: Commit) -> ClaimedCommit:
    """Return a commit that a ref of this clone may point to, even without the bucket.

    Raises:
        Gone: its tree is no longer in the bucket.
        Swept: the tree was deleted just now.
        SweepRunning: a sweep does not end.
    """
    with unless_away():
        claim_commit(txn, repository, commit)
    return cast("ClaimedCommit", commit)


@contextmanager
def unless_away() -> Iterator[None]:
    """Claim in the block; leave it silently if the bucket cannot be read."""
    from lakecli.remote.collection import SweepRunning

    try:
        yield
    except SweepRunning:
        raise
    except (Unreachable, BucketNotFound, PermissionDenied):
        return


def claim_commit(txn: ReadTransaction, repository: Repository, commit: Commit) -> ClaimedCommit:
    """Return a commit that refs and commits may refer to; claim it and its history.

    Raises:
        Gone: its tree is no longer in the bucket.
        Swept: the tree was deleted just now.
        SweepRunning: a sweep does not end.
    """
    if not claim_history(txn, repository, commit):
        raise Gone(
            f"the tree of commit {commit.id} is no longer in {repository.store.uri}",
            hint="garbage collection has deleted it; if a copy of it is known here: "
            f"lakecli fsck {repository.uri} --repair",
        )
    return cast("ClaimedCommit", commit)


def claim_trees(repository: Repository, trees: Iterable[MetarangeId]) -> None:
    """Claim trees that were found in the bucket, before refs and commits refer to them.

    Raises:
        Gone: a tree is no longer in the bucket.
        Swept: a tree was deleted just now.
        SweepRunning: a sweep does not end.
    """
    guard = repository.guard
    guard.begin()
    if not guard.is_active:
        return
    keys = sorted(sstable_key(tree) for tree in trees if tree)
    sizes = guard.claim(keys)
    if sizes is not None and (gone := [key for key in keys if key not in sizes]):
        raise Gone(
            f"trees are no longer in {repository.store.uri}: {len(gone)}, such as {gone[0]}",
            hint="garbage collection has deleted them; make the dump again without these commits",
        )


def claim_history(txn: ReadTransaction, repository: Repository, commit: Commit) -> bool:
    """Claim the trees that only this clone knows; tell whether the commit's tree exists."""
    guard = repository.guard
    guard.begin()
    if not guard.is_active:
        return True
    from lakecli.repository.core.unpushed import unreached_trees

    trees = unreached_trees(txn, repository, commit)
    sizes = guard.claim(sorted(map(sstable_key, trees)))
    return not commit.metarange_id or sizes is None or sstable_key(commit.metarange_id) in sizes
