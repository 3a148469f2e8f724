"""The directory of a table: its properties and the handles of all data blocks, found from its end.

It takes one read of the file's tail, and a second one only if the index does not fit into that.

Sources of an SSTable's bytes: the protocol, and a whole file in memory.
"""

from __future__ import annotations

from itertools import islice
from operator import lt
from typing import Final, NamedTuple, Protocol

from lakecli import native
from lakecli.proto.varint import CONTINUES, Malformed, decode_canonical_varint
from lakecli.sstable.block import decode_pairs, payload_of, verify
from lakecli.sstable.format import (
    BLOCK_TRAILER_SIZE,
    CHECKSUM_CRC32C,
    DATA_SIZE,
    FOOTER_HANDLES_END,
    FOOTER_SIZE,
    INDEX_SINGLE_LEVEL,
    INDEX_TWO_LEVEL,
    INDEX_TYPE,
    KEY_TRAILER_SIZE,
    MAGIC,
    MAX_PROPERTIES,
    MIN_STORED_SIZE,
    NUM_DATA_BLOCKS,
    NUM_ENTRIES,
    PROPERTIES_BLOCK,
    VERSION,
    CorruptTable,
    UnknownTableFormat,
)


class Source(Protocol):
    """Random access to the bytes of one file."""

    name: str
    """For error messages."""

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`, fewer if the file ends earlier."""

    def view(self, offset: int, length: int) -> memoryview:
        """Return the same as `read`, without a copy if the file is in memory."""

    def read_tail(self, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes, fewer if the file is shorter, and the file's size."""


class BytesSource:
    """A whole file in memory."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self._data = data

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`, fewer if the file ends earlier."""
        return self._data[offset : offset + length]

    def view(self, offset: int, length: int) -> memoryview:
        """Return the same as `read`, without a copy."""
        return memoryview(self._data)[offset : offset + length]

    def read_tail(self, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes, fewer if the file is shorter, and the file's size."""
        return self._data[max(0, len(self._data) - length) :], len(self._data)


_NO_INDEX_ENTRY: Final = "an index entry that is not a key and a handle"
_TAIL_SIZE_MIN = 4096
"""Enough for the properties, the largest of which are two keys, and everything after them."""


class Blocks(NamedTuple):
    """What an index says of blocks, in three lists of the same length.

    Attributes:
        keys: for each block a key, no less than its last.
        offsets: of each block, none less than the end of the one before.
        sizes: of each block, trailer included.
    """

    keys: list[bytes]
    offsets: list[int]
    sizes: list[int]

    @property
    def end(self) -> int:
        """Where the last block ends, 0 if there is none."""
        return self.offsets[-1] + self.sizes[-1] if self.sizes else 0

    def extend(self, more: Blocks) -> None:
        """Add the blocks of another part of the index."""
        self.keys.extend(more.keys)
        self.offsets.extend(more.offsets)
        self.sizes.extend(more.sizes)


class Directory:
    """What is known of an open file. No dataclass: defining one takes a millisecond at start-up.

    Attributes:
        size: of the file, in bytes.
        properties: RocksDB's and the user's, by name.
        count: records.
        separators: for each data block a key, no less than its last and less than the first of the
            next block; ascending.
        offsets: of each data block.
        sizes: of each data block, trailer included.
    """

    def __init__(self, size: int, properties: dict[str, bytes], blocks: Blocks) -> None:
        self.size = size
        self.properties = properties
        self.count = _number(properties, NUM_ENTRIES)
        self.separators = blocks.keys
        self.offsets = blocks.offsets
        self.sizes = blocks.sizes
        if not all(map(lt, self.separators, islice(self.separators, 1, None))):
            raise Malformed("index keys that are not in ascending order")
        expected = _number(properties, NUM_DATA_BLOCKS)
        if len(self.sizes) != expected:
            raise Malformed(f"an index of {len(self.sizes)} blocks, not {expected}")


class _Tail:
    """The end of a file, held while the directory is read."""

    def __init__(self, source: Source, length: int) -> None:
        self.name = source.name
        self._source = source
        self._data, self.size = source.read_tail(max(length, _TAIL_SIZE_MIN))
        self._offset = self.size - len(self._data)

    def reach(self, offset: int) -> None:
        """Read everything from `offset` on, if not held yet."""
        if 0 <= offset < self._offset:
            self._data = self._source.read(offset, self._offset - offset) + self._data
            self._offset = self.size - len(self._data)

    def footer(self) -> bytes:
        return self._data[-FOOTER_SIZE:]

    def payload(self, offset: int, size: int) -> bytes:
        """Return the verified payload of a block; the caller adds the offset to errors."""
        size += BLOCK_TRAILER_SIZE
        if offset >= self._offset:
            start = offset - self._offset
            stored = self._data[start : start + size]
        else:
            stored = self._source.read(offset, size)
        verify(stored, size)
        return payload_of(stored)


def read_directory(source: Source, *, tail_size: int) -> Directory:
    """Read and verify the footer, the properties and the whole index of a file.

    Raises:
        CorruptTable: the file is damaged.
        UnknownTableFormat: it is not of this format at all.
    """
    tail = _Tail(source, tail_size)
    at = max(0, tail.size - FOOTER_SIZE)
    try:
        (at, size), index = _decode_footer(tail)
        metaindex = decode_pairs(tail.payload(at, size), limit=MAX_PROPERTIES)
        at, size = _find_properties(metaindex, end=at)
        pairs = decode_pairs(tail.payload(at, size), limit=MAX_PROPERTIES)
        properties = {name.decode("utf-8", "surrogateescape"): value for name, value in pairs}
        data_size = _number(properties, DATA_SIZE)
        two_levels = _has_two_levels(properties)
        tail.reach(data_size)
        at, size = index
        # The top index holds handles of data blocks, or of index partitions.
        blocks = decode_index(tail.payload(at, size), start=0, end=at if two_levels else data_size)
        if two_levels:
            partitions, blocks = blocks, Blocks([], [], [])
            for at, size in zip(partitions.offsets, partitions.sizes, strict=True):
                payload = tail.payload(at, size - BLOCK_TRAILER_SIZE)
                blocks.extend(decode_index(payload, start=blocks.end, end=data_size))
        at, _ = index
        return Directory(tail.size, properties, blocks)
    except Malformed as error:
        raise CorruptTable(tail.name, at, str(error)) from None


def _decode_footer(tail: _Tail) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the handles of the metaindex and of the index."""
    footer = tail.footer()
    at = tail.size - FOOTER_SIZE
    if len(footer) < FOOTER_SIZE:
        raise CorruptTable(tail.name, 0, f"a file of {tail.size} bytes is too short")
    if footer[-len(MAGIC) :] != MAGIC:
        what = f"its last bytes are {footer[-len(MAGIC) :].hex()}, not {MAGIC.hex()}"
        raise UnknownTableFormat(tail.name, tail.size - len(MAGIC), what)
    version = int.from_bytes(footer[FOOTER_HANDLES_END : -len(MAGIC)], "little")
    if version != VERSION:
        what = f"version {version}, not {VERSION}"
        raise UnknownTableFormat(tail.name, at + FOOTER_HANDLES_END, what)
    if footer[0] != CHECKSUM_CRC32C:
        raise UnknownTableFormat(tail.name, at, f"checksums of type {footer[0]}, not CRC32C")
    metaindex, position = _decode_handle(footer, 1, end=at)
    index, position = _decode_handle(footer, position, end=at)
    if any(footer[position:FOOTER_HANDLES_END]) or position > FOOTER_HANDLES_END:
        raise Malformed("a footer whose padding is not zero")
    return metaindex, index


def _decode_handle(data: bytes, position: int, *, end: int) -> tuple[tuple[int, int], int]:
    """Decode the handle of a block that lies before `end`; return it and the position after it."""
    offset, position = decode_canonical_varint(data, position)
    size, position = decode_canonical_varint(data, position)
    if offset + size + BLOCK_TRAILER_SIZE > end:
        raise Malformed(f"a handle that points at offset {offset}, {size} bytes")
    return (offset, size), position


def _decode_index_handle(handle: bytes) -> tuple[int, int]:
    """Decode the offset and the size of a block."""
    if len(handle) == 5:  # noqa: PLR2004 - the usual size: an offset of three bytes, a size of two
        first, second, third, low, high = handle
        if (first & second & low) >= CONTINUES > (third | high):
            offset = first & 0x7F | (second & 0x7F) << 7 | third << 14
            return offset, low & 0x7F | high << 7
    numbers = []
    number = shift = 0
    for byte in handle:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < CONTINUES:
            numbers.append(number)
            number = shift = 0
    if len(numbers) != 2 or shift:  # noqa: PLR2004 - a pair
        raise Malformed(_NO_INDEX_ENTRY)
    offset, size = numbers
    return offset, size


def decode_index(payload: bytes, *, start: int, end: int) -> Blocks:
    """Decode an index block.

    Args:
        payload: uncompressed.
        start: no block may begin before it.
        end: no block may end after it.

    Raises:
        Malformed: it is not an index of consecutive blocks within these limits, which also bound
            the number of blocks that a small file can claim.
    """
    limit = (end - start) // MIN_STORED_SIZE
    core = native.core()
    found = None if core is None else core.decode_index(payload)
    keys, numbers = decode_handles(payload, limit=limit) if found is None else found
    if not keys:
        raise Malformed("an index without entries")
    if len(keys) > limit:
        raise Malformed(f"more than {limit} entries")
    blocks = Blocks(keys, numbers[0::2], [size + BLOCK_TRAILER_SIZE for size in numbers[1::2]])
    for offset, size in zip(blocks.offsets, blocks.sizes, strict=True):
        if offset < start or offset + size > end:
            what = f"offset {offset}, {size - BLOCK_TRAILER_SIZE} bytes"
            raise Malformed(f"an index entry that points at {what}")
        start = offset + size
    return blocks


def decode_handles(payload: bytes, *, limit: int) -> tuple[list[bytes], list[int]]:
    """Decode an index block into its user keys, and the offset and the size of each block in turn.

    Raises:
        Malformed: it is not an index, or has more than `limit` entries.
    """
    keys: list[bytes] = []
    numbers: list[int] = []
    for key, handle in decode_pairs(payload, limit=limit):
        if len(key) < KEY_TRAILER_SIZE:
            raise Malformed(_NO_INDEX_ENTRY)
        keys.append(key[:-KEY_TRAILER_SIZE])
        numbers += _decode_index_handle(handle)
    return keys, numbers


def _number(properties: dict[str, bytes], name: str) -> int:
    """Return a required property that is a varint."""
    value = properties.get(name)
    if value is None:
        raise Malformed(f"no property {name}")
    number, end = decode_canonical_varint(value, 0)
    if end != len(value):
        raise Malformed(f"a property {name} of the wrong size")
    return number


def _has_two_levels(properties: dict[str, bytes]) -> bool:
    """Return whether the index has two levels."""
    kind = int.from_bytes(properties.get(INDEX_TYPE, b"\xff"), "little")
    if kind not in {INDEX_SINGLE_LEVEL, INDEX_TWO_LEVEL}:
        raise Malformed(f"an index of unknown type {kind}")
    return kind == INDEX_TWO_LEVEL


def _find_properties(metaindex: list[tuple[bytes, bytes]], *, end: int) -> tuple[int, int]:
    """Return the handle of the properties block, which lies before `end`."""
    for name, handle in metaindex:
        if name == PROPERTIES_BLOCK:
            return _decode_handle(handle, 0, end=end)[0]
    raise Malformed("a metaindex without properties")
