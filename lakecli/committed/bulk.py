"""Encoding many entries at once: those that a listing knows, without metadata.

What `values.encode_entry` does for one entry, written out for columns of them: the protobuf
message and the framing of the identity are put together by hand from their constant parts. Tests
hold every byte of it against `encode_entry`, and so against protobuf.
"""

from __future__ import annotations

from functools import cache
from itertools import repeat
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from blake3 import blake3

from lakecli.identity import frame_map, frame_str

if TYPE_CHECKING:
    from collections.abc import Sequence

_SEVEN: Final = 7
_BITS: Final = 2 * _SEVEN
_TABLE: Final = 1 << _BITS
_LOW: Final = _TABLE - 1

_IDENTITY_START: Final = frame_str("lakecli:entry:1")
_NO_METADATA: Final = frame_map({})
_NUMBER: Final = Struct(">2sq").pack
_LENGTH: Final = Struct(">3sq").pack

_FULL_ADDRESS: Final = b"\x30\x02"


class Columns(NamedTuple):
    """Objects that lie elsewhere, column by column.

    Attributes:
        addresses: full URIs, in UTF-8.
        sizes: in bytes.
        checksums: in UTF-8.
        seconds: when each was modified, in unix seconds; not negative.
        content_types: in UTF-8; ``None`` for none at all.
    """

    addresses: Sequence[bytes]
    sizes: Sequence[int]
    checksums: Sequence[bytes]
    seconds: Sequence[int]
    content_types: Sequence[bytes] | None = None


def encode_external(columns: Columns) -> list[bytes]:
    """Return the whole values that record objects which lie elsewhere, in the same order."""
    whole, more = _varints()
    digest = blake3
    values = []
    times = _Times()
    types = _Types()
    rows = zip(
        columns.addresses,
        columns.sizes,
        columns.checksums,
        columns.seconds,
        columns.content_types or repeat(b""),
        strict=False,
    )
    for address, size, checksum, seconds, content_type in rows:
        framed_type, type_field = types[content_type]
        identity = digest(
            b"%b%b%b%b%b%b%b"
            % (
                _IDENTITY_START,
                _NUMBER(b"\x02\x08", size),
                _LENGTH(b"\x01\x02\x08", len(checksum)),
                checksum,
                framed_type,
                _LENGTH(b"\x01\x02\x08", len(address)),
                address,
            )
        ).digest()
        if size < _TABLE:
            length = whole[size]
        elif size < _TABLE * _TABLE:
            length = more[size & _LOW] + whole[size >> _BITS]
        else:
            length = _varint(size)
        message = b"\x0a%b%b%b%b%b%b%b" % (
            whole[len(address)] if len(address) < _TABLE else _varint(len(address)),
            address,
            times[seconds],
            b"\x18" + length if size else b"",
            b"\x22%b%b" % (_varint(len(checksum)), checksum) if checksum else b"",
            _FULL_ADDRESS,
            type_field,
        )
        double = len(message) << 1  # as lakeFS writes lengths
        frame = whole[double] if double < _TABLE else _varint(double)
        values.append(b"\x40%b%b%b" % (identity, frame, message))
    return values


class _Times(dict[int, bytes]):
    """The field ``last_modified`` by its seconds, some thousands of them at a time."""

    def __missing__(self, seconds: int) -> bytes:
        if len(self) > _TABLE:
            self.clear()
        inner = b"\x08" + _varint(seconds) if seconds else b""
        field = self[seconds] = b"\x12%b%b" % (_varint(len(inner)), inner)
        return field


class _Types(dict[bytes, tuple[bytes, bytes]]):
    """Content types: in the identity, where no metadata comes before them, and as a field."""

    def __missing__(self, content_type: bytes) -> tuple[bytes, bytes]:
        if len(self) > _TABLE:
            self.clear()
        size = len(content_type)
        framed = _NO_METADATA + _LENGTH(b"\x01\x02\x08", size) + content_type
        field = b"\x3a%b%b" % (_varint(size), content_type) if content_type else b""
        found = self[content_type] = framed, field
        return found


@cache
def _varints() -> tuple[list[bytes], list[bytes]]:
    """Return varints of 14 bits: whole ones, and the first two bytes of longer ones."""
    whole = [bytes((number,)) for number in range(0x80)]
    whole += [bytes((number & 0x7F | 0x80, number >> _SEVEN)) for number in range(0x80, _TABLE)]
    more = [bytes((number & 0x7F | 0x80, number >> _SEVEN | 0x80)) for number in range(_TABLE)]
    return whole, more


def _varint(number: int) -> bytes:
    whole, more = _varints()
    encoded = b""
    while number >= _TABLE:
        encoded += more[number & _LOW]
        number >>= _BITS
    return encoded + whole[number]
