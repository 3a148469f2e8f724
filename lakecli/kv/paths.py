"""Records under paths of any length, in path order, in a table whose keys have at most 510 bytes.

Every record belongs to an owner of 16 bytes (a staging token, an operation). A path of up to
`CHUNK` bytes is stored directly under its owner. A longer one is cut::

    owner ‖ path                      a path of at most CHUNK bytes -> its value
    owner ‖ first CHUNK bytes ‖ 00    a link -> child, the owner of the rest of the path
    child ‖ rest of the path          stored in the same way

    child = first 16 bytes of BLAKE3(owner ‖ first CHUNK bytes)

Only links have CHUNK + 1 bytes under their owner, so they cannot be confused with paths. A link
sorts directly after the path of exactly its CHUNK bytes and before any greater one, so reading a
child at the position of its link gives all paths in byte order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

from lakecli.kv.local_store import (
    MAX_KEY_SIZE,
    OWNER_SIZE,
    ReadTransaction,
    Table,
    WriteTransaction,
)

_LINK: Final = b"\0"
CHUNK: Final = MAX_KEY_SIZE - OWNER_SIZE - len(_LINK)
"""Part of the stored format. Only tests pass another size to the functions."""

_BATCH: Final = 1024

Record = tuple[bytes, bytes]


def get(
    txn: ReadTransaction, table: Table, owner: bytes, path: bytes, *, chunk: int = CHUNK
) -> bytes | None:
    """Return the value at a path, or ``None``."""
    while len(path) > chunk:
        owner, path = _child(owner, path[:chunk]), path[chunk:]
    return txn.get(table, owner + path)


def put(
    txn: WriteTransaction,
    table: Table,
    owner: bytes,
    path: bytes,
    value: bytes,
    *,
    overwrite: bool = True,
    chunk: int = CHUNK,
) -> None:
    """Write the value at a path of at least one byte; without `overwrite`, only a new one."""
    while len(path) > chunk:
        head = path[:chunk]
        child = _child(owner, head)
        txn.put_new(table, owner + head + _LINK, child)
        owner, path = child, path[chunk:]
    if overwrite:
        txn.put(table, owner + path, value)
    else:
        txn.put_new(table, owner + path, value)


def put_many(
    txn: WriteTransaction,
    table: Table,
    owner: bytes,
    items: Iterable[Record],
    *,
    overwrite: bool = True,
    chunk: int = CHUNK,
) -> None:
    """Write many records; ascending paths are several times faster than any other order.

    Without `overwrite`, existing values are kept.
    """
    remaining = iter(items)
    while batch := list(islice(remaining, _BATCH)):
        if max([len(path) for path, _ in batch]) > chunk:
            for path, value in batch:
                if len(path) > chunk:
                    put(txn, table, owner, path, value, overwrite=overwrite, chunk=chunk)
            batch = [record for record in batch if len(record[0]) <= chunk]
        txn.put_sorted(table, batch, prefix=owner, overwrite=overwrite)


def delete(
    txn: WriteTransaction, table: Table, owner: bytes, path: bytes, *, chunk: int = CHUNK
) -> bool:
    """Delete the record at a path, and links no longer needed; return whether it existed."""
    links: list[tuple[bytes, bytes]] = []
    while len(path) > chunk:
        head = path[:chunk]
        child = _child(owner, head)
        links.append((owner + head + _LINK, child))
        owner, path = child, path[chunk:]
    if not txn.delete(table, owner + path):
        return False
    for link, child in reversed(links):
        if not is_empty(txn, table, child):
            break
        txn.delete(table, link)
    return True


def is_empty(txn: ReadTransaction, table: Table, owner: bytes) -> bool:
    """Return whether an owner has no records."""
    return next(txn.scan_keys(table, prefix=owner), None) is None


def scan(
    txn: ReadTransaction,
    table: Table,
    owner: bytes,
    *,
    start: bytes = b"",
    prefix: bytes = b"",
    chunk: int = CHUNK,
) -> Iterator[Record]:
    """Yield (path, value) under `prefix`, from the first path not below `start`, in byte order.

    Records are read ahead in growing batches; see `ReadTransaction.scan`.
    """
    return chain.from_iterable(
        _scan(txn, table, owner, start=start, prefix=prefix, chunk=chunk, lead=b"")
    )


def _scan(
    txn: ReadTransaction,
    table: Table,
    owner: bytes,
    *,
    start: bytes,
    prefix: bytes,
    chunk: int,
    lead: bytes,
) -> Iterator[list[Record]]:
    """Yield batches of one owner's records, with `lead` prepended to every path."""
    if len(prefix) > chunk:  # all paths are behind one link
        head = prefix[:chunk]
        if start[:chunk] <= head:
            yield from _scan(
                txn,
                table,
                _child(owner, head),
                start=start[chunk:] if start.startswith(head) else b"",
                prefix=prefix[chunk:],
                chunk=chunk,
                lead=lead + head,
            )
        return
    seek = start if len(start) <= chunk else start[:chunk] + _LINK
    batches = txn.scan_batches(table, prefix=owner + prefix, start=owner + seek, cut=OWNER_SIZE)
    for batch in batches:
        if max([len(path) for path, _ in batch], default=0) <= chunk:
            yield batch if not lead else [(lead + path, value) for path, value in batch]
            continue
        for path, value in batch:
            if len(path) <= chunk:
                yield [(lead + path, value)]
                continue
            head = path[:chunk]
            yield from _scan(
                txn,
                table,
                value,
                start=start[chunk:] if start.startswith(head) else b"",
                prefix=b"",
                chunk=chunk,
                lead=lead + head,
            )


def drop(
    txn: WriteTransaction,
    table: Table,
    owner: bytes,
    *,
    limit: int | None = None,
    chunk: int = CHUNK,
) -> int:
    """Delete an owner's records, at most `limit` keys, and return the number of keys.

    A number below `limit` means that none are left.
    """
    deleted = 0
    while deleted != limit:
        size = _BATCH if limit is None else min(_BATCH, limit - deleted)
        keys = list(islice(txn.scan_keys(table, prefix=owner), size))
        if not keys:
            break
        if max(map(len, keys)) <= OWNER_SIZE + chunk:
            deleted += txn.delete_owned(table, owner, limit=len(keys))
            continue
        for key in keys:
            if len(key) > OWNER_SIZE + chunk:
                # The child first: stopping at the limit must not leave it without its link.
                child = _child(owner, key[OWNER_SIZE:-1])
                room = None if limit is None else limit - deleted
                deleted += drop(txn, table, child, limit=room, chunk=chunk)
            if deleted == limit:
                break
            deleted += txn.delete(table, key)
    return deleted


def _child(owner: bytes, head: bytes) -> bytes:
    """Return the owner of the rests of paths that begin with `head` under `owner`."""
    from lakecli.base.identity import h  # only paths longer than CHUNK need it

    return h(owner + head)[:OWNER_SIZE]
