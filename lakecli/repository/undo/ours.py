"""Whether this clone made a move in the bucket, which it may then undo there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakecli.kv import operations as log
from lakecli.model import CommitId, RefKind
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.remote.known import iter_moves
from lakecli.repository.core.ref_changes import commit_of, is_local
from lakecli.repository.undo import log as op_log

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from lakecli.kv.env import ReadTransaction
    from lakecli.kv.operations import Operation, RefChange
    from lakecli.repository.core.lake import Repository


RESET: Final = "branch reset"
"""The kind of an operation that moves a branch anywhere."""

_TO_KNOWN: Final = {RESET, op_log.UNDO, op_log.REDO, op_log.RESTORE}
"""Kinds of operations that move branches to commits which others may have pushed."""


def is_ours(
    txn: ReadTransaction, repository: Repository, change: RefChange, operation: Operation
) -> bool:
    """Return whether this clone made a move in the bucket, not somebody else the same one.

    A commit has one author. For other moves the log decides, not dates: clocks may be wrong.
    """
    before, after = commit_of(change.before), commit_of(change.after)
    if before is not None and after is not None and change.kind is RefKind.BRANCH:
        done = _redone(txn, repository, operation)
        return done.kind not in _TO_KNOWN or _was_sent(
            txn, repository, done, change.name, before=before, after=after
        )
    pushed = {"ref": change.name, "kind": change.kind, "after": after or ""}
    created = None
    if before is None:
        moves = iter_moves(txn, repository.key, change.kind, change.name)
        created = next((move.after for move in moves if move.before is None), None)
        if created is None:
            return False
        pushed = {"ref": change.name, "kind": change.kind, "before": "", "after": created}
    for newer in log.iter_operations(txn, operation.repository):
        if newer.sequence <= operation.sequence:
            break
        if newer.kind == "push" and pushed.items() <= newer.metadata.items():
            return True
        if created is not None and _makes(newer, change, created):
            return True
    return False


def _redone(txn: ReadTransaction, repository: Repository, operation: Operation) -> Operation:
    """Return the operation that a redo did again, or the operation itself."""
    redone = operation.metadata.get(op_log.REDOES)
    found = None if redone is None else log.find(txn, repository.key, bytes.fromhex(redone))
    return operation if found is None else found


def _was_sent(
    txn: ReadTransaction,
    repository: Repository,
    operation: Operation,
    name: str,
    *,
    before: CommitId,
    after: CommitId,
) -> bool:
    """Return whether this clone moved a branch in the bucket as an operation moved it here.

    A branch that was only brought back to where the bucket has it was not moved there.
    """
    refs = RefStore(txn, repository.key)

    def lost(
        commits: Iterable[CommitId | None], *moves: tuple[CommitId | None, CommitId | None]
    ) -> bool:
        """Return whether all moves leave one of these commits behind."""
        known = [each for each in commits if each is not None and refs.find_commit(each)]
        return any(
            all(
                _reaches(refs, start, each) and not _reaches(refs, end, each)
                for start, end in moves
            )
            for each in known
        )

    known = {
        (move.before, move.after) for move in iter_moves(txn, repository.key, RefKind.BRANCH, name)
    }
    for newer in log.iter_operations(txn, operation.repository):
        if newer.sequence <= operation.sequence:
            break
        for start, end in _sent_by(newer, name, known):
            loses = lost((before, start), (before, after), (start, end))
            if loses or lost((after, end), (after, before), (end, start)):
                return True
    return False


def _reaches(refs: RefStore, position: CommitId | None, commit_id: CommitId) -> bool:
    return (
        position is not None
        and refs.find_commit(position) is not None
        and is_ancestor(refs, commit_id, position)
    )


def _sent_by(
    operation: Operation, name: str, known: Collection[tuple[CommitId | None, CommitId | None]]
) -> Iterator[tuple[CommitId | None, CommitId | None]]:
    """Yield how an operation moved a branch in the bucket, if it did: from where, and to where.

    Args:
        operation: the operation.
        name: the name of the branch.
        known: the moves of the branch in the bucket; a commit that was shared at once is one.
    """
    fields = operation.metadata
    if operation.kind == "push" and (fields.get("kind"), fields["ref"]) == (RefKind.BRANCH, name):
        before, after = fields.get("before"), fields.get("after")
        yield CommitId(before) if before else None, CommitId(after) if after else None
    if operation.kind in _TO_KNOWN:
        return
    for change in operation.refs:
        move = commit_of(change.before), commit_of(change.after)
        is_moved = (change.kind, change.name) == (RefKind.BRANCH, name)
        if is_moved and move in known and not is_local(operation, change):
            yield move


def _makes(operation: Operation, change: RefChange, commit_id: CommitId) -> bool:
    """Return whether an operation moved the ref of a change to a commit and shared it at once."""
    return any(
        (each.kind, each.name) == (change.kind, change.name)
        and commit_of(each.after) == commit_id
        and not is_local(operation, each)
        for each in operation.refs
    )
