"""Repository records in the local store: name -> what a clone knows of the repository."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakecli.kv.env import Table
from lakecli.model import RepositoryRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.kv.env import ReadTransaction, WriteTransaction


def to_json(record: RepositoryRecord) -> dict[str, object]:
    """Return the record as JSON-able fields, times as unix seconds."""
    return {
        "name": record.name,
        "uuid": record.uuid,
        "storage_namespace": record.storage_namespace,
        "default_branch": record.default_branch,
        "created_at": int(record.created_at.timestamp()),
        "range_entries": record.range_entries,
        "region": record.region,
    }


def _load(data: bytes) -> RepositoryRecord:
    fields = json.loads(data)
    return RepositoryRecord(
        name=fields["name"],
        uuid=fields["uuid"],
        storage_namespace=fields["storage_namespace"],
        default_branch=fields["default_branch"],
        created_at=datetime.fromtimestamp(fields["created_at"], UTC),
        range_entries=fields["range_entries"],
        region=fields["region"],
    )


def find_repository(txn: ReadTransaction, name: str) -> RepositoryRecord | None:
    """Return a repository's record, or ``None``."""
    data = txn.get(Table.REPOSITORIES, name.encode())
    return None if data is None else _load(data)


def iter_repositories(
    txn: ReadTransaction, *, prefix: str = "", after: str = ""
) -> Iterator[RepositoryRecord]:
    """Yield records ordered by name."""
    start = after.encode() + b"\0" if after else b""
    for _, data in txn.scan(Table.REPOSITORIES, prefix=prefix.encode(), start=start):
        yield _load(data)


def put_repository(txn: WriteTransaction, record: RepositoryRecord) -> None:
    """Write a record under its name."""
    data = json.dumps(to_json(record), separators=(",", ":")).encode()
    txn.put(Table.REPOSITORIES, record.name.encode(), data)


def delete_repository(txn: WriteTransaction, name: str) -> None:
    """Forget a name; rows under the repository's UUID stay for the operation log to take back."""
    txn.delete(Table.REPOSITORIES, name.encode())


def with_region(record: RepositoryRecord, region: str) -> RepositoryRecord:
    """Return the record with the region of its bucket."""
    return replace(record, region=region)


def _intention_key(name: str) -> bytes:
    return b"creating/" + name.encode()


def find_intention(
    txn: ReadTransaction, name: str, storage_namespace: str
) -> RepositoryRecord | None:
    """Return what an interrupted creation of this name in this namespace wrote down."""
    data = txn.get(Table.META, _intention_key(name))
    if data is None:
        return None
    record = _load(data)
    return record if record.storage_namespace == storage_namespace else None


def put_intention(txn: WriteTransaction, record: RepositoryRecord) -> None:
    """Write down that a repository is about to be created."""
    data = json.dumps(to_json(record), separators=(",", ":")).encode()
    txn.put(Table.META, _intention_key(record.name), data)


def delete_intention(txn: WriteTransaction, record: RepositoryRecord) -> None:
    """Forget it: the repository exists now."""
    txn.delete(Table.META, _intention_key(record.name))
