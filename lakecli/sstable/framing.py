"""lakeFS's framing of a record's value: an identity, and the data it stands for.

A value is ``zigzag(len(identity)) identity zigzag(len(data)) data``, where ``zigzag`` is Go's
signed varint: 32 is ``40``, 64 is ``80 01``. Bytes after the data are ignored, as lakeFS does.
"""

from __future__ import annotations

from typing import Final

from lakecli.errors import IntegrityError
from lakecli.proto.varint import Malformed, decode_varint, encode_varint

MAX_COMPONENT_SIZE: Final = 640 << 16
"""Bytes in an identity or in data, at most: lakeFS's own limit."""


class MalformedValue(IntegrityError):
    """A record whose value does not follow the format."""

    def __init__(self, what: str) -> None:
        super().__init__(f"damaged record: {what}", hint="run lakecli fsck")


def encode_value(identity: bytes, data: bytes) -> bytes:
    """Frame an identity and the data it stands for."""
    return b"%b%b%b%b" % (
        encode_varint(len(identity) << 1),
        identity,
        encode_varint(len(data) << 1),
        data,
    )


def decode_value(value: bytes) -> tuple[bytes, bytes]:
    """Return the identity and the data of a value.

    Raises:
        MalformedValue: the framing is damaged.
    """
    identity, position = read_component(value, 0)
    data, _ = read_component(value, position)
    return identity, data


def read_component(value: bytes, position: int) -> tuple[bytes, int]:
    """Return the component that begins at `position`, and the position behind it.

    Raises:
        MalformedValue: the framing is damaged.
    """
    try:
        zigzag, position = decode_varint(value, position)
    except Malformed:
        raise MalformedValue("a length that does not end") from None
    size = zigzag >> 1
    if zigzag & 1 or size > MAX_COMPONENT_SIZE or position + size > len(value):
        raise MalformedValue("a length that does not fit its value")
    return value[position : position + size], position + size
