"""What of an operation the bucket has seen, and moving refs back there before they move here.

An operation that was pushed is not taken back behind the others' backs: without `remote` it is
refused, and with it the ref moves back in the bucket by compare-and-set, as a new move, if the
bucket still stands on what the operation left. The bucket comes first: what it took and this
machine could not finish is found to be done by the same command again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.errors import Refused
from lakecli.kv.tracking import TrackingStore
from lakecli.model import CommitId
from lakecli.refs.graph import is_ancestor
from lakecli.refs.store import RefStore
from lakecli.remote.known import iter_moves
from lakecli.repository.operations import FOLLOWED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from lakecli.kv.env import ReadTransaction
    from lakecli.kv.operations import Operation, RefChange
    from lakecli.kv.tracking import Tracked
    from lakecli.repository.lake import Repository

_FROM_THE_BUCKET: Final = ("clone", "fetch", "pull", FOLLOWED)
"""Kinds of operations that only repeat here what the bucket has; a pull that merges is a merge."""


class Pushed(NamedTuple):
    """One ref that the bucket has seen move.

    Attributes:
        kind: ``branch`` or ``tag``.
        name: of the ref.
        before: where it would go back to; ``None``: it is deleted.
        after: where the operation moved it; ``None``: it deleted it.
        stands: where the bucket stands, as far as is known.
        sequence: of its last move there, likewise.
    """

    kind: str
    name: str
    before: CommitId | None
    after: CommitId | None
    stands: CommitId | None
    sequence: int


def move_back(
    repository: Repository,
    taken: Sequence[Operation],
    *,
    remote: bool,
    committer: str,
    why: str,
) -> list[Pushed]:
    """Move refs back in the bucket that operations about to be taken back have moved there.

    Args:
        repository: whose.
        taken: the operations, newest first.
        remote: whether to; else it is refused where there are any.
        committer: who does it.
        why: for the reflog.

    Returns:
        The refs that were moved; none if nothing was pushed.

    Raises:
        Refused: something was pushed and `remote` is not set, or the bucket has moved on.
        OutcomeUnknown: the bucket may have moved; the same call again finds out.
        Unreachable: it has to be asked, also what became of a push that was interrupted, and does
            not answer.
    """
    from lakecli.repository.sharing.pending import finish_pending

    finish_pending(repository)
    with repository.lake.kv.read() as txn:
        pushed = find_pushed(txn, repository, taken)
    if not pushed:
        return []
    for each in pushed:
        if each.stands != each.after:
            raise _moved_on(repository, each)
    if not remote:
        names = ", ".join(f"{each.kind} {each.name}" for each in pushed)
        raise Refused(
            f"this was pushed: {names}",
            hint="--remote takes it back in the bucket too; or "
            + _other_way(repository, pushed[0]),
        )
    from lakecli.remote.move import Outcome
    from lakecli.repository.sharing.publish import publish

    for each in pushed:
        repository.lake.surroundings.on_step(f"{why} there")
        result = publish(
            repository,
            each.kind,
            each.name,
            before=each.after,
            after=each.before,
            why=why,
            who=committer,
            since=each.sequence,
        )
        if result.outcome is not Outcome.APPLIED:
            raise _moved_on(repository, each)
    return pushed


def find_pushed(
    txn: ReadTransaction, repository: Repository, taken: Sequence[Operation]
) -> list[Pushed]:
    """Return the refs that would fall behind what the bucket has seen of these operations.

    Args:
        txn: the moment to look at.
        repository: whose.
        taken: operations, newest first.
    """
    moves: dict[tuple[str, str], list[tuple[RefChange, Operation]]] = {}
    for operation in taken:
        for change in operation.refs:
            if change.kind != "repository":
                moves.setdefault((change.kind, change.name), []).append((change, operation))
    tracking = TrackingStore(txn, repository.key)
    found = []
    for (kind, name), changes in moves.items():
        tracked = tracking.find(kind, name)
        if tracked is None:
            continue
        ours = [each for each in changes if _is_ours(txn, repository, *each)]
        if ours:
            before, after = _commit(ours[-1][0].before), _commit(changes[0][0].after)
            if _has_seen(txn, repository, tracked, before=before, after=after):
                stands, sequence = tracked.commit_id, tracked.sequence
                found.append(Pushed(kind, name, before, after, stands, sequence))
    return found


def _is_ours(
    txn: ReadTransaction, repository: Repository, change: RefChange, operation: Operation
) -> bool:
    """Whether an operation made a move, rather than repeat one that others had made."""
    before, after = _commit(change.before), _commit(change.after)
    if operation.kind in _FROM_THE_BUCKET or before == after:
        return False
    if after is None:
        return True
    if before is None:  # what was there earlier was not created by this
        moves = iter_moves(txn, repository.key, change.kind, change.name)
        created = next((move.at for move in moves if move.before is None), None)
        return created is not None and created >= operation.at
    return True


def _has_seen(
    txn: ReadTransaction,
    repository: Repository,
    tracked: Tracked,
    *,
    before: CommitId | None,
    after: CommitId | None,
) -> bool:
    """Whether the bucket has a move, or moves that follow from it."""
    stands = tracked.commit_id
    if after is None or stands is None:
        moves = iter_moves(txn, repository.key, tracked.kind, tracked.name)
        last = next(moves, None)
        deleted = last is not None and last.after is None and last.before == before
        return after is None and stands is None and deleted
    if tracked.kind == "tag":
        return stands == after
    refs = RefStore(txn, repository.key)
    if before is not None and is_ancestor(refs, stands, before):
        return False
    return is_ancestor(refs, after, stands)


def _commit(fields: Mapping[str, Any] | None) -> CommitId | None:
    return None if fields is None else CommitId(fields["commit_id"])


def _moved_on(repository: Repository, pushed: Pushed) -> Refused:
    return Refused(
        f"this was pushed, and {pushed.kind} {pushed.name} has moved on in the bucket since",
        hint=_other_way(repository, pushed),
    )


def _other_way(repository: Repository, pushed: Pushed) -> str:
    """Return what to do instead of undoing what others may have seen."""
    uri = f"{repository.uri}/{pushed.name}"
    if pushed.kind == "branch" and pushed.before is not None and pushed.after is not None:
        revert = f"lakecli branch revert {uri} {pushed.after}"
        return f"take it back by a commit of its own: {revert}"
    return f"look at it first: lakecli fetch {repository.uri}"
