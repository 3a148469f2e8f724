"""What a record's value holds: lakeFS's framing around an identity and an ``Entry`` message.

A value is ``zigzag(len(identity)) identity zigzag(len(data)) data``, where ``zigzag`` is Go's
signed varint: 32 is ``40``, 64 is ``80 01``. What follows the data is ignored, as lakeFS does. In
a range the identity is 32 raw bytes and the data an Entry::

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

from lakecli.committed.wire import (
    MalformedMessage,
    decode_varint,
    encode_bytes,
    encode_int,
    encode_varint,
    fields,
    signed,
)
from lakecli.errors import IntegrityError, UsageError
from lakecli.identity import DIGEST_SIZE, entry_identity
from lakecli.layout import data_key
from lakecli.model import CLIENT_METADATA_PREFIX, Entry

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_COMPONENT_SIZE = 640 << 16
"""Bytes in an identity or in data, at most: lakeFS's own limit."""

_DIGEST_FRAME = 2 * DIGEST_SIZE
"""The one byte that announces an identity of 32 bytes, 0x40."""

_DATA_START = 1 + DIGEST_SIZE

_METADATA = 5
_RELATIVE = 1
_FULL = 2


class MalformedValue(IntegrityError):
    """A record whose value does not follow the format."""

    def __init__(self, what: str) -> None:
        super().__init__(f"damaged record: {what}", hint="run lakecli fsck")


def encode_value(identity: bytes, data: bytes) -> bytes:
    """Frame an identity and the data it stands for."""
    return b"%b%b%b%b" % (
        encode_varint(2 * len(identity)),
        identity,
        encode_varint(2 * len(data)),
        data,
    )


def decode_value(value: bytes) -> tuple[bytes, bytes]:
    """Return the identity and the data of a value.

    Raises:
        MalformedValue: it is not framed as it should be.
    """
    identity, position = _component(value, 0)
    data, _ = _component(value, position)
    return identity, data


def identity_of(value: bytes) -> bytes:
    """Return the identity of a value.

    Raises:
        MalformedValue: it is not framed as it should be.
    """
    if value[:1] == b"\x40" and len(value) > _DATA_START:
        return value[1:_DATA_START]
    return _component(value, 0)[0]


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


def _component(value: bytes, position: int) -> tuple[bytes, int]:
    try:
        zigzag, position = decode_varint(value, position)
    except MalformedMessage as error:
        raise MalformedValue(str(error)) from None
    size = zigzag >> 1
    if zigzag & 1 or size > MAX_COMPONENT_SIZE or position + size > len(value):
        raise MalformedValue("a length that does not fit its value")
    return value[position : position + size], position + size


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
        address="" if address == data_key(entry.checksum) else address,
    )


def encode_entry(entry: Entry) -> bytes:
    """Return the whole value that records an entry: its identity and its message.

    Raises:
        UsageError: some text of it is not UTF-8, which a message cannot hold.
    """
    address = _utf8(entry.physical_address, "physical address")
    metadata = sorted(
        (_utf8(key, "metadata"), _utf8(text, "metadata")) for key, text in entry.metadata.items()
    )
    message = [
        encode_bytes(1, address) if address else b"",
        encode_bytes(2, encode_int(1, int(entry.modified_at.timestamp()))),
        encode_int(3, entry.size),
        _encode_text(4, entry.checksum, "checksum"),
        *[encode_bytes(5, encode_bytes(1, key) + encode_bytes(2, text)) for key, text in metadata],
        encode_int(6, _FULL if b"://" in address else _RELATIVE),
        _encode_text(7, entry.content_type, "content type"),
    ]
    return encode_value(identify(entry), b"".join(message))


def decode_entry(value: bytes) -> Entry:
    """Return the entry that a value records.

    Raises:
        MalformedValue: it records none.
    """
    found: dict[int, int | bytes] = {}
    metadata: dict[str, str] = {}
    try:
        for number, field in fields(decode_value(value)[1]):
            if number == _METADATA and isinstance(field, bytes):
                pair = dict(fields(field))
                metadata[_text(pair.get(1))] = _text(pair.get(2))
            else:
                found[number] = field
        return Entry(
            physical_address=_text(found.get(1)),
            size=_number(found.get(3)),
            checksum=_text(found.get(4)),
            modified_at=_time(found.get(2)),
            content_type=_text(found.get(7)),
            metadata=metadata,
        )
    except (MalformedMessage, UnicodeDecodeError) as error:
        raise MalformedValue(f"no entry, {error}") from None


def _utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"the {what} is not valid text: {text!r}",
            hint="only paths may hold bytes that are not UTF-8",
        ) from None


def _encode_text(number: int, text: str, what: str) -> bytes:
    return encode_bytes(number, _utf8(text, what)) if text else b""


def _text(field: int | bytes | None) -> str:
    return field.decode() if isinstance(field, bytes) else ""


def _number(field: int | bytes | None) -> int:
    return signed(field) if isinstance(field, int) else 0


def _time(field: int | bytes | None) -> datetime:
    parts = dict(fields(field)) if isinstance(field, bytes) else {}
    seconds = _number(parts.get(1))
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise MalformedMessage(f"{seconds} s is in no year") from None
