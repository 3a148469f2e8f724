"""What this clone knows of the refs in the bucket: their positions when it last read them.

::

    META  fetched/ ‖ repository -> when the bucket was last read, and the state of collection then
          pushed/ ‖ repository  -> when this clone last moved a ref there, unix seconds in JSON
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import NamedTuple

from lakecli.base.model import CommitId
from lakecli.kv.bucket import Tracked, TrackingStore
from lakecli.kv.local_store import ReadTransaction, Table, WriteTransaction
from lakecli.refs.ref_store import RefStore
from lakecli.remote.ref_records import RemoteRef
from lakecli.remote.refs import put_known_moves
from lakecli.repository.contract import Repository


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
    put_known_moves(txn, repository.key, ref.kind, ref.name, ref.moves)
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
