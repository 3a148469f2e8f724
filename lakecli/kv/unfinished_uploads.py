"""Unfinished multipart uploads of this machine, kept so that the next process can resume them.

::

    TRANSFERS  u ‖ repository ‖ digest -> an upload as JSON, its time as unix seconds
               l ‖ repository          -> the last search for leftovers, unix seconds

`repository` is the UUID of the repository (16 bytes), `digest` the BLAKE3 of the file (32 bytes). A
changed file has another digest, so it never resumes the upload of its former contents. This table
does not record which parts are uploaded; only the object store knows that.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from lakecli.kv.local_store import ReadTransaction, Table, WriteTransaction
from lakecli.kv.store_errors import malformed

_UPLOAD: Final = b"u"
_LOOKED: Final = b"l"


class UnfinishedTransfer(NamedTuple):
    """One multipart upload that this machine began.

    Attributes:
        digest: BLAKE3 of the file, 64 hex digits.
        upload: the object store's ID of the upload.
        part_size: the size of every part except the last, in bytes.
    """

    digest: str
    upload: str
    part_size: int
    started_at: datetime


def find_transfer(
    txn: ReadTransaction, repository: bytes, digest: str
) -> UnfinishedTransfer | None:
    """Return the unfinished upload of a file with this digest, or ``None``."""
    value = txn.get(Table.TRANSFERS, _UPLOAD + repository + bytes.fromhex(digest))
    return None if value is None else _load(digest, value)


def iter_transfers(txn: ReadTransaction, repository: bytes) -> Iterator[UnfinishedTransfer]:
    """Yield the unfinished uploads into a repository, by digest."""
    prefix = _UPLOAD + repository
    for key, value in txn.scan(Table.TRANSFERS, prefix=prefix):
        yield _load(key[len(prefix) :].hex(), value)


def put_transfer(txn: WriteTransaction, repository: bytes, transfer: UnfinishedTransfer) -> None:
    """Record an upload that was begun."""
    at = int(transfer.started_at.timestamp())
    value = {"upload": transfer.upload, "part_size": transfer.part_size, "started_at": at}
    key = _UPLOAD + repository + bytes.fromhex(transfer.digest)
    txn.put(Table.TRANSFERS, key, json.dumps(value).encode())


def delete_transfer(txn: WriteTransaction, repository: bytes, digest: str) -> None:
    """Delete the record of an upload that was completed or aborted."""
    txn.delete(Table.TRANSFERS, _UPLOAD + repository + bytes.fromhex(digest))


def looked_at(txn: ReadTransaction, repository: bytes) -> datetime | None:
    """Return the time of the last search for unfinished uploads in a repository's namespace."""
    value = txn.get(Table.TRANSFERS, _LOOKED + repository)
    return None if value is None else datetime.fromtimestamp(int(value), UTC)


def set_looked_at(txn: WriteTransaction, repository: bytes, now: datetime) -> None:
    """Record the time of a search for unfinished uploads."""
    txn.put(Table.TRANSFERS, _LOOKED + repository, b"%d" % int(now.timestamp()))


def _load(digest: str, value: bytes) -> UnfinishedTransfer:
    try:
        fields = json.loads(value)
        started_at = datetime.fromtimestamp(fields["started_at"], UTC)
        return UnfinishedTransfer(digest, fields["upload"], fields["part_size"], started_at)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise malformed("an unfinished upload in the local store is malformed") from error
