"""Writing a table: records in ascending order, or whole blocks of other tables, become one file.

The bytes are a function of the records and the properties alone, however they were added.
"""

from __future__ import annotations

from itertools import islice
from operator import lt
from typing import TYPE_CHECKING

from lakecli.sstable.block import (
    codec,
    encode_pairs,
    encode_restarts,
    payload_size,
    seal,
    shared_prefix_size,
)
from lakecli.sstable.format import (
    BLOCK_CUT_MASK,
    BLOCK_SIZE_MAX,
    BLOCK_SIZE_MIN,
    BLOCK_TRAILER_SIZE,
    CHECKSUM_CRC32C,
    DATA_SIZE,
    FOOTER_HANDLES_END,
    KEY_TRAILER_SIZE,
    MAGIC,
    NUM_DATA_BLOCKS,
    NUM_ENTRIES,
    PROPERTIES_BLOCK,
    RECORD_TRAILER,
    RESERVED_PREFIX,
    RESTART_INTERVAL,
    VERSION,
)
from lakecli.sstable.index import IndexWriter, encode_handle, separator
from lakecli.sstable.properties import encode_properties
from lakecli.sstable.varint import encode_uvarint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakecli.sstable.reader import Block


class TableWriter:
    """Builds one file in memory.

    Args:
        properties: user properties known up front; ``min_key``, ``max_key``, ``count`` and
            ``estimated_size_bytes`` are added by `finish`.

    Attributes:
        count: records so far.
        min_key: the first key; ``b""`` while there is none.
        max_key: the last key; ``b""`` while there is none.

    Raises:
        ValueError: a property has a name of the format's own.
    """

    def __init__(self, *, properties: Mapping[str, bytes]) -> None:
        for name in properties:
            if name.startswith(RESERVED_PREFIX):
                raise ValueError(f"the format owns the property {name}")
        self.count = 0
        self.min_key = b""
        self.max_key = b""
        self._properties = dict(properties)
        self._blocks: list[bytes] = []
        self._data_size = 0
        self._key_size = 0
        self._value_size = 0
        self._index = IndexWriter()
        self._pending: tuple[bytes, int, int] | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._entries = 0
        self._restarts: list[int] = []

    @property
    def at_block_boundary(self) -> bool:
        """Whether the next record starts a block."""
        return self._entries == 0

    def add(self, key: bytes, value: bytes) -> None:
        """Add one record.

        Raises:
            ValueError: the key is not greater than the last one; nothing was added.
        """
        self.add_many((key,), (value,))

    def add_many(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add records, in ascending order of their keys.

        Raises:
            ValueError: the keys do not ascend, or there are more keys than values or fewer;
                nothing was added.
        """
        if len(keys) != len(values):
            raise ValueError(f"{len(keys)} keys and {len(values)} values")
        if not keys:
            return
        self._check_order(keys)
        crc32c = codec().crc32c
        last = self.max_key
        for key, value in zip(keys, values, strict=True):
            if self._pending is not None:
                self._index_pending(key)
            shared = 0
            if self._entries % RESTART_INTERVAL == 0:
                self._restarts.append(self._size)
            else:
                shared = shared_prefix_size(last, key)
            entry = b"%b%b%b%b%b%b" % (
                encode_uvarint(shared),
                encode_uvarint(len(key) - shared + 8),
                encode_uvarint(len(value)),
                key[shared:],
                RECORD_TRAILER,
                value,
            )
            self._parts.append(entry)
            self._size += len(entry)
            self._entries += 1
            last = key
            if self._size >= BLOCK_SIZE_MIN and (
                self._size >= BLOCK_SIZE_MAX or crc32c(key) & BLOCK_CUT_MASK == 0
            ):
                self._end_block(key)
        self._account(keys, values)

    def copy_block(self, block: Block) -> None:
        """Add a decoded block of another table as it is stored there.

        The last block of a table ends where its records did, not where the cut rule says; such a
        block is added record by record, so that the bytes still depend on the records alone.

        Raises:
            ValueError: a block is half-written here, or the keys do not ascend; nothing was added.
        """
        if not self.at_block_boundary:
            raise ValueError("a block can only be copied where the last one ended")
        if not block.keys:
            return
        if not _ends_at_cut(block):
            self.add_many(block.keys, block.values)
            return
        self._check_order(block.keys)
        if self._pending is not None:
            self._index_pending(block.keys[0])
        self._append(block.stored, block.keys[-1])
        self._account(block.keys, block.values)

    def _check_order(self, keys: Sequence[bytes]) -> None:
        if (self.count and keys[0] <= self.max_key) or not all(
            map(lt, keys, islice(keys, 1, None))
        ):
            raise ValueError("keys that are not in ascending order")

    def _account(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        if not self.count:
            self.min_key = keys[0]
        self.max_key = keys[-1]
        self.count += len(keys)
        self._key_size += sum(map(len, keys)) + KEY_TRAILER_SIZE * len(keys)
        self._value_size += sum(map(len, values))

    def _index_pending(self, following: bytes | None) -> None:
        assert self._pending is not None
        last, offset, size = self._pending
        self._index.add(separator(last, following), offset, size)
        self._pending = None

    def _end_block(self, last: bytes) -> None:
        payload = b"".join(self._parts) + encode_restarts(self._restarts)
        self._parts = []
        self._restarts = []
        self._size = self._entries = 0
        self._append(seal(payload, compress=True), last)

    def _append(self, stored: bytes, last: bytes) -> None:
        self._pending = (last, self._data_size, len(stored) - BLOCK_TRAILER_SIZE)
        self._blocks.append(stored)
        self._data_size += len(stored)

    def finish(self) -> bytes:
        """Return the whole file. The writer is of no use afterwards."""
        estimate = (
            self._data_size + self._size + 4 * len(self._restarts) + 4 + self._index.size_estimate
        )
        if self._entries:
            self._end_block(self.max_key)
        if self._pending is not None:
            self._index_pending(None)
        if not self._blocks:
            self._blocks.append(seal(encode_restarts([]), compress=True))
            self._data_size = len(self._blocks[0])
        index, index_handle, sizes = self._index.finish(self._data_size)
        offset = self._data_size + len(index)
        user = {
            **self._properties,
            "count": b"%d" % self.count,
            "estimated_size_bytes": b"%d" % estimate,
            "max_key": self.max_key,
            "min_key": self.min_key,
        }
        numbers = {
            **sizes,
            DATA_SIZE: self._data_size,
            NUM_DATA_BLOCKS: len(self._blocks),
            NUM_ENTRIES: self.count,
            "rocksdb.raw.key.size": self._key_size,
            "rocksdb.raw.value.size": self._value_size,
        }
        payload = encode_properties(user, numbers, two_levels=len(sizes) > 1)
        properties = seal(payload, compress=False)
        handle = encode_handle(offset, len(payload))
        offset += len(properties)
        payload = encode_pairs([(PROPERTIES_BLOCK, handle)], restart_interval=1)
        metaindex = seal(payload, compress=False)
        handles = bytes((CHECKSUM_CRC32C,)) + encode_handle(offset, len(payload)) + index_handle
        footer = handles.ljust(FOOTER_HANDLES_END, b"\0") + VERSION.to_bytes(4, "little") + MAGIC
        return b"".join((*self._blocks, index, properties, metaindex, footer))


def _ends_at_cut(block: Block) -> bool:
    """Tell whether the cut rule ends a block where this one ends."""
    restarts = -(-len(block.keys) // RESTART_INTERVAL)
    size = payload_size(block.stored) - 4 * restarts - 4
    return size >= BLOCK_SIZE_MIN and (
        size >= BLOCK_SIZE_MAX or codec().crc32c(block.keys[-1]) & BLOCK_CUT_MASK == 0
    )
