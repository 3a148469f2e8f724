"""Detect that a bucket went back in time: a restored backup, or a replica that lags behind.

The sequence number of a ref only grows, and a ref object is never deleted. So the bucket went back
if a ref has a lower number than this clone has seen, has another move under a number that it has
seen, or is missing. Then nothing recorded of such refs counts: their positions and moves are
replaced by the present ones, packs that are not listed are forgotten, and the next push verifies
data that was uploaded before, however young it is.

::

    META  rollback/ ‖ repository -> when it was noticed, and the refs with the commits on which they
                                    stood before, as JSON
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from lakecli.base.model import CommitId, RefKind
from lakecli.kv.bucket import PackedStore, ReflogStore, Tracked, TrackingStore
from lakecli.kv.local_store import ReadTransaction, Table, WriteTransaction
from lakecli.refs.graph import is_ancestor
from lakecli.refs.ref_store import RefStore
from lakecli.remote.ref_records import NotOurs, RemoteRef
from lakecli.remote.refs import find_move
from lakecli.repository.contract import Notice, Repository
from lakecli.stores.contract import ObjectStore


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


def is_new(repository: Repository, kind: RefKind, name: str, ref: RemoteRef | None) -> bool:
    """Return whether a ref that was just read shows that the bucket went back."""
    with repository.lake.kv.read() as txn:
        seen = TrackingStore(txn, repository.key).find(kind, name)
    return seen is not None and went_back(repository.store, seen, ref)


def accept(
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
    before = find_last(txn, repository)
    known = {} if before is None else {(kind, name): id_ for kind, name, id_ in before.refs}
    stood = [[*ref, id_] for ref, id_ in sorted((known | refs).items()) if id_ is not None]
    fields = {"at": int(repository.lake.now().timestamp()), "refs": stood}
    txn.put(Table.META, _key(repository), json.dumps(fields).encode("ascii"))


def forget(txn: WriteTransaction, repository: Repository) -> None:
    """Forget that the bucket went back: somebody accepts the refs as they are now."""
    txn.delete(Table.META, _key(repository))


def find_last(txn: ReadTransaction, repository: Repository) -> Rollback | None:
    """Return the last time that the bucket went back, or ``None``."""
    data = txn.get(Table.META, _key(repository))
    if data is None:
        return None
    fields = json.loads(data)
    refs = tuple(
        (RefKind(kind), name, CommitId(commit_id)) for kind, name, commit_id in fields["refs"]
    )
    return Rollback(datetime.fromtimestamp(fields["at"], UTC), refs)


def iter_behind(txn: ReadTransaction, repository: Repository) -> Iterator[tuple[RefKind, str]]:
    """Yield kind and name of refs that went back in the bucket and have not caught up since."""
    last = find_last(txn, repository)
    positions, refs = TrackingStore(txn, repository.key), RefStore(txn, repository.key)
    for kind, name, commit_id in () if last is None else last.refs:
        there = positions.position(kind, name)
        if there != commit_id and (
            there is None or kind is RefKind.TAG or not is_ancestor(refs, commit_id, there)
        ):
            yield kind, name


def notify(repository: Repository, refs: Iterable[tuple[RefKind, str]]) -> None:
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


def _key(repository: Repository) -> bytes:
    return b"rollback/" + repository.key
