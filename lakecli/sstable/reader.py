"""Reading a table: its tail once, then one block for each point read.

The tail has the directory, the properties and the handles of all data blocks. It takes one read,
and a second one only if the index does not fit into that. Every defect of a file raises
`CorruptTable`, which names the file and the offset.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice
from operator import lt
from typing import Final, NamedTuple, Protocol, Self

from lakecli import native
from lakecli.proto.varint import CONTINUES, Malformed, decode_canonical_varint
from lakecli.sstable.block import (
    RUN_SIZE,
    Run,
    decode_pairs,
    decode_records,
    find_value,
    payload_of,
    verify,
)
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

__all__ = ["Block", "BytesSource", "CorruptTable", "SSTable", "UnknownTableFormat"]

TAIL_SIZE: Final = 64 << 10
"""Bytes of the end of a file that are read first, so that most indexes need one read."""

_BLOCKS_AT_ONCE = 32
"""Blocks that `SSTable.blocks` reads at a time: so few that the same memory is used again."""


class Block(NamedTuple):
    """A decoded data block.

    Attributes:
        keys: user keys, ascending.
        values: of the keys, in the same order.
    """

    keys: list[bytes]
    values: list[bytes]


def decode_block(stored: bytes) -> Block:
    """Decode a stored block whose checksum was verified.

    Raises:
        Malformed: it is not a data block.
    """
    core = native.core()
    payload = payload_of(stored)
    found = None if core is None else core.decode_records(payload)
    return Block(*(decode_records(payload) if found is None else found))


class SSTable:
    """An open table: its properties and its whole index; data blocks are read as needed.

    Safe to share between threads if its source is.

    Args:
        source: of the bytes; stays the caller's to close.

    Attributes:
        properties: RocksDB's and the user's, by name.
        count: records.
        size: of the file, in bytes.
        block_count: data blocks.
        separators: for each data block a key, no less than its last and less than the first of the
            next block; ascending.

    Raises:
        CorruptTable: the file is damaged.
        UnknownTableFormat: it is not of this format at all.
    """

    def __init__(self, source: "Source") -> None:
        self.name = source.name
        self.properties: Mapping[str, bytes]
        self.size, self.count, self.properties, blocks = read_directory(source)
        self.separators, self._offsets, self._sizes = blocks
        self.block_count = len(self._sizes)
        self._read = source.read

    def get(self, key: bytes) -> bytes | None:
        """Return the value of `key`, or ``None``; reads one block at most.

        Raises:
            CorruptTable: the block is damaged.
        """
        number = self.find_block(key)
        if number == self.block_count:
            return None
        core = native.core()
        try:
            payload = payload_of(self.stored_block(number))
            value = NotImplemented if core is None else core.find_value(payload, key)
            return find_value(payload, key) if value is NotImplemented else value
        except Malformed as error:
            raise self._corrupt(number, str(error)) from None

    def find_block(self, key: bytes) -> int:
        """Return the first block that may hold a key no less than `key`, else `block_count`."""
        return bisect_left(self.separators, key)

    def stored_block(self, number: int) -> bytes:
        """Return a block as stored, trailer included; its checksum is verified.

        Raises:
            CorruptTable: the block is damaged.
        """
        stored = self._read(self._offsets[number], self._sizes[number])
        try:
            verify(stored, self._sizes[number])
        except Malformed as error:
            raise self._corrupt(number, str(error)) from None
        return stored

    def stored_blocks(self, first: int, last: int) -> bytes:
        """Return blocks up to `last` as stored, with all between them; no checksum is verified."""
        start = self._offsets[first]
        return self._read(start, self._offsets[last - 1] + self._sizes[last - 1] - start)

    def count_equal_blocks(self, number: int, other: Self, at: int) -> int:
        """Return how many blocks are stored as the same bytes as those of another table.

        The same bytes are the same records, so no checksum is verified. Twice as many blocks are
        compared each time, until some differ.

        Args:
            number: of the first block.
            other: the other table.
            at: number of its first block.
        """
        count, step, grows = 0, 1, True
        while step:
            if self._has_blocks_of(number + count, other, at + count, step):
                count += step
                step = step * 2 if grows else step // 2
            else:
                step, grows = step // 2, False
        return count

    def _has_blocks_of(self, number: int, other: Self, at: int, count: int) -> bool:
        """Return whether consecutive blocks of two tables are the same bytes, without gaps."""
        sizes = self._sizes[number : number + count]
        if len(sizes) < count or sizes != other._sizes[at : at + count]:
            return False
        last, size = number + count - 1, sum(sizes)
        return self._offsets[last] + sizes[-1] - self._offsets[number] == size and (
            other._offsets[at + count - 1] + sizes[-1] - other._offsets[at] == size
            and self._read(self._offsets[number], size) == other._read(other._offsets[at], size)
        )

    def block(self, number: int) -> Block:
        """Return a decoded block, its checksum verified.

        Raises:
            CorruptTable: the block is damaged, or has keys outside the bounds of its index entry.
        """
        return self._decoded(number, self._read(self._offsets[number], self._sizes[number]))

    def blocks(self, numbers: Sequence[int]) -> Iterator[Block]:
        """Yield some decoded blocks, read many at a time with everything between them.

        Args:
            numbers: of the blocks, ascending, at least one.

        Raises:
            CorruptTable: a block is damaged, or has keys outside the bounds of its index entry.
        """
        offsets, sizes = self._offsets, self._sizes
        for at in range(0, len(numbers), _BLOCKS_AT_ONCE):
            part = numbers[at : at + _BLOCKS_AT_ONCE]
            first, last = part[0], part[-1]
            start = offsets[first]
            data = self._read(start, offsets[last] + sizes[last] - start)
            for number in part:
                position = offsets[number] - start
                yield self._decoded(number, data[position : position + sizes[number]])

    def verify(self) -> None:
        """Compare the checksums of all blocks with their bytes; no record is decoded.

        Raises:
            CorruptTable: a block is damaged.
        """
        for number in range(self.block_count):
            self.stored_block(number)

    def _decoded(self, number: int, stored: bytes) -> Block:
        """Decode a block, its checksum verified, and check it against the index."""
        try:
            verify(stored, self._sizes[number])
            block = decode_block(stored)
        except Malformed as error:
            raise self._corrupt(number, str(error)) from None
        self._check_bounds(number, block.keys)
        return block

    def _check_bounds(self, number: int, keys: Sequence[bytes]) -> None:
        """Check the keys of a block against the index."""
        if not keys:
            if self.count:
                raise self._corrupt(number, "a block without records")
        elif keys[-1] > self.separators[number] or (
            number and keys[0] <= self.separators[number - 1]
        ):
            raise self._corrupt(number, "a block with keys outside the bounds of its index entry")

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values in key order.

        Raises:
            CorruptTable: a block is damaged, or the number of records is not that of the
                properties.
        """
        seen = 0
        for number in range(self.block_count):
            block = self.block(number)
            seen += len(block.keys)
            yield from zip(block.keys, block.values, strict=True)
        if seen != self.count:
            what = f"{seen} records, but the properties say {self.count}"
            raise CorruptTable(self.name, self._offsets[-1], what)

    def read_all(self) -> Run:
        """Return all blocks, of a table that is known to be small.

        Raises:
            CorruptTable: a block is damaged, or has keys outside the bounds of its index entry.
        """
        return self._run(0, self.block_count)

    def runs(self) -> Iterator[Run]:
        """Yield all blocks, many at a time.

        Raises:
            CorruptTable: a block is damaged, or has keys outside the bounds of its index entry.
        """
        return (self._run(start, stop) for start, stop in self._parts())

    def _parts(self) -> Iterator[tuple[int, int]]:
        """Yield the first block of each part that is read at once, and the one after its last."""
        ends = list(accumulate(self._sizes))
        start = done = 0
        while start < self.block_count:
            stop = max(bisect_right(ends, done + RUN_SIZE), start + 1)
            yield start, stop
            start, done = stop, ends[stop - 1]

    def _run(self, start: int, stop: int) -> Run:
        """Read blocks at once, with everything between them; as `block` does it for each."""
        base = self._offsets[start]
        offsets = [offset - base for offset in self._offsets[start:stop]]
        sizes = self._sizes[start:stop]
        data = self._read(base, offsets[-1] + sizes[-1])
        ends: list[int] = []
        keys: list[bytes] = []
        values: list[bytes] = []
        for number, at, size in zip(range(start, stop), offsets, sizes, strict=True):
            block = self._decoded(number, data[at : at + size])
            keys += block.keys
            values += block.values
            ends.append(len(keys))
        separators = self.separators[start:stop]
        return Run(memoryview(data), offsets, sizes, separators, ends, keys, values)

    def _corrupt(self, number: int, what: str) -> CorruptTable:
        return CorruptTable(self.name, self._offsets[number], what)


class Source(Protocol):
    """Random access to the bytes of one file."""

    name: str
    """For error messages."""

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`, fewer if the file ends earlier."""

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

    def read_tail(self, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes, fewer if the file is shorter, and the file's size."""
        return self._data[max(0, len(self._data) - length) :], len(self._data)


_NO_INDEX_ENTRY: Final = "an index entry that is not a key and a handle"


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

    def extend(self, more: "Blocks") -> None:
        """Add the blocks of another part of the index."""
        self.keys.extend(more.keys)
        self.offsets.extend(more.offsets)
        self.sizes.extend(more.sizes)


class _Tail:
    """The end of a file, held while the directory is read."""

    def __init__(self, source: Source) -> None:
        self.name = source.name
        self._source = source
        self._data, self.size = source.read_tail(TAIL_SIZE)
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


def read_directory(source: Source) -> tuple[int, int, dict[str, bytes], Blocks]:
    """Read and verify the footer, the properties and the whole index of a file.

    Returns:
        The size of the file, the number of its records, its properties, and its data blocks.

    Raises:
        CorruptTable: the file is damaged.
        UnknownTableFormat: it is not of this format at all.
    """
    tail = _Tail(source)
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
        _check_blocks(blocks, _number(properties, NUM_DATA_BLOCKS))
        return tail.size, _number(properties, NUM_ENTRIES), properties, blocks
    except Malformed as error:
        raise CorruptTable(tail.name, at, str(error)) from None


def _check_blocks(blocks: Blocks, expected: int) -> None:
    if not all(map(lt, blocks.keys, islice(blocks.keys, 1, None))):
        raise Malformed("index keys that are not in ascending order")
    if len(blocks.sizes) != expected:
        raise Malformed(f"an index of {len(blocks.sizes)} blocks, not {expected}")


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
