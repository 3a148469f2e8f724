"""Uploads in parts that are under way, so that the next process can go on with them.

::

    TRANSFERS  u ‖ repository ‖ digest -> an upload as JSON, its time as unix seconds
               l ‖ repository          -> when leftovers were last looked for, unix seconds

`repository` is the UUID of the namespace (16 bytes), `digest` the BLAKE3 of the whole (32 bytes).
A file that has changed has another digest, so it can never go on with the upload of what it was.
Which parts have arrived is not kept here: the store is asked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lakecli.kv.env import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.kv.env import ReadTransaction, WriteTransaction

_UPLOAD: Final = b"u"
_LOOKED: Final = b"l"


@dataclass(frozen=True, slots=True)
class UnfinishedTransfer:
    """One upload that this machine began.

    Attributes:
        digest: BLAKE3 of the whole, 64 hex digits.
        upload: what the store calls it.
        part_size: of every part but the last, in bytes.
        started_at: when it was begun here.
    """

    digest: str
    upload: str
    part_size: int
    started_at: datetime


def find(txn: ReadTransaction, repository: bytes, digest: str) -> UnfinishedTransfer | None:
    """Return the upload of these contents that is under way, or ``None``."""
    value = txn.get(Table.TRANSFERS, _UPLOAD + repository + bytes.fromhex(digest))
    return None if value is None else _load(digest, value)


def iterate(txn: ReadTransaction, repository: bytes) -> Iterator[UnfinishedTransfer]:
    """Yield the uploads into a repository that are under way, by digest."""
    prefix = _UPLOAD + repository
    for key, value in txn.scan(Table.TRANSFERS, prefix=prefix):
        yield _load(key[len(prefix) :].hex(), value)


def put(txn: WriteTransaction, repository: bytes, transfer: UnfinishedTransfer) -> None:
    """Remember an upload that was begun."""
    value = {
        "upload": transfer.upload,
        "part_size": transfer.part_size,
        "started_at": int(transfer.started_at.timestamp()),
    }
    key = _UPLOAD + repository + bytes.fromhex(transfer.digest)
    txn.put(Table.TRANSFERS, key, json.dumps(value).encode())


def delete(txn: WriteTransaction, repository: bytes, digest: str) -> None:
    """Forget an upload that was completed or dropped."""
    txn.delete(Table.TRANSFERS, _UPLOAD + repository + bytes.fromhex(digest))


def looked_at(txn: ReadTransaction, repository: bytes) -> datetime | None:
    """Return when somebody last looked for leftovers in a repository's namespace."""
    value = txn.get(Table.TRANSFERS, _LOOKED + repository)
    return None if value is None else datetime.fromtimestamp(int(value), UTC)


def set_looked_at(txn: WriteTransaction, repository: bytes, now: datetime) -> None:
    """Note that somebody looks for leftovers now."""
    txn.put(Table.TRANSFERS, _LOOKED + repository, b"%d" % int(now.timestamp()))


def _load(digest: str, value: bytes) -> UnfinishedTransfer:
    fields = json.loads(value)
    return UnfinishedTransfer(
        digest,
        fields["upload"],
        fields["part_size"],
        datetime.fromtimestamp(fields["started_at"], UTC),
    )
