"""What this clone remembers of the bucket as a whole: the last fetch, the last push, and rollbacks.

A bucket may be rolled back to an earlier state: a backup was restored, or this is a replica that
lags behind. The sequence number of a ref only grows, and a ref object is never deleted. So the
bucket was rolled back if a ref is missing, if a ref has a lower number than this clone has seen, or
if a number that this clone has seen now belongs to another move (`tracking.went_back`). Then this
clone's records of such refs are invalid: the refs are recorded as they are now, and packs that are
no longer in the bucket are forgotten. The next push verifies even recently uploaded data.

::

    META  fetched/ ‖ repository  -> when the bucket was last read, and the GC state at that time
          pushed/ ‖ repository   -> when this clone last moved a ref there, unix seconds in JSON
          rollback/ ‖ repository -> when this clone noticed the rollback, and the affected refs with
                                    their earlier commits, as JSON
"""

import json
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from lakecli.base.model import CommitId, RefKind
from lakecli.kv.bucket import PackedStore, ReflogStore, Tracked
from lakecli.kv.local_store import ReadTransaction, Table, WriteTransaction
from lakecli.refs.graph import is_ancestor
from lakecli.repository.contract import Repository

_FETCHED: Final = b"fetched/"
_PUSHED: Final = b"pushed/"
_ROLLBACK: Final = b"rollback/"


def _find(txn: ReadTransaction, repository: Repository, what: bytes) -> Any:  # noqa: ANN401 - of JSON
    data = txn.get(Table.META, what + repository.key)
    return None if data is None else json.loads(data)


def _put(txn: WriteTransaction, repository: Repository, what: bytes, value: object) -> None:
    txn.put(Table.META, what + repository.key, json.dumps(value).encode("ascii"))


class LastFetch(NamedTuple):
    """The last time that this clone read all refs of the bucket.

    Attributes:
        phase: the phase of garbage collection at that time.
        epoch: the epoch of garbage collection at that time.
    """

    at: datetime
    phase: str
    epoch: int


def find_fetched(txn: ReadTransaction, repository: Repository) -> LastFetch | None:
    """Return when this clone last read all refs of the bucket, or ``None`` if it never did."""
    fields = _find(txn, repository, _FETCHED)
    return fields and LastFetch(**{**fields, "at": datetime.fromtimestamp(fields["at"], UTC)})


def put_fetched(txn: WriteTransaction, repository: Repository, fetched: LastFetch) -> None:
    """Record when all refs of the bucket were read, and the garbage collection state then."""
    _put(txn, repository, _FETCHED, {**fetched._asdict(), "at": int(fetched.at.timestamp())})


def find_pushed_at(txn: ReadTransaction, repository: Repository) -> datetime | None:
    """Return when this clone last moved a ref in the bucket, by its own clock, or ``None``."""
    at = _find(txn, repository, _PUSHED)
    return None if at is None else datetime.fromtimestamp(at, UTC)


def put_pushed_at(txn: WriteTransaction, repository: Repository, at: datetime) -> None:
    """Record when this clone moved a ref in the bucket."""
    _put(txn, repository, _PUSHED, int(at.timestamp()))


def forget_all(txn: WriteTransaction, repository: Repository) -> None:
    """Forget every tracked ref, the moves of refs, and the times of the last fetch and push."""
    for table in (Table.TRACKING, Table.REFLOG):
        txn.delete_owned(table, repository.key)
    for what in (_FETCHED, _PUSHED):
        txn.delete(Table.META, what + repository.key)


class Rollback(NamedTuple):
    """The last rollback of the bucket that this clone noticed.

    Attributes:
        at: when the rollback was noticed, by this machine's clock.
        refs: kind and name of each affected ref, and its commit before the rollback.
    """

    at: datetime
    refs: tuple[tuple[RefKind, str, CommitId], ...]


def accept_rollback(
    txn: WriteTransaction, repository: Repository, seen: Iterable[Tracked], packs: Collection[str]
) -> None:
    """Record a rollback of the bucket, and forget what this clone knows of the affected refs.

    Afterwards the caller records the refs as they are in the bucket now.

    Args:
        seen: each affected ref as this clone last saw it before the rollback.
        packs: the packs that the bucket has now; other packs are forgotten.
    """
    refs = {(each.kind, each.name): each.commit_id for each in seen}
    moves, positions = ReflogStore(txn, repository.key), repository.tracking(txn)
    for kind, name in refs:
        moves.delete(kind, name)
        positions.delete(kind, name)
    packed = PackedStore(txn, repository.key)
    packed.forget(set(packed.known_packs()).difference(packs))
    before = find_rollback(txn, repository)
    known = {} if before is None else {(kind, name): id_ for kind, name, id_ in before.refs}
    stood = [[*ref, id_] for ref, id_ in sorted((known | refs).items()) if id_ is not None]
    at = int(repository.lake.runtime.now().timestamp())
    _put(txn, repository, _ROLLBACK, {"at": at, "refs": stood})


def forget_rollback(txn: WriteTransaction, repository: Repository) -> None:
    """Forget the rollback of the bucket, because the user accepts the refs as they are now."""
    txn.delete(Table.META, _ROLLBACK + repository.key)


def find_rollback(txn: ReadTransaction, repository: Repository) -> Rollback | None:
    """Return the last rollback of the bucket that this clone noticed, or ``None``."""
    fields = _find(txn, repository, _ROLLBACK)
    if fields is None:
        return None
    refs = tuple((RefKind(kind), name, CommitId(id_)) for kind, name, id_ in fields["refs"])
    return Rollback(datetime.fromtimestamp(fields["at"], UTC), refs)


def iter_behind(txn: ReadTransaction, repository: Repository) -> Iterator[tuple[RefKind, str]]:
    """Yield kind and name of each ref that still lacks commits since the bucket was rolled back."""
    last = find_rollback(txn, repository)
    positions, refs = repository.tracking(txn), repository.refs(txn)
    for kind, name, commit_id in () if last is None else last.refs:
        there = positions.position(kind, name)
        if there != commit_id and (
            there is None or kind is RefKind.TAG or not is_ancestor(refs, commit_id, there)
        ):
            yield kind, name


def notify_rollback(repository: Repository, refs: Iterable[tuple[RefKind, str]]) -> None:
    """Add a notice that the bucket was rolled back."""
    names = [f"{kind} {name}" for kind, name in refs]
    more = f" and {len(names) - 3} more" if names[3:] else ""
    repository.notify(
        f"the bucket went back in time: {', '.join(names[:3])}{more}; a backup may have been "
        "restored, or this is a replica that lags behind",
        hint="push the commits that only clones have now, with what they need: "
        f"`push --all {repository.uri}`",
    )
