"""Undo, redo, and restore any operation of the log.

`undo` reverses the newest operation that is not undone, in one transaction that first verifies that
nothing has changed since; see `lakecli.repository.undo.take_back`. `redo` reverses the last undo.
Undo and redo are operations themselves, so nothing is lost. After an undo on this machine, refs
that were pushed are moved back in the bucket. If others have moved such a ref since, nothing is
undone; see `lakecli.repository.undo.remote_undo`.

If an earlier run of the same command was interrupted, the command completes that run, and undoes no
other operation. Two steps of the earlier run may be missing: moving refs back in the bucket, and
the answer (`lakecli.repository.undo.interrupted`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Final, NamedTuple

from lakecli.base.model import RefKind
from lakecli.errors import LakeError, LostRace, NothingToDo, Refused, is_interrupt
from lakecli.kv import operations as log
from lakecli.kv.local_store import ReadTransaction, WriteTransaction
from lakecli.kv.operations import Operation
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository
from lakecli.repository.journal import unsent_moves
from lakecli.repository.journal.intents import finish_pending, when_none_under_way
from lakecli.repository.sharing.set_policy import take_policy_back
from lakecli.repository.undo import interrupted, pushed_refs, remote_undo, take_back
from lakecli.repository.undo import log as op_log
from lakecli.repository.undo.interrupted import OwedAnswer
from lakecli.repository.undo.pushed_refs import PushedRef
from lakecli.repository.undo.take_back import PassedOver, TakeBack, claim_operations


def undo(
    repository: Repository,
    *,
    remote: bool = False,
    committer: str = "",
    check: Callable[[Operation], None] | None = None,
) -> Undone:
    """Undo the newest operation of a repository that is not undone.

    If the last undo was interrupted before it moved refs in the bucket, it is completed instead.
    Automatic moves, by which refs follow the bucket, are ignored: the user did not make them.

    Args:
        repository: a result of `lakecli.repository.undo.log.logged_repository`; it may be deleted.
        remote: move refs back in the bucket too, if the operation was pushed.
        check: called with the operation before anything is undone; an error that it raises ends the
            undo.

    Raises:
        NothingToDo: there is no operation to undo, or it is expired.
        Refused: the operation was pushed and `remote` is not set, or others have moved a ref in the
            bucket since.
        LostRace: another command changed something meanwhile; nothing was undone on this machine.
        OutcomeUnknown: a ref in the bucket may have moved; repeating the call finds out.
    """
    finish_pending(repository)  # an interrupted operation may be the one to undo
    done = complete(repository, op_log.UNDO, remote=remote, committer=committer)
    if done is not None:
        return done
    with repository.lake.kv.read() as txn:
        target = op_log.find_undo(txn, repository)
    if target is None:
        hint = f"see what was done: `op log {repository.uri}`"
        raise NothingToDo(f"nothing to undo in {repository.uri}", hint=hint)
    if check is not None:
        check(_original(repository, target))
    planned = pushed_refs.find_to_move_back(repository, [target.taken_back], remote=remote)
    return _take(repository, target, planned, kind=op_log.UNDO, remote=remote, committer=committer)


def redo(repository: Repository, *, committer: str = "") -> Undone:
    """Redo the last undone operation, on this machine only: `push` moves refs in the bucket.

    With automatic sharing, the refs are moved in the bucket, too. If the last redo was interrupted
    before it moved them, it is completed instead.

    Args:
        repository: a result of `lakecli.repository.undo.log.logged_repository`; it may be deleted.

    Raises:
        NothingToDo: nothing was undone, or another operation followed the undo.
        LostRace: another command changed something meanwhile; or an earlier redo was interrupted,
            and the bucket has refused its moves.
    """
    if (done := complete(repository, op_log.REDO, remote=repository.syncs)) is not None:
        return done
    with repository.lake.kv.read() as txn:
        target = op_log.find_redo(txn, repository)
    if target is None:
        hint = f"redo works only directly after an undo; see: `op log {repository.uri}`"
        raise NothingToDo(f"nothing to redo in {repository.uri}", hint=hint)
    return _take(repository, target, (), kind=op_log.REDO, remote=True, committer=committer)


def _take(
    repository: Repository,
    target: op_log.UndoTarget,
    planned: Sequence[PushedRef],
    *,
    kind: str,
    remote: bool,
    committer: str,
) -> Undone:
    """Reverse the operation that undo or redo has chosen, and move refs back in the bucket.

    Args:
        planned: the refs to move back in the bucket.
        remote: whether the bucket may be changed.

    Raises:
        LostRace: another command changed something meanwhile.
    """
    is_undo = kind == op_log.UNDO
    find, link = (op_log.find_undo, op_log.UNDOES) if is_undo else (op_log.find_redo, op_log.REDOES)
    with repository.lake.kv.read() as txn:
        steps = take_back.find_passed_over(txn, repository, target.taken_back)
    taken = [target.taken_back]
    claims = claim_operations(repository, [*_unstaging(steps), *taken])
    policy = take_policy_back(repository, taken, who=committer, remote=remote)

    def take(txn: WriteTransaction) -> Operation:
        passed_over = take_back.find_passed_over(txn, repository, target.taken_back)
        if find(txn, repository) != target or _unstaging(passed_over) != _unstaging(steps):
            what = f"another command changed {repository.uri} meanwhile; nothing was undone"
            hint = f"see what was done, then try again: `op log {repository.uri}`"
            raise LostRace(what, hint=hint)
        if is_undo:
            pushed_refs.check_none_pushed(txn, repository, taken, planned, remote=remote)
        taking = TakeBack(txn, repository, claims)
        taking.take_back(target.taken_back, passed_over)
        metadata = {link: target.operation.hex(), **policy}
        return taking.append(kind=kind, metadata=metadata, is_undo=is_undo)

    original = _original(repository, target)
    appended = _carry_out(repository, kind, planned, take, committer=committer)
    return Undone(original, appended, tuple(planned))


def _carry_out(
    repository: Repository,
    kind: str,
    planned: Sequence[PushedRef],
    take: Callable[[WriteTransaction], Operation],
    *,
    committer: str,
) -> Operation:
    """Take operations back on this machine, then move refs back in the bucket.

    Args:
        planned: the refs to move back in the bucket.
        take: takes the operations back in a transaction, and returns the operation that it appends.
    """
    lake = repository.lake

    def act() -> Operation:
        with lake.kv.write() as txn:
            appended = take(txn)
            remote_undo.note(txn, repository, appended, planned)
            fields = ("kind", "name", "before", "after")
            moved = [{name: getattr(each, name) for name in fields} for each in planned]
            answer = interrupted.begin(repository, appended.id, moved)
            answers.extend([] if answer is None else [answer])
        return appended

    lake.runtime.on_step(f"{kind} here")
    with _answering(repository) as answers:
        appended = when_none_under_way(repository, act)
        remote_undo.send(repository, appended, planned, committer=committer)
        lake.runtime.on_step(f"{kind} done")
    return appended


def _original(repository: Repository, target: op_log.UndoTarget) -> Operation:
    """Return the user's operation; if it is expired, the redo or undo of it that is reversed."""
    with repository.lake.kv.read() as txn:
        return log.find(txn, repository.key, target.operation) or target.taken_back


def _unstaging(steps: Iterable[PassedOver]) -> list[Operation]:
    """Return the automatic steps that unstaged something."""
    return [step.operation for step in steps if step.operation.staging]


def restore(
    repository: Repository, id: str, *, remote: bool = False, committer: str = ""
) -> Operation:
    """Restore refs and staging to their state right after an operation, as one new operation.

    Args:
        repository: a result of `lakecli.repository.undo.log.logged_repository`; it may be deleted.
        id: the ID of the operation, or the beginning of the ID.

    Raises:
        NotFound: no operation matches, or the operation is expired.
        NothingToDo: nothing has changed since the operation.
        Refused: as raised by `undo`.
        LostRace: as raised by `undo`.
    """
    finish_pending(repository)  # as in `undo`
    kept = op_log.find_operation(repository, id).operation
    kind, restores = op_log.RESTORE, kept.id.hex()
    done = complete(repository, kind, remote=remote, committer=committer, restores=restores)
    if done is not None:
        return done.appended
    with repository.lake.kv.read() as txn:
        newer = _newer(txn, repository, kept)
    if not newer:
        raise _unchanged(repository, kept)
    planned = pushed_refs.find_to_move_back(repository, newer, remote=remote)
    claims = claim_operations(repository, newer)
    policy = take_policy_back(repository, newer, who=committer, remote=remote)

    def take(txn: WriteTransaction) -> Operation:
        if _newer(txn, repository, kept) != newer:
            what = f"another command changed {repository.uri} meanwhile; nothing was restored"
            raise LostRace(what, hint="try again")
        pushed_refs.check_none_pushed(txn, repository, newer, planned, remote=remote)
        taking = TakeBack(txn, repository, claims)
        for operation in newer:
            taking.take_back(operation)
        if not taking.has_changed and not policy:
            raise _unchanged(repository, kept)
        return taking.append(kind=kind, metadata={RESTORES: restores, **policy})

    return _carry_out(repository, kind, planned, take, committer=committer)


def _unchanged(repository: Repository, kept: Operation) -> NothingToDo:
    hint = f"see what was done: `op log {repository.uri}`"
    return NothingToDo(f"{repository.uri} is as it was after operation {kept.id.hex()}", hint=hint)


def _newer(txn: ReadTransaction, repository: Repository, kept: Operation) -> list[Operation]:
    """Return the operations newer than `kept` that changed something, newest first."""
    logged = (each.operation for each in op_log.iter_logged(txn, repository))
    newer = takewhile(lambda each: each.sequence > kept.sequence, logged)
    return list(filter(op_log.changes_something, newer))


RESTORES: Final = "restores"
"""The key of an operation's metadata for the ID of the operation that was restored."""


class Undone(NamedTuple):
    """The result of an undo or redo.

    Attributes:
        operation: the user's operation that was undone or redone; if that is expired, the redo or
            undo that was reversed.
        appended: the undo or redo, which was appended to the log.
        remote: the refs that were moved back in the bucket.
        is_completed: whether an earlier command appended the operation, but was interrupted before
            it moved refs in the bucket, or before it printed its answer.
    """

    operation: Operation
    appended: Operation
    remote: tuple[PushedRef, ...] = ()
    is_completed: bool = False

    @property
    def moved_back(self) -> Sequence[str]:
        """Branches and tags that were moved back in the bucket."""
        return [each.name for each in self.remote]


@contextmanager
def _answering(repository: Repository) -> Iterator[list[OwedAnswer]]:
    """Provide a list for the answer that undo, redo or restore is about to print.

    At the end of the block the answer is passed to `Runtime.on_answer`. An error also counts as an
    answer. After an interrupt, the same command prints the answer when it is repeated.
    """
    answers: list[OwedAnswer] = []
    try:
        yield answers
    except BaseException as error:
        is_answer = isinstance(error, LakeError) and not is_interrupt(error)
        for each in answers:
            each.give() if is_answer else each.leave()
        raise
    for each in answers:
        repository.lake.runtime.on_answer(each)


def complete(
    repository: Repository, kind: str, *, remote: bool, committer: str = "", restores: str = ""
) -> Undone | None:
    """Complete an interrupted command: make its moves in the bucket, and return its result.

    With automatic sharing, `BranchMover.catch_up` has made the moves already. Only the first call
    for a `Repository` object reports them.

    Args:
        restores: the ID of the operation that was restored, for ``op restore``.

    Returns:
        The result of the interrupted command, if it was the last command; ``None``: there is
        nothing to complete.

    Raises:
        LostRace, AlreadyExists, Refused: the bucket has refused the moves.
        LostRace: the command is still running, and has yet to move refs in the bucket.
    """
    with _answering(repository) as answers:
        left, is_running = _resume(repository, kind, remote=remote, restores=restores)
        if left is not None:
            answers.append(left)
        moved = remote_undo.complete(repository, kind, committer=committer) if remote else []
        if is_running:
            return None  # that command has no refs left to move
        names = {(each.kind, each.name) for each in moved}
        with repository.lake.kv.read() as txn:
            newest = op_log.find_newest(txn, repository)
            if newest is None or not _is_of(newest, kind, restores):
                return None
            refs = {(each.kind, each.name) for each in newest.refs}
            if left is None and names.isdisjoint(refs):
                return None
            link = op_log.REDOES if kind == op_log.REDO else op_log.UNDOES
            concerned = log.find(txn, repository.key, bytes.fromhex(newest.metadata.get(link, "")))
        if left is not None:
            moved = [PushedRef(**each, stands=each["after"], sequence=0) for each in left.moved()]
        there = () if kind == op_log.REDO else tuple(moved)
        return Undone(concerned or newest, newest, there, is_completed=True)


def _resume(
    repository: Repository, kind: str, *, remote: bool, restores: str
) -> tuple[OwedAnswer | None, bool]:
    """Take over the answer that the last command did not print, if the command is of this kind.

    Answers about other operations are dropped, because newer operations have followed.

    Returns:
        The answer, or ``None``; and whether a running command has yet to print the answer.

    Raises:
        Refused: the command has yet to move refs in the bucket, and `remote` is not set.
        LostRace: the command is still running, and has yet to move refs in the bucket.
    """
    if not interrupted.may_be_left(repository):
        return None, False
    with repository.lake.kv.write() as txn:
        newest, left = op_log.find_newest(txn, repository), None
        taken, owed = interrupted.take_left(repository)
        for each in taken:
            is_newest = newest is not None and each.operation == newest.id
            if newest is not None and is_newest and _holds(repository.refs(txn), newest):
                left = each
            else:
                each.give()
        if left is not None and not _is_of(newest, kind, restores):
            left.leave()
            return None, False
        if newest is None or (remote and left is not None):
            return left, False
        is_running = left is None and newest.id in owed
        refs = {(each.kind, each.name) for each in newest.refs}
        unsent = unsent_moves.iter_unsent(txn, repository)
        own = (each for each in unsent if each.operation == kind)
        noted = [each.name for each in own if (each.kind, each.name) in refs]
    if noted and is_running:
        hint = "try again when it has ended"
        raise LostRace(f"another {kind} is yet to move {', '.join(noted)} in the bucket", hint=hint)
    if noted and left is not None:
        left.leave()
        moves = f"it has not moved {', '.join(noted)} in the bucket"
        hint = "complete it there: `remote=True`"
        raise Refused(f"the {kind} before was interrupted; {moves}", hint=hint)
    return left, is_running


def _is_of(operation: Operation | None, kind: str, restores: str) -> bool:
    if operation is None or operation.kind != kind:
        return False
    return operation.metadata.get(RESTORES, "") == restores


def _holds(refs: RefStore, operation: Operation) -> bool:
    """Return whether refs are where an operation moved them, or have only moved forward since."""
    for change in operation.refs:
        if not change.moves_commit:
            continue
        before, after = change.commits
        here = refs.position(change.kind, change.name)
        if here == after:
            continue
        if here is None or after is None or change.kind is not RefKind.BRANCH:
            return False
        if not is_ancestor(refs, after, here):
            return False
        if before and not is_ancestor(refs, before, after) and is_ancestor(refs, before, here):
            return False
    return True
