"""Automatic sharing: fetch before a command, move branches in the bucket first, push after it.

A `Repository` has a `SharedMover` where the setting ``sync`` is ``auto``.
`SharedMover.catch_up` finishes what an interrupted command left, fetches, and lets local refs
follow the bucket. Commits, merges and reverts move a branch in the bucket before they move it here.
Every other move of a ref leaves a note in the transaction that makes it, which `finish` sends
(`lakecli.repository.sharing.sending`). A command that is killed leaves its notes and the intent of
its move to the next one.

A branch follows the bucket if it has no commits of its own: it stands on an ancestor of the
bucket's position, or where the bucket itself once stood. Uncommitted changes stay on it; committing
them finds conflicts. A tag follows if it stands where the bucket's once stood. A ref that `undo` or
`op restore` moved back to before a clone, fetch, pull or sync stays there until it moves in the
bucket again, or until a pull.

The way of a commit, what makes it durable and what a crash leaves:
`lakecli.repository.moving.mover`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakecli.base.model import Branch, Commit, CommitId, RefKind, Tag
from lakecli.base.retry import REF_MOVES, Retries
from lakecli.errors import IntegrityError, LakeError, LostRace, NotFound, Unreachable
from lakecli.kv.bucket import Tracked, TrackingStore
from lakecli.kv.local_store import ReadTransaction, WriteTransaction
from lakecli.kv.operations import RefChange
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.remote.refs import MoveOutcome, iter_known_moves
from lakecli.repository.contract import CaughtUp, LocalMove, Repository, UnsentMove
from lakecli.repository.journal import intents, operation_log, unsent_moves
from lakecli.repository.journal.intents import CommitUnderWay, finish_pending
from lakecli.repository.journal.operation_log import follow_head, is_built_from
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.sharing.publish import publish
from lakecli.repository.sharing.sending import push_note, unsent_notes
from lakecli.repository.staged.changes import unstage_unchanged
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
            operation_log.append(
                txn, repository, kind=unsent_moves.FOLLOWED, refs=changes, is_shared=True
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
        unsent_moves.find_unsent(txn, repository, *key) is not None
        or unsent_moves.is_held(txn, repository, tracked)
        or any(
            (begun.intent.kind, begun.intent.name) == key
            for begun in intents.iter_begun(txn, repository)
        )
    )


def _follow_tag(
    txn: WriteTransaction, repository: Repository, tracked: Tracked
) -> RefChange | None:
    """Let a tag follow; return the change, or ``None`` if it stays as it is."""
    refs, name, head = RefStore(txn, repository.key), tracked.name, tracked.commit_id
    before = refs.find_tag(name)
    if before is None:
        follows = head is not None and refs.find_branch(name) is None
    else:
        follows = _was_in_bucket(txn, repository, before)
    if not follows:
        return None
    if head is None:
        refs.delete_tag(name)
        return operation_log.tag_change(before, None)
    refs.put_tag(after := Tag(name, head))
    return operation_log.tag_change(before, after)


def _follow_branch(
    txn: WriteTransaction, repository: Repository, tracked: Tracked
) -> RefChange | None:
    """Let a branch follow; return the change, or ``None`` if it stays as it is."""
    refs, name, head = RefStore(txn, repository.key), tracked.name, tracked.commit_id
    before = refs.find_branch(name)
    if before is None:
        if head is None or refs.find_tag(name) is not None:
            return None
        made = Branch(name, head, operation_log.start_token(txn, repository, name, head))
        refs.put_branch(made)
        return operation_log.branch_change(None, made)
    if not _has_nothing_of_its_own(txn, repository, before, tracked):
        return None
    if head is None:
        tokens = (before.staging_token, *before.sealed_tokens)
        is_staged = any(not area.is_empty(txn, token) for token in tokens)
        if is_staged or name == repository.record.default_branch:
            return None
        refs.delete_branch(name)
        return operation_log.branch_change(before, None)
    after = before._replace(commit_id=head)
    refs.put_branch(after)
    follow_head(txn, before, after, has_seen=False)
    return operation_log.branch_change(before, after)


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
    return _was_in_bucket(txn, repository, local)


def _was_in_bucket(txn: ReadTransaction, repository: Repository, local: Branch | Tag) -> bool:
    """Return whether the bucket's ref once stood where the local one does, as far as is known."""
    kind = RefKind.BRANCH if isinstance(local, Branch) else RefKind.TAG
    moves = iter_known_moves(txn, repository.key, kind, local.name)
    return any(local.commit_id in (move.before, move.after) for move in moves)


class SharedMover:
    """Moves branches in the bucket before they move here, for the length of one command.

    Args:
        command_id: random bytes that identify the command.
        who: returns who moves refs, for the shared reflog; called when one is moved.
        put_back: undoes a deletion or renaming here that the bucket refuses.
    """

    def __init__(
        self,
        command_id: bytes,
        *,
        who: Callable[[], str],
        put_back: Callable[[Repository, UnsentMove, str], bool],
    ) -> None:
        self.command_id = command_id
        self._who = who
        self._put_back = put_back
        self._lost = 0
        self.resumed: list[tuple[UnsentMove, LakeError | None]] = []

    def catch_up(self, repository: Repository) -> CaughtUp:
        """Finish what earlier commands left, fetch, and let local refs follow."""
        finished = finish_pending(repository)
        fetch(repository)
        errors: list[LakeError] = []
        self.resumed.clear()
        for note in unsent_notes(repository):
            try:
                push_note(repository, note, who=self._who, put_back=self._put_back)
            except Unreachable:
                raise
            except LakeError as error:
                errors.append(error)
                noted = {(each.kind, each.name) for each in unsent_notes(repository)}
                if (note.kind, note.name) not in noted:
                    self.resumed.append((note, error))
            else:
                self.resumed.append((note, None))
        follow(repository)
        return CaughtUp(tuple(finished), tuple(errors))

    def move(
        self, repository: Repository, branch: Branch, commit: Commit, landing: LocalMove
    ) -> bool:
        """Move the branch in the bucket, then land the commit here."""
        with repository.lake.kv.read() as txn:
            present = RefStore(txn, repository.key).find_branch(branch.name)
            if present is None or not is_built_from(present, branch.commit_id, landing.sealed):
                return False  # another process of this machine has moved it, and may have fetched
            before = TrackingStore(txn, repository.key).position(RefKind.BRANCH, branch.name)
            _check_ahead(txn, repository, branch, before)
        with repository.lake.kv.write() as txn:
            if not operation_log.are_noted(txn, repository, landing.left):
                return False
            operation_log.note_copies(txn, repository, landing.left)
            RefStore(txn, repository.key).put_commit(commit)
        result = publish(
            repository,
            RefKind.BRANCH,
            branch.name,
            before=before,
            after=commit.id,
            who=self._who(),
            why=landing.operation,
            landing=landing,
        )
        if result.outcome == MoveOutcome.APPLIED:
            self._lost = 0
            return True
        lake = repository.lake
        retries = Retries(REF_MOVES, sleep=lake.runtime.sleep, random=lake.random_number)
        retries.pause(self._lost)
        self._lost += 1
        fetch(repository)
        follow(repository)
        return False

    def finish(self, repository: Repository) -> None:
        """Send the notes of refs that this command moved here."""
        for note in unsent_notes(repository):
            if self.command_id.hex() in note.by:
                push_note(repository, note, who=self._who, put_back=self._put_back)


def _check_ahead(
    txn: ReadTransaction, repository: Repository, branch: Branch, before: CommitId | None
) -> None:
    """Refuse to move a branch in the bucket that lacks what the bucket has.

    Raises:
        LostRace: they have diverged.
    """
    refs = RefStore(txn, repository.key)
    if before is not None and not is_ancestor(refs, before, branch.commit_id):
        raise LostRace(
            f"branch {branch.name} here and in the bucket have diverged",
            hint=f"merge them: lakecli pull {repository.uri}/{branch.name}",
        )
