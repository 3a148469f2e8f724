"""Moves that this clone made in the bucket: which it may undo there, and where refs go back to.

Which moves this clone made in the bucket, and may undo there.

Where refs go back to in the bucket: as here, but not behind what the bucket had there before.

Before a merge, a reset or a forced push, a branch may be here without commits that others had
pushed by then, and a tag may be elsewhere. Such a ref goes back to where it stood in the bucket
before this clone moved it there.

Others may have taken a move of this clone back and made it again, which stays. So moves are
compared by their write IDs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.model import CommitId, RefKind
from lakecli.kv import operations as log
from lakecli.kv.bucket import Tracked
from lakecli.kv.env import ReadTransaction
from lakecli.kv.operations import Operation, RefChange
from lakecli.refs.graph import is_ancestor, iter_unreached
from lakecli.refs.ref_store import RefStore
from lakecli.remote.refs import iter_known_moves
from lakecli.repository.contract import Repository
from lakecli.repository.records.ref_changes import MOVE, commit_of, is_local
from lakecli.repository.undo import log as op_log

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
    if operation.kind == "push":
        found = sent.get((fields.get("kind", ""), fields.get("ref", "")))
        if found is not None:
            found.add_push(*_pushed_ends(operation), move=fields[MOVE])
    for change in operation.refs:
        found = sent.get((change.kind, change.name))
        if found is not None and not is_local(operation, change):
            ends = commit_of(change.before), commit_of(change.after)
            is_new = operation.kind not in TO_KNOWN
            found.add_change(*ends, is_new=is_new, move=fields.get(MOVE, ""))


def _pushed_ends(push: Operation) -> tuple[Position, Position]:
    """Return the position before and after a push, in the bucket."""
    before, after = push.metadata.get("before"), push.metadata.get("after")
    return CommitId(before) if before else None, CommitId(after) if after else None


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

    def add_push(self, before: Position, after: Position, *, move: str) -> None:
        """Add a push, with the write ID of its move in the bucket."""
        self._add_move(move)
        self._pushed_to.add(after)
        self._add(before, after)

    def add_change(self, before: Position, after: Position, *, is_new: bool, move: str) -> None:
        """Add a move here, which was shared at once if the bucket has it.

        Args:
            before: the position before.
            after: the position after.
            is_new: whether others cannot have made the same move.
            move: the write ID of the move in the bucket; ``""`` if it was not shared at once.
        """
        self._add_move(move)
        if is_new and (before, after) in self._known:
            self._add(before, after)

    def _add_move(self, move: str) -> None:
        self._has_created |= self._creation is not None and self._creation.write_id == move

    def _add(self, before: Position, after: Position) -> None:
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


class Undone(NamedTuple):
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
    txn: ReadTransaction, repository: Repository, undone: Sequence[Undone]
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
    txn: ReadTransaction, repository: Repository, undone: Undone, sent: Sequence[tuple[int, str]]
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
