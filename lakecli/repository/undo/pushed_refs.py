"""Find out which operations were pushed, and to which commits undo moves refs in the bucket.

Without `remote`, undoing an operation that was pushed is refused. With `remote`, each ref is also
moved back in the bucket (`lakecli.repository.undo.remote_undo`), if it still points to the commit
to which the operation moved it. The ref moves to the commit that it has on this machine after the
undo. But if its commit in the bucket before the operation was newer, the ref moves to that commit.

Only moves that this clone made in the bucket are undone in the bucket. Moves are compared by their
write IDs: if another clone has undone a move of this clone and then made the same move, that move
is not undone. Before a merge, a reset or a forced push, a branch on this machine may lack commits
that others had already pushed, and a tag may differ from the bucket's tag. Such a ref moves back to
the commit that it had in the bucket before this clone moved it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.model import CommitId, RefKind
from lakecli.errors import LostRace, Refused
from lakecli.kv import operations as log
from lakecli.kv.bucket import Tracked
from lakecli.kv.local_store import ReadTransaction
from lakecli.kv.operations import MOVE, Operation, RefChange
from lakecli.refs.graph import is_ancestor, iter_unreached
from lakecli.refs.ref_store import RefStore
from lakecli.remote.refs import find_ref
from lakecli.repository.contract import Repository
from lakecli.repository.handle.namespace import check_writable
from lakecli.repository.journal.tracking import iter_known_moves
from lakecli.repository.journal.unsent_moves import is_local
from lakecli.repository.undo import log as op_log

_BACK: Final = {op_log.UNDO, op_log.RESTORE}
"""Kinds of operations that move branches back. Undoing such an operation moves branches forward, so
it can only leave commits that are not pushed yet."""


class PushedRef(NamedTuple):
    """A ref whose move was pushed.

    Attributes:
        kind: a branch or a tag.
        before: the commit to which the ref moves back in the bucket; ``None`` deletes the ref.
        after: the commit to which the operation moved the ref; ``None`` if it deleted the ref.
        stands: the commit of the ref in the bucket, as last seen.
        sequence: the number of the ref's last move in the bucket, as last seen.
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
    """Return the refs to move back in the bucket if some operations are undone.

    This function moves nothing. If there are such refs, it checks in the bucket that the moves
    would succeed.

    Args:
        taken: the operations to undo, newest first.
        remote: whether refs in the bucket may be moved; if not, an error is raised if a ref would
            have to move.

    Raises:
        Refused: an operation was pushed and `remote` is not set, or others have moved a ref since.
        Unreachable: the bucket has to be read, but does not answer.
        CannotShare, NewerRepository: refs in this bucket cannot be moved.
    """
    with repository.lake.kv.read() as txn:
        pushed = find_pushed(txn, repository, taken, remote=remote)
    if not pushed:
        return []
    for each in pushed:
        if each.stands == each.before or each.stands != each.after:  # others made the last move
            raise moved_on(repository, each)
    if not remote:
        names = ", ".join(f"{each.kind} {each.name}" for each in pushed)
        other_way = _other_way(repository, pushed[0])
        hint = f"undo it in the bucket too: `remote=True`; or {other_way}"
        raise Refused(f"this was pushed: {names}", hint=hint)

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
    """Raise `LostRace` if operations were pushed after `find_to_move_back` was called."""
    pushed = find_pushed(txn, repository, taken, remote=remote)
    if found := [each for each in pushed if each not in planned]:
        names = ", ".join(f"{each.kind} {each.name}" for each in found)
        hint = "repeat the command; it says how to undo what was pushed"
        raise LostRace(f"this was pushed meanwhile, nothing was undone: {names}", hint=hint)


def find_pushed(
    txn: ReadTransaction, repository: Repository, taken: Sequence[Operation], *, remote: bool
) -> list[PushedRef]:
    """Return the pushed refs that would be behind the bucket if some operations were undone.

    Args:
        taken: the operations to undo, newest first.
        remote: also return branches that an undo or restore has moved back in the bucket, and
            branches with later commits that were never pushed.
    """
    anywhere = {RESET, *(_BACK if remote else ())}
    moves: dict[tuple[RefKind, str], list[Moved]] = {}
    for operation in taken:
        for change in operation.refs:
            if change.kind is not RefKind.REPOSITORY:
                moves.setdefault((change.kind, change.name), []).append(Moved(change, operation))
    tracking = repository.tracking(txn)
    runs: list[tuple[Tracked, list[Moved]]] = []
    for (kind, name), moved in moves.items():
        tracked = tracking.find(kind, name)
        if tracked is not None:
            own_runs = _own_runs(moved)
            runs += ((tracked, _pushed_part(own, tracked) if remote else own) for own in own_runs)
    ours = find_ours(txn, repository, [each for _, run in runs for each in run])
    since = min((operation.sequence for operation in taken), default=0)
    newer = takewhile(lambda each: each.sequence >= since, log.iter_operations(txn, repository.key))
    sent = {each.metadata[MOVE]: each.sequence for each in newer if MOVE in each.metadata}
    pushed = []
    for tracked, run in runs:
        oldest = next((each for each in reversed(run) if each in ours), None)
        if oldest is None:
            continue
        before, after = ends = oldest.change.commit_before, run[0].change.commit_after
        resets = any(each.operation.kind in anywhere for each in run)
        if before == after or not _has_seen(txn, repository, tracked, ends, resets=resets):
            continue
        # Another clone's move may have added commits that others had pushed.
        other = next((each for each in run if each not in ours), None)
        above = before if other is None else other.ends[1]
        own = {move for move, sequence in sent.items() if sequence >= oldest.operation.sequence}
        back = _back(txn, repository, tracked, own, before=before, above=above)
        where = (tracked.commit_id, tracked.sequence)
        pushed.append(PushedRef(tracked.kind, tracked.name, back, after, *where))
    return pushed


def _own_runs(moves: Sequence[Moved]) -> Iterator[list[Moved]]:
    """Yield the runs of consecutive moves of a ref that this machine made, newest first.

    A move that came from the bucket separates two runs. The older run cannot be moved back in the
    bucket, because others have built on it.
    """
    moving = (each for each in moves if each.change.moves_commit)
    for is_fetched, run in groupby(moving, lambda each: is_local(each.operation, each.change)):
        if not is_fetched:
            yield list(run)


def _pushed_part(run: list[Moved], tracked: Tracked) -> list[Moved]:
    """Return the moves up to the ref's commit in the bucket; all moves if none ends there."""
    if tracked.commit_id is None:
        return run
    ends = (number for number, each in enumerate(run) if each.ends[1] == tracked.commit_id)
    return run[next(ends, 0) :]


def _has_seen(
    txn: ReadTransaction, repository: Repository, tracked: Tracked, ends: Ends, *, resets: bool
) -> bool:
    """Return whether a move of a ref was made in the bucket, even if later moves followed.

    Args:
        tracked: the ref, and the commit at which it was last seen in the bucket.
        ends: the commits before and after the move.
        resets: whether the move may drop commits, like a reset. If so, it does not suffice that the
            branch in the bucket has the commit after the move, because it may never have had the
            commit before the move. One of the known moves in the bucket must also have dropped
            commits.
    """
    refs = repository.refs(txn)
    (before, after), stands = ends, tracked.commit_id
    is_branch = tracked.kind is RefKind.BRANCH
    moves = iter_known_moves(txn, repository, tracked.kind, tracked.name)
    if after is None or stands is None:
        last = next(moves, None)
        if after is not None or stands is not None or last is None or last.after is not None:
            return False
        # A branch that was deleted may have had commits that were never pushed.
        return last.before == before or (is_branch and _reaches(refs, before, last.before))
    if not resets or before is None or is_ancestor(refs, before, after):
        if not is_branch:
            return stands == after
        is_older = before is not None and is_ancestor(refs, stands, before)
        return not is_older and is_ancestor(refs, after, stands)
    if not is_ancestor(refs, after, stands) or is_ancestor(refs, before, stands):
        return False
    later = (move for move in moves if move.before and _reaches(refs, stands, move.after))
    return any(not _reaches(refs, stands, move.before) for move in later)


def _reaches(refs: RefStore, commit_id: CommitId | None, ancestor: CommitId | None) -> bool:
    """Return whether a commit has an ancestor; false if the ancestor is not on this machine."""
    if commit_id is None or ancestor is None or refs.find_commit(ancestor) is None:
        return False
    return is_ancestor(refs, ancestor, commit_id)


def moved_on(repository: Repository, pushed: PushedRef) -> Refused:
    """Return the error for a ref that others have moved in the bucket since the operation."""
    what = f"this was pushed, and {pushed.kind} {pushed.name} has moved on in the bucket since"
    return Refused(what, hint=_other_way(repository, pushed))


def _other_way(repository: Repository, pushed: PushedRef) -> str:
    """Return a hint with another way to reverse a move that others may have seen."""
    uri = f"{repository.uri}/{pushed.name}"
    if pushed.kind is RefKind.BRANCH and pushed.before is not None and pushed.after is not None:
        with repository.lake.kv.read() as txn:
            made = repository.refs(txn).find_commit(pushed.after)
        parents = () if made is None else made.parents
        number = 1 + parents.index(pushed.before) if pushed.before in parents else 1
        which = f" --parent-number {number}" if parents[1:] else ""
        return f"undo it by another commit: `branch revert {uri} {pushed.after}{which}`"
    return f"see what is there first: `fetch {repository.uri}`"


if TYPE_CHECKING:
    Position = CommitId | None
    Ends = tuple[Position, Position]
    Ref = tuple[str, str]

RESET: Final = "branch reset"
"""The kind of operations that may move a branch to any commit."""

TO_KNOWN: Final = {RESET, op_log.UNDO, op_log.REDO, op_log.RESTORE}
"""Kinds of operations that may move branches to commits that others have pushed."""


@dataclass(frozen=True, eq=False)
class Moved:
    """A move of a branch or tag on this machine, and the operation that made the move."""

    change: RefChange
    operation: Operation

    @property
    def ref(self) -> Ref:
        """The ref that was moved."""
        return self.change.kind, self.change.name

    @property
    def ends(self) -> Ends:
        """The commits of the ref before and after the move."""
        return self.change.commits


def find_ours(txn: ReadTransaction, repository: Repository, moves: Iterable[Moved]) -> set[Moved]:
    """Return the moves that this clone made in the bucket.

    If a branch was moved to a new commit, this clone made the move, because only one clone makes a
    commit. For other moves, the order of the operation log decides, because dates may be wrong: a
    push or shared move in the log counts for all older operations. The log is read once, newest
    first.
    """
    ours = set[Moved]()
    asked: dict[int, list[Moved]] = {}
    for moved in moves:
        done = _redone(txn, repository, moved.operation)
        if is_branch_moved(moved) and done.kind not in TO_KNOWN:
            ours.add(moved)
            continue
        # If a redo moved a branch to a commit, the push came after the original operation.
        since = done if is_branch_moved(moved) else moved.operation
        asked.setdefault(since.sequence, []).append(moved)
    if not asked:
        return ours
    refs = {each.ref for together in asked.values() for each in together}
    sent = {each: _Sent(txn, repository, each) for each in refs}
    for operation in log.iter_operations(txn, repository.key):
        ours |= {each for each in asked.pop(operation.sequence, ()) if sent[each.ref].has(each)}
        if not asked:
            break
        _add(sent, operation)
    expired = (each for together in asked.values() for each in together)
    return ours | {each for each in expired if sent[each.ref].has(each)}


def is_branch_moved(moved: Moved) -> bool:
    """Return whether an existing branch was moved; creating or deleting it does not count."""
    return moved.change.kind is RefKind.BRANCH and None not in moved.ends


def _redone(txn: ReadTransaction, repository: Repository, operation: Operation) -> Operation:
    """Return the original operation if `operation` is a redo, else `operation` itself."""
    redone = operation.metadata.get(op_log.REDOES)
    found = None if redone is None else log.find(txn, repository.key, bytes.fromhex(redone))
    return operation if found is None else found


def _add(sent: dict[Ref, _Sent], operation: Operation) -> None:
    """Add the moves of an operation to the entries of its refs in `sent`."""
    fields = operation.metadata
    move = fields.get(MOVE, "")
    if operation.kind == "push":
        found = sent.get((fields.get("kind", ""), fields.get("ref", "")))
        if found is not None:
            before, after = (fields.get(name) or None for name in ("before", "after"))
            found.pushed_to.add(after and CommitId(after))
            found.add(before and CommitId(before), after and CommitId(after), move, moves=True)
    for change in operation.refs:
        found = sent.get((change.kind, change.name))
        if found is not None and not is_local(operation, change):
            # Automatic sharing may have made the move. A move to a known commit does not prove
            # that, because another clone may have made the same move.
            moves = operation.kind not in TO_KNOWN and change.commits in found.known
            found.add(*change.commits, move, moves=moves)


class _Sent:
    """The moves of one ref that this clone made in the bucket, as far as the log has been read.

    Attributes:
        known: the moves of the ref in the bucket that this clone has read, as (before, after); they
            include moves by automatic sharing.
        pushed_to: the commits to which pushes moved the ref.
    """

    def __init__(self, txn: ReadTransaction, repository: Repository, ref: Ref) -> None:
        known = list(iter_known_moves(txn, repository, RefKind(ref[0]), ref[1]))
        self.known = {(each.before, each.after) for each in known}
        self.pushed_to: set[Position] = set()
        self._creation = next((each for each in known if each.before is None), None)
        refs = repository.refs(txn)
        self._back, self._forward = _LeftBehind(refs), _LeftBehind(refs)
        self._has_created = False

    def add(self, before: Position, after: Position, move: str, *, moves: bool) -> None:
        """Add a push, or a move on this machine.

        Args:
            move: the write ID of the move in the bucket; ``""`` if the move was not shared.
            moves: whether this clone has made the move in the bucket.
        """
        self._has_created |= self._creation is not None and self._creation.write_id == move
        if moves:
            self._back.add(before, after)
            self._forward.add(after, before)

    def has(self, moved: Moved) -> bool:
        """Return whether the added moves show that this clone made a move in the bucket."""
        before, after = moved.ends
        if is_branch_moved(moved):
            # A branch that only moved back to its commit in the bucket was not moved there.
            return self._back.has_common(before, after) or self._forward.has_common(after, before)
        return self._has_created if before is None else after in self.pushed_to


class _LeftBehind:
    """The commits that moves of a branch dropped, so that the branch no longer reaches them."""

    def __init__(self, refs: RefStore) -> None:
        self._refs = refs
        self._seen: set[tuple[Position, Position]] = set()
        self._left: set[CommitId] = set()
        self._starts: set[Position] = set()
        """The commits at which added moves start, if they dropped commits."""

    def add(self, start: Position, end: Position) -> None:
        """Add a move from one commit to another."""
        if (start, end) not in self._seen and (left := self._left_by(start, end)):
            self._left |= left
            self._starts.add(start)
        self._seen.add((start, end))

    def has_common(self, start: Position, end: Position) -> bool:
        """Return whether a move and an added move drop the same commit.

        Only the commits at which the two moves start are considered.
        """
        if not self._starts or not (left := self._left_by(start, end)):
            return False
        return start in self._left or not self._starts.isdisjoint(left)

    def _left_by(self, start: Position, end: Position) -> set[CommitId]:
        """Return the commits that `start` reaches and `end` does not; none for an unknown start."""
        if start is None or self._refs.find_commit(start) is None:
            return set()
        ends = [] if end is None else [end]
        return {commit.id for commit in iter_unreached(self._refs, start, ends)}


def _back(
    txn: ReadTransaction,
    repository: Repository,
    tracked: Tracked,
    own: Collection[str],
    *,
    before: Position,
    above: Position,
) -> Position:
    """Return the commit to which a ref in the bucket moves back.

    Args:
        tracked: the ref. If others made its last move in the bucket, the ref may stay at its
            commit.
        own: the write IDs of the moves in the bucket that this clone made since the oldest undone
            move.
        before: the commit before the oldest undone move that this clone made in the bucket.
        above: the commit after the newest move of others among the undone moves; it may contain
            commits that others had pushed. If this clone made all undone moves, `above` is equal to
            `before`.
    """
    stood: Position = tracked.commit_id
    for move in iter_known_moves(txn, repository, tracked.kind, tracked.name):
        if move.after != stood or move.write_id not in own:
            break  # others may have reversed older moves
        stood = move.before
    refs = repository.refs(txn)
    if stood == tracked.commit_id:
        return above
    if stood is None or not refs.find_commit(stood):
        return before
    if before is not None and tracked.kind is RefKind.BRANCH and is_ancestor(refs, stood, before):
        return before
    return stood
