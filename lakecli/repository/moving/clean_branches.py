"""Branches without uncommitted changes, and moving one while something is staged on it.

Staging may hold records that change nothing: objects staged as they are committed, and deletions of
absent objects. A branch with only such records counts as clean. They must not outlive a move of its
head: on top of the new head they would undo what the move brought.

- A command that needs a clean branch seals them and takes them off as it moves the branch
  (`lakecli.repository.moving.transaction`).
- A branch that follows the bucket keeps its uncommitted changes. Before it moves,
  `unstage_unchanged` removes the records that change nothing, of paths that differ in the new head.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from lakecli.base.model import Branch, CommitId, MetarangeId
from lakecli.committed.diff import diff
from lakecli.committed.values import is_same
from lakecli.errors import DirtyBranch
from lakecli.kv import operations as log
from lakecli.kv.local_store import WriteTransaction
from lakecli.kv.operations import StagingChange
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository
from lakecli.repository.journal import operation_log, staging_tokens, unsent_moves
from lakecli.repository.journal.intents import check_none_sent
from lakecli.repository.reading.view import View, view_of_branch
from lakecli.repository.staged.changes import iter_both, uncommitted
from lakecli.staging import area

MAX_LISTED: Final = 1_000
"""Uncommitted changes that an error lists, at most."""

_BATCH: Final = 8_192
"""Paths unstaged in one transaction."""


def check_clean(view: View) -> None:
    """Refuse a branch with uncommitted changes.

    Raises:
        DirtyBranch: naming the changed paths, `MAX_LISTED` of them at most.
    """
    changes = islice(uncommitted(view), MAX_LISTED + 1)
    paths = [difference.path for difference in changes]
    if not paths:
        return
    count = f"more than {MAX_LISTED:,}" if len(paths) > MAX_LISTED else f"{len(paths):,}"
    what = "an uncommitted change" if len(paths) == 1 else f"{count} uncommitted changes"
    uri = f"{view.repository.uri}/{view.name}"
    raise DirtyBranch(
        f"branch {view.name} has {what}",
        hint=f"commit them, or throw them away: lakecli branch reset {uri}",
        paths=paths[:MAX_LISTED],
    )


def unstage_unchanged(repository: Repository, name: str, head: CommitId) -> None:
    """Remove staged records that equal the head, of paths that differ in a new head.

    The branch reads as before. `undo` passes over this operation, as over following the bucket.

    Args:
        repository: the repository of the branch.
        name: the name of the branch; if it is absent or has nothing staged, nothing happens.
        head: the commit that the branch is about to move to.

    Raises:
        IntegrityError: a tree that had to be read is missing or damaged.
        CommitUnderWay: another process is sending a commit that has sealed some of the records.
    """
    with repository.lake.kv.read() as txn:
        there = RefStore(txn, repository.key).get_commit(head).metarange_id
    unstage_equal(repository, name, there)


def unstage_equal(repository: Repository, name: str, tree: MetarangeId) -> None:
    """Remove staged records that equal the head, of paths that differ in another tree.

    Arguments and errors are those of `unstage_unchanged`, which names the tree by its commit.
    """
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        branch = refs.find_branch(name)
        if branch is None:
            return
        view = view_of_branch(repository, txn, name)
        if view.commit.metarange_id == tree:
            return
        if all(area.is_empty(txn, token) for token in view.tokens):
            return
        changes = diff(repository.trees, view.commit.metarange_id, tree)
        unchanged = (
            (change.path, staged or b"")
            for staged, change in iter_both(view.staged(), changes)
            if is_same(staged, change.left)
        )
        while batch := list(islice(unchanged, _BATCH)):
            repository.lake.runtime.on_step("unstage")
            with repository.lake.kv.write() as writing:
                if not _unstage(writing, repository, branch, batch):
                    return


def _unstage(
    txn: WriteTransaction,
    repository: Repository,
    seen: Branch,
    unchanged: list[tuple[bytes, bytes]],
) -> bool:
    """Remove the records that have not changed since; return ``False`` if the head has."""
    refs = RefStore(txn, repository.key)
    branch = refs.find_branch(seen.name)
    if branch is None or branch.commit_id != seen.commit_id:
        return False
    view = view_of_branch(repository, txn, branch.name)
    gone = [path for path, value in unchanged if view.staged_at(path) == value]
    found = [
        (token, paths)
        for token in view.tokens
        if (paths := [path for path in gone if area.get(txn, token, path) is not None])
    ]
    if not found:
        return True
    covers = any(token in branch.sealed_tokens for token, _ in found)
    if covers:
        check_none_sent(txn, repository, branch.name)
    operation = operation_log.append(
        txn,
        repository,
        kind=unsent_moves.FOLLOWED,
        staging=[StagingChange(branch.name, token) for token, _ in found],
    )
    for token, paths in found:
        log.save_images(txn, operation.id, token, paths)
        for path in paths:
            area.remove(txn, token, path)
    if covers:
        refs.put_branch(staging_tokens.outdate(txn, repository, branch))
    return True
