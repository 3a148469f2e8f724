"""What was pushed of operations that are to be undone, and where refs go back to in the bucket.

Without `remote`, undoing an operation that was pushed is refused. With it, each ref moves back in
the bucket too (`lakecli.repository.undo.back_in_bucket`), if the bucket still stands where the
operation left it: to where it is here then, but not behind what it had there before.

Only moves that this clone made in the bucket are undone there. Others may have taken such a move
back and made it again, which stays. So moves are compared by their write IDs. Before a merge, a
reset or a forced push, a branch may be here without commits that others had pushed by then, and a
tag may be elsewhere. Such a ref goes back to where it stood in the bucket before this clone moved
it there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.model import CommitId, RefKind
from lakecli.errors import LostRace, Refused
from lakecli.kv import operations as log
from lakecli.kv.bucket import Tracked, TrackingStore
from lakecli.kv.local_store import ReadTransaction
from lakecli.kv.operations import Operation, RefChange
from lakecli.refs.graph import is_ancestor, iter_unreached
from lakecli.refs.ref_store import RefStore
from lakecli.remote.refs import find_ref, iter_known_moves
from lakecli.repository.contract import Repository
from lakecli.repository.pending.intents import finish_pending
from lakecli.repository.records.ref_changes import MOVE, commit_of, is_local
from lakecli.repository.sharing.shareable import check_writable
from lakecli.repository.undo import log as op_log

_BACK: Final = {op_log.UNDO, op_log.RESTORE}
"""Kinds of operations that move branches back; undoing these leaves commits to push, at worst."""


class PushedRef(NamedTuple):
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
) -> list[PushedRef]:
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
    planned: Sequence[PushedRef],
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
) -> list[PushedRef]:
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
    seen: list[UndoneRef] = []
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
            seen.append(UndoneRef(tracked, oldest, above))
            ends.append(after)
    back = find_back(txn, repository, seen)
    return [
        PushedRef(each.kind, each.name, before, after, each.commit_id, each.sequence)
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


def moved_on(repository: Repository, pushed: PushedRef) -> Refused:
    """Return the error for a ref that others have moved in the bucket since."""
    return Refused(
        f"this was pushed, and {pushed.kind} {pushed.name} has moved on in the bucket since",
        hint=_other_way(repository, pushed),
    )


def _other_way(repository: Repository, pushed: PushedRef) -> str:
    """Return what to do instead of undoing what others may have seen."""
    uri = f"{repository.uri}/{pushed.name}"
    if pushed.kind is RefKind.BRANCH and pushed.before is not None and pushed.after is not None:
        revert = f"lakecli branch revert {uri} {pushed.after}"
        return f"undo it by another commit: {revert}"
    return f"see what is there first: lakecli fetch {repository.uri}"


if TYPE_CHECKING:
    Position = CommitId | None
    Ref = tuple[str, str]

RESET: Final = "branch reset"
"""The kind of an operation that moves a branch anywhere."""

TO_KNOWN: Final = {RESET, op_log.UNDO, op_log.REDO, op_log.RESTORE}
"""Kinds of operations that move branches to commits which others may have pushed."""


class Moved(NamedTuple):
    """A move of a branch or tag, and the operation that made it here."""

    change: RefChange
    operation: Operation

    @property
    def ref(self) -> Ref:
        """The ref that was moved."""
        return self.change.kind, self.change.name

    @property
    def ends(self) -> tuple[Position, Position]:
        """Its position before and after."""
        return commit_of(self.change.before), commit_of(self.change.after)

    @property
    def key(self) -> tuple[bytes, str, str]:
        """What identifies the move."""
        return self.operation.id, *self.ref


def find_ours(
    txn: ReadTransaction, repository: Repository, moves: Iterable[Moved]
) -> set[tuple[bytes, str, str]]:
    """Return the keys of the moves that this clone made in the bucket, not others the same ones.

    A commit has one author. For other moves the log decides, not dates: clocks may be wrong. It is
    read once: a move of the bucket counts for the operations that are older.
    """
    ours = set()
    asked: dict[int, list[Moved]] = {}
    for moved in moves:
        done = _redone(txn, repository, moved.operation)
        if is_branch_moved(moved) and done.kind not in TO_KNOWN:
            ours.add(moved.key)
            continue
        # A branch that a redo brought to a commit was sent there after the original operation.
        since = done if is_branch_moved(moved) else moved.operation
        asked.setdefault(since.sequence, []).append(moved)
    if not asked:
        return ours
    by_ref: dict[Ref, list[Moved]] = {}
    for together in asked.values():
        for moved in together:
            by_ref.setdefault(moved.ref, []).append(moved)
    sent = {ref: _Sent(txn, repository, found) for ref, found in by_ref.items()}
    for operation in log.iter_operations(txn, repository.key):
        ours |= {each.key for each in asked.pop(operation.sequence, ()) if sent[each.ref].has(each)}
        if not asked:
            break
        _add(sent, operation)
    expired = (each for together in asked.values() for each in together)
    return ours | {each.key for each in expired if sent[each.ref].has(each)}


def is_branch_moved(moved: Moved) -> bool:
    """Return whether a branch was moved, neither made nor deleted."""
    return moved.change.kind is RefKind.BRANCH and None not in moved.ends


def _redone(txn: ReadTransaction, repository: Repository, operation: Operation) -> Operation:
    """Return the operation that a redo did again, or the operation itself."""
    redone = operation.metadata.get(op_log.REDOES)
    found = None if redone is None else log.find(txn, repository.key, bytes.fromhex(redone))
    return operation if found is None else found


def _add(sent: dict[Ref, _Sent], operation: Operation) -> None:
    """Add what an operation moved in the bucket to the refs that it concerns."""
    fields = operation.metadata
    move = fields.get(MOVE, "")
    if operation.kind == "push":
        found = sent.get((fields.get("kind", ""), fields.get("ref", "")))
        if found is not None:
            before, after = (fields.get(name) or None for name in ("before", "after"))
            found.add_push(before and CommitId(before), after and CommitId(after), move)
    for change in operation.refs:
        found = sent.get((change.kind, change.name))
        if found is not None and not is_local(operation, change):
            ends = commit_of(change.before), commit_of(change.after)
            found.add_change(*ends, move, is_new=operation.kind not in TO_KNOWN)


class _Sent:
    """What this clone has moved one ref to in the bucket, as far as the log was read.

    Args:
        txn: the state of the local store.
        repository: the repository of the ref.
        asked: the moves that `has` is called with, all of that ref.
    """

    def __init__(
        self, txn: ReadTransaction, repository: Repository, asked: Sequence[Moved]
    ) -> None:
        ref = asked[0].change
        known = list(iter_known_moves(txn, repository.key, ref.kind, ref.name))
        self._known = {(each.before, each.after) for each in known}
        """The moves of the ref in the bucket; a commit that was shared at once is one."""
        self._creation = next((each for each in known if each.before is None), None)
        ends = [each.ends for each in asked if is_branch_moved(each)]
        refs = RefStore(txn, repository.key)
        self._back = _LeftBehind(refs, {before for before, _ in ends if before is not None})
        self._forward = _LeftBehind(refs, {after for _, after in ends if after is not None})
        self._pushed_to: set[Position] = set()
        self._has_created = False

    def add_push(self, before: Position, after: Position, move: str) -> None:
        """Add a push, with the write ID of its move in the bucket."""
        self._pushed_to.add(after)
        self._add(before, after, move, moves=True)

    def add_change(self, before: Position, after: Position, move: str, *, is_new: bool) -> None:
        """Add a move here, which was shared at once if the bucket has it.

        Args:
            before: the position before.
            after: the position after.
            move: the write ID of the move in the bucket; ``""`` if it was not shared at once.
            is_new: whether others cannot have made the same move.
        """
        self._add(before, after, move, moves=is_new and (before, after) in self._known)

    def _add(self, before: Position, after: Position, move: str, *, moves: bool) -> None:
        self._has_created |= self._creation is not None and self._creation.write_id == move
        if moves:
            self._back.add(before, after)
            self._forward.add(after, before)

    def has(self, moved: Moved) -> bool:
        """Return whether a move was made in the bucket by one of those that were added."""
        before, after = moved.ends
        if is_branch_moved(moved):
            # A branch that was only brought back to where the bucket has it was not moved there.
            return self._back.has_common(before, after) or self._forward.has_common(after, before)
        return self._has_created if before is None else after in self._pushed_to


class _LeftBehind:
    """The commits that moves of a branch left behind, as far as they matter.

    Args:
        refs: the commits.
        asked: the positions that `has_common` is called with.
    """

    def __init__(self, refs: RefStore, asked: set[CommitId]) -> None:
        self._refs = refs
        self._asked = asked
        self._lowest_asked = min(map(self._generation, asked), default=0)
        self._seen: set[tuple[Position, Position]] = set()
        self._left: set[CommitId] = set()
        """The positions asked for that one of the moves left behind."""
        self._starts: set[CommitId] = set()
        """The positions that one of the moves left behind by going elsewhere."""
        self._lowest_start = sys.maxsize

    def add(self, start: Position, end: Position) -> None:
        """Add a move."""
        if (start, end) in self._seen:
            return
        self._seen.add((start, end))
        for commit_id in self._iter_left(start, end, self._lowest_asked):
            if commit_id == start:
                self._starts.add(commit_id)
                self._lowest_start = min(self._lowest_start, self._generation(commit_id))
            if commit_id in self._asked:
                self._left.add(commit_id)

    def has_common(self, start: Position, end: Position) -> bool:
        """Return whether a move leaves a commit behind that one of those added left behind, too.

        That is either the one that it starts from, or the one that the other starts from.
        """
        if not self._starts:
            return False
        left = self._iter_left(start, end, self._lowest_start)
        return any(
            commit_id in self._starts or (commit_id == start and commit_id in self._left)
            for commit_id in left
        )

    def _iter_left(self, start: Position, end: Position, lowest: int) -> Iterator[CommitId]:
        """Yield the commits that `start` reaches and `end` does not, down to a generation."""
        if start is None or self._refs.find_commit(start) is None:
            return
        for commit in iter_unreached(self._refs, start, [] if end is None else [end]):
            yield commit.id
            if commit.generation < lowest:
                return

    def _generation(self, commit_id: CommitId) -> int:
        commit = self._refs.find_commit(commit_id)
        return 0 if commit is None else commit.generation


class UndoneRef(NamedTuple):
    """A ref whose moves are undone.

    Attributes:
        tracked: the ref as it is in the bucket.
        oldest: the oldest of its moves that this clone made there.
        above: where all its moves began, if this clone made each of them there; else where the
            newest of the others ended, which may have brought commits that others had pushed.
    """

    tracked: Tracked
    oldest: Moved
    above: Position


def find_back(
    txn: ReadTransaction, repository: Repository, undone: Sequence[UndoneRef]
) -> list[Position]:
    """Return the positions in the bucket that refs go back to.

    Args:
        txn: the state of the local store.
        repository: the repository of the refs.
        undone: the refs. One that others have moved last there may stay where it is.
    """
    if not undone:
        return []
    sent: dict[Ref, list[tuple[int, str]]] = {each.oldest.ref: [] for each in undone}
    since = min(each.oldest.operation.sequence for each in undone)
    for operation in log.iter_operations(txn, repository.key):
        if operation.sequence < since:
            break  # `_back` uses none of them
        for ref, made in _iter_sent(operation):
            if ref in sent:
                sent[ref].append((operation.sequence, made))
    return [_back(txn, repository, each, sent[each.oldest.ref]) for each in undone]


def _iter_sent(operation: Operation) -> Iterator[tuple[Ref, str]]:
    """Yield the refs that an operation pushed or shared at once, and their moves."""
    fields = operation.metadata
    if operation.kind == "push":
        ref = fields.get("kind", ""), fields.get("ref", "")
        yield ref, fields[MOVE]
    elif MOVE in fields:
        for change in operation.refs:
            yield (change.kind, change.name), fields[MOVE]


def _back(
    txn: ReadTransaction, repository: Repository, undone: UndoneRef, sent: Sequence[tuple[int, str]]
) -> Position:
    """Return the position in the bucket that a ref goes back to."""
    tracked, moved, above = undone
    own = {each for sequence, each in sent if sequence >= moved.operation.sequence}
    stood: Position = tracked.commit_id
    for move in iter_known_moves(txn, repository.key, tracked.kind, tracked.name):
        if move.after != stood or move.write_id not in own:
            break  # what is older may have been put back by others
        stood = move.before
    before, _ = moved.ends
    refs = RefStore(txn, repository.key)
    if stood == tracked.commit_id:
        return above
    if stood is None or not refs.find_commit(stood):
        return before
    if before is not None and tracked.kind is RefKind.BRANCH and is_ancestor(refs, stood, before):
        return before
    return stood
