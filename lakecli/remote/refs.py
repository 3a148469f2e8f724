"""The refs in the bucket and their moves: read one by one, listed, or many in parallel.

The last moves of a ref are in its object, older ones in chunks beside it (the reflog). A full ref
object moves its oldest moves to a chunk, which is named by the newest of them and written before
the PUT that drops them. The ref object alone determines the chunk, so racing writers write the same
one, and a writer that loses leaves no harm. Each chunk determines the name of the next older one,
so reading needs no listing.

The local store keeps the moves that this clone has read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.layout import (
    MAX_REF_SIZE,
    REFS,
    ref_key,
    ref_of_key,
    reflog_key,
    reflog_prefix,
)
from lakecli.base.model import RefKind
from lakecli.base.validation import Invalid
from lakecli.errors import IntegrityError, Unreachable
from lakecli.kv.bucket import ReflogStore
from lakecli.kv.local_store import ReadTransaction, WriteTransaction
from lakecli.remote.ref_records import (
    MAX_MOVES,
    InvalidRecord,
    NotOurs,
    RecordedMove,
    RemoteRef,
    dump_moves,
    move_fields,
    move_of,
    parse_moves,
    parse_ref,
)
from lakecli.stores.contract import ObjectNotFound, Version, get_bounded

if TYPE_CHECKING:
    from concurrent.futures import Future

    from lakecli.stores.contract import ObjectStore

PARALLEL_READS: Final = 16


class ListedRef(NamedTuple):
    """A ref in the listing; its version shows whether it has moved since it was last read."""

    kind: RefKind
    name: str
    version: Version


def find_ref(store: ObjectStore, kind: RefKind, name: str) -> RemoteRef | None:
    """Return a ref, deleted or not, or ``None`` if it never existed.

    Raises:
        NotOurs: the object is not a ref that lakecli wrote.
    """
    try:
        data, version = store.get_versioned(ref_key(kind, name), length=MAX_REF_SIZE + 1)
    except ObjectNotFound:
        return None
    return parse_ref(kind, name, data, version)


def iter_refs(store: ObjectStore) -> Iterator[ListedRef]:
    """Yield the refs, deleted ones too, in the order of their keys; other objects are skipped.

    It takes one LIST per thousand. A store may list late, so a ref missing here may exist.
    """
    for info in store.list(REFS):
        ref = ref_of_key(info.key)
        if ref is not None:
            yield ListedRef(*ref, info.version)


def read_refs(
    store: ObjectStore,
    wanted: Iterable[ListedRef],
    *,
    parallelism: int = PARALLEL_READS,
    on_bad: Callable[[InvalidRecord], None] | None = None,
) -> Iterator[RemoteRef]:
    """Yield refs in the order of `wanted`, one GET each; absent refs are left out.

    Args:
        store: of the namespace.
        wanted: the refs.
        parallelism: requests at a time.
        on_bad: called with each object that is not a valid ref, which is then left out; without it,
            `NotOurs` is raised.

    Raises:
        NotOurs: an object is not a ref that lakecli wrote.
    """

    def read(listed: ListedRef) -> RemoteRef | InvalidRecord | None:
        try:
            return find_ref(store, listed.kind, listed.name)
        except NotOurs as error:
            if on_bad is None:
                raise
            return InvalidRecord(
                listed.kind, listed.name, ref_key(listed.kind, listed.name), error.message
            )

    reading: deque[Future[RemoteRef | InvalidRecord | None]] = deque()

    def take() -> Iterator[RemoteRef]:
        found = reading.popleft().result()
        if isinstance(found, InvalidRecord):
            assert on_bad is not None
            on_bad(found)
        elif found is not None:
            yield found

    from concurrent.futures import ThreadPoolExecutor  # it loads logging, at every start

    pool = ThreadPoolExecutor(parallelism)
    try:
        for listed in wanted:
            reading.append(pool.submit(read, listed))
            if len(reading) == 2 * parallelism:
                yield from take()
        while reading:
            yield from take()
    finally:
        pool.shutdown(cancel_futures=True)


KEPT_MOVES: Final = MAX_MOVES // 2 + 1
"""Moves that stay in a ref object, the new one included, when the others become a chunk."""


def spill(
    store: ObjectStore, kind: RefKind, name: str, moves: tuple[RecordedMove, ...]
) -> tuple[RecordedMove, ...]:
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


def _check_spilled(store: ObjectStore, key: str, moves: tuple[RecordedMove, ...]) -> None:
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


def iter_moves(store: ObjectStore, ref: RemoteRef) -> Iterator[RecordedMove]:
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


def find_move(store: ObjectStore, ref: RemoteRef, sequence: int) -> RecordedMove | None:
    """Return the move of a ref with a number, or ``None`` if it is kept no longer.

    For those in the ref's object no request is sent, for an older one up to three.

    Raises:
        NotOurs: an object of the reflog is not ours.
    """
    moves = ref.moves
    if moves and sequence < moves[-1].sequence:
        moves = _read_chunk(store, ref, sequence)
    return next((move for move in moves if move.sequence == sequence), None)


def _read_chunk(store: ObjectStore, ref: RemoteRef, newest: int) -> tuple[RecordedMove, ...]:
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


def put_known_moves(
    txn: WriteTransaction,
    repository: bytes,
    kind: RefKind,
    name: str,
    moves: Iterable[RecordedMove],
) -> None:
    """Store moves of a ref; moves that are known already stay unchanged."""
    ReflogStore(txn, repository).put_moves(kind, name, map(move_fields, moves))


def iter_known_moves(
    txn: ReadTransaction, repository: bytes, kind: RefKind, name: str
) -> Iterator[RecordedMove]:
    """Yield the moves of a ref that this clone knows, newest first.

    Raises:
        IntegrityError: a record in the local store is damaged.
    """
    try:
        yield from map(move_of, ReflogStore(txn, repository).iter_moves(kind, name))
    except Invalid as error:
        raise IntegrityError(
            "the local store holds a move of a ref that is not valid",
            hint="the store may be damaged: move it away and start a new one",
        ) from error
