"""Staging areas: uncommitted writes to branches, by staging token and path.

`scan_newest` and `overlay` merge layers of records into one sorted view; the newest is on top.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import Final, NewType

from lakecli.base.model import Branch, StagingToken
from lakecli.kv.local_store import ReadTransaction, Record, Table, WriteTransaction, put_over

ClaimedValue = NewType("ClaimedValue", bytes)
"""An encoded entry whose object is in the bucket and protected from garbage collection by a claim,
or a `TOMBSTONE`. Only `lakecli.repository.guard` creates such values."""

TOMBSTONE: Final = ClaimedValue(b"")
"""The record of a deleted path; encoded values are never empty."""


def get(txn: ReadTransaction, token: StagingToken, path: bytes) -> bytes | None:
    """Return the record staged at a path (`TOMBSTONE` for a deletion), or ``None``."""
    return txn.get_path(Table.STAGING, token, path)


def put_many(
    txn: WriteTransaction, token: StagingToken, items: Iterable[tuple[bytes, ClaimedValue]]
) -> None:
    """Stage records: pairs of a path and its claimed value or `TOMBSTONE`, in path order."""
    txn.put_paths(Table.STAGING, token, items)


def remove(txn: WriteTransaction, token: StagingToken, path: bytes) -> bool:
    """Delete the record staged at a path; return whether it existed."""
    return txn.delete_path(Table.STAGING, token, path)


def scan(
    txn: ReadTransaction, token: StagingToken, *, start: bytes = b"", prefix: bytes = b""
) -> Iterator[tuple[bytes, bytes]]:
    """Yield pairs (path, value or `TOMBSTONE`) of staged records in path order.

    Args:
        start: yield no path before this one.
        prefix: yield only paths that begin with this prefix.
    """
    return txn.scan_paths(Table.STAGING, token, start=start, prefix=prefix)


def is_empty(txn: ReadTransaction, token: StagingToken) -> bool:
    """Return whether nothing is staged under a token."""
    return not txn.has_owned(Table.STAGING, token)


def is_clean(txn: ReadTransaction, branch: Branch) -> bool:
    """Return whether a branch has no uncommitted changes.

    Changes that a running commit has sealed are uncommitted, too.
    """
    return all(is_empty(txn, token) for token in branch.tokens)


def drop(txn: WriteTransaction, token: StagingToken, *, limit: int | None = None) -> int:
    """Delete staged records, at most `limit`; return how many were deleted.

    A number below `limit` means that no records are left.
    """
    return txn.drop_paths(Table.STAGING, token, limit=limit)


def scan_newest(
    txn: ReadTransaction, tokens: Sequence[StagingToken], *, start: bytes = b"", prefix: bytes = b""
) -> Iterator[Record]:
    """Yield the staged records of several tokens (newest token first) in path order.

    If a path is staged under several tokens, only the record of the newest token is yielded.
    """
    streams = [scan(txn, token, start=start, prefix=prefix) for token in tokens]
    while len(streams) > 1:  # in pairs: every failed commit leaves an area, maybe thousands
        pairs = zip_longest(streams[::2], streams[1::2], fillvalue=iter(()))
        streams = [put_over(newer, older) for newer, older in pairs]
    return streams[0] if streams else iter(())


def overlay(staged: Iterator[Record], committed: Iterator[Record]) -> Iterator[Record]:
    """Apply `staged` changes to `committed` records: tombstones hide paths, other records replace.

    Both streams are in strictly ascending path order, and so is the result. If `staged` is empty,
    the iterator `committed` itself is returned.
    """
    first = next(staged, None)
    if first is None:
        return committed
    return (record for record in put_over(chain((first,), staged), committed) if record[1])
