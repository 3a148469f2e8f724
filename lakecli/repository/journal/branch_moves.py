"""LocalMove: what moving a branch to a commit changes in the local store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakecli.base.model import Branch, Commit, CommitId, StagingToken
from lakecli.kv.local_store import WriteTransaction
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository
from lakecli.repository.journal import operation_log, staging_tokens
from lakecli.repository.records import ref_changes
from lakecli.repository.records.ref_changes import LocalMove
from lakecli.staging import area

LEFT: Final = "left"
"""Set in the metadata of an operation whose commit left a part of what was staged."""


def land(
    txn: WriteTransaction,
    repository: Repository,
    branch: str,
    commit: Commit,
    landing: LocalMove,
    *,
    move: str = "",
) -> None:
    """Move a branch to a commit built from it, in one operation; repeating it changes nothing.

    Where the branch no longer stands on a parent of the commit, it stays, and only the sealed
    tokens are taken off it: it has followed the bucket, or gone on from there, or has diverged,
    which `status` shows. If the branch was deleted, only the commit is written.

    Args:
        txn: the transaction to do it in.
        repository: the repository of the branch.
        branch: its name.
        commit: may be in the local store already.
        landing: what else changes.
        move: the write ID of the move in the bucket; ``""`` if the bucket does not have it.
    """
    refs = RefStore(txn, repository.key)
    before = refs.find_branch(branch)
    refs.put_commit(commit)
    if before is None:
        return
    taken = set(landing.sealed)
    kept = tuple(token for token in before.sealed_tokens if token not in taken)
    # If the tokens are gone, what they held was discarded or has landed; so was what is left of it.
    left = landing.left if kept != before.sealed_tokens else ()
    moves = before.commit_id in commit.parents
    if not moves and kept == before.sealed_tokens:
        return
    head = commit.id if moves else before.commit_id
    after = before._replace(commit_id=head, sealed_tokens=(*kept, *left))
    refs.put_branch(after)
    for token in left:
        staging_tokens.settle_copy(txn, repository, token)
    follow_head(txn, before, after, has_seen=landing.from_staging)
    operation_log.append(
        txn,
        repository,
        kind=landing.operation,
        refs=[ref_changes.branch_change(before, after)],
        sealed=[token for token in before.sealed_tokens if token in taken],
        metadata={
            **({LEFT: "true"} if left else {}),
            **({ref_changes.MOVE: move} if move else {}),
        },
        is_shared=bool(move),
    )


def is_built_from(present: Branch, head: CommitId, sealed: Sequence[StagingToken]) -> bool:
    """Return whether a branch still is what a commit was built from: its head, and these tokens.

    Tokens that were sealed since are newer, so those of the commit must still be the oldest.
    """
    newer = newer_than(present, sealed)
    return present.commit_id == head and (*newer, *sealed) == present.sealed_tokens


def newer_than(branch: Branch, sealed: Sequence[StagingToken]) -> tuple[StagingToken, ...]:
    """Return the sealed tokens of a branch above its oldest ones, `sealed`."""
    return branch.sealed_tokens[: len(branch.sealed_tokens) - len(sealed)]


def follow_head(
    txn: WriteTransaction, before: Branch, after: Branch, *, has_seen: bool = True
) -> None:
    """Record that the staging areas of a branch have seen its new head, where they have.

    Areas without changes have, and so have those that were started on the old head, if the new
    one holds only what staged changes could be written on top of. Other areas keep the commit
    they were started on, and committing them checks what happened since. Changes that are staged
    while a merge or an import runs have not seen its result.

    Args:
        txn: the transaction that moves the branch.
        before: the branch before.
        after: the branch now.
        has_seen: whether areas that were started on the old head have seen the new one.
    """
    for token in (after.staging_token, *after.sealed_tokens):
        if area.is_empty(txn, token):
            staging_tokens.move_on(txn, token, after.commit_id)
        elif has_seen:
            staging_tokens.move_on(txn, token, after.commit_id, since=before.commit_id)
