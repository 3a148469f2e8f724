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
BYTES = 2
_FIXED_SIZES = {1: 8, 5: 4}

_MAX_VARINT_SIZE = 10
_U64 = (1 << 64) - 1
_MIN_TAG = 1 << 3  # a tag is a field's number and three bits for its wire type
_MAX_TAG = (1 << 32) - 1


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

    Fields of fixed width are passed over: no message of ours has one.

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
        if not _MIN_TAG <= tag <= _MAX_TAG:
            raise MalformedMessage("a field without a number")
        kind = tag & 7
        if kind == VARINT:
            value, position = decode_varint(data, position)
            yield tag >> 3, value
        elif kind == BYTES:
            size, position = decode_varint(data, position)
            start, position = position, position + size
            if position <= end:
                yield tag >> 3, data[start:position]
        elif kind in _FIXED_SIZES:
            position += _FIXED_SIZES[kind]
        else:
            raise MalformedMessage(f"a field of unknown wire type {kind}")
    if position > end:
        raise MalformedMessage("a field that runs past its message")
