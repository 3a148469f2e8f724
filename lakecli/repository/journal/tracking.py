"""Tracked refs: the commits and moves of the bucket's refs when this clone last read them."""

from collections.abc import Iterable, Iterator

from lakecli.base.model import RefKind
from lakecli.base.validation import Invalid
from lakecli.kv.bucket import ReflogStore, Tracked
from lakecli.kv.local_store import ReadTransaction, WriteTransaction
from lakecli.kv.store_errors import malformed
from lakecli.remote.ref_records import RecordedMove, RemoteRef, move_fields, move_of
from lakecli.remote.refs import find_move
from lakecli.repository.readable import Refs
from lakecli.stores.contract import ObjectStore


def track(txn: WriteTransaction, repository: Refs, ref: RemoteRef) -> None:
    """Record the commit and the moves of a ref in the bucket, unless a newer state is recorded.

    If this clone lacks the commit, nothing is recorded until the next fetch.
    """
    if ref.commit_id and repository.refs(txn).find_commit(ref.commit_id) is None:
        return
    tracking = repository.tracking(txn)
    put_known_moves(txn, repository, ref.kind, ref.name, ref.moves)
    known = tracking.find(ref.kind, ref.name)
    if known is None or known.sequence <= ref.sequence:
        tracking.put(
            Tracked(ref.kind, ref.name, ref.commit_id, ref.sequence, ref.write_id, ref.version)
        )


def track_now(repository: Refs, ref: RemoteRef | None) -> None:
    """Track a ref in a separate transaction; do nothing if `ref` is ``None``."""
    if ref is not None:
        with repository.lake.kv.write() as txn:
            track(txn, repository, ref)


def put_known_moves(
    txn: WriteTransaction, repository: Refs, kind: RefKind, name: str, moves: Iterable[RecordedMove]
) -> None:
    """Record moves of a ref in the bucket; moves that are recorded already stay unchanged."""
    ReflogStore(txn, repository.key).put_moves(kind, name, [move_fields(each) for each in moves])


def iter_known_moves(
    txn: ReadTransaction, repository: Refs, kind: RefKind, name: str
) -> Iterator[RecordedMove]:
    """Yield the moves of a ref in the bucket that this clone has read, newest first."""
    try:
        yield from map(move_of, ReflogStore(txn, repository.key).iter_moves(kind, name))
    except Invalid as error:
        raise malformed("the local store holds a move of a ref that is not valid") from error


def went_back(store: ObjectStore, seen: Tracked, ref: RemoteRef | None) -> bool:
    """Return whether a ref in the bucket was rolled back since this clone last saw it.

    Args:
        store: the namespace, which is read only if the ref has moved many times since.
        seen: the ref as this clone last saw it.
        ref: the ref as it is now; ``None``: it is missing.
    """
    if ref is None or ref.sequence < seen.sequence:
        return True
    if ref.sequence == seen.sequence:
        return ref.write_id != seen.write_id
    # The ref may have been rolled back, and then moved past the sequence number seen before.
    move = find_move(store, ref, seen.sequence)
    return move is not None and move.write_id != seen.write_id


def shows_rollback(repository: Refs, kind: RefKind, name: str, ref: RemoteRef | None) -> bool:
    """Return whether a ref that was just read shows that the bucket was rolled back."""
    with repository.lake.kv.read() as txn:
        seen = repository.tracking(txn).find(kind, name)
    return seen is not None and went_back(repository.store, seen, ref)
