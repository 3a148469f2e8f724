"""Move refs back in the bucket after the operations that moved them were undone locally.

The transaction that undoes operations on this machine also notes each ref that they had moved in
the bucket (`lakecli.repository.journal.unsent_moves`). So undoing is one durable step, even if
other commands run meanwhile. Then the noted moves are sent to the bucket. A move takes effect only
if the ref in the bucket still points to the commit of the undone operation:

- If the bucket refuses the first move, or cannot be reached, nothing has moved in the bucket. Then
  the undo is reverted on this machine, unless another command has changed something since.
- If the bucket refuses a later move, an error names that ref, and automatic sharing lets the local
  ref follow the bucket.
- If the process is killed, the notes stay in the local store. With automatic sharing, the next
  command sends the moves. Without automatic sharing, repeating the undo sends them.

`put_back` is for the opposite case. With automatic sharing, or if a branch is reset with a lease, a
ref is created, moved, deleted or renamed on this machine first, and then in the bucket. If somebody
has moved the ref in the bucket meanwhile, the bucket refuses the move, and the operation is undone
on this machine. Then nothing has changed, and the branch still has its commits and staged changes
that were never pushed.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from lakecli.base.model import RefKind
from lakecli.errors import LakeError, OutcomeUnknown
from lakecli.kv.bucket import UnsentMove
from lakecli.kv.local_store import ReadTransaction, WriteTransaction
from lakecli.kv.operations import Operation, RefChange, iter_operations
from lakecli.refs.graph import is_ancestor
from lakecli.remote.refs import find_ref
from lakecli.repository.contract import Repository
from lakecli.repository.journal import unsent_moves
from lakecli.repository.journal.intents import when_none_under_way
from lakecli.repository.sharing import automatic
from lakecli.repository.sharing.automatic import SendDecision, Sent, not_sent, push_note
from lakecli.repository.undo import log as op_log
from lakecli.repository.undo.pushed_refs import RESET, PushedRef, find_to_move_back, moved_on
from lakecli.repository.undo.take_back import TakeBack, claim_operations


def note(
    txn: WriteTransaction,
    repository: Repository,
    appended: Operation,
    pushed: Sequence[PushedRef],
    *,
    holds: bool = True,
) -> None:
    """Note the refs to move back in the bucket, in the transaction that undoes operations.

    With automatic sharing, an undo may leave a branch at an ancestor of its commit in the bucket.
    Such a branch is held: following the bucket would immediately reverse the undo.

    Args:
        holds: whether to hold such branches; false if they may follow the bucket.
    """
    for each in pushed:
        made = _note_of(repository, appended, each)
        unsent_moves.put(txn, repository, made._replace(replaces=_renamed(each, pushed)))
    if holds and repository.syncs and appended.kind in {op_log.UNDO, op_log.RESTORE}:
        for change in appended.refs:
            if _is_left_behind(txn, repository, change):
                unsent_moves.hold(txn, repository, change)


def _is_left_behind(txn: ReadTransaction, repository: Repository, change: RefChange) -> bool:
    """Return whether an undo moved a branch to an ancestor of its commit in the bucket.

    Noted moves count as made in the bucket. The result is false if the bucket's commit and the
    undone commit have diverged, because the undone commits may never have been in the bucket.
    """
    if change.kind is not RefKind.BRANCH:
        return False
    noted = unsent_moves.find_unsent(txn, repository, change.kind, change.name)
    tracked = repository.tracking(txn).position(change.kind, change.name)
    there = tracked if noted is None else noted.after
    before, here = change.commit_before, change.commit_after
    if there is None or before is None or here is None:
        return False
    refs = repository.refs(txn)
    if here in (before, there) or not is_ancestor(refs, here, there):
        return False
    return is_ancestor(refs, there, before) or is_ancestor(refs, before, there)


def send(
    repository: Repository,
    appended: Operation,
    pushed: Sequence[PushedRef],
    *,
    committer: str,
    puts_back: bool = True,
) -> None:
    """Move refs back in the bucket, as noted by `note`.

    Args:
        puts_back: if no ref could be moved in the bucket, also reverse the undo on this machine,
            unless another command has changed something since.

    Raises:
        Refused: others have moved a ref in the bucket since. Unless the message says otherwise,
            nothing was undone.
        OutcomeUnknown: a ref in the bucket may have moved; the next command finds out.
        Unreachable, PermissionDenied, …: unless the message says otherwise, nothing was undone.
    """
    refused: list[LakeError] = []
    # Deletions come last: a branch that was renamed always has a name in the bucket.
    for number, each in enumerate(sorted(pushed, key=lambda each: each.before is None)):
        repository.lake.runtime.on_step(f"{appended.kind} there")
        wanted = _note_of(repository, appended, each)
        try:
            sent = _send(repository, appended, each, committer)
        except OutcomeUnknown:
            raise
        except LakeError as error:
            if not number and puts_back and _put_back(repository, appended):
                raise
            raise automatic.not_yet_sent(repository, wanted, error) from error
        if sent.way_back is not None:
            push_note(repository, sent.way_back, who=committer)
        if sent.verdict is SendDecision.REFUSE:
            if not number and puts_back and _put_back(repository, appended):
                raise sent.why or moved_on(repository, each)
            refused.append(not_sent(repository, wanted, sent.there, sent.why))
    if refused:
        raise refused[0]


def _put_back(repository: Repository, appended: Operation) -> bool:
    """Reverse an undo; return ``False`` if it is not the newest operation."""
    claims = claim_operations(repository, [appended])
    kind, metadata = op_log.UNDO, {op_log.UNDOES: appended.id.hex()}
    if op_log.UNDOES in appended.metadata:
        kind, metadata = op_log.REDO, {op_log.REDOES: appended.metadata[op_log.UNDOES]}

    def act() -> bool:
        with repository.lake.kv.write() as txn:
            if _newest(txn, repository) != appended:
                return False
            taking = TakeBack(txn, repository, claims)
            taking.take_back(appended)
            taking.append(kind=kind, metadata=metadata)
        return True

    return when_none_under_way(repository, act)


def _newest(txn: ReadTransaction, repository: Repository) -> Operation | None:
    """Return the newest operation that changed something."""
    logged = (each.operation for each in op_log.iter_logged(txn, repository))
    return next(filter(op_log.changes_something, logged), None)


def complete(repository: Repository, kind: str, *, committer: str) -> list[PushedRef]:
    """Send the moves that an interrupted command has noted, unless sharing is automatic.

    Automatic sharing has sent such moves already.

    Returns:
        The refs that the bucket has moved back.

    Raises:
        LostRace, AlreadyExists, …: see `lakecli.repository.sharing.automatic.push_note`.
    """
    resumed = []
    if repository.mover is not None:
        resumed = [each for each in repository.mover.resumed if each[0].operation == kind]
        repository.mover.resumed.clear()
    notes = [note for note, _ in resumed]
    for error in (error for _, error in resumed if error is not None):
        raise error
    if not repository.syncs:
        notes = [each for each in automatic.unsent_notes(repository) if each.operation == kind]
        for each in notes:
            push_note(repository, each, who=committer)
    moves = ((each.kind, each.name, each.after, each.before, each.after) for each in notes)
    return [PushedRef(*each, sequence=0) for each in moves]


def _send(repository: Repository, appended: Operation, pushed: PushedRef, committer: str) -> Sent:
    """Send one noted move, unless another process has sent it or made it unnecessary."""
    with repository.lake.kv.read() as txn:
        is_noted = unsent_moves.find_unsent(txn, repository, pushed.kind, pushed.name) is not None
        is_reversed = not is_noted and _is_reversed(txn, repository, appended)
    if is_noted:
        noted = _note_of(repository, appended, pushed)
        return automatic.send_note(repository, noted, who=committer)
    ref = find_ref(repository.store, pushed.kind, pushed.name)
    there = None if ref is None else ref.commit_id
    newer = [move for move in ref.moves if move.sequence > pushed.sequence] if ref else []
    was_made = (pushed.after, pushed.before) in ((move.before, move.after) for move in newer)
    # The note is gone, too, if another process has sent it and the bucket refused it.
    return Sent(SendDecision.NOTHING if was_made or is_reversed else SendDecision.REFUSE, there)


def _is_reversed(txn: ReadTransaction, repository: Repository, appended: Operation) -> bool:
    """Return whether an undo or redo was itself reversed since."""
    undone = appended.metadata.get(op_log.UNDOES)
    reversing = {(op_log.UNDOES, appended.hex_id), (op_log.REDOES, undone)}
    newer = takewhile(lambda each: each.id != appended.id, iter_operations(txn, repository.key))
    return any(reversing & each.metadata.items() for each in newer)


def _renamed(made: PushedRef, pushed: Sequence[PushedRef]) -> str:
    """Return the present name of a branch that undo gives its old name again; else ``""``."""
    if made.kind is not RefKind.BRANCH or made.after is not None:
        return ""
    gone = (each for each in pushed if (each.kind, each.before) == (made.kind, None))
    return next((each.name for each in gone if each.after == made.before), "")


def _note_of(repository: Repository, appended: Operation, pushed: PushedRef) -> UnsentMove:
    """Return the noted move of a ref as `note` made it; other commands may have extended it."""
    by = unsent_moves.command_of(repository)
    return UnsentMove(pushed.kind, pushed.name, appended.kind, pushed.after, pushed.before, by)


def put_back(repository: Repository, refused: UnsentMove, committer: str) -> bool:
    """Undo the operation that moved a ref on this machine, after the bucket refused the move.

    Args:
        refused: the move; its note is deleted.
        committer: the person recorded for moves in the bucket: a rename moves two refs there, and
            if the bucket refused only one move, the other one is reversed.

    Returns:
        Whether the operation was undone on this machine. It is not undone if the ref was moved or
        created again since, if the refused move contains changes of other operations, or if the
        bucket has the move after all.
    """
    with repository.lake.kv.read() as txn:
        operation = _find(txn, repository, refused)
    if operation is None:
        return False
    try:
        planned = find_to_move_back(repository, [operation], remote=_deletes(operation))
        claims = claim_operations(repository, [operation])

        def act() -> Operation:
            with repository.lake.kv.write() as txn:
                taking = TakeBack(txn, repository, claims)
                taking.take_back(operation)
                undone = operation.metadata.get(op_log.REDOES, operation.id.hex())
                appended = taking.append(kind=op_log.UNDO, metadata={op_log.UNDOES: undone})
                note(txn, repository, appended, planned, holds=False)
            return appended

        appended = when_none_under_way(repository, act)
    except LakeError:
        return False  # the operation on this machine stays
    send(repository, appended, planned, committer=committer, puts_back=False)
    return True


_PUT_BACK: Final = {RESET, "branch create", "tag create"}
"""Kinds of operations that create no commits, and are undone if the bucket refuses the move."""


def _find(txn: ReadTransaction, repository: Repository, refused: UnsentMove) -> Operation | None:
    """Return the newest operation on a ref if exactly this operation made the refused move."""
    for operation, _ in op_log.iter_logged(txn, repository):
        is_reset = operation.kind == RESET  # may only have discarded staged changes
        for change in (each for each in operation.refs if each.moves_commit or is_reset):
            if (change.kind, change.name) != (refused.kind, refused.name):
                continue
            takes_back = op_log.UNDOES in operation.metadata or operation.kind == op_log.RESTORE
            is_local = unsent_moves.is_local(operation, change)
            is_refused = change.commit_after == refused.after and not is_local
            is_whole = _deletes(operation) or (
                operation.kind in _PUT_BACK and change.commit_before == refused.before
            )
            return operation if is_refused and is_whole and not takes_back else None
    return None


def _deletes(operation: Operation) -> bool:
    """Return whether an operation deleted or renamed a ref."""
    return any(each.moves_commit and each.after is None for each in operation.refs)
