"""The moves of a ref: the last ones in its object, older ones in chunks beside it.

A full ref object moves its oldest moves to a chunk, which is named by the newest of them and
written before the PUT that drops them. The ref object alone determines the chunk, so racing writers
write the same one, and a writer that loses leaves no harm. Each chunk determines the name of the
next older one, so reading needs no listing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from lakecli.base.layout import MAX_REF_SIZE, reflog_key, reflog_prefix
from lakecli.base.model import RefKind
from lakecli.errors import Unreachable
from lakecli.remote.ref_records import MAX_MOVES, Move, NotOurs, RemoteRef, dump_moves, parse_moves
from lakecli.stores.contract import ObjectNotFound, get_bounded

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

KEPT_MOVES: Final = MAX_MOVES // 2 + 1
"""Moves that stay in a ref object, the new one included, when the others become a chunk."""


def spill(
    store: ObjectStore, kind: RefKind, name: str, moves: tuple[Move, ...]
) -> tuple[Move, ...]:
    """Return the moves that stay in the ref's object; write the others to the reflog.

    Args:
        store: of the namespace.
        kind: of the ref.
        name: of the ref.
        moves: all moves, newest first.

    Raises:
        Unreachable: the chunk could not be written.
        NotOurs: the chunk exists, with other moves.
    """
    if len(moves) <= MAX_MOVES:
        return moves
    older = moves[KEPT_MOVES:]
    key = reflog_key(kind, name, older[0].sequence)
    if not store.put_new(key, dump_moves(older)):
        _check_spilled(store, key, older)
    return moves[:KEPT_MOVES]


def _check_spilled(store: ObjectStore, key: str, moves: tuple[Move, ...]) -> None:
    """Verify that a chunk exists: a store may also refuse because of a PUT that fails later."""
    try:
        found = parse_moves(key, get_bounded(store, key, MAX_REF_SIZE))
    except ObjectNotFound as error:
        raise Unreachable(
            f"the store refuses to write {key}, although it does not exist",
            hint="wait and repeat the command",
        ) from error
    if found != moves:
        raise NotOurs(
            f"{key} holds moves that do not belong there",
            hint="another program writes into this namespace: restore the object from a backup",
        )


def iter_moves(store: ObjectStore, ref: RemoteRef) -> Iterator[Move]:
    """Yield all moves of a ref, newest first; those in its object cost no request.

    One GET reads 16 older moves. The result ends early where older chunks were deleted.

    Raises:
        NotOurs: an object of the reflog is not ours.
    """
    yield from ref.moves
    wanted = (ref.moves[-1].sequence if ref.moves else ref.sequence + 1) - 1
    while wanted > 0:
        moves = _read_chunk(store, ref, wanted)
        if not moves:
            return
        yield from moves
        wanted = moves[-1].sequence - 1


def find_move(store: ObjectStore, ref: RemoteRef, sequence: int) -> Move | None:
    """Return the move of a ref with a number, or ``None`` if it is kept no longer.

    For those in the ref's object no request is sent, for an older one up to three.

    Raises:
        NotOurs: an object of the reflog is not ours.
    """
    moves = ref.moves
    if moves and sequence < moves[-1].sequence:
        moves = _read_chunk(store, ref, sequence)
    return next((move for move in moves if move.sequence == sequence), None)


def _read_chunk(store: ObjectStore, ref: RemoteRef, newest: int) -> tuple[Move, ...]:
    """Return older moves from number `newest` down, or none if there are no more."""
    key = reflog_key(ref.kind, ref.name, newest)
    try:
        data = get_bounded(store, key, MAX_REF_SIZE)
    except ObjectNotFound:
        # Other versions may cut chunks elsewhere: the next one in the listing holds this move.
        found = next(store.list(reflog_prefix(ref.kind, ref.name), after=key), None)
        if found is None:
            return ()
        key = found.key
        try:
            data = get_bounded(store, key, MAX_REF_SIZE)
        except ObjectNotFound:
            return ()
    moves = parse_moves(key, data)
    if key != reflog_key(ref.kind, ref.name, moves[0].sequence):
        raise NotOurs(
            f"{key} says that its newest move is number {moves[0].sequence}",
            hint="it was copied or renamed in the bucket: move it back to its own key",
        )
    return tuple([move for move in moves if move.sequence <= newest])
