"""Encoders of blocks with any restart interval and any type, for files that lakecli does not write.

They are simpler than the product's encoders, and tests compare their output with theirs.
"""

from collections.abc import Iterable

from google_crc32c import value as crc32c

from lakecli.proto.varint import encode_varint
from lakecli.sstable.block import encode_restarts, shared_prefix_size
from lakecli.sstable.format import CHECKSUM_MASK_DELTA


def encode_pairs(pairs: Iterable[tuple[bytes, bytes]], *, restart_interval: int) -> bytes:
    """Encode a block; the pairs are sorted by key, and keys are stored as given."""
    entries = b""
    restarts: list[int] = []
    last = b""
    for number, (key, value) in enumerate(pairs):
        if number % restart_interval == 0:
            restarts.append(len(entries))
            last = b""
        shared = shared_prefix_size(last, key)
        entries += encode_varint(shared) + encode_varint(len(key) - shared)
        entries += encode_varint(len(value)) + key[shared:] + value
        last = key
    return entries + encode_restarts(restarts)


def stored_as(kind: int, packed: bytes) -> bytes:
    """Return a stored block with the right checksum, whatever it holds."""
    typed = packed + bytes((kind,))
    crc: int = crc32c(typed)
    masked = ((crc >> 15 | crc << 17) + CHECKSUM_MASK_DELTA) & 0xFFFFFFFF
    return typed + masked.to_bytes(4, "little")
