"""Where refs go back to in the bucket: as here, but not behind what the bucket had there before.

Before a merge, a reset or a forced push, a branch may be here without commits that others had
pushed by then, and a tag may be elsewhere. Such a ref goes back to where it stood in the bucket
before this clone moved it there.

Moves are compared by their ends. Others may have taken a move of this clone back and made it again:
that is undone as well, since it brought only what the undone operations brought.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lakecli.kv import operations as log
from lakecli.model import CommitId, RefKind
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.remote.known import iter_moves
from lakecli.repository.core.ref_changes import is_local
from lakecli.repository.undo.ours import TO_KNOWN, Moved, is_branch_moved

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakecli.kv.env import ReadTransaction
    from lakecli.kv.operations import Operation
    from lakecli.kv.tracking import Tracked
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.undo.ours import Position, Ref

    Ends = tuple[Position, Position]


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
    sent: dict[Ref, list[tuple[int, Ends]]] = {each.oldest.ref: [] for each in undone}
    since = min(each.oldest.operation.sequence for each in undone)
    for operation in log.iter_operations(txn, repository.key):
        if operation.sequence < since:
            break  # `_back` uses none of them
        for ref, ends in _iter_sent(operation):
            if ref in sent:
                sent[ref].append((operation.sequence, ends))
    return [_back(txn, repository, each, sent[each.oldest.ref]) for each in undone]


def _iter_sent(operation: Operation) -> Iterator[tuple[Ref, Ends]]:
    """Yield the refs that an operation pushed or shared at once, if the bucket took the move.

    Only a new commit is shared at once, which may make a branch there that was made here by an
    earlier operation. All else was sent by a push, if at all: others may have made the same move.
    """
    fields = operation.metadata
    if operation.kind == "push":
        before, after = fields.get("before"), fields.get("after")
        ends = CommitId(before) if before else None, CommitId(after) if after else None
        yield (fields.get("kind", ""), fields.get("ref", "")), ends
    if operation.kind in TO_KNOWN:
        return
    for change in operation.refs:
        moved = Moved(change, operation)
        before, after = moved.ends
        if is_branch_moved(moved) and not is_local(operation, change):
            yield moved.ref, (before, after)
            yield moved.ref, (None, after)


def _back(
    txn: ReadTransaction, repository: Repository, undone: Undone, sent: Sequence[tuple[int, Ends]]
) -> Position:
    """Return the position in the bucket that a ref goes back to."""
    tracked, moved, above = undone
    own = {ends for sequence, ends in sent if sequence >= moved.operation.sequence}
    stood: Position = tracked.commit_id
    for move in iter_moves(txn, repository.key, tracked.kind, tracked.name):
        if move.after != stood or (move.before, move.after) not in own:
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
