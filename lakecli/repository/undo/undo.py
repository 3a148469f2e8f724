"""Undo, redo, and restore any operation of the log.

`undo` reverses the newest operation that is not undone, in one transaction that compares first;
`redo` reverses the last undo. Both are operations themselves, so nothing is lost. What was pushed
is moved back in the bucket first, and only if the bucket still stands on that move: see
`lakecli.repository.undo.pushed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.errors import LostRace, NothingToDo
from lakecli.repository.core.pending import finish_pending
from lakecli.repository.core.under_way import when_none_under_way
from lakecli.repository.undo import log as op_log
from lakecli.repository.undo import pushed
from lakecli.repository.undo.apply import TakeBack
from lakecli.repository.undo.claims import claim_operations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakecli.kv.env import ReadTransaction
    from lakecli.kv.operations import Operation
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.undo.log import Target
    from lakecli.repository.undo.pushed import Pushed

RESTORE: Final = "op restore"
RESTORES: Final = "restores"


class Undone(NamedTuple):
    """What `undo` or `redo` did.

    Attributes:
        operation: the user's operation that was undone or redone; if it is expired, the one that
            stands for it.
        appended: the operation that was appended for it.
        remote: the refs that were moved back in the bucket.
    """

    operation: Operation
    appended: Operation
    remote: tuple[Pushed, ...] = ()


def undo(repository: Repository, *, remote: bool = False, committer: str = "") -> Undone:
    """Undo the newest operation of a repository that is not undone.

    Refs that followed the bucket are passed over: the user did not move them.

    Args:
        repository: as `lakecli.repository.undo.log.logged_repository` returns it; it may be
            deleted.
        remote: move refs back in the bucket too, if the operation was pushed.
        committer: who moves refs in the bucket.

    Raises:
        NothingToDo: there is nothing to undo, or it was too long ago.
        Refused: it was pushed and `remote` is not set, or the bucket has moved on since.
        LostRace: another command came between; nothing was undone here.
        OutcomeUnknown: the bucket may have moved; repeating the call finds out.
    """
    finish_pending(repository)  # what an interrupted command did may be what is to be undone
    with repository.lake.kv.read() as txn:
        target = op_log.find_undo(txn, repository)
    if target is None:
        raise NothingToDo(
            f"nothing to undo in {repository.uri}",
            hint=f"see what was done: lakecli op log {repository.uri}",
        )
    moved = pushed.move_back(
        repository, [target.taken_back], remote=remote, committer=committer, why=op_log.UNDO
    )
    return _take(repository, target, kind=op_log.UNDO, moved=moved)


def redo(repository: Repository) -> Undone:
    """Redo the last undone operation, on this machine only: `push` moves refs in the bucket.

    Args:
        repository: as `lakecli.repository.undo.log.logged_repository` returns it; it may be
            deleted.

    Raises:
        NothingToDo: nothing was undone, or another operation came after it.
        LostRace: another command came between.
    """
    with repository.lake.kv.read() as txn:
        target = op_log.find_redo(txn, repository)
    if target is None:
        raise NothingToDo(
            f"nothing to redo in {repository.uri}",
            hint=f"what was done after an undo ends it; see: lakecli op log {repository.uri}",
        )
    return _take(repository, target, kind=op_log.REDO)


def _take(
    repository: Repository, target: Target, *, kind: str, moved: Sequence[Pushed] = ()
) -> Undone:
    """Reverse a target, unless something came between."""
    from lakecli.kv import operations as log

    lake = repository.lake
    is_undo = kind == op_log.UNDO
    find, link = (op_log.find_undo, op_log.UNDOES) if is_undo else (op_log.find_redo, op_log.REDOES)
    claims = claim_operations(repository, [target.taken_back])
    lake.runtime.on_step(f"{kind} here")

    def act(*, has_asked: bool) -> Undone:
        with lake.kv.write() as txn:
            if find(txn, repository) != target:
                raise LostRace(
                    f"another command changed {repository.uri} meanwhile; nothing was undone here",
                    hint=f"see what was done, then try again: lakecli op log {repository.uri}",
                )
            if is_undo:
                pushed.check_none_pushed(txn, repository, [target.taken_back])
            original = log.find(txn, repository.key, target.operation) or target.taken_back
            taking = TakeBack(txn, repository, claims, has_asked=has_asked)
            taking.take_back(target.taken_back)
            metadata = {link: target.operation.hex()}
            appended = taking.append(kind=kind, metadata=metadata, is_undo=is_undo)
        return Undone(original, appended, tuple(moved))

    undone = when_none_under_way(repository, act)
    lake.runtime.on_step(f"{kind} done")
    return undone


def restore(
    repository: Repository, id: str, *, remote: bool = False, committer: str = ""
) -> Operation:
    """Make refs and staging what they were right after an operation, as one new operation.

    Args:
        repository: as `lakecli.repository.undo.log.logged_repository` returns it; it may be
            deleted.
        id: the ID of the operation, or the beginning of it.
        remote: move refs back in the bucket too, if what is undone was pushed.
        committer: who moves refs in the bucket.

    Raises:
        NotFound: no such operation, or no longer.
        NothingToDo: nothing has changed since.
        Refused: as of `undo`.
        LostRace: as of `undo`.
    """
    lake = repository.lake
    kept = op_log.find_operation(repository, id).operation
    with lake.kv.read() as txn:
        newer = _newer(txn, repository, kept)
    if not newer:
        raise _unchanged(repository, kept)
    pushed.move_back(repository, newer, remote=remote, committer=committer, why=RESTORE)
    claims = claim_operations(repository, newer)
    lake.runtime.on_step(f"{RESTORE} here")

    def act(*, has_asked: bool) -> Operation:
        with lake.kv.write() as txn:
            if _newer(txn, repository, kept) != newer:
                raise LostRace(
                    f"another command changed {repository.uri} meanwhile; nothing was restored "
                    "here",
                    hint="try again",
                )
            pushed.check_none_pushed(txn, repository, newer)
            taking = TakeBack(txn, repository, claims, has_asked=has_asked)
            for operation in newer:
                taking.take_back(operation)
            if not taking.has_changed:
                raise _unchanged(repository, kept)
            return taking.append(kind=RESTORE, metadata={RESTORES: kept.id.hex()})

    return when_none_under_way(repository, act)


def _unchanged(repository: Repository, kept: Operation) -> NothingToDo:
    return NothingToDo(
        f"{repository.uri} is as it was after operation {kept.id.hex()}",
        hint=f"see what was done: lakecli op log {repository.uri}",
    )


def _newer(txn: ReadTransaction, repository: Repository, kept: Operation) -> list[Operation]:
    """Return the operations after one that changed something, newest first."""
    found = []
    for logged in op_log.iter_logged(txn, repository):
        if logged.operation.sequence <= kept.sequence:
            break
        if op_log.changes_something(logged.operation):
            found.append(logged.operation)
    return found
