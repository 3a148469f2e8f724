"""Unsigned varints: seven bits per byte, lowest bits first; the last byte has its top bit clear."""

from typing import Final

MAX_SIZE: Final = 10
"""Largest size of an encoded 64-bit number, in bytes."""

CONTINUES: Final = 0x80
"""The top bit: another byte follows. A smaller number is encoded as a single byte, itself."""

_ONE_BYTE: Final = [bytes((value,)) for value in range(CONTINUES)]
_ENDLESS: Final = "a number that does not end, or is longer than it should be"


class Malformed(Exception):
    """Bytes do not follow the format; readers convert this to an error that names the file."""


def encode_varint(value: int) -> bytes:
    """Encode a number of at most 64 bits."""
    if value < CONTINUES:
        return _ONE_BYTE[value]
    if value < 1 << 14:
        return bytes((value & 0x7F | CONTINUES, value >> 7))
    lowest = bytes((value & 0x7F | CONTINUES, value >> 7 & 0x7F | CONTINUES))
    return lowest + encode_varint(value >> 14)


def decode_varint(data: bytes, position: int, *, max_size: int = MAX_SIZE) -> tuple[int, int]:
    """Decode the number at `position`, padded or not; return it and the position after it.

    All seven bits of the tenth byte are used, so the number may exceed 64 bits.

    Raises:
        Malformed: the number does not end within `data` or within `max_size` bytes.
    """
    if position < len(data) and data[position] < CONTINUES:
        return data[position], position + 1
    value = shift = 0
    for byte in data[position : position + max_size]:
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < CONTINUES:
            return value, position
        shift += 7
    raise Malformed(_ENDLESS)


def decode_canonical_varint(data: bytes, position: int) -> tuple[int, int]:
    """Decode the number at `position`; return it and the position after it.

    Only the shortest encoding of a number is accepted, so that every flipped bit is noticed.

    Raises:
        Malformed: the number does not end within `data`, does not fit into 64 bits, or is padded.
    """
    value, end = decode_varint(data, position)
    if end - position > 1 and (value >> 64 or data[end - 1] == 0):
        raise Malformed(_ENDLESS)
    return value, end
