"""Move local refs to the positions of the bucket's, where sharing is automatic.

A branch follows the bucket if it has no commits of its own: it stands on an ancestor of the
bucket's position, or where the bucket itself once stood. Uncommitted changes stay on it; committing
them finds conflicts. A tag follows if it stands where the bucket's once stood. A ref that `undo` or
`op restore` moved back to before a clone, fetch, pull or sync stays there until it moves in the
bucket again, or until a pull.
"""

from __future__ import annotations

from typing import Final

from lakecli.base.model import Branch, RefKind, Tag
from lakecli.errors import IntegrityError, NotFound
from lakecli.kv.bucket import Tracked, TrackingStore
from lakecli.kv.env import ReadTransaction, WriteTransaction
from lakecli.kv.operations import RefChange
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.remote.known import iter_moves
from lakecli.repository.core import intents, operations, ref_changes, staging_tokens, unsent
from lakecli.repository.core.clean import unstage_unchanged
from lakecli.repository.core.lake import Repository
from lakecli.repository.core.landing import follow_head
from lakecli.repository.core.under_way import CommitUnderWay
from lakecli.staging import area


def follow(repository: Repository) -> int:
    """Move local refs that have nothing of their own to the positions of the bucket's.

    New refs are made here. Refs that were deleted in the bucket are deleted here, except branches
    with staged changes. Refs whose moves are still to be sent, and refs that are held, stay.

    Returns:
        How many refs moved.
    """
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        behind = [
            tracked
            for tracked in TrackingStore(txn, repository.key).iter()
            if refs.position(tracked.kind, tracked.name) != tracked.commit_id
            and not _stays(txn, repository, tracked)
        ]
    if not behind:
        return 0
    behind = [tracked for tracked in behind if _is_ready(repository, tracked)]
    with repository.lake.kv.write() as txn:
        positions = TrackingStore(txn, repository.key)
        changes = [
            change
            for tracked in behind
            # Another process may have pushed meanwhile: then this position is an old one.
            if positions.find(tracked.kind, tracked.name) == tracked
            and not _stays(txn, repository, tracked)
            and (change := _FOLLOW[tracked.kind](txn, repository, tracked)) is not None
        ]
        if changes:
            operations.append(
                txn, repository, kind=ref_changes.FOLLOWED, refs=changes, is_shared=True
            )
    return len(changes)


def _is_ready(repository: Repository, tracked: Tracked) -> bool:
    """Unstage what equals the head on a branch that is to follow.

    Returns:
        Whether it may follow; not if that cannot be found out, or is being committed.
    """
    if tracked.kind is not RefKind.BRANCH or tracked.commit_id is None:
        return True
    with repository.lake.kv.read() as txn:
        local = RefStore(txn, repository.key).find_branch(tracked.name)
        if local is None or not _has_nothing_of_its_own(txn, repository, local, tracked):
            return True
    try:
        unstage_unchanged(repository, tracked.name, tracked.commit_id)
    except (IntegrityError, NotFound, CommitUnderWay):
        return False
    return True


def _stays(txn: ReadTransaction, repository: Repository, tracked: Tracked) -> bool:
    """Return whether a ref does not follow: a move of it is still to be sent, or it is held."""
    key = (tracked.kind, tracked.name)
    return (
        unsent.find_unsent(txn, repository, *key) is not None
        or unsent.is_held(txn, repository, tracked)
        or any(
            (begun.intent.kind, begun.intent.name) == key
            for begun in intents.iter_begun(txn, repository)
        )
    )


def _follow_branch(
    txn: WriteTransaction, repository: Repository, tracked: Tracked
) -> RefChange | None:
    """Let a branch follow; return the change, or ``None`` if it stays as it is."""
    refs = RefStore(txn, repository.key)
    before = refs.find_branch(tracked.name)
    if before is None:
        if tracked.commit_id is None or refs.find_tag(tracked.name) is not None:
            return None
        token = staging_tokens.start(txn, repository, tracked.name, tracked.commit_id)
        after = Branch(tracked.name, tracked.commit_id, token)
        refs.put_branch(after)
        return ref_changes.branch_change(None, after)
    if not _has_nothing_of_its_own(txn, repository, before, tracked):
        return None
    if tracked.commit_id is None:
        areas = (before.staging_token, *before.sealed_tokens)
        is_staged = any(not area.is_empty(txn, token) for token in areas)
        if is_staged or before.name == repository.record.default_branch:
            return None
        refs.delete_branch(before.name)
        return ref_changes.branch_change(before, None)
    after = before._replace(commit_id=tracked.commit_id)
    refs.put_branch(after)
    follow_head(txn, before, after, has_seen=False)
    return ref_changes.branch_change(before, after)


def _follow_tag(
    txn: WriteTransaction, repository: Repository, tracked: Tracked
) -> RefChange | None:
    """Let a tag follow; return the change, or ``None`` if it stays as it is."""
    refs = RefStore(txn, repository.key)
    before = refs.find_tag(tracked.name)
    if before is None:
        if tracked.commit_id is None or refs.find_branch(tracked.name) is not None:
            return None
    elif not _was_in_bucket(txn, repository, RefKind.TAG, before):
        return None
    if tracked.commit_id is None:
        refs.delete_tag(tracked.name)
        return ref_changes.tag_change(before, None)
    after = Tag(tracked.name, tracked.commit_id)
    refs.put_tag(after)
    return ref_changes.tag_change(before, after)


_FOLLOW: Final = {RefKind.BRANCH: _follow_branch, RefKind.TAG: _follow_tag}


def _has_nothing_of_its_own(
    txn: ReadTransaction, repository: Repository, local: Branch, tracked: Tracked
) -> bool:
    """Return whether the bucket has or had all that a local branch has."""
    refs = RefStore(txn, repository.key)
    if tracked.commit_id is not None:
        if refs.find_commit(tracked.commit_id) is None:
            return False  # its pack is not listed yet
        if is_ancestor(refs, local.commit_id, tracked.commit_id):
            return True
    # Somebody moved it back or deleted it.
    return _was_in_bucket(txn, repository, RefKind.BRANCH, local)


def _was_in_bucket(
    txn: ReadTransaction, repository: Repository, kind: RefKind, local: Branch | Tag
) -> bool:
    """Return whether the bucket's ref once stood where the local one does, as far as is known."""
    moves = iter_moves(txn, repository.key, kind, local.name)
    return any(local.commit_id in (move.before, move.after) for move in moves)
