"""Complete an undo, redo or restore that was interrupted, instead of doing the next one.

Two things may be left to do: refs that it has yet to move back in the bucket
(`lakecli.repository.undo.back_in_bucket`), and its answer
(`lakecli.repository.moving.owed_answers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from lakecli.base.model import RefKind
from lakecli.errors import LakeError, LostRace, Refused, is_interrupt
from lakecli.kv import operations as log
from lakecli.kv.env import ReadTransaction
from lakecli.kv.operations import Operation
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.repository.contract import Repository
from lakecli.repository.moving import owed_answers
from lakecli.repository.pending import unsent
from lakecli.repository.records import ref_changes
from lakecli.repository.undo import back_in_bucket
from lakecli.repository.undo import log as op_log
from lakecli.repository.undo.pushed import Pushed

RESTORES: Final = "restores"
"""Key of an operation's metadata: the ID of the operation that was restored."""


class Undone(NamedTuple):
    """What `undo` or `redo` did.

    Attributes:
        operation: the user's operation that was undone or redone; if it is expired, the one that
            stands for it.
        appended: the operation that was appended for it.
        remote: the refs that were moved back in the bucket.
        is_completed: whether an earlier command had appended it, which was interrupted before all
            was done in the bucket, or before it answered.
    """

    operation: Operation
    appended: Operation
    remote: tuple[Pushed, ...] = ()
    is_completed: bool = False


class Answering:
    """The answer that a verb of this module is about to give, as a context manager.

    Returning hands it to `Runtime.on_answer`, and an error is an answer, too. After an interrupt
    the same command, repeated, gives it.

    Attributes:
        is_another_ones: whether another command still runs that `resume` found to owe the answer.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._answer: owed_answers.Answer | None = None
        self.is_another_ones = False

    def begin(self, appended: Operation, planned: Sequence[Pushed]) -> None:
        """Record that an operation is to be answered, in the transaction that appends it."""
        moved = [
            {"kind": each.kind, "name": each.name, "before": each.before, "after": each.after}
            for each in planned
        ]
        self._answer = owed_answers.begin(self._repository, appended.id, moved)

    def resume(self, txn: ReadTransaction, newest: Operation | None) -> owed_answers.Answer | None:
        """Take over the answer that a killed command left about an operation, and return it.

        Answers about other operations are dropped, since somebody went on without them.

        Args:
            txn: a write transaction.
            newest: the newest operation of the log that is not passed over.
        """
        for left in owed_answers.take_left(self._repository):
            if (
                newest is None
                or left.operation != newest.id
                or not _holds(txn, self._repository, newest)
            ):
                left.give()
            else:
                self._answer = left
        if self._answer is None and newest is not None:
            self.is_another_ones = owed_answers.is_owed(self._repository, newest.id)
        return self._answer

    def leave(self) -> None:
        """Leave the answer to another command."""
        if self._answer is not None:
            self._answer.leave()
            self._answer = None

    def __enter__(self) -> Self:
        """Return this object."""
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        """Hand the answer to the caller, or leave it."""
        if self._answer is None:
            return
        if error is None:
            self._repository.lake.runtime.on_answer(self._answer)
        elif isinstance(error, LakeError) and not is_interrupt(error):
            self._answer.give()
        else:
            self._answer.leave()


def complete(
    repository: Repository, kind: str, *, remote: bool, committer: str = "", restores: str = ""
) -> Undone | None:
    """Complete an interrupted command: what it was to move back in the bucket, and its answer.

    With automatic sharing, `BranchMover.catch_up` has moved it. The first call on a handle says it.

    Args:
        repository: the repository of the refs.
        kind: ``undo``, ``redo`` or ``op restore``.
        remote: move refs back in the bucket.
        committer: who moves them.
        restores: the ID of the operation that was restored, for ``op restore``.

    Returns:
        What that command did, if it was the last one; ``None``: there is something else to do.

    Raises:
        LostRace, AlreadyExists, Refused: the bucket has refused it.
        LostRace: it still runs, and is yet to move refs in the bucket.
    """
    with Answering(repository) as answering:
        left = _resume(repository, answering, kind, remote=remote, restores=restores)
        moved = back_in_bucket.complete(repository, kind, committer=committer) if remote else []
        if answering.is_another_ones:
            return None  # which has nothing to move any more
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
            moved = [Pushed(**each, stands=each["after"], sequence=0) for each in left.moved()]
        there = () if kind == op_log.REDO else tuple(moved)
        return Undone(concerned or newest, newest, there, is_completed=True)


def _resume(
    repository: Repository, answering: Answering, kind: str, *, remote: bool, restores: str
) -> owed_answers.Answer | None:
    """Take over the answer that a command of this kind has left, if it was the last one.

    Raises:
        Refused: it has yet to move refs in the bucket, and `remote` is not set.
        LostRace: it still runs, and has yet to move refs in the bucket.
    """
    if not owed_answers.may_be_left(repository):
        return None
    with repository.lake.kv.write() as txn:
        newest = op_log.find_newest(txn, repository)
        left = answering.resume(txn, newest)
        if left is not None and not _is_of(newest, kind, restores):
            answering.leave()
            return None
        if newest is None or (remote and left is not None):
            return left
        refs = {(each.kind, each.name) for each in newest.refs}
        noted = [
            each.name
            for each in unsent.iter_unsent(txn, repository)
            if each.operation == kind and (each.kind, each.name) in refs
        ]
    if noted and answering.is_another_ones:
        raise LostRace(
            f"another {kind} is yet to move {', '.join(noted)} in the bucket",
            hint="try again when it has ended",
        )
    if noted and left is not None:
        answering.leave()
        raise Refused(
            f"the {kind} before was interrupted; it has not moved {', '.join(noted)} in the bucket",
            hint="--remote completes it there",
        )
    return left


def _is_of(operation: Operation | None, kind: str, restores: str) -> bool:
    return (
        operation is not None
        and operation.kind == kind
        and operation.metadata.get(RESTORES, "") == restores
    )


def _holds(txn: ReadTransaction, repository: Repository, operation: Operation) -> bool:
    """Return whether the refs still are what an operation made them, or have only moved on."""
    refs = RefStore(txn, repository.key)
    for change in operation.refs:
        if not ref_changes.moves_commit(change):
            continue
        before, after = map(ref_changes.commit_of, (change.before, change.after))
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
