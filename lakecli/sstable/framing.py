"""lakeFS's framing of a record's value: an identity, and the data it stands for.

A value is ``zigzag(len(identity)) identity zigzag(len(data)) data``, where ``zigzag`` is Go's
signed varint: 32 is ``40``, 64 is ``80 01``. What follows the data is ignored, as lakeFS does.
"""

from __future__ import annotations

from typing import Final

from lakecli.errors import IntegrityError

MAX_COMPONENT_SIZE: Final = 640 << 16
"""Bytes in an identity or in data, at most: lakeFS's own limit."""

_MAX_VARINT_SIZE: Final = 10


class MalformedValue(IntegrityError):
    """A record whose value does not follow the format."""

    def __init__(self, what: str) -> None:
        super().__init__(f"damaged record: {what}", hint="run lakecli fsck")


def encode_value(identity: bytes, data: bytes) -> bytes:
    """Frame an identity and the data it stands for."""
    return b"%b%b%b%b" % (_length(len(identity)), identity, _length(len(data)), data)


def decode_value(value: bytes) -> tuple[bytes, bytes]:
    """Return the identity and the data of a value.

    Raises:
        MalformedValue: it is not framed as it should be.
    """
    identity, position = read_component(value, 0)
    data, _ = read_component(value, position)
    return identity, data


def read_component(value: bytes, position: int) -> tuple[bytes, int]:
    """Return the component that begins at `position`, and the position behind it.

    Raises:
        MalformedValue: it is not framed as it should be.
    """
    zigzag = shift = 0
    for byte in value[position : position + _MAX_VARINT_SIZE]:
        position += 1
        zigzag |= (byte & 0x7F) << shift
        if byte <= 0x7F:  # noqa: PLR2004 - a byte holds seven bits
            break
        shift += 7
    else:
        raise MalformedValue("a length that does not end")
    size = zigzag >> 1
    if zigzag & 1 or size > MAX_COMPONENT_SIZE or position + size > len(value):
        raise MalformedValue("a length that does not fit its value")
    return value[position : position + size], position + size


def _length(size: int) -> bytes:
    """Return a length as Go's signed varint."""
    zigzag = size << 1
    encoded = bytearray()
    while zigzag > 0x7F:  # noqa: PLR2004 - a byte holds seven bits
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)
