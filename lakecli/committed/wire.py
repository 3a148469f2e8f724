"""Just enough of protobuf's wire format for the messages inside ranges and metaranges.

`lakecli.proto.messages` reads and writes the same bytes, and the tests compare the two. Importing
it costs every ``fs stat``, ``fs ls``, ``diff`` and ``commit`` some 15 ms, which is a fifth of what
such a command takes; these few lines cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT = 0
FIXED64 = 1
BYTES = 2
FIXED32 = 5

_MAX_VARINT_SIZE = 10
_U64 = (1 << 64) - 1


class MalformedMessage(ValueError):
    """Bytes that are no protobuf message; whoever reads a record says which one it was."""


def encode_varint(value: int) -> bytes:
    """Encode a 64-bit integer; a negative one as its two's complement, as int64 fields do."""
    value &= _U64
    if value < 0x80:  # noqa: PLR2004 - one byte holds seven bits
        return bytes((value,))
    encoded = bytearray()
    while value >= 0x80:  # noqa: PLR2004
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def decode_varint(data: bytes, position: int) -> tuple[int, int]:
    """Decode an unsigned varint; return it and the position after it.

    Raises:
        MalformedMessage: it does not end within `data`, or not within 64 bits.
    """
    value = shift = 0
    for byte in data[position : position + _MAX_VARINT_SIZE]:
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004
            return value & _U64, position
        shift += 7
    raise MalformedMessage("a number that does not end")


def signed(value: int) -> int:
    """Return an int64 field's value from its unsigned varint."""
    return value - (1 << 64) if value >> 63 else value


def encode_int(number: int, value: int) -> bytes:
    """Encode an integer or enum field; nothing for 0, the default."""
    return bytes((number << 3 | VARINT,)) + encode_varint(value) if value else b""


def encode_bytes(number: int, value: bytes) -> bytes:
    """Encode a bytes, string or message field, even if it is empty."""
    return bytes((number << 3 | BYTES,)) + encode_varint(len(value)) + value


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) in file order; the value is an unsigned int or bytes.

    Fixed-width fields come as their bytes: no message of ours has one, so their number is what
    tells the caller to ignore them.

    Raises:
        MalformedMessage: the bytes are no message.
    """
    position = 0
    end = len(data)
    while position < end:
        tag = data[position]
        if tag < 0x80:  # noqa: PLR2004
            position += 1
        else:
            tag, position = decode_varint(data, position)
        kind = tag & 7
        if kind == VARINT:
            value, position = decode_varint(data, position)
            yield tag >> 3, value
            continue
        if kind == BYTES:
            size, position = decode_varint(data, position)
        elif kind == FIXED64:
            size = 8
        elif kind == FIXED32:
            size = 4
        else:
            raise MalformedMessage(f"a field of unknown wire type {kind}")
        if tag < 8:  # noqa: PLR2004 - the number is above the three bits of the type
            raise MalformedMessage("a field without a number")
        if position + size > end:
            raise MalformedMessage("a field that runs past its message")
        yield tag >> 3, data[position : position + size]
        position += size
