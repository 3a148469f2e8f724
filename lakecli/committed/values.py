"""The values of records: an identity, and the data it stands for, framed as lakeFS does.

For the framing see `lakecli.sstable.format`. In a range the identity is 32 raw bytes and the data
a `lakecli.proto.messages.Entry`; `encode` writes them. The identity of an entry that was read is
opaque: entries that lakeFS wrote keep theirs.

Reading ranges spends its time here, so entries in the usual form are decoded field by field. The
codec of `lakecli.proto` decodes every other form, and decides what is damaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from blake3 import blake3

from lakecli.base.identity import DIGEST_SIZE
from lakecli.base.model import Entry
from lakecli.proto.varint import CONTINUES, Malformed, decode_varint
from lakecli.sstable.format import MalformedValue, decode_value, encode_value, read_component

__all__ = [
    "MalformedValue",
    "decode_entry",
    "decode_value",
    "digests",
    "encode_value",
    "identities_of",
    "identity_of",
]

_DIGEST_FRAME: Final = 2 * DIGEST_SIZE
"""The one byte that announces an identity of 32 bytes, 0x40."""

_DATA_START: Final = 1 + DIGEST_SIZE
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CACHED: Final = 1 << 12
"""Times of which the decoded form is kept."""

_LENGTH_SIZE: Final = 5
"""Bytes of a length inside a message, at most."""

# The tags of an entry's fields, and of a metadata pair's.
_ADDRESS: Final = 0x0A
_LAST_MODIFIED: Final = 0x12
_SIZE: Final = 0x18
_E_TAG: Final = 0x22
_METADATA: Final = 0x2A
_ADDRESS_TYPE: Final = 0x30
_CONTENT_TYPE: Final = 0x3A
_KEY: Final = 0x0A
_VALUE: Final = 0x12


def identity_of(value: bytes) -> bytes:
    """Return the identity of a value.

    Raises:
        MalformedValue: the framing is damaged.
    """
    if value[:1] == b"\x40" and len(value) > _DATA_START:
        return value[1:_DATA_START]
    return read_component(value, 0)[0]


def is_same(left: bytes | None, right: bytes | None) -> bool:
    """Return whether two values are both absent or have the same identity."""
    if left == right:
        return True
    return left is not None and right is not None and identity_of(left) == identity_of(right)


def identities_of(values: Sequence[bytes]) -> list[bytes]:
    """Return the identities of many values, the usual 32-byte ones at the cost of a slice.

    Raises:
        MalformedValue: the framing of a value is damaged.
    """
    try:
        return [
            value[1:_DATA_START] if value[0] == _DIGEST_FRAME else identity_of(value)
            for value in values
        ]
    except IndexError:
        raise MalformedValue("an empty value") from None


def digests(keys: Sequence[bytes], values: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Return ``identity.h`` of each key, and ``identity.record_id`` of each record, each joined.

    Raises:
        MalformedValue: the framing of a value is damaged.
    """
    of_keys = [blake3(key).digest() for key in keys]
    return b"".join(of_keys), b"".join(
        blake3(of_key + blake3(identity).digest()).digest()
        for of_key, identity in zip(of_keys, identities_of(values), strict=True)
    )


def decode_entry(value: bytes) -> Entry:
    """Return the entry that a value records.

    Raises:
        MalformedValue: it records none.
    """
    return _decode_usual(value) or _decode_any(value)


def _decode_usual(  # noqa: C901, PLR0911, PLR0912, PLR0915 - reading spends its time here
    value: bytes,
) -> Entry | None:
    """Return the entry of a value in the form that lakecli and lakeFS write, or ``None``.

    The identity has 32 bytes, fields ascend, pairs of metadata are short and have a key and a
    value.
    """
    address = checksum = content_type = ""
    modified_at = _EPOCH
    size = 0
    metadata: dict[str, str] = {}
    try:
        length, at = value[_DATA_START], _DATA_START + 1
        if length >= CONTINUES:
            more = value[at]
            if more >= CONTINUES:
                length, at = decode_varint(value, _DATA_START)
            else:
                length, at = length & 0x7F | more << 7, at + 1
        end = at + (length >> 1)
        if value[0] != _DIGEST_FRAME or length & 1 or end > len(value):
            return None
        data = value[at:end] + b"\0"  # no field has this tag, so each ends before another byte
        end -= at

        at, tag = 0, data[0]
        if tag == _ADDRESS:
            length, start = data[1], 2
            if length >= CONTINUES:
                length, start = decode_varint(data, 1, max_size=_LENGTH_SIZE)
            at = start + length
            address = data[start:at].decode()
            tag = data[at]
        if tag == _LAST_MODIFIED:
            length, start = data[at + 1], at + 2
            if length >= CONTINUES:
                return None
            at = start + length
            modified_at = _decode_time(data[start:at])
            tag = data[at]
        if tag == _SIZE:
            size, at = data[at + 1], at + 2
            if size >= CONTINUES:
                size, at = decode_varint(data, at - 1)
            tag = data[at]
        if tag == _E_TAG:
            length, start = data[at + 1], at + 2
            if length >= CONTINUES:
                length, start = decode_varint(data, at + 1, max_size=_LENGTH_SIZE)
            at = start + length
            checksum = data[start:at].decode()
            tag = data[at]
        while tag == _METADATA:
            _, length, key_tag, key_length = data[at : at + 4]
            start = at + 4
            middle = start + key_length
            value_tag, value_length = data[middle : middle + 2]
            stop = middle + 2 + value_length
            if (
                key_tag != _KEY
                or value_tag != _VALUE
                or stop - at - 2 != length
                or (length | key_length | value_length) >= CONTINUES
            ):
                return None
            metadata[data[start:middle].decode()] = data[middle + 2 : stop].decode()
            at = stop
            tag = data[at]
        if tag == _ADDRESS_TYPE:
            if data[at + 1] >= CONTINUES:
                return None
            at += 2
            tag = data[at]
        if tag == _CONTENT_TYPE:
            length, start = data[at + 1], at + 2
            if length >= CONTINUES:
                length, start = decode_varint(data, at + 1, max_size=_LENGTH_SIZE)
            at = start + length
            content_type = data[start:at].decode()
        if at != end or size >> 63:
            return None
    except (IndexError, ValueError, Malformed, MalformedValue):
        return None
    # As `Entry(…)` does, without calling its constructor: a tenth of the time.
    return tuple.__new__(Entry, (address, size, checksum, modified_at, content_type, metadata))


def _decode_any(value: bytes) -> Entry:
    from lakecli.proto import messages  # 0.25 ms, for unusual entries

    data = decode_value(value)[1]
    try:
        message = messages.ENTRY.decode(data)
    except Malformed:
        raise MalformedValue("no entry") from None
    return Entry(
        message["address"],
        message["size"],
        message["e_tag"],
        _time(messages.seconds_of(message["last_modified"])),
        message["content_type"],
        messages.map_of(message["metadata"]),
    )


@lru_cache(_CACHED)
def _decode_time(data: bytes) -> datetime:
    if data[:1] == b"\x08":
        seconds, end = decode_varint(data, 1)
        if end == len(data) and not seconds >> 63:
            return _time(seconds)
    from lakecli.proto import messages

    return _time(messages.TIMESTAMP.decode(data)["seconds"])


def _time(seconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise MalformedValue(f"no entry, of no year: {seconds} s") from None
