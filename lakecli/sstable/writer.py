"""Writing a table from records in ascending order, or from whole blocks of other tables.

The bytes depend on the records and the properties alone, not on how the records were added.
`IndexWriter` writes the index, with the position of each data block and a key for it.
`encode_properties` writes the properties, which lakecli, lakeFS and RocksDB's tools read.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate, islice
from operator import lt
from typing import NamedTuple, Protocol

from google_crc32c import value as crc32c

from lakecli import native
from lakecli.proto.varint import encode_varint
from lakecli.sstable import block
from lakecli.sstable import format as file_format

_COMPUTED = frozenset(("count", "estimated_size_bytes", "max_key", "min_key"))


class EncodedBlock(NamedTuple):
    """A data block encoded from the next records.

    Attributes:
        payload: the block, not compressed.
        stop: the position after the block's last record.
        is_full: whether the cut rule of `sstable.format` ended the block; else the records ended
            first.
    """

    payload: bytes
    stop: int
    is_full: bool


def encode_next(
    keys: Sequence[bytes], values: Sequence[bytes], checksums: Sequence[int], start: int
) -> EncodedBlock:
    """Encode the block that begins at record `start`, in C if the compiled core is present."""
    core = native.core()
    found = None if core is None else core.encode_block(keys, values, checksums, start)
    return EncodedBlock(*(found or block.encode_block(keys, values, checksums, start)))


class StoredRun(Protocol):
    """Consecutive blocks of a table that lakecli wrote, which may be copied as they are stored."""

    @property
    def keys(self) -> Sequence[bytes]:
        """User keys of all records."""

    @property
    def values(self) -> Sequence[bytes]:
        """Values of all records, in the order of `keys`."""

    @property
    def starts(self) -> Sequence[int]:
        """The position of the first record of each block, and then the number of records."""

    def copied(self, first: int, last: int) -> block.CopiedBlocks | None:
        """Return the blocks from `first` to before `last`; ``None`` if they cannot be copied."""


class TableWriter:
    """Builds one table in memory.

    Args:
        properties: user properties, by name; `finish` adds ``min_key``, ``max_key``, ``count`` and
            ``estimated_size_bytes``.

    Attributes:
        count: the number of records added so far.
        min_key: the first key; ``b""`` before the first record.
        max_key: the last key; ``b""`` before the first record.

    Raises:
        ValueError: a property is one that only the writer sets.
    """

    def __init__(self, *, properties: Mapping[str, bytes]) -> None:
        for name in properties:
            if name in _COMPUTED or name.startswith(file_format.RESERVED_PREFIX):
                raise ValueError(f"only the writer sets the property {name}")
        self.count = 0
        self.min_key = b""
        self.max_key = b""
        self._properties = dict(properties)
        # Records of the block that is not full yet, and this block as far as it is encoded.
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self._waiting = EncodedBlock(block.encode_restarts([]), 0, is_full=False)
        # The finished blocks.
        self._last_key = b""
        self._blocks: list[bytes | memoryview] = []
        self._block_count = 0
        self._key_size = 0
        self._value_size = 0
        self._index = IndexWriter()
        self._unindexed = 0
        """Size of the last finished block: its key in the index depends on the key after it."""

    def add_many(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add records in ascending order of their keys.

        Raises:
            ValueError: the keys do not ascend, or the numbers of keys and values differ. In both
                cases, no record was added.
        """
        if len(keys) != len(values):
            raise ValueError(f"{len(keys)} keys and {len(values)} values")
        if keys:
            self._take(keys)
            # RocksDB counts a key with its trailer.
            self._key_size += sum(map(len, keys)) + file_format.KEY_TRAILER_SIZE * len(keys)
            self._value_size += sum(map(len, values))
            self._keys += keys
            self._values += values
            self._end_blocks()

    def copy_run(self, run: StoredRun, start: int, stop: int) -> tuple[int, int, int] | None:
        """Add records of another table that lakecli wrote, copying whole blocks as they are stored.

        The bytes of the file must still depend on the records alone. So two groups of records are
        encoded instead: the records before the first block that begins at the same record in both
        tables, and the records of the last block if the cut rule would not end a block there.

        Returns:
            Three block numbers: of the first copied block in this table, of the same block in the
            other table, and of the block after the last copied one in the other table. ``None`` if
            no block was copied.
        """
        keys, values, starts = run.keys, run.values, run.starts
        first, last = block.blocks_between(starts, start, stop)
        while first < last:
            at = starts[first]
            self.add_many(keys[start:at], values[start:at])
            start = at
            if not self._keys:  # the next record starts a block
                break
            first += 1
        if first < last:
            end = run.copied(last - 1, last)
            if end is not None and not end.end_at_cut(starts[last] - starts[last - 1]):
                last -= 1
        blocks = run.copied(first, last) if first < last else None
        copied = None
        if blocks is not None:
            copied = self._block_count, first, last
            self._copy_blocks(blocks)
            start = starts[last]
        self.add_many(keys[start:stop], values[start:stop])
        return copied

    def _copy_blocks(self, blocks: block.CopiedBlocks) -> None:
        """Add stored blocks; the block before them must be finished."""
        self._take(blocks.keys)
        self.count += blocks.record_count - len(blocks.keys)
        if self._unindexed:
            self._index_last(blocks.keys[0])
        *sizes, self._unindexed = blocks.sizes
        self._index.add_many(blocks.separators[:-1], sizes)
        self._blocks += blocks.stored
        self._block_count += len(blocks.sizes)
        self._last_key = blocks.keys[-1]
        self._key_size += blocks.key_size + file_format.KEY_TRAILER_SIZE * blocks.record_count
        self._value_size += blocks.value_size

    def finish(self) -> bytes:
        """Return the whole file. The writer must not be used afterwards."""
        waiting_size = len(self._waiting.payload) if self._keys else 4
        estimate = self._index.data_size + self._unindexed + waiting_size
        estimate += self._index.partitions[-1].size_estimate
        if self._keys:
            self._end_block(self.max_key)
        if self._blocks:
            self._index_last(None)
        else:
            self._end_block(b"")
            self._index.add_many([file_format.EMPTY_TABLE_TRAILER], [self._unindexed])
        data_size = self._index.data_size
        index, top_handle, sizes = self._index.finish()
        counts = {"count": b"%d" % self.count, "estimated_size_bytes": b"%d" % estimate}
        computed = {**counts, "max_key": self.max_key, "min_key": self.min_key}
        numbers = {
            file_format.DATA_SIZE: data_size,
            file_format.NUM_DATA_BLOCKS: self._block_count,
            file_format.NUM_ENTRIES: self.count,
            "rocksdb.raw.key.size": self._key_size,
            "rocksdb.raw.value.size": self._value_size,
            **sizes,
        }
        payload = encode_properties(self._properties | computed, numbers)
        properties = block.seal(payload, compress=False)
        offset = data_size + len(index)
        handle = encode_handle(offset, len(payload))
        payload = block.encode_pairs([(file_format.PROPERTIES_BLOCK, handle)])
        metaindex = block.seal(payload, compress=False)
        handle = encode_handle(offset + len(properties), len(payload))
        handles = bytes((file_format.CHECKSUM_CRC32C,)) + handle + top_handle
        footer = handles.ljust(file_format.FOOTER_HANDLES_END, b"\0")
        footer += file_format.VERSION.to_bytes(4, "little") + file_format.MAGIC
        return b"".join((*self._blocks, index, properties, metaindex, footer))

    def _take(self, keys: Sequence[bytes]) -> None:
        """Check that the keys of new records ascend, and count them."""
        are_sorted = all(map(lt, keys, islice(keys, 1, None)))
        if not are_sorted or (self.count and keys[0] <= self.max_key):
            raise ValueError("keys that are not in ascending order")
        if not self.count:
            self.min_key = keys[0]
        self.max_key = keys[-1]
        self.count += len(keys)

    def _end_blocks(self) -> None:
        """Encode the records that are not yet in a block, and write the full blocks."""
        keys, values = self._keys, self._values
        checksums = list(map(crc32c, keys))
        start = 0
        while start < len(keys):
            if self._unindexed:
                self._index_last(keys[start])
            self._waiting = encode_next(keys, values, checksums, start)
            if not self._waiting.is_full:
                break
            start = self._waiting.stop
            self._end_block(keys[start - 1])
        self._keys, self._values = keys[start:], values[start:]

    def _end_block(self, last: bytes) -> None:
        """Write the block that was being filled; its last key is `last`."""
        payload = self._waiting.payload
        if len(payload) > file_format.MAX_BLOCK_SIZE:
            raise ValueError(f"a record of {len(payload)} bytes is more than a block can hold")
        stored = block.seal(payload, compress=True)
        self._unindexed = len(stored)
        self._last_key = last
        self._blocks.append(stored)
        self._block_count += 1

    def _index_last(self, following: bytes | None) -> None:
        """Add the last finished block to the index; `following` is the next key, if any."""
        self._index.add_many([separator(self._last_key, following)], [self._unindexed])
        self._unindexed = 0


def separator(last: bytes, following: bytes | None) -> bytes:
    """Return the index key of a block: at least its last key, and less than the following key.

    The last key is shortened if possible; the trailer of the result shows whether it was.

    Args:
        following: user key of the next record, or ``None`` at the end of the table.
    """
    short = _incremented(last) if following is None else _between(last, following)
    return block.index_key(short, last)


def _between(last: bytes, following: bytes) -> bytes:
    """Return a shorter key between `last` and `following`, made by incrementing one byte of `last`.

    If no byte can be incremented, return `last`.
    """
    at = block.shared_prefix_size(last, following)
    if at == len(last):
        return last
    byte = last[at]
    if at < len(following) - 1 or byte + 1 < following[at]:
        return last[:at] + bytes((byte + 1,))
    return _incremented(last, at + 1)


def _incremented(last: bytes, start: int = 0) -> bytes:
    """Return a shorter key above `last`, made by incrementing one byte at or after `start`.

    If no byte can be incremented, return `last`.
    """
    rest = last[start:]
    position = len(last) - len(rest.lstrip(b"\xff"))
    return last[:position] + bytes((last[position] + 1,)) if position < len(last) else last


def encode_handle(offset: int, size: int) -> bytes:
    """Encode a block handle."""
    return encode_varint(offset) + encode_varint(size)


def encode_index_entries(keys: Sequence[bytes], sizes: Sequence[int], offset: int) -> list[bytes]:
    """Encode the index entries of blocks that follow one another.

    Args:
        keys: the key of each block in the index, with its trailer.
        sizes: the size of each stored block, its trailer included.
        offset: where the first block begins.
    """
    entries: list[bytes] = []
    for key, size in zip(keys, sizes, strict=True):
        handle = encode_handle(offset, size - file_format.BLOCK_TRAILER_SIZE)
        entries.append(b"\0%b%c%b%b" % (encode_varint(len(key)), len(handle), key, handle))
        offset += size
    return entries


class _Level:
    """An index block to which entries are added.

    Every entry is a restart point, so keys share no prefix.

    Attributes:
        entries: the encoded entries.
        size_estimate: size in bytes that the block would have without further entries, as lakeFS
            estimates it.
    """

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.last_key = b""
        self.size_estimate = 4

    def add(self, key: bytes, entry: bytes) -> None:
        """Add an encoded entry and its key."""
        self.entries.append(entry)
        self.last_key = key
        self.size_estimate += len(entry) + 4

    def is_full(self, key: bytes) -> bool:
        """Return whether an entry with this key must start another block, by Pebble's rule."""
        estimate = self.size_estimate
        if estimate <= file_format.INDEX_PARTITION_THRESHOLD or not self.entries:
            return False
        header_size = 1 + len(encode_varint(len(key))) + 4 + 4
        estimate += len(key) + file_format.INDEX_HANDLE_GUESS + header_size
        return estimate > file_format.INDEX_PARTITION_SIZE

    def payload(self) -> bytes:
        """Encode the block."""
        starts = accumulate(map(len, self.entries[:-1]), initial=0)
        return b"".join(self.entries) + block.encode_restarts(list(starts))


class IndexWriter:
    """Collects the handles of data blocks, and encodes them as an index with one or two levels.

    Attributes:
        data_size: total size of the added blocks in bytes, their trailers included.
        partitions: the parts of the index; blocks are added to the last one.
    """

    def __init__(self) -> None:
        self.data_size = 0
        self.partitions = [_Level()]

    def add_many(self, keys: Sequence[bytes], sizes: Sequence[int]) -> None:
        """Add the next data blocks with their separators as keys; sizes include the trailers."""
        core = native.core()
        found = None if core is None else core.encode_index_entries(keys, sizes, self.data_size)
        entries = encode_index_entries(keys, sizes, self.data_size) if found is None else found
        for key, entry in zip(keys, entries, strict=True):
            if self.partitions[-1].is_full(key):
                self.partitions.append(_Level())
            self.partitions[-1].add(key, entry)
        self.data_size += sum(sizes)

    def finish(self) -> tuple[bytes, bytes, dict[str, int]]:
        """Encode the index.

        Returns:
            The bytes of all its blocks, the encoded handle of the top block, and the table's
            properties that describe the index, by name.
        """
        top, *others = self.partitions
        written: list[bytes] = []
        offset, size = self.data_size, file_format.BLOCK_TRAILER_SIZE
        if others:
            top = _Level()
            for partition in self.partitions:
                payload = partition.payload()
                stored = block.seal(payload, compress=True)
                key = partition.last_key
                top.add(key, *encode_index_entries([key], [len(stored)], offset))
                written.append(stored)
                offset += len(stored)
                size += len(payload)
        payload = top.payload()
        stored = block.seal(payload, compress=True)
        sizes = {"rocksdb.index.size": size + len(payload)}
        if others:
            sizes[file_format.INDEX_PARTITIONS] = len(self.partitions)
            sizes["rocksdb.top-level.index.size"] = len(payload)
        handle = encode_handle(offset, len(stored) - file_format.BLOCK_TRAILER_SIZE)
        return b"".join((*written, stored)), handle, sizes


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
"""Properties that lakeFS writes into every table and that its readers expect."""


def encode_properties(user: Mapping[str, bytes], numbers: Mapping[str, int]) -> bytes:
    """Encode the properties block.

    Args:
        user: user properties, by name; their names do not begin with the format's prefix.
        numbers: the format's own counts and sizes, by name.
    """
    is_deep = file_format.INDEX_PARTITIONS in numbers
    index_type = file_format.INDEX_TWO_LEVEL if is_deep else file_format.INDEX_SINGLE_LEVEL
    merged = {
        **_FIXED,
        **user,
        **{name: encode_varint(number) for name, number in numbers.items()},
        file_format.INDEX_TYPE: index_type.to_bytes(4, "little"),
    }
    pairs = sorted((name.encode("utf-8", "surrogateescape"), merged[name]) for name in merged)
    return block.encode_pairs(pairs)
