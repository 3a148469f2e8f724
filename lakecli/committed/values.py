"""What a record's value holds: lakeFS's framing around an identity and an ``Entry`` message.

For the framing see `lakecli.sstable.framing`. In a range the identity is 32 raw bytes and the data
an Entry::

    1 address         string                relative to the storage namespace, or a full URI
    2 last_modified   {1 seconds, 2 nanos}
    3 size            int64
    4 e_tag           string                the checksum
    5 metadata        map<string, string>   sorted by key when we write
    6 address_type    0 deprecated, 1 relative, 2 full
    7 content_type    string

An identity that is read is opaque: entries written by lakeFS keep theirs.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakecli.committed.plain import Shape, read_plain
from lakecli.errors import UsageError
from lakecli.identity import DIGEST_SIZE, entry_identity
from lakecli.layout import is_content_address
from lakecli.model import CLIENT_METADATA_PREFIX, Entry
from lakecli.sstable.framing import MalformedValue, decode_value, encode_value, read_component

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "MalformedValue",
    "decode_entry",
    "decode_value",
    "encode_entry",
    "encode_value",
    "identify",
    "identities_of",
    "identity_of",
]

_DIGEST_FRAME = 2 * DIGEST_SIZE
"""The one byte that announces an identity of 32 bytes, 0x40."""

_DATA_START = 1 + DIGEST_SIZE

_ENTRY = Shape(numbers={3, 6}, strings={1, 2, 4, 5, 7}, repeated={5})
_TIMESTAMP = Shape(numbers={1, 2}, strings=())
_PAIR = Shape(numbers=(), strings={1, 2})

_RELATIVE = 1
_FULL = 2


def identity_of(value: bytes) -> bytes:
    """Return the identity of a value.

    Raises:
        MalformedValue: it is not framed as it should be.
    """
    if value[:1] == b"\x40" and len(value) > _DATA_START:
        return value[1:_DATA_START]
    return read_component(value, 0)[0]


def identities_of(values: Sequence[bytes]) -> list[bytes]:
    """Return the identities of many values, the usual 32-byte ones at the cost of a slice.

    Raises:
        MalformedValue: one is not framed as it should be.
    """
    try:
        return [
            value[1:_DATA_START] if value[0] == _DIGEST_FRAME else identity_of(value)
            for value in values
        ]
    except IndexError:
        raise MalformedValue("an empty value") from None


def identify(entry: Entry) -> bytes:
    """Return the identity of an entry as lakecli computes it."""
    address = entry.physical_address
    return entry_identity(
        size=entry.size,
        checksum=entry.checksum,
        metadata={
            key: text
            for key, text in entry.metadata.items()
            if not key.startswith(CLIENT_METADATA_PREFIX)
        },
        content_type=entry.content_type,
        address="" if is_content_address(address, entry.checksum) else address,
    )


def encode_entry(entry: Entry) -> bytes:
    """Return the whole value that records an entry: its identity and its message.

    Raises:
        UsageError: some text of it is not UTF-8, which a message cannot hold.
    """
    from lakecli.proto import messages

    address = entry.physical_address
    try:
        message = messages.Entry(
            address=address,
            last_modified=messages.Timestamp(seconds=int(entry.modified_at.timestamp())),
            size=entry.size,
            e_tag=entry.checksum,
            metadata=[
                messages.Pair(key=key, value=entry.metadata[key])
                for key in sorted(entry.metadata, key=str.encode)
            ],
            address_type=_FULL if "://" in address else _RELATIVE,
            content_type=entry.content_type,
        )
    except UnicodeEncodeError as error:
        raise _not_text(entry, error.object) from None
    return encode_value(identify(entry), message.SerializeToString())


def _not_text(entry: Entry, text: str) -> UsageError:
    fields = {
        "physical address": entry.physical_address,
        "checksum": entry.checksum,
        "content type": entry.content_type,
    }
    what = next((name for name, value in fields.items() if value == text), "metadata")
    return UsageError(
        f"the {what} is not valid text: {text!r}",
        hint="only paths may hold bytes that are not UTF-8",
    )


def decode_entry(value: bytes) -> Entry:
    """Return the entry that a value records.

    Raises:
        MalformedValue: it records none.
    """
    data = decode_value(value)[1]
    return _read_plain_entry(data) or _read_any_entry(data)


def _read_plain_entry(data: bytes) -> Entry | None:
    """Return the entry of a message that looks as lakecli writes them, or ``None``."""
    fields = read_plain(data, _ENTRY)
    if fields is None:
        return None
    strings = fields.strings
    modified_at = read_plain(strings.get(2, b""), _TIMESTAMP)
    metadata: dict[str, str] = {}
    try:
        for pair in fields.repeated.get(5, ()):
            parts = read_plain(pair, _PAIR)
            if parts is None:
                return None
            metadata[parts.strings.get(1, b"").decode()] = parts.strings.get(2, b"").decode()
        if modified_at is None:
            return None
        return Entry(
            strings.get(1, b"").decode(),
            fields.numbers.get(3, 0),
            strings.get(4, b"").decode(),
            _time(modified_at.numbers.get(1, 0)),
            strings.get(7, b"").decode(),
            metadata,
        )
    except UnicodeDecodeError:
        return None


def _read_any_entry(data: bytes) -> Entry:
    from lakecli.proto import messages

    try:
        message = messages.Entry.FromString(data)
    except messages.DecodeError:
        raise MalformedValue("no entry") from None
    return Entry(
        message.address,
        message.size,
        message.e_tag,
        _time(message.last_modified.seconds),
        message.content_type,
        {pair.key: pair.value for pair in message.metadata},
    )


def _time(seconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise MalformedValue(f"no entry, of no year: {seconds} s") from None
