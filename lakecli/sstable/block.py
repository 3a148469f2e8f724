"""One block: sealing and opening its stored form, encoding and decoding its entries.

Decoding trusts nothing: whatever the bytes, it ends in lists or in `Malformed`, having taken time
and memory in proportion to the block.
"""

from __future__ import annotations

from functools import cache
from itertools import islice, repeat
from operator import lt
from typing import TYPE_CHECKING, NamedTuple

from lakecli.sstable.errors import Malformed
from lakecli.sstable.format import (
    BLOCK_TRAILER_SIZE,
    CHECKSUM_MASK_DELTA,
    KEY_TRAILER_SIZE,
    MAX_BLOCK_ENTRIES,
    MAX_BLOCK_SIZE,
    MAX_SNAPPY_RATIO,
    RECORD_TRAILER,
    STORED_RAW,
    STORED_SNAPPY,
)
from lakecli.sstable.varint import decode_uvarint, encode_uvarint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_U32 = 0xFFFFFFFF
_SHARING_BUDGET = 64 << 20
"""Bytes that long shared prefixes may add to the keys of one block, at most."""


class Codec(NamedTuple):
    """The C functions under a block."""

    crc32c: Callable[[bytes], int]
    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes], bytes]


@cache
def codec() -> Codec:
    """Load the C modules on first use: together they cost a start-up five milliseconds."""
    from cramjam import snappy
    from google_crc32c import value

    return Codec(value, snappy.compress_raw, snappy.decompress_raw)


def masked_checksum(data: bytes) -> int:
    """Return the masked CRC32C of a payload followed by its type byte."""
    crc = codec().crc32c(data)
    return ((crc >> 15 | crc << 17) + CHECKSUM_MASK_DELTA) & _U32


def seal(payload: bytes, *, compress: bool) -> bytes:
    """Return the stored form of a block, compressed only where that saves more than an eighth."""
    if compress:
        packed = codec().compress(payload)
        if len(packed) < len(payload) - len(payload) // 8:
            typed = bytes(packed) + b"\x01"
            return typed + masked_checksum(typed).to_bytes(4, "little")
    typed = payload + b"\0"
    return typed + masked_checksum(typed).to_bytes(4, "little")


def verify(stored: bytes) -> None:
    """Check the checksum of a stored block.

    Raises:
        Malformed: it does not match.
    """
    if len(stored) < BLOCK_TRAILER_SIZE:
        raise Malformed("the file ends inside a block")
    if masked_checksum(stored[:-4]) != int.from_bytes(stored[-4:], "little"):
        raise Malformed("the block's checksum does not match")


def payload_of(stored: bytes) -> bytes:
    """Return the uncompressed payload of a stored block whose checksum was verified.

    Raises:
        Malformed: an unknown type, or not Snappy.
    """
    if len(stored) < BLOCK_TRAILER_SIZE:
        raise Malformed("the file ends inside a block")
    kind = stored[-BLOCK_TRAILER_SIZE]
    payload = stored[:-BLOCK_TRAILER_SIZE]
    if kind == STORED_RAW:
        return payload
    if kind != STORED_SNAPPY:
        raise Malformed(f"a block of unknown type {kind}")
    size, _ = decode_uvarint(payload, 0)
    if size > MAX_BLOCK_SIZE or size > len(payload) * MAX_SNAPPY_RATIO:
        raise Malformed(f"a compressed block that claims {size} bytes")
    try:
        return bytes(codec().decompress(payload))
    except Exception as error:  # cramjam names its error only in a private module
        raise Malformed("a block that is not Snappy") from error


def payload_size(stored: bytes) -> int:
    """Return the size of a stored block's payload when it is uncompressed."""
    if stored[-BLOCK_TRAILER_SIZE] == STORED_SNAPPY:
        return decode_uvarint(stored, 0)[0]
    return len(stored) - BLOCK_TRAILER_SIZE


def entries_end(payload: bytes) -> int:
    """Return where the entries of a block end and its restart points begin.

    Raises:
        Malformed: the restart points do not fit.
    """
    count = int.from_bytes(payload[-4:], "little")
    end = len(payload) - 4 - 4 * count
    if end < 0 or count == 0 or len(payload) > MAX_BLOCK_SIZE:
        raise Malformed(f"a block of {len(payload)} bytes that claims {count} restart points")
    return end


def decode_records(payload: bytes) -> tuple[list[bytes], list[bytes]]:
    """Decode a data block into its user keys and its values, both in key order.

    Raises:
        Malformed: anything but plain records in strictly ascending order.
    """
    keys: list[bytes] = []
    values: list[bytes] = []
    add_key = keys.append
    add_value = values.append
    end = entries_end(payload)
    position = 0
    key = b""
    budget = _SHARING_BUDGET
    try:
        for _ in repeat(None, MAX_BLOCK_ENTRIES):
            if position >= end:
                break
            shared = payload[position]
            unshared = payload[position + 1]
            size = payload[position + 2]
            if shared | unshared | size < 0x80:
                position += 3
            else:
                shared, position = decode_uvarint(payload, position)
                unshared, position = decode_uvarint(payload, position)
                size, position = decode_uvarint(payload, position)
                budget -= shared
            middle = position + unshared
            if payload[middle - 8 : middle] != RECORD_TRAILER or unshared < KEY_TRAILER_SIZE:
                raise Malformed("a key that is not one of a plain record")
            if shared > len(key) or budget < 0:
                if shared > len(key) + KEY_TRAILER_SIZE or budget < 0:
                    raise Malformed("a key that shares more than there is")
                key = (key + RECORD_TRAILER)[:shared] + payload[position : middle - 8]
            else:
                key = key[:shared] + payload[position : middle - 8]
            add_key(key)
            position = middle + size
            add_value(payload[middle:position])
    except IndexError:
        raise Malformed("an entry that runs past its block") from None
    if position != end:
        raise Malformed("entries that do not end where the restart points begin")
    if not all(map(lt, keys, islice(keys, 1, None))):
        raise Malformed("keys that are not in ascending order")
    return keys, values


def decode_pairs(payload: bytes) -> dict[bytes, bytes]:
    """Decode a block of bare keys: the metaindex and the properties.

    Raises:
        Malformed: it is not such a block.
    """
    pairs: dict[bytes, bytes] = {}
    end = entries_end(payload)
    position = 0
    key = b""
    budget = _SHARING_BUDGET
    while position < end:
        shared, position = decode_uvarint(payload, position)
        unshared, position = decode_uvarint(payload, position)
        size, position = decode_uvarint(payload, position)
        budget -= shared
        if shared > len(key) or budget < 0:
            raise Malformed("a key that shares more than there is")
        key = key[:shared] + payload[position : position + unshared]
        position += unshared
        pairs[key] = payload[position : position + size]
        position += size
    if position != end:
        raise Malformed("entries that do not end where the restart points begin")
    return pairs


def find_value(payload: bytes, key: bytes) -> bytes | None:
    """Return the value of one user key of a data block, or ``None``.

    Raises:
        Malformed: the block is not a data block.
    """
    keys, values = decode_records(payload)
    try:
        return values[keys.index(key)]
    except ValueError:
        return None


def encode_pairs(pairs: Iterable[tuple[bytes, bytes]], *, restart_interval: int) -> bytes:
    """Encode a block of keys as they are, already sorted: everything but data blocks."""
    parts: list[bytes] = []
    restarts: list[int] = []
    size = 0
    last = b""
    for number, (key, value) in enumerate(pairs):
        shared = 0
        if number % restart_interval == 0:
            restarts.append(size)
        else:
            shared = shared_prefix_size(last, key)
        entry = b"%b%b%b%b%b" % (
            encode_uvarint(shared),
            encode_uvarint(len(key) - shared),
            encode_uvarint(len(value)),
            key[shared:],
            value,
        )
        parts.append(entry)
        size += len(entry)
        last = key
    return b"".join(parts) + encode_restarts(restarts)


def encode_restarts(restarts: list[int]) -> bytes:
    """Encode the tail of a block; a block without entries still has one restart point."""
    offsets = restarts or [0]
    return b"".join([number.to_bytes(4, "little") for number in (*offsets, len(offsets))])


def shared_prefix_size(left: bytes, right: bytes) -> int:
    """Return how many first bytes two keys have in common."""
    size = min(len(left), len(right))
    difference = int.from_bytes(left[:size], "big") ^ int.from_bytes(right[:size], "big")
    return size - (difference.bit_length() + 7) // 8
