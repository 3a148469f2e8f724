"""An encoder of blocks with restart points at any interval, for files that lakecli does not write.

It is simpler than the product's encoders, and tests compare its output with theirs.
"""

from collections.abc import Iterable

from lakecli.proto.varint import encode_varint
from lakecli.sstable.block import encode_restarts, shared_prefix_size


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
