"""Unsigned varints: seven bits a byte, the lowest first, the top bit set on all but the last."""

from __future__ import annotations

from lakecli.sstable.errors import Malformed
from lakecli.sstable.format import MAX_UVARINT_SIZE


def encode_uvarint(value: int) -> bytes:
    """Encode a number of at most 64 bits."""
    if value < 0x80:  # noqa: PLR2004 - one byte holds seven bits
        return bytes((value,))
    encoded = bytearray()
    while value >= 0x80:  # noqa: PLR2004
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def decode_uvarint(data: bytes, position: int) -> tuple[int, int]:
    """Decode the number at `position`; return it and the position after it.

    Raises:
        Malformed: the number does not end within `data`, or not within 64 bits.
    """
    value = shift = 0
    for byte in data[position : position + MAX_UVARINT_SIZE]:
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004
            if value >> 64:
                break
            return value, position
        shift += 7
    raise Malformed("a number that does not end")
