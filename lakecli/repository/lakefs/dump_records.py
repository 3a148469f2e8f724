"""What a range, a metarange or a list of a refs dump holds, record by record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from lakecli.committed.metaranges import decode_range_record
from lakecli.committed.values import decode_entry
from lakecli.errors import IntegrityError
from lakecli.proto.messages import BRANCH_DATA, TAG_DATA, Message
from lakecli.proto.varint import Malformed
from lakecli.remote.packs import decode_commit_data
from lakecli.sstable.format import decode_value
from lakecli.sstable.reader import SSTable


class RecordKind(NamedTuple):
    """A kind of table.

    Attributes:
        columns: the names of its fields, in the order in which lakectl shows them.
        read: returns the fields of a record, from its key, identity and data.
    """

    columns: tuple[str, ...]
    read: Callable[[bytes, bytes, bytes], tuple[Any, ...]]


def _entry(key: bytes, identity: bytes, value: bytes) -> tuple[Any, ...]:
    entry = decode_entry(value)
    return key, identity.hex(), *(getattr(entry, name) for name in _ENTRY.columns[2:])


def _range(_key: bytes, _identity: bytes, value: bytes) -> tuple[Any, ...]:
    record = decode_range_record(value)
    return record.id, record.min_key, record.max_key, record.count, record.size


def _commit(key: bytes, _identity: bytes, value: bytes) -> tuple[Any, ...]:
    commit = decode_commit_data(key, decode_value(value)[1])
    fields = {**commit._asdict(), "commit_id": commit.id, "parents": commit.recorded_parents}
    return tuple(fields[name] for name in _COMMIT.columns)


def _ref(message: Message, _key: bytes, _identity: bytes, value: bytes) -> tuple[Any, ...]:
    fields = message.decode(decode_value(value)[1])
    return fields["id"], fields["commit_id"]


_RANGE: Final = RecordKind(("range_id", "min_key", "max_key", "count", "estimated_size"), _range)
_ENTRY: Final = RecordKind(
    ("path", "identity", "size", "checksum", "modified_at", "physical_address", "metadata"), _entry
)
_COMMIT: Final = RecordKind(
    (
        "commit_id",
        "committer",
        "message",
        "created_at",
        "metadata",
        "parents",
        "metarange_id",
        "version",
        "generation",
    ),
    _commit,
)
_ENTITIES: Final[Mapping[bytes, RecordKind]] = {
    b"branch": RecordKind(("branch", "commit_id"), partial(_ref, BRANCH_DATA)),
    b"commit": _COMMIT,
    b"tag": RecordKind(("tag", "commit_id"), partial(_ref, TAG_DATA)),
}


def kind_of(table: SSTable) -> RecordKind:
    """Return the kind of a table by its properties.

    Raises:
        IntegrityError: it is none that lakecli or lakeFS write.
    """
    kind, entity = table.properties.get("type", b""), table.properties.get("entity", b"")
    if kind == b"metaranges":
        return _RANGE
    if entity in _ENTITIES:
        return _ENTITIES[entity]
    if kind == b"ranges":
        return _ENTRY
    raise IntegrityError(
        f"{table.name} is no range, metarange or list of refs",
        hint="give a file of _lakefs/, or a commit pack of _lakecli/commits/",
    )


def iter_records(table: SSTable) -> Iterator[tuple[Any, ...]]:
    """Yield the fields of each record in key order, as `RecordKind.columns` names them.

    Raises:
        IntegrityError: a block or a record is damaged, or the table is of no known kind.
    """
    read = kind_of(table).read
    for key, value in table.records():
        try:
            yield read(key, decode_value(value)[0], value)
        except Malformed as error:
            raise IntegrityError(f"{table.name}: the record at {key!r} is malformed") from error
