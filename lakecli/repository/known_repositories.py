"""Repository records in the local store: name -> what a clone knows of the repository.

A deleted repository keeps its rows under its UUID, so that the operation log can restore it. The
UUIDs that a name had are kept beside it::

    REPOSITORIES  name                         -> the record
    META          creating/h(namespace)        -> the record of a creation that has begun
                  forgotten/name/number        -> the record of a repository that was deleted here
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from lakecli.base.model import RepositoryRecord, RepositoryUuid
from lakecli.errors import AlreadyExists
from lakecli.kv.local_store import ReadTransaction, Table, WriteTransaction

_NUMBER_SIZE: Final = 8


def to_json(record: RepositoryRecord) -> dict[str, object]:
    """Return the record as fields for JSON, with times as Unix seconds."""
    return {
        "name": record.name,
        "uuid": record.uuid,
        "storage_namespace": record.storage_namespace,
        "default_branch": record.default_branch,
        "created_at": int(record.created_at.timestamp()),
        "range_entries": record.range_entries,
        "region": record.region,
        **({"is_borrowed": True} if record.is_borrowed else {}),
    }


def from_json(fields: Mapping[str, Any]) -> RepositoryRecord:
    """Return the record whose fields `to_json` returned."""
    return RepositoryRecord(
        name=fields["name"],
        uuid=RepositoryUuid(fields["uuid"]),
        storage_namespace=fields["storage_namespace"],
        default_branch=fields["default_branch"],
        created_at=datetime.fromtimestamp(fields["created_at"], UTC),
        range_entries=fields["range_entries"],
        region=fields["region"],
        is_borrowed=fields.get("is_borrowed", False),
    )


def _load(data: bytes) -> RepositoryRecord:
    return from_json(json.loads(data))


def _dump(record: RepositoryRecord) -> bytes:
    return json.dumps(to_json(record), separators=(",", ":")).encode()


def _name(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def find_repository(txn: ReadTransaction, name: str) -> RepositoryRecord | None:
    """Return a repository's record, or ``None``."""
    data = txn.get(Table.REPOSITORIES, _name(name))
    return None if data is None else _load(data)


def check_free(txn: ReadTransaction, name: str, namespace: str = "") -> None:
    """Refuse a name that a repository of this machine has already.

    Args:
        txn: the state of the local store.
        name: the name.
        namespace: the storage namespace of which the repository is to be cloned; ``""``: of none.

    Raises:
        AlreadyExists: one has it.
    """
    record = find_repository(txn, name)
    if record is not None:
        is_same = record.storage_namespace == namespace
        update = f"bring it up to date: lakecli fetch lakefs://{name}"
        raise AlreadyExists(
            f"repository {name!r} exists already on this machine, in {record.storage_namespace}",
            hint=f"choose another name, or {update if is_same else 'look: lakecli repo list'}",
        )


def iter_repositories(
    txn: ReadTransaction, *, prefix: str = "", after: str = ""
) -> Iterator[RepositoryRecord]:
    """Yield records ordered by name."""
    start = _name(after) + b"\0" if after else b""
    for _, data in txn.scan(Table.REPOSITORIES, prefix=_name(prefix), start=start):
        yield _load(data)


def put_repository(txn: WriteTransaction, record: RepositoryRecord) -> None:
    """Write a record under its name, which no longer counts as that of a deleted repository."""
    txn.put(Table.REPOSITORIES, _name(record.name), _dump(record))
    forget_for_good(txn, record)


def delete_repository(txn: WriteTransaction, record: RepositoryRecord) -> None:
    """Delete the record of a repository; its other rows stay, so that undo can restore it."""
    txn.delete(Table.REPOSITORIES, _name(record.name))
    prefix = _forgotten_key(record.name)
    newest = next(txn.scan_reverse(Table.META, prefix=prefix), None)
    number = 1 + (int.from_bytes(newest[0][len(prefix) :]) if newest is not None else 0)
    txn.put(Table.META, prefix + number.to_bytes(_NUMBER_SIZE), _dump(record))


def iter_forgotten(txn: ReadTransaction, name: str) -> Iterator[RepositoryRecord]:
    """Yield the records of deleted repositories that had a name, the last deleted first.

    A repository that exists again under another name is left out.
    """
    here = {record.uuid for record in iter_repositories(txn)}
    for _, data in txn.scan_reverse(Table.META, prefix=_forgotten_key(name)):
        record = _load(data)
        if record.uuid not in here:
            yield record


def iter_all_forgotten(txn: ReadTransaction) -> Iterator[RepositoryRecord]:
    """Yield the records of all repositories that were deleted here and do not exist again."""
    here = {record.uuid for record in iter_repositories(txn)}
    for _, data in txn.scan(Table.META, prefix=b"forgotten/"):
        record = _load(data)
        if record.uuid not in here:
            yield record


def forget_for_good(txn: WriteTransaction, record: RepositoryRecord) -> None:
    """Delete the record of a deleted repository, which can then not be restored."""
    for key, data in list(txn.scan(Table.META, prefix=_forgotten_key(record.name))):
        if _load(data).uuid == record.uuid:
            txn.delete(Table.META, key)


def _forgotten_key(name: str) -> bytes:
    return b"forgotten/" + _name(name) + b"/"


def _intention_key(storage_namespace: str) -> bytes:
    from lakecli.base.identity import h  # only creating a repository needs it

    return b"creating/" + h(storage_namespace.encode("utf-8", "surrogateescape"))[:16]


def find_intention(txn: ReadTransaction, storage_namespace: str) -> RepositoryRecord | None:
    """Return the record of a creation in a namespace that was begun and has not ended."""
    data = txn.get(Table.META, _intention_key(storage_namespace))
    return None if data is None else _load(data)


def put_intention(txn: WriteTransaction, record: RepositoryRecord) -> None:
    """Record that a repository is about to be created in its namespace."""
    txn.put(Table.META, _intention_key(record.storage_namespace), _dump(record))


def delete_intention(txn: WriteTransaction, record: RepositoryRecord) -> None:
    """Delete the record of a creation: the repository exists."""
    txn.delete(Table.META, _intention_key(record.storage_namespace))
