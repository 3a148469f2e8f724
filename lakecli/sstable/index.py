"""The index of a table: where each data block lies, and up to which key it reaches."""

from __future__ import annotations

from lakecli.sstable.block import encode_pairs, entries_end, seal, shared_prefix_size
from lakecli.sstable.errors import Malformed
from lakecli.sstable.format import (
    BLOCK_TRAILER_SIZE,
    EMPTY_TABLE_TRAILER,
    INDEX_HANDLE_GUESS,
    INDEX_PARTITION_SIZE,
    INDEX_PARTITION_THRESHOLD,
    KEY_TRAILER_SIZE,
    RECORD_TRAILER,
    SEPARATOR_TRAILER,
)
from lakecli.sstable.varint import decode_uvarint, encode_uvarint


def separator(last: bytes, following: bytes | None) -> bytes:
    """Return the index key of a block: at least its last key, less than the one following it.

    The key is shortened where that is possible and then carries its own trailer.

    Args:
        last: user key of the block's last record.
        following: user key of the next record, or ``None`` at the end of the table.
    """
    short = _successor(last) if following is None else _between(last, following)
    if len(short) <= len(last) and short > last:
        return short + SEPARATOR_TRAILER
    return last + RECORD_TRAILER


def _between(last: bytes, following: bytes) -> bytes:
    """Shorten `last` to a key still less than `following`, if one byte can be raised."""
    at = shared_prefix_size(last, following)
    if at >= min(len(last), len(following)) or last[at] >= following[at]:
        return last
    if at < len(following) - 1 or last[at] + 1 < following[at]:
        return last[:at] + bytes((last[at] + 1,))
    for position in range(at + 1, len(last)):
        if last[position] != 0xFF:  # noqa: PLR2004 - a byte that cannot be raised
            return last[:position] + bytes((last[position] + 1,))
    return last


def _successor(last: bytes) -> bytes:
    """Shorten `last` to a key that is greater than every key it starts."""
    for position, byte in enumerate(last):
        if byte != 0xFF:  # noqa: PLR2004 - a byte that cannot be raised
            return last[:position] + bytes((byte + 1,))
    return last


def encode_handle(offset: int, size: int) -> bytes:
    """Encode a block handle."""
    return encode_uvarint(offset) + encode_uvarint(size)


class IndexWriter:
    """Collects the handles of data blocks and lays the index out in one or two levels.

    Attributes:
        size_estimate: bytes of the partition being filled, as lakeFS counts them.
    """

    def __init__(self) -> None:
        self.size_estimate = 4
        self._entries: list[tuple[bytes, bytes]] = []
        self._partitions: list[list[tuple[bytes, bytes]]] = []

    def add(self, key: bytes, offset: int, size: int) -> None:
        """Add a data block under its separator; blocks come in order."""
        if self._is_full(len(key)):
            self._partitions.append(self._entries)
            self._entries = []
            self.size_estimate = 4
        handle = encode_handle(offset, size)
        self._entries.append((key, handle))
        self.size_estimate += 4 + 1 + len(encode_uvarint(len(key))) + 1 + len(key) + len(handle)

    def _is_full(self, key_size: int) -> bool:
        """Tell whether the next entry belongs to a new partition: Pebble's rule for blocks."""
        estimate = self.size_estimate
        if not self._entries or estimate <= INDEX_PARTITION_THRESHOLD:
            return False
        if estimate >= INDEX_PARTITION_SIZE:
            return True
        added = key_size + INDEX_HANDLE_GUESS + 4 + 4 + len(encode_uvarint(key_size)) + 1
        return estimate + added > INDEX_PARTITION_SIZE

    def finish(self, offset: int) -> tuple[bytes, bytes, dict[str, int]]:
        """Return the stored index, the handle of its top block, and the sizes for the properties.

        Args:
            offset: of the file where the index will lie.
        """
        if not self._entries:
            self._entries = [(EMPTY_TABLE_TRAILER, encode_handle(0, 8))]
        if not self._partitions:
            payload = encode_pairs(self._entries, restart_interval=1)
            stored = seal(payload, compress=True)
            size = len(payload) + BLOCK_TRAILER_SIZE
            handle = encode_handle(offset, len(stored) - BLOCK_TRAILER_SIZE)
            return stored, handle, {"rocksdb.index.size": size}
        top: list[tuple[bytes, bytes]] = []
        written: list[bytes] = []
        size = 0
        for entries in (*self._partitions, self._entries):
            payload = encode_pairs(entries, restart_interval=1)
            stored = seal(payload, compress=True)
            top.append((entries[-1][0], encode_handle(offset, len(stored) - BLOCK_TRAILER_SIZE)))
            written.append(stored)
            offset += len(stored)
            size += len(payload)
        payload = encode_pairs(top, restart_interval=1)
        stored = seal(payload, compress=True)
        written.append(stored)
        handle = encode_handle(offset, len(stored) - BLOCK_TRAILER_SIZE)
        return (
            b"".join(written),
            handle,
            {
                "rocksdb.index.size": size + len(payload) + BLOCK_TRAILER_SIZE,
                "rocksdb.index.partitions": len(top),
                "rocksdb.top-level.index.size": len(payload),
            },
        )


def decode_index(payload: bytes, *, start: int, end: int) -> list[tuple[bytes, int, int]]:
    """Decode an index block into (user key, offset, size) of the blocks it points at.

    Args:
        payload: uncompressed.
        start: no block may begin before it.
        end: no block may end after it.

    Raises:
        Malformed: it is not an index of blocks that follow each other inside these limits, which
            also bounds what a small file can claim to hold.
    """
    entries: list[tuple[bytes, int, int]] = []
    limit = entries_end(payload)
    position = 0
    key = b""
    while position < limit:
        shared, position = decode_uvarint(payload, position)
        unshared, position = decode_uvarint(payload, position)
        value_size, position = decode_uvarint(payload, position)
        if shared > len(key):
            raise Malformed("a key that shares more than there is")
        key = key[:shared] + payload[position : position + unshared]
        position += unshared
        offset, after = decode_uvarint(payload, position)
        size, after = decode_uvarint(payload, after)
        position += value_size
        if after != position or position > limit or len(key) < KEY_TRAILER_SIZE:
            raise Malformed("an index entry of the wrong size")
        if offset < start or offset + size + BLOCK_TRAILER_SIZE > end:
            raise Malformed(f"an index entry that points at {offset}, {size} bytes")
        start = offset + size + BLOCK_TRAILER_SIZE
        entries.append((key[:-KEY_TRAILER_SIZE], offset, size))
    if not entries:
        raise Malformed("an index without entries")
    return entries
