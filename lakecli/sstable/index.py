"""Writing the index of a table: the position and the last key of each data block.

`directory` reads it.

The properties block, read by lakecli, lakeFS and RocksDB's tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from lakecli.proto.varint import encode_varint
from lakecli.sstable.block import encode_pairs, encode_restarts, seal, shared_prefix_size
from lakecli.sstable.format import (
    BLOCK_TRAILER_SIZE,
    EMPTY_BLOCK_SIZE,
    EMPTY_TABLE_TRAILER,
    INDEX_HANDLE_GUESS,
    INDEX_PARTITION_SIZE,
    INDEX_PARTITION_THRESHOLD,
    INDEX_PARTITIONS,
    INDEX_SINGLE_LEVEL,
    INDEX_TWO_LEVEL,
    INDEX_TYPE,
    RECORD_TRAILER,
    SEPARATOR_TRAILER,
)


def separator(last: bytes, following: bytes | None) -> bytes:
    """Return the index key of a block: at least its last key, and less than the key after it.

    The key is shortened if possible, and then has its own trailer.

    Args:
        last: user key of the block's last record.
        following: user key of the next record, or ``None`` at the end of the table.
    """
    short = _successor(last) if following is None else _between(last, following)
    if len(short) <= len(last) and short > last:
        return short + SEPARATOR_TRAILER
    return last + RECORD_TRAILER


def _between(last: bytes, following: bytes) -> bytes:
    """Shorten `last` to a key still less than `following`, if one byte can be incremented."""
    at = shared_prefix_size(last, following)
    if at == len(last):
        return last
    byte = last[at]
    if at < len(following) - 1 or byte + 1 < following[at]:
        return last[:at] + bytes((byte + 1,))
    for position in range(at + 1, len(last)):
        if last[position] != 0xFF:  # noqa: PLR2004 - a byte that cannot be incremented
            return last[:position] + bytes((last[position] + 1,))
    return last


def _successor(last: bytes) -> bytes:
    """Shorten `last` to a key that is greater than every key starting with `last`."""
    for position, byte in enumerate(last):
        if byte != 0xFF:  # noqa: PLR2004 - a byte that cannot be incremented
            return last[:position] + bytes((byte + 1,))
    return last


def encode_handle(offset: int, size: int) -> bytes:
    """Encode a block handle."""
    return encode_varint(offset) + encode_varint(size)


class _Level:
    """An index block being filled; every entry is a restart point, so keys share no prefix.

    Attributes:
        entries: encoded.
        last_key: of the last entry.
        size_estimate: bytes of the block if it ended here, as lakeFS counts them.
    """

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.last_key = b""
        self.size_estimate = 4

    def add(self, key: bytes, offset: int, size: int) -> None:
        """Add the handle of a block."""
        handle = encode_varint(offset) + encode_varint(size)
        entry = b"\0%b%c%b%b" % (encode_varint(len(key)), len(handle), key, handle)
        self.entries.append(entry)
        self.last_key = key
        self.size_estimate += len(entry) + 4

    def is_full(self, key: bytes) -> bool:
        """Return whether an entry of this key starts the next block, by Pebble's rule."""
        estimate = self.size_estimate
        if estimate <= INDEX_PARTITION_THRESHOLD or not self.entries:
            return False
        header_size = 1 + len(encode_varint(len(key))) + 4 + 4
        return (
            estimate >= INDEX_PARTITION_SIZE
            or estimate + len(key) + INDEX_HANDLE_GUESS + header_size > INDEX_PARTITION_SIZE
        )

    def payload(self) -> bytes:
        """Encode the block."""
        starts = accumulate(map(len, self.entries[:-1]), initial=0)
        return b"".join(self.entries) + encode_restarts(list(starts))


class WrittenIndex(NamedTuple):
    """An index ready to be written.

    Attributes:
        stored: the bytes of all its blocks.
        handle: encoded handle of the top block.
        sizes: properties of the table that describe it, by name.
    """

    stored: bytes
    handle: bytes
    sizes: dict[str, int]


class IndexWriter:
    """Collects the handles of data blocks, and encodes them as an index of one or two levels."""

    def __init__(self) -> None:
        self._level = _Level()
        self._full: list[_Level] = []

    @property
    def size_estimate(self) -> int:
        """Size of the partition being filled in bytes, as lakeFS counts it."""
        return self._level.size_estimate

    def add(self, key: bytes, offset: int, size: int) -> None:
        """Add a data block under its separator; blocks come in order."""
        if self._level.is_full(key):
            self._full.append(self._level)
            self._level = _Level()
        self._level.add(key, offset, size)

    def add_many(self, keys: Sequence[bytes], offset: int, sizes: Sequence[int]) -> int:
        """Add consecutive data blocks, the first of them at `offset`.

        Args:
            keys: their separators.
            offset: of the first block.
            sizes: of the blocks, their trailers included.

        Returns:
            The offset behind the last block.
        """
        for key, size in zip(keys, sizes, strict=True):
            self.add(key, offset, size - BLOCK_TRAILER_SIZE)
            offset += size
        return offset

    def finish(self, offset: int) -> WrittenIndex:
        """Encode the index.

        Args:
            offset: position of the index in the file.
        """
        if not self._level.entries:
            self._level.add(EMPTY_TABLE_TRAILER, 0, EMPTY_BLOCK_SIZE)
        if not self._full:
            payload = self._level.payload()
            stored = seal(payload, compress=True)
            handle = encode_handle(offset, len(stored) - BLOCK_TRAILER_SIZE)
            sizes = {"rocksdb.index.size": len(payload) + BLOCK_TRAILER_SIZE}
            return WrittenIndex(stored, handle, sizes)
        top = _Level()
        written: list[bytes] = []
        size = 0
        for level in (*self._full, self._level):
            payload = level.payload()
            stored = seal(payload, compress=True)
            top.add(level.last_key, offset, len(stored) - BLOCK_TRAILER_SIZE)
            written.append(stored)
            offset += len(stored)
            size += len(payload)
        payload = top.payload()
        stored = seal(payload, compress=True)
        written.append(stored)
        handle = encode_handle(offset, len(stored) - BLOCK_TRAILER_SIZE)
        sizes = {
            "rocksdb.index.size": size + len(payload) + BLOCK_TRAILER_SIZE,
            INDEX_PARTITIONS: len(top.entries),
            "rocksdb.top-level.index.size": len(payload),
        }
        return WrittenIndex(b"".join(written), handle, sizes)


_ONE_RESTART = 2**31 - 1

_FIXED = {
    "rocksdb.block.based.table.prefix.filtering": b"0",
    "rocksdb.block.based.table.whole.key.filtering": b"0",
    "rocksdb.column.family.id": encode_varint(2**31 - 1),
    "rocksdb.comparator": b"leveldb.BytewiseComparator",
    "rocksdb.compression": b"Snappy",
    "rocksdb.compression_options": (
        b"window_bits=-14; level=32767; strategy=0; max_dict_bytes=0; zstd_max_train_bytes=0; "
        b"enabled=0; "
    ),
    "rocksdb.creation.time": b"\0",
    "rocksdb.deleted.keys": b"\0",
    "rocksdb.external_sst_file.global_seqno": bytes(8),
    "rocksdb.external_sst_file.version": (2).to_bytes(4, "little"),
    "rocksdb.filter.size": b"\0",
    "rocksdb.fixed.key.length": b"\0",
    "rocksdb.format.version": b"\0",
    "rocksdb.index.key.is.user.key": b"\0",
    "rocksdb.index.value.is.delta.encoded": b"\0",
    "rocksdb.merge.operands": b"\0",
    "rocksdb.merge.operator": b"pebble.concatenate",
    "rocksdb.num.range-deletions": b"\0",
    "rocksdb.oldest.key.time": b"\0",
    "rocksdb.prefix.extractor.name": b"nullptr",
    "rocksdb.property.collectors": b"[static]",
}
"""Properties that lakeFS's writer gives every table, and its readers expect."""


def encode_properties(user: Mapping[str, bytes], numbers: Mapping[str, int]) -> bytes:
    """Encode the properties block.

    Args:
        user: properties without the format's own prefix, by name.
        numbers: the format's own counts and sizes, by name.
    """
    index_type = INDEX_TWO_LEVEL if INDEX_PARTITIONS in numbers else INDEX_SINGLE_LEVEL
    merged = {
        **_FIXED,
        **user,
        **{name: encode_varint(number) for name, number in numbers.items()},
        INDEX_TYPE: index_type.to_bytes(4, "little"),
    }
    pairs = sorted((name.encode("utf-8", "surrogateescape"), merged[name]) for name in merged)
    return encode_pairs(pairs, restart_interval=_ONE_RESTART)
