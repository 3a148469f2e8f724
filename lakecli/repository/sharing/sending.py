"""Sending the notes of refs that were moved here and are still to be moved in the bucket.

A note is sent only where the bucket stands on what the note moved the ref from, where that is a
fast-forward, or where the bucket never had the ref
(`lakecli.repository.journal.unsent_moves.judge`).
Anything else is refused as `push` refuses it, once: the note is deleted. What was done here stays
here, except that a ref which was deleted or renamed is put back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lakecli.base.model import CommitId
from lakecli.errors import LakeError, OutcomeUnknown, Unreachable
from lakecli.kv.bucket import TrackingStore
from lakecli.refs.ref_store import RefStore
from lakecli.remote.refs import MoveOutcome
from lakecli.repository.contract import Repository, UnsentMove
from lakecli.repository.journal import tracking, unsent_moves
from lakecli.repository.journal.unsent_moves import SendDecision
from lakecli.repository.sharing.publish import publish, refused


class Sent(NamedTuple):
    """What became of a note.

    Attributes:
        verdict: ``NOTHING``: the bucket has the move, or nothing was left to send; ``REFUSE``: the
            bucket stands elsewhere, and the note is gone.
        there: the position of the ref in the bucket, as far as is known.
        way_back: the note of the way back, if another process undid the move here meanwhile.
    """

    verdict: SendDecision
    there: CommitId | None
    way_back: UnsentMove | None = None


def unsent_notes(repository: Repository) -> list[UnsentMove]:
    """Return the notes, deletions last: a renamed branch always has a name in the bucket."""
    with repository.lake.kv.read() as txn:
        notes = list(unsent_moves.iter_unsent(txn, repository))
    return sorted(notes, key=lambda note: note.after is None)


def push_note(
    repository: Repository,
    note: UnsentMove,
    *,
    who: Callable[[], str],
    put_back: Callable[[Repository, UnsentMove, str], bool] | None = None,
) -> None:
    """Make a noted move in the bucket, if that undoes nothing that others did.

    Args:
        repository: the repository of the ref.
        note: the move.
        who: returns who moves it, for the shared reflog; called if it is moved.
        put_back: called with the refused move and who made it; it undoes the operation that
            deleted or renamed a ref, and tells whether it did. ``None``: what was done here stays.

    Raises:
        LostRace, AlreadyExists: it would; the note is gone.
        OutcomeUnknown, Unreachable, PermissionDenied, …: the note stays.
    """
    try:
        sent = send_note(repository, note, who=who)
    except OutcomeUnknown:
        raise
    except LakeError as error:
        raise not_yet_sent(repository, note, error) from error
    if sent.verdict is SendDecision.REFUSE:
        refusal = not_sent(repository, note, sent.there)
        if put_back is not None and put_back(repository, note, who()):
            refusal.message = f"{refusal.message}; this is undone here: {note.operation}"
            refusal.args = (refusal.message,)
        raise refusal
    if sent.way_back is not None:
        push_note(repository, sent.way_back, who=who)


def send_note(repository: Repository, note: UnsentMove, *, who: Callable[[], str]) -> Sent:
    """Make a noted move in the bucket as `push_note` does, and return what became of it.

    Raises:
        OutcomeUnknown, Unreachable, PermissionDenied, …: as `publish` raises them; the note stays.
    """
    with repository.lake.kv.read() as txn:
        there = TrackingStore(txn, repository.key).position(note.kind, note.name)
        if unsent_moves.find_unsent(txn, repository, note.kind, note.name) is None:
            return Sent(SendDecision.NOTHING, there)  # it was deleted since it was read
        verdict = unsent_moves.judge(txn, repository, note, there)
    was_sent = verdict is SendDecision.SEND
    if was_sent:
        verdict, there = _move(repository, note, there, who=who)
    with repository.lake.kv.write() as txn:
        way_back = None
        if was_sent and verdict is SendDecision.NOTHING:
            way_back = unsent_moves.note_taken_back(txn, repository, note)
            unsent_moves.renew_hold(txn, repository, note.kind, note.name)
        unsent_moves.forget(txn, repository, note)
        if verdict is SendDecision.REFUSE:
            unsent_moves.forget_rest_of_renaming(txn, repository, note)
    return Sent(verdict, there, way_back)


def _move(
    repository: Repository, note: UnsentMove, there: CommitId | None, *, who: Callable[[], str]
) -> tuple[SendDecision, CommitId | None]:
    """Make a move in the bucket; return what became of it, and where the ref stands there."""
    result = publish(
        repository,
        note.kind,
        note.name,
        before=there,
        after=note.after,
        who=who(),
        why=note.operation,
    )
    if result.outcome == MoveOutcome.APPLIED:
        return SendDecision.NOTHING, note.after
    there = None if result.ref is None else result.ref.commit_id
    with repository.lake.kv.read() as txn:
        here = RefStore(txn, repository.key).position(note.kind, note.name)
    if there not in (note.after, here):
        return SendDecision.REFUSE, there
    # Another process of this machine has sent it, or has moved the ref on and sent that.
    tracking.track_now(repository, result.ref)
    return SendDecision.NOTHING, there


def not_yet_sent(repository: Repository, note: UnsentMove, error: LakeError) -> LakeError:
    """Return an error that says that a ref moved here, though not in the bucket."""
    error.message = f"{note.kind} {note.name} moved here, not yet in the bucket: {error.message}"
    error.args = (error.message,)
    help_first = "" if error.hint is None or isinstance(error, Unreachable) else f"{error.hint}; "
    error.hint = (
        f"{help_first}the next command tries again to push it; or undo it: "
        f"lakecli undo {repository.uri}"
    )
    return error


def not_sent(repository: Repository, note: UnsentMove, there: CommitId | None) -> LakeError:
    """Return the error for a move that the bucket does not get."""
    error = refused(repository, note.kind, note.name, before=there, after=note.after)
    error.message = (
        f"{note.kind} {note.name} was {'moved' if note.after else 'deleted'} here, "
        f"not in the bucket: {error.message}"
    )
    error.args = (error.message,)
    return error
