"""Undo, redo, and restore any operation of the log.

`undo` reverses the newest operation that is not undone, in one transaction that compares first;
`redo` reverses the last undo. Both are operations themselves, so nothing is lost. What was pushed
is then moved back in the bucket, if the bucket still stands on that move; if not, nothing is
undone: see `lakecli.repository.undo.back_in_bucket`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from lakecli.errors import LostRace, NothingToDo
from lakecli.kv import operations as log
from lakecli.kv.env import ReadTransaction
from lakecli.kv.operations import Operation
from lakecli.repository.contract import Repository
from lakecli.repository.pending.intents import finish_pending
from lakecli.repository.pending.under_way import when_none_under_way
from lakecli.repository.undo import back_in_bucket, pushed
from lakecli.repository.undo import log as op_log
from lakecli.repository.undo.apply import PassedOver, TakeBack, claim_operations, find_passed_over
from lakecli.repository.undo.complete import RESTORES, Answering, Undone, complete
from lakecli.repository.undo.log import Target
from lakecli.repository.undo.pushed import Pushed


def undo(
    repository: Repository,
    *,
    remote: bool = False,
    committer: str = "",
    check: Callable[[Operation], None] | None = None,
) -> Undone:
    """Undo the newest operation of a repository that is not undone.

    If the last undo was interrupted before the bucket had it, it is completed instead. Refs that
    followed the bucket are passed over: the user did not move them.

    Args:
        repository: as `lakecli.repository.undo.log.logged_repository` returns it; it may be
            deleted.
        remote: move refs back in the bucket too, if the operation was pushed.
        committer: who moves refs in the bucket.
        check: called with the operation before anything is undone; an error that it raises ends
            the undo.

    Raises:
        NothingToDo: there is nothing to undo, or it was too long ago.
        Refused: it was pushed and `remote` is not set, or the bucket has moved on since.
        LostRace: another command came between; nothing was undone here.
        OutcomeUnknown: the bucket may have moved; repeating the call finds out.
    """
    finish_pending(repository)  # what an interrupted command did may be what is to be undone
    done = complete(repository, op_log.UNDO, remote=remote, committer=committer)
    if done is not None:
        return done
    with repository.lake.kv.read() as txn:
        target = op_log.find_undo(txn, repository)
    if target is None:
        raise NothingToDo(
            f"nothing to undo in {repository.uri}",
            hint=f"see what was done: lakecli op log {repository.uri}",
        )
    if check is not None:
        with repository.lake.kv.read() as txn:
            original = _original(txn, repository, target)
        check(original)
    planned = pushed.find_to_move_back(repository, [target.taken_back], remote=remote)
    with Answering(repository) as answering:
        undone = _take(
            repository, target, answering, kind=op_log.UNDO, planned=planned, remote=remote
        )
        _send(repository, undone.appended, planned, committer)
        repository.lake.runtime.on_step("undo done")
    return undone


def redo(repository: Repository) -> Undone:
    """Redo the last undone operation, on this machine only: `push` moves refs in the bucket.

    With automatic sharing they move there, too; if the last redo was interrupted before that, it is
    completed instead.

    Args:
        repository: as `lakecli.repository.undo.log.logged_repository` returns it; it may be
            deleted.

    Raises:
        NothingToDo: nothing was undone, or another operation came after it.
        LostRace: another command came between; or an earlier redo was interrupted, and the bucket
            has refused it.
    """
    if (done := complete(repository, op_log.REDO, remote=repository.syncs)) is not None:
        return done
    with repository.lake.kv.read() as txn:
        target = op_log.find_redo(txn, repository)
    if target is None:
        raise NothingToDo(
            f"nothing to redo in {repository.uri}",
            hint=f"what was done after an undo ends it; see: lakecli op log {repository.uri}",
        )
    with Answering(repository) as answering:
        redone = _take(repository, target, answering, kind=op_log.REDO)
        repository.lake.runtime.on_step("redo done")
    return redone


def _take(
    repository: Repository,
    target: Target,
    answering: Answering,
    *,
    kind: str,
    planned: Sequence[Pushed] = (),
    remote: bool = False,
) -> Undone:
    """Reverse a target, unless something came between."""
    lake = repository.lake
    is_undo = kind == op_log.UNDO
    find, link = (op_log.find_undo, op_log.UNDOES) if is_undo else (op_log.find_redo, op_log.REDOES)
    with lake.kv.read() as txn:
        steps = find_passed_over(txn, repository, target.taken_back)
    claims = claim_operations(repository, [*_unstaging(steps), target.taken_back])
    lake.runtime.on_step(f"{kind} here")

    def act(*, has_asked: bool) -> Undone:
        with lake.kv.write() as txn:
            passed_over = find_passed_over(txn, repository, target.taken_back)
            if find(txn, repository) != target or _unstaging(passed_over) != _unstaging(steps):
                raise LostRace(
                    f"another command changed {repository.uri} meanwhile; nothing was undone",
                    hint=f"see what was done, then try again: lakecli op log {repository.uri}",
                )
            if is_undo:
                pushed.check_none_pushed(
                    txn, repository, [target.taken_back], planned, remote=remote
                )
            original = _original(txn, repository, target)
            taking = TakeBack(txn, repository, claims, has_asked=has_asked)
            taking.take_back(target.taken_back, passed_over)
            metadata = {link: target.operation.hex()}
            appended = taking.append(kind=kind, metadata=metadata, is_undo=is_undo)
            back_in_bucket.note(txn, repository, appended, planned)
            answering.begin(appended, planned)
        return Undone(original, appended, tuple(planned))

    return when_none_under_way(repository, act)


def _original(txn: ReadTransaction, repository: Repository, target: Target) -> Operation:
    """Return the user's operation; if it is expired, the one that stands for it."""
    return log.find(txn, repository.key, target.operation) or target.taken_back


def _unstaging(steps: Iterable[PassedOver]) -> list[Operation]:
    """Return the automatic steps that unstaged something."""
    return [step.operation for step in steps if step.operation.staging]


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
    done = complete(
        repository, op_log.RESTORE, remote=remote, committer=committer, restores=kept.id.hex()
    )
    if done is not None:
        return done.appended
    with lake.kv.read() as txn:
        newer = _newer(txn, repository, kept)
    if not newer:
        raise _unchanged(repository, kept)
    planned = pushed.find_to_move_back(repository, newer, remote=remote)
    claims = claim_operations(repository, newer)
    lake.runtime.on_step(f"{op_log.RESTORE} here")
    answering = Answering(repository)

    def act(*, has_asked: bool) -> Operation:
        with lake.kv.write() as txn:
            if _newer(txn, repository, kept) != newer:
                raise LostRace(
                    f"another command changed {repository.uri} meanwhile; nothing was restored",
                    hint="try again",
                )
            pushed.check_none_pushed(txn, repository, newer, planned, remote=remote)
            taking = TakeBack(txn, repository, claims, has_asked=has_asked)
            for operation in newer:
                taking.take_back(operation)
            if not taking.has_changed:
                raise _unchanged(repository, kept)
            appended = taking.append(kind=op_log.RESTORE, metadata={RESTORES: kept.id.hex()})
            back_in_bucket.note(txn, repository, appended, planned)
            answering.begin(appended, planned)
        return appended

    with answering:
        appended = when_none_under_way(repository, act)
        _send(repository, appended, planned, committer)
        lake.runtime.on_step(f"{op_log.RESTORE} done")
    return appended


def _send(
    repository: Repository, appended: Operation, planned: Sequence[Pushed], committer: str
) -> None:
    """Move refs back in the bucket; if it refuses, put back here what was undone."""
    put_back = partial(_put_back, repository, appended)
    back_in_bucket.send(repository, appended, planned, committer=committer, put_back=put_back)


def _put_back(repository: Repository, appended: Operation) -> bool:
    """Take back an operation that undid others; return ``False`` if it is not the newest."""
    claims = claim_operations(repository, [appended])
    is_undo = op_log.UNDOES in appended.metadata
    metadata = (
        {op_log.REDOES: appended.metadata[op_log.UNDOES]}
        if is_undo
        else {op_log.UNDOES: appended.id.hex()}
    )

    def act(*, has_asked: bool) -> bool:
        with repository.lake.kv.write() as txn:
            if _newest(txn, repository) != appended:
                return False
            taking = TakeBack(txn, repository, claims, has_asked=has_asked)
            taking.take_back(appended)
            taking.append(kind=op_log.REDO if is_undo else op_log.UNDO, metadata=metadata)
        return True

    return when_none_under_way(repository, act)


def _newest(txn: ReadTransaction, repository: Repository) -> Operation | None:
    """Return the newest operation that changed something."""
    logged = (each.operation for each in op_log.iter_logged(txn, repository))
    return next(filter(op_log.changes_something, logged), None)


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
