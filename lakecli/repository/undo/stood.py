"""Where refs go back to in the bucket: as here, but not behind what the bucket had there before.

Before a merge, a reset or a forced push, a branch may be here without commits that others had
pushed by then, and a tag may be elsewhere. Such a ref goes back to where it stood in the bucket
before this clone moved it there.

Others may have taken a move of this clone back and made it again, which stays. So moves are
compared by their write IDs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lakecli.base.model import RefKind
from lakecli.kv import operations as log
from lakecli.kv.bucket import Tracked
from lakecli.kv.env import ReadTransaction
from lakecli.kv.operations import Operation
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.remote.known import iter_moves
from lakecli.repository.core.lake import Repository
from lakecli.repository.core.ref_changes import MOVE
from lakecli.repository.undo.ours import Moved

if TYPE_CHECKING:
    from lakecli.repository.undo.ours import Position, Ref


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
    for move in iter_moves(txn, repository.key, tracked.kind, tracked.name):
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
