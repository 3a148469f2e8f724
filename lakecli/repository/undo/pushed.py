"""What was pushed of operations that are to be undone.

Without `remote`, undoing an operation that was pushed is refused. With it, each ref moves back in
the bucket too (`lakecli.repository.undo.back_in_bucket`), if the bucket still stands where the
operation left it: to where it is here then, but not behind what it had there before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from lakecli.base.model import CommitId, RefKind
from lakecli.errors import LostRace, Refused
from lakecli.kv.bucket import Tracked, TrackingStore
from lakecli.kv.env import ReadTransaction
from lakecli.kv.operations import Operation
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.remote.refs import find_ref, iter_known_moves
from lakecli.repository.contract import Repository
from lakecli.repository.pending.intents import finish_pending
from lakecli.repository.records.ref_changes import commit_of, is_local
from lakecli.repository.sharing.publish import check_writable
from lakecli.repository.undo import log as op_log
from lakecli.repository.undo.own_moves import RESET, Moved, Undone, find_back, find_ours

_BACK: Final = {op_log.UNDO, op_log.RESTORE}
"""Kinds of operations that move branches back; undoing these leaves commits to push, at worst."""


class Pushed(NamedTuple):
    """A ref whose move was pushed.

    Attributes:
        kind: a branch or a tag.
        name: the name of the ref.
        before: the position it would go back to there; ``None``: it is deleted.
        after: the position that the operation moved it to; ``None``: it deleted it.
        stands: its position in the bucket, as far as is known.
        sequence: the number of its last move in the bucket, as far as is known.
    """

    kind: RefKind
    name: str
    before: CommitId | None
    after: CommitId | None
    stands: CommitId | None
    sequence: int


def find_to_move_back(
    repository: Repository, taken: Sequence[Operation], *, remote: bool
) -> list[Pushed]:
    """Return the refs to move back in the bucket where operations are undone.

    Nothing is moved. Where there is anything to move, the bucket is asked whether it can be.

    Args:
        repository: the repository of the operations.
        taken: the operations, newest first.
        remote: whether refs are to be moved; if not, an error is raised where there are any.

    Raises:
        Refused: something was pushed and `remote` is not set, or the bucket has moved on.
        Unreachable: the bucket has to be asked, perhaps about an interrupted push, and does not
            answer.
        CannotShare, NewerRepository: no refs can be moved there.
    """
    finish_pending(repository)
    with repository.lake.kv.read() as txn:
        pushed = find_pushed(txn, repository, taken, remote=remote)
    if not pushed:
        return []
    for each in pushed:
        if each.stands == each.before or each.stands != each.after:  # others have moved it last
            raise moved_on(repository, each)
    if not remote:
        names = ", ".join(f"{each.kind} {each.name}" for each in pushed)
        raise Refused(
            f"this was pushed: {names}",
            hint="--remote undoes it in the bucket too; or " + _other_way(repository, pushed[0]),
        )

    check_writable(repository)
    for each in pushed:
        ref = find_ref(repository.store, each.kind, each.name)
        if (None if ref is None else ref.commit_id) != each.after:
            raise moved_on(repository, each)
    return pushed


def check_none_pushed(
    txn: ReadTransaction,
    repository: Repository,
    taken: Sequence[Operation],
    planned: Sequence[Pushed],
    *,
    remote: bool,
) -> None:
    """Refuse to undo operations that were pushed since `find_to_move_back` looked.

    Args:
        txn: the transaction that undoes them.
        repository: the repository of the operations.
        taken: the operations, newest first.
        planned: what was found then.
        remote: as it was given then.

    Raises:
        LostRace: naming the refs.
    """
    pushed = find_pushed(txn, repository, taken, remote=remote)
    if found := [each for each in pushed if each not in planned]:
        names = ", ".join(f"{each.kind} {each.name}" for each in found)
        raise LostRace(
            f"this was pushed meanwhile, nothing was undone: {names}",
            hint="repeat the command; it says how to undo what was pushed",
        )


def find_pushed(
    txn: ReadTransaction, repository: Repository, taken: Sequence[Operation], *, remote: bool
) -> list[Pushed]:
    """Return the refs that would fall behind what was pushed of these operations.

    With `remote`, these are also branches that an undo or restore has moved back in the bucket, and
    branches with commits on top that were never pushed.

    Args:
        txn: the state of the local store.
        repository: the repository of the operations.
        taken: the operations, newest first.
        remote: whether refs are to be moved in the bucket.
    """
    anywhere = {RESET, *(_BACK if remote else ())}
    moves: dict[tuple[RefKind, str], list[Moved]] = {}
    for operation in taken:
        for change in operation.refs:
            if change.kind is not RefKind.REPOSITORY:
                moves.setdefault((change.kind, change.name), []).append(Moved(change, operation))
    tracking = TrackingStore(txn, repository.key)
    runs: list[tuple[Tracked, list[Moved]]] = []
    for (kind, name), moved in moves.items():
        tracked = tracking.find(kind, name)
        if tracked is not None:
            own_runs = _own_runs(moved)
            runs += ((tracked, _pushed_part(own, tracked) if remote else own) for own in own_runs)
    ours = find_ours(txn, repository, [each for _, run in runs for each in run])
    seen: list[Undone] = []
    ends = []
    for tracked, run in runs:
        oldest = next((each for each in reversed(run) if each.key in ours), None)
        if oldest is None:
            continue
        before, after = commit_of(oldest.change.before), commit_of(run[0].change.after)
        if before == after:
            continue
        resets = any(each.operation.kind in anywhere for each in run)
        has_seen = _has_seen_reset if resets else _has_seen
        if has_seen(txn, repository, tracked, before=before, after=after):
            other = next((each for each in run if each.key not in ours), None)
            above = before if other is None else other.ends[1]
            seen.append(Undone(tracked, oldest, above))
            ends.append(after)
    back = find_back(txn, repository, seen)
    return [
        Pushed(each.kind, each.name, before, after, each.commit_id, each.sequence)
        for (each, *_), before, after in zip(seen, back, ends, strict=True)
    ]


def _own_runs(moves: Sequence[Moved]) -> Iterator[list[Moved]]:
    """Yield the runs of moves of a ref between those that came from the bucket, newest first.

    Nothing older than a move from the bucket is moved back there: others have built on it.
    """
    run: list[Moved] = []
    for moved in moves:
        before, after = moved.ends
        if before == after:
            continue
        if not is_local(moved.operation, moved.change):
            run.append(moved)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _pushed_part(run: list[Moved], tracked: Tracked) -> list[Moved]:
    """Return a run of moves, newest first, without those after the bucket's position."""
    if tracked.commit_id is None:
        return run
    ends = (number for number, each in enumerate(run) if each.ends[1] == tracked.commit_id)
    return run[next(ends, 0) :]


def _has_seen(
    txn: ReadTransaction,
    repository: Repository,
    tracked: Tracked,
    *,
    before: CommitId | None,
    after: CommitId | None,
) -> bool:
    """Return whether the bucket has a move, or moves on top of it."""
    stands = tracked.commit_id
    if after is None or stands is None:
        moves = iter_known_moves(txn, repository.key, tracked.kind, tracked.name)
        last = next(moves, None)
        if after is not None or stands is not None or last is None or last.after is not None:
            return False
        # A branch that was deleted may have had commits that were never pushed.
        return last.before == before or _reached(txn, repository, tracked, last.before, before)
    if tracked.kind is RefKind.TAG:
        return stands == after
    refs = RefStore(txn, repository.key)
    if before is not None and is_ancestor(refs, stands, before):
        return False
    return is_ancestor(refs, after, stands)


def _reached(
    txn: ReadTransaction,
    repository: Repository,
    tracked: Tracked,
    ancestor: CommitId | None,
    descendant: CommitId | None,
) -> bool:
    """Return whether a ref is a branch, and one of its positions reaches another that is here."""
    refs = RefStore(txn, repository.key)
    return (
        tracked.kind is RefKind.BRANCH
        and ancestor is not None
        and descendant is not None
        and refs.find_commit(ancestor) is not None
        and is_ancestor(refs, ancestor, descendant)
    )


def _has_seen_reset(
    txn: ReadTransaction,
    repository: Repository,
    tracked: Tracked,
    *,
    before: CommitId | None,
    after: CommitId | None,
) -> bool:
    """Return whether the bucket has a move of a branch that may have gone back or elsewhere.

    That the bucket stands on `after` proves nothing there: it may never have had `before`. One of
    its moves has to have left a commit behind.
    """
    refs = RefStore(txn, repository.key)
    stands = tracked.commit_id
    if before is None or after is None or stands is None or is_ancestor(refs, before, after):
        return _has_seen(txn, repository, tracked, before=before, after=after)
    if not is_ancestor(refs, after, stands) or is_ancestor(refs, before, stands):
        return False
    moves = iter_known_moves(txn, repository.key, tracked.kind, tracked.name)
    return any(
        is_ancestor(refs, move.after, stands)
        and (refs.find_commit(move.before) is None or not is_ancestor(refs, move.before, stands))
        for move in moves
        if move.before is not None and move.after is not None and refs.find_commit(move.after)
    )


def moved_on(repository: Repository, pushed: Pushed) -> Refused:
    """Return the error for a ref that others have moved in the bucket since."""
    return Refused(
        f"this was pushed, and {pushed.kind} {pushed.name} has moved on in the bucket since",
        hint=_other_way(repository, pushed),
    )


def _other_way(repository: Repository, pushed: Pushed) -> str:
    """Return what to do instead of undoing what others may have seen."""
    uri = f"{repository.uri}/{pushed.name}"
    if pushed.kind is RefKind.BRANCH and pushed.before is not None and pushed.after is not None:
        revert = f"lakecli branch revert {uri} {pushed.after}"
        return f"undo it by another commit: {revert}"
    return f"see what is there first: lakecli fetch {repository.uri}"
