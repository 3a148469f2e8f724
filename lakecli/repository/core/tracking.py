"""What this clone knows of the refs in the bucket: where they stood when it last looked.

::

    META  fetched/ ‖ repository -> when the bucket was last read, and the state of collection then
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from lakecli.kv.env import Table
from lakecli.kv.tracking import Tracked, TrackingStore

if TYPE_CHECKING:
    from lakecli.kv.env import ReadTransaction, WriteTransaction
    from lakecli.model import CommitId
    from lakecli.remote.ref_records import RemoteRef
    from lakecli.repository.core.lake import Repository


class Fetched(NamedTuple):
    """The last time that all refs were read.

    Attributes:
        at: when, by this machine's clock.
        phase: of garbage collection, then.
        epoch: likewise.
    """

    at: datetime
    phase: str
    epoch: int


class Positions(NamedTuple):
    """Where all refs in the bucket stood, and when they were read together."""

    commit_ids: frozenset[CommitId]
    fetched: Fetched | None


def positions(txn: ReadTransaction, repository: Repository) -> Positions:
    """Return the commits that the bucket's refs stood on when this clone last looked."""
    tracked = TrackingStore(txn, repository.key).iter()
    commit_ids = frozenset(each.commit_id for each in tracked if each.commit_id is not None)
    return Positions(commit_ids, find_fetched(txn, repository))


def find_fetched(txn: ReadTransaction, repository: Repository) -> Fetched | None:
    """Return when all refs were last read, or ``None`` if they never were."""
    data = txn.get(Table.META, _key(repository))
    if data is None:
        return None
    fields = json.loads(data)
    at = datetime.fromtimestamp(fields["at"], UTC)
    return Fetched(at, fields["phase"], fields["epoch"])


def put_fetched(txn: WriteTransaction, repository: Repository, fetched: Fetched) -> None:
    """Write down that all refs were read."""
    fields = {**fetched._asdict(), "at": int(fetched.at.timestamp())}
    txn.put(Table.META, _key(repository), json.dumps(fields).encode("ascii"))


def track(txn: WriteTransaction, repository: Repository, ref: RemoteRef) -> bool:
    """Remember where a ref stands in the bucket, and its moves; what is older changes nothing.

    A position whose commit this clone lacks is left for the next fetch, which brings it.

    Returns:
        Whether the ref's position is known now.
    """
    from lakecli.refs.ref_store import RefStore
    from lakecli.remote.known import put_moves

    if ref.commit_id and RefStore(txn, repository.key).find_commit(ref.commit_id) is None:
        return False
    tracking = TrackingStore(txn, repository.key)
    put_moves(txn, repository.key, ref.kind, ref.name, ref.moves)
    known = tracking.find(ref.kind, ref.name)
    if known is None or known.sequence <= ref.sequence:
        tracking.put(tracked_of(ref))
    return True


def tracked_of(ref: RemoteRef) -> Tracked:
    """Return what is remembered of a ref as it was read."""
    return Tracked(ref.kind, ref.name, ref.commit_id, ref.sequence, ref.write_id, ref.version)


def forget_all(txn: WriteTransaction, repository: Repository) -> None:
    """Forget every tracked ref, their moves, and that they were ever read."""
    for table in (Table.TRACKING, Table.REFLOG):
        txn.delete_owned(table, repository.key)
    txn.delete(Table.META, _key(repository))


def _key(repository: Repository) -> bytes:
    return b"fetched/" + repository.key
