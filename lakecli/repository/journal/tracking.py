"""What this clone knows of the refs in the bucket: their positions and moves when it read them.

The last part notices that a bucket went back in time: a restored backup, or a replica that lags
behind. The sequence number of a ref only grows, and a ref object is never deleted. So the bucket
went back if a ref has a lower number than this clone has seen, has another move under a number that
it has seen, or is missing. Then nothing recorded of such refs counts: their positions and moves are
replaced by the present ones, packs that are not listed are forgotten, and the next push verifies
data that was uploaded before, however young it is.

::

    META  fetched/ ‖ repository  -> when the bucket was last read, and the state of collection then
          pushed/ ‖ repository   -> when this clone last moved a ref there, unix seconds in JSON
          rollback/ ‖ repository -> when the bucket was noticed to have gone back, and the refs with
                                    the commits on which they stood before, as JSON
"""

import json
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from lakecli.base.model import CommitId, RefKind
from lakecli.base.validation import Invalid
from lakecli.errors import IntegrityError
from lakecli.kv.bucket import PackedStore, ReflogStore, Tracked, TrackingStore
from lakecli.kv.local_store import ReadTransaction, Table, WriteTransaction
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.remote.ref_records import NotOurs, RecordedMove, RemoteRef, move_fields, move_of
from lakecli.remote.refs import find_move
from lakecli.repository.contract import Notice, Repository
from lakecli.stores.contract import ObjectStore


class LastFetch(NamedTuple):
    """The last time that all refs were read.

    Attributes:
        at: when, by this machine's clock.
        phase: the phase of garbage collection then.
        epoch: the epoch of garbage collection then.
    """

    at: datetime
    phase: str
    epoch: int


def positions(txn: ReadTransaction, repository: Repository) -> set[CommitId]:
    """Return the commits that the bucket's refs stood on when this clone last read them."""
    tracked = TrackingStore(txn, repository.key).iter()
    return {each.commit_id for each in tracked if each.commit_id is not None}


def find_fetched(txn: ReadTransaction, repository: Repository) -> LastFetch | None:
    """Return when all refs were last read, or ``None`` if they never were."""
    data = txn.get(Table.META, _key(repository))
    if data is None:
        return None
    fields = json.loads(data)
    at = datetime.fromtimestamp(fields["at"], UTC)
    return LastFetch(at, fields["phase"], fields["epoch"])


def put_fetched(txn: WriteTransaction, repository: Repository, fetched: LastFetch) -> None:
    """Record that all refs were read."""
    fields = {**fetched._asdict(), "at": int(fetched.at.timestamp())}
    txn.put(Table.META, _key(repository), json.dumps(fields).encode("ascii"))


def find_pushed_at(txn: ReadTransaction, repository: Repository) -> datetime | None:
    """Return when this clone last moved a ref in the bucket, by its own clock, or ``None``."""
    data = txn.get(Table.META, _pushed_key(repository))
    return None if data is None else datetime.fromtimestamp(json.loads(data), UTC)


def put_pushed_at(txn: WriteTransaction, repository: Repository, at: datetime) -> None:
    """Record that a ref was moved in the bucket."""
    txn.put(Table.META, _pushed_key(repository), b"%d" % int(at.timestamp()))


def track(txn: WriteTransaction, repository: Repository, ref: RemoteRef) -> bool:
    """Record the position of a ref in the bucket, and its moves; older ones change nothing.

    A position whose commit this clone lacks is left to the next fetch.

    Returns:
        Whether the position is recorded.
    """
    if ref.commit_id and RefStore(txn, repository.key).find_commit(ref.commit_id) is None:
        return False
    tracking = TrackingStore(txn, repository.key)
    put_known_moves(txn, repository, ref.kind, ref.name, ref.moves)
    known = tracking.find(ref.kind, ref.name)
    if known is None or known.sequence <= ref.sequence:
        tracking.put(
            Tracked(ref.kind, ref.name, ref.commit_id, ref.sequence, ref.write_id, ref.version)
        )
    return True


def track_now(repository: Repository, ref: RemoteRef | None) -> None:
    """Track a ref in a separate transaction; do nothing if there is none."""
    if ref is not None:
        with repository.lake.kv.write() as txn:
            track(txn, repository, ref)


def put_known_moves(
    txn: WriteTransaction,
    repository: Repository,
    kind: RefKind,
    name: str,
    moves: Iterable[RecordedMove],
) -> None:
    """Record moves of a ref in the bucket; moves that are known already stay unchanged."""
    ReflogStore(txn, repository.key).put_moves(kind, name, [move_fields(each) for each in moves])


def iter_known_moves(
    txn: ReadTransaction, repository: Repository, kind: RefKind, name: str
) -> Iterator[RecordedMove]:
    """Yield the moves of a ref in the bucket that this clone has read, newest first.

    Raises:
        IntegrityError: a record in the local store is damaged.
    """
    try:
        yield from map(move_of, ReflogStore(txn, repository.key).iter_moves(kind, name))
    except Invalid as error:
        raise IntegrityError(
            "the local store holds a move of a ref that is not valid",
            hint="the store may be damaged: move it away and start a new one",
        ) from error


def forget_all(txn: WriteTransaction, repository: Repository) -> None:
    """Forget every tracked ref, their moves, and that they were ever read."""
    for table in (Table.TRACKING, Table.REFLOG):
        txn.delete_owned(table, repository.key)
    txn.delete(Table.META, _key(repository))
    txn.delete(Table.META, _pushed_key(repository))


def _pushed_key(repository: Repository) -> bytes:
    return b"pushed/" + repository.key


def _key(repository: Repository) -> bytes:
    return b"fetched/" + repository.key


class Rollback(NamedTuple):
    """The last time that the bucket was noticed to have gone back.

    Attributes:
        at: when it was noticed, by this machine's clock.
        refs: kind, name and earlier commit of each ref.
    """

    at: datetime
    refs: tuple[tuple[RefKind, str, CommitId], ...]


def went_back(store: ObjectStore, seen: Tracked, ref: RemoteRef | None) -> bool:
    """Return whether a ref is older than when it was last seen.

    Args:
        store: the namespace, which is asked only if the ref has moved often since.
        seen: the ref as it was last seen.
        ref: the ref as it is now; ``None``: it is missing.
    """
    if ref is None or ref.sequence < seen.sequence:
        return True
    if ref.sequence == seen.sequence:
        return ref.write_id != seen.write_id
    # It may have gone back, and have moved since beyond the number that was seen.
    try:
        move = find_move(store, ref, seen.sequence)
    except NotOurs:
        return False  # a damaged reflog shows nothing
    return move is not None and move.write_id != seen.write_id


def shows_rollback(repository: Repository, kind: RefKind, name: str, ref: RemoteRef | None) -> bool:
    """Return whether a ref that was just read shows that the bucket went back."""
    with repository.lake.kv.read() as txn:
        seen = TrackingStore(txn, repository.key).find(kind, name)
    return seen is not None and went_back(repository.store, seen, ref)


def accept_rollback(
    txn: WriteTransaction,
    repository: Repository,
    seen: Iterable[Tracked],
    *,
    packs: Collection[str],
) -> None:
    """Forget what was recorded of refs that went back; the caller tracks them again.

    Args:
        txn: the transaction that tracks them.
        repository: the repository of the refs.
        seen: the refs as they were last seen.
        packs: the IDs of all packs in the bucket.
    """
    refs = {(each.kind, each.name): each.commit_id for each in seen}
    moves, positions = ReflogStore(txn, repository.key), TrackingStore(txn, repository.key)
    for kind, name in refs:
        moves.delete(kind, name)
        positions.delete(kind, name)
    packed = PackedStore(txn, repository.key)
    packed.forget(set(packed.known_packs()).difference(packs))
    before = find_rollback(txn, repository)
    known = {} if before is None else {(kind, name): id_ for kind, name, id_ in before.refs}
    stood = [[*ref, id_] for ref, id_ in sorted((known | refs).items()) if id_ is not None]
    fields = {"at": int(repository.lake.runtime.now().timestamp()), "refs": stood}
    txn.put(Table.META, _rollback_key(repository), json.dumps(fields).encode("ascii"))


def forget_rollback(txn: WriteTransaction, repository: Repository) -> None:
    """Forget that the bucket went back: somebody accepts the refs as they are now."""
    txn.delete(Table.META, _rollback_key(repository))


def find_rollback(txn: ReadTransaction, repository: Repository) -> Rollback | None:
    """Return the last time that the bucket went back, or ``None``."""
    data = txn.get(Table.META, _rollback_key(repository))
    if data is None:
        return None
    fields = json.loads(data)
    refs = tuple(
        (RefKind(kind), name, CommitId(commit_id)) for kind, name, commit_id in fields["refs"]
    )
    return Rollback(datetime.fromtimestamp(fields["at"], UTC), refs)


def iter_behind(txn: ReadTransaction, repository: Repository) -> Iterator[tuple[RefKind, str]]:
    """Yield kind and name of refs that went back in the bucket and have not caught up since."""
    last = find_rollback(txn, repository)
    positions, refs = TrackingStore(txn, repository.key), RefStore(txn, repository.key)
    for kind, name, commit_id in () if last is None else last.refs:
        there = positions.position(kind, name)
        if there != commit_id and (
            there is None or kind is RefKind.TAG or not is_ancestor(refs, commit_id, there)
        ):
            yield kind, name


def notify_rollback(repository: Repository, refs: Iterable[tuple[RefKind, str]]) -> None:
    """Leave a notice that the bucket went back in time."""
    names = [f"{kind} {name}" for kind, name in refs]
    more = f" and {len(names) - 3} more" if names[3:] else ""
    repository.notify(
        Notice(
            f"the bucket went back in time: {', '.join(names[:3])}{more}; a backup may have been "
            "restored, or this is a replica that lags behind",
            hint="push the commits that only clones have now, with what they need: "
            f"lakecli push --all {repository.uri}",
        )
    )


def _rollback_key(repository: Repository) -> bytes:
    return b"rollback/" + repository.key
