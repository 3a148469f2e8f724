"""Staging areas: uncommitted writes to branches, by staging token and path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NewType

from lakecli.kv import paths
from lakecli.kv.env import ReadTransaction, Table, WriteTransaction

if TYPE_CHECKING:
    from lakecli.model import StagingToken

ClaimedValue = NewType("ClaimedValue", bytes)
"""An encoded entry whose object is in the bucket and claimed against garbage collection, or a
`TOMBSTONE`. Only `lakecli.repository.core.gate` makes them."""

TOMBSTONE: Final = ClaimedValue(b"")
"""The record of a deleted path; encoded values are never empty."""


def get(txn: ReadTransaction, token: StagingToken, path: bytes) -> bytes | None:
    """Return the record staged at a path, possibly a `TOMBSTONE`, or ``None``."""
    if txn.past is not None:
        return txn.past.get(token, path)
    return paths.get(txn, Table.STAGING, token, path)


def put_many(
    txn: WriteTransaction, token: StagingToken, items: Iterable[tuple[bytes, ClaimedValue]]
) -> None:
    """Stage pairs of a path and a claimed value or `TOMBSTONE`, in ascending order of paths."""
    paths.put_many(txn, Table.STAGING, token, items)


def remove(txn: WriteTransaction, token: StagingToken, path: bytes) -> bool:
    """Delete the record staged at a path; return whether it existed."""
    return paths.delete(txn, Table.STAGING, token, path)


def scan(
    txn: ReadTransaction, token: StagingToken, *, start: bytes = b"", prefix: bytes = b""
) -> Iterator[tuple[bytes, bytes]]:
    """Yield pairs of a path and a value or `TOMBSTONE` under `prefix`, from `start`, in order."""
    if txn.past is not None:
        return txn.past.scan(token, start=start, prefix=prefix)
    return paths.scan(txn, Table.STAGING, token, start=start, prefix=prefix)


def is_empty(txn: ReadTransaction, token: StagingToken) -> bool:
    """Return whether nothing is staged."""
    if txn.past is not None:
        return next(txn.past.scan(token), None) is None
    return paths.is_empty(txn, Table.STAGING, token)


def drop(txn: WriteTransaction, token: StagingToken, *, limit: int | None = None) -> int:
    """Delete staged records, at most `limit`; return their number (below `limit`: none is left)."""
    return paths.drop(txn, Table.STAGING, token, limit=limit)
