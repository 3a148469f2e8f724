"""Unsigned varints: seven bits a byte, the lowest first, the top bit set on all but the last."""

from __future__ import annotations

from functools import cache
from typing import Final

from lakecli.sstable.errors import Malformed
from lakecli.sstable.format import MAX_UVARINT_SIZE

CONTINUES: Final = 0x80
"""The top bit: another byte follows. Less than that, a number is its own only byte."""


def encode_uvarint(value: int) -> bytes:
    """Encode a number of at most 64 bits."""
    if value < CONTINUES:
        return bytes((value,))
    if value < 1 << 14:
        return bytes((value & 0x7F | CONTINUES, value >> 7))
    if value < 1 << 21:
        return bytes((value & 0x7F | CONTINUES, value >> 7 & 0x7F | CONTINUES, value >> 14))
    return bytes((value & 0x7F | CONTINUES,)) + encode_uvarint(value >> 7)


@cache
def small_uvarints() -> list[bytes]:
    """Return the encoded forms of the numbers below 4,096, made on first use: a loop's table."""
    return [encode_uvarint(value) for value in range(1 << 12)]


def decode_uvarint(data: bytes, position: int) -> tuple[int, int]:
    """Decode the number at `position`; return it and the position after it.

    Raises:
        Malformed: the number does not end within `data`, or not within 64 bits, or is padded:
            every number has one form, so that no bit of it can flip unnoticed.
    """
    value = shift = 0
    for byte in data[position : position + MAX_UVARINT_SIZE]:
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < CONTINUES:
            if value >> 64 or (shift and not byte):
                break
            return value, position
        shift += 7
    raise Malformed("a number that does not end, or is longer than it should be")
