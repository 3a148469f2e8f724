"""Reading a table: its tail once, then one block for each point read.

Every defect of a file raises `CorruptTable`, which names the file and the offset.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from lakecli import native
from lakecli.proto.varint import Malformed
from lakecli.sstable.block import RUN_SIZE, Run, decode_records, find_value, payload_of, verify
from lakecli.sstable.directory import BytesSource, Source, read_directory
from lakecli.sstable.format import CorruptTable, UnknownTableFormat

BlockCache = MutableMapping[tuple[str, int], Mapping[bytes, bytes]]

__all__ = [
    "Block",
    "BytesSource",
    "CorruptTable",
    "SSTable",
    "UnknownTableFormat",
    "decode_block",
]

TAIL_SIZE: Final = 64 << 10
"""Bytes of the end of a file that are read first, so that most indexes need one read."""

_BLOCKS_AT_ONCE = 32
"""Blocks that `SSTable.blocks` reads at a time: so few that the same memory is used again."""


class Block(NamedTuple):
    """A decoded data block.

    Attributes:
        stored: as the file holds it, trailer included.
        keys: user keys, ascending.
        values: of the keys, in the same order.
    """

    stored: bytes
    keys: list[bytes]
    values: list[bytes]


def decode_block(stored: bytes, *, name: str = "", offset: int = 0) -> Block:
    """Decode a stored block whose checksum was verified, as `SSTable.stored_block` does.

    Args:
        stored: as the file holds it, trailer included.
        name: of the file, for the error.
        offset: of the block in the file, for the error.

    Raises:
        CorruptTable: it is not a data block.
    """
    core = native.core()
    try:
        payload = payload_of(stored)
        found = None if core is None else core.decode_records(payload)
        keys, values = decode_records(payload) if found is None else found
    except Malformed as error:
        raise CorruptTable(name, offset, str(error)) from None
    return Block(stored, keys, values)


def search_block(payload: bytes, key: bytes) -> bytes | None:
    """Return the value of one user key of a data block, or ``None``.

    Raises:
        Malformed: the block is not a data block.
    """
    core = native.core()
    value = NotImplemented if core is None else core.find_value(payload, key)
    return find_value(payload, key) if value is NotImplemented else value


class SSTable:
    """An open table: its properties and its whole index; data blocks are read as needed.

    Safe to share between threads if its source is.

    Args:
        source: of the bytes; stays the caller's to close.
        tail_size: bytes read from the end of the file at first. Where the index is larger than
            that there is one more read.
        cache: of decoded blocks, by (name of the file, number of the block), which `get` asks and
            fills if it is given. Its owner bounds it, and may share it between tables whose names
            differ. It makes further reads of a block about five times faster, and the first one
            three times slower.

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

    def __init__(
        self, source: Source, *, tail_size: int = TAIL_SIZE, cache: BlockCache | None = None
    ) -> None:
        directory = read_directory(source, tail_size=tail_size)
        self.name = source.name
        self.properties: Mapping[str, bytes] = directory.properties
        self.count = directory.count
        self.size = directory.size
        self.block_count = len(directory.offsets)
        self._cache = cache
        self._read = source.read
        self._view = source.view
        self.separators = directory.separators
        self._offsets = directory.offsets
        self._sizes = directory.sizes

    def get(self, key: bytes) -> bytes | None:
        """Return the value of `key`, or ``None``; reads one block at most.

        Raises:
            CorruptTable: the block is damaged.
        """
        number = bisect_left(self.separators, key)
        if number == self.block_count:
            return None
        if self._cache is not None:
            return self._cached_block(self._cache, number).get(key)
        return self.search(number, key)

    def search(self, number: int, key: bytes) -> bytes | None:
        """Return the value of `key` in a block, or ``None``; `find_block` returns its number.

        Raises:
            CorruptTable: the block is damaged.
        """
        size = self._sizes[number]
        stored = self._read(self._offsets[number], size)
        try:
            verify(stored, size)
            return search_block(payload_of(stored), key)
        except Malformed as error:
            raise self._corrupt(number, str(error)) from None

    def _cached_block(self, cache: BlockCache, number: int) -> Mapping[bytes, bytes]:
        """Return a block's records by key, from the cache or into it."""
        place = (self.name, number)
        records = cache.get(place)
        if records is None:
            block = self.block(number)
            records = cache[place] = dict(zip(block.keys, block.values, strict=True))
        return records

    def find_block(self, key: bytes) -> int:
        """Return the first block that may hold a key no less than `key`, else `block_count`."""
        return bisect_left(self.separators, key)

    def stored_block(self, number: int) -> bytes:
        """Return a block as stored, trailer included; its checksum is verified.

        Raises:
            CorruptTable: the block is damaged.
        """
        stored = self._read(self._offsets[number], self._sizes[number])
        self._verify(number, stored)
        return stored

    def count_equal_blocks(self, number: int, other: SSTable, at: int) -> int:
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

    def _has_blocks_of(self, number: int, other: SSTable, at: int, count: int) -> bool:
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
        return self._decoded(number, self.stored_block(number))

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
                position, size = offsets[number] - start, sizes[number]
                stored = data[position : position + size]
                self._verify(number, stored)
                yield self._decoded(number, stored)

    def verify(self) -> None:
        """Compare the checksums of all blocks with their bytes; no record is decoded.

        Raises:
            CorruptTable: a block is damaged.
        """
        for number in range(self.block_count):
            self.stored_block(number)

    def _verify(self, number: int, stored: bytes) -> None:
        try:
            verify(stored, self._sizes[number])
        except Malformed as error:
            raise self._corrupt(number, str(error)) from None

    def _decoded(self, number: int, stored: bytes) -> Block:
        """Decode a block whose checksum was verified, and check it against the index."""
        block = decode_block(stored, name=self.name, offset=self._offsets[number])
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

    def records(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values in key order, from the first key no less than `start`.

        Raises:
            CorruptTable: a block is damaged, or the number of records is not that of the
                properties.
        """
        seen = 0
        for number in range(self.find_block(start), self.block_count):
            block = self.block(number)
            seen += len(block.keys)
            first = bisect_left(block.keys, start)
            if first:
                yield from zip(block.keys[first:], block.values[first:], strict=True)
            else:
                yield from zip(block.keys, block.values, strict=True)
        if not start and seen != self.count:
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
        core = native.core()
        base = self._offsets[start]
        offsets = [offset - base for offset in self._offsets[start:stop]]
        sizes = self._sizes[start:stop]
        data = self._view(base, offsets[-1] + sizes[-1])
        packed = bytes(data)
        ends: list[int] = []
        keys: list[bytes] = []
        values: list[bytes] = []
        number = start
        try:
            for number, at, size in zip(range(start, stop), offsets, sizes, strict=True):
                block = packed[at : at + size]
                verify(block, size)
                payload = payload_of(block)
                found = None if core is None else core.decode_records(payload)
                more, of_more = decode_records(payload) if found is None else found
                self._check_bounds(number, more)
                keys += more
                values += of_more
                ends.append(len(keys))
        except Malformed as error:
            raise self._corrupt(number, str(error)) from None
        return Run(data, offsets, sizes, self.separators[start:stop], ends, keys, values)

    def _corrupt(self, number: int, what: str) -> CorruptTable:
        return CorruptTable(self.name, self._offsets[number], what)
