"""Reading a table: single keys, by searching the stored index, or many of its blocks.

A `KeyLookup` keeps only the top of the index in memory, and reads the blocks on the way to a key;
an `SSTable` has decoded the whole index. Every defect of a file raises `CorruptTable`, which names
the file and the offset.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from math import inf
from typing import Final, NamedTuple, Self

from lakecli import native
from lakecli.proto.varint import Malformed
from lakecli.sstable.block import RUN_SIZE, Run, decode_records, find_value, payload_of, verify
from lakecli.sstable.directory import (
    BytesSource,
    Directory,
    Handle,
    ReadableFile,
    Source,
    payload_at,
    search_index,
)
from lakecli.sstable.format import CorruptTable, UnknownTableFormat

__all__ = ["Block", "BytesSource", "CorruptTable", "KeyLookup", "SSTable", "UnknownTableFormat"]

_BLOCKS_AT_ONCE = 32
"""Number of blocks that `SSTable.blocks` reads at a time; so few that reads reuse their memory."""


class Block(NamedTuple):
    """A decoded data block.

    Attributes:
        keys: user keys, ascending.
        values: the values of the keys, in the same order.
    """

    keys: list[bytes]
    values: list[bytes]


def decode_block(stored: bytes, size: int | None = None) -> Block:
    """Verify the checksum of a stored block, and decode it.

    Args:
        size: the size that the block must have; by default any.

    Raises:
        Malformed: the block is not a data block.
    """
    core = native.core()
    payload = payload_of(stored, size)
    found = None if core is None else core.decode_records(payload)
    return Block(*(decode_records(payload) if found is None else found))


class KeyLookup(Directory):
    """An open table for looking up single keys.

    Safe to share between threads if its source is.
    """

    def shrink(self) -> Self:
        """Drop the properties and `tail`, which are needed only at first; return the table."""
        self.properties = {}
        del self.tail
        return self

    def get(self, key: bytes, file: ReadableFile | None = None) -> bytes | None:
        """Return the value of `key`, or ``None``; read at most one block of each level.

        Args:
            file: the opened source, if the caller has opened it.
        """
        handle = self.locate(file or self.source, key)
        return None if handle is None else self.value(file or self.source, handle, key)

    def get_many(self, keys: list[bytes], file: ReadableFile) -> list[bytes | None]:
        """Return the value of each key, or ``None``; ascending keys read each block once.

        Args:
            file: the opened source.
        """
        core = native.core()
        if core is None or file.descriptor < 0:
            return [self.get(key, file) for key in keys]
        ends = self.top_offset if self.is_deep else 0, self.data_size
        found = core.find_in_file(file.descriptor, self.top, *ends, keys)
        if NotImplemented not in found:
            return found
        return [
            self.get(key, file) if value is NotImplemented else value
            for key, value in zip(keys, found, strict=True)
        ]

    def locate(self, file: ReadableFile, key: bytes) -> Handle | None:
        """Return the location of the block that may contain a key, or ``None``."""
        at, index = self.top_offset, self.top
        try:
            if self.is_deep:
                handle = search_index(index, key, end=at)
                if handle is None:
                    return None
                at = handle[0]
                index = payload_at(file, *handle)
            return search_index(index, key, end=self.data_size)
        except Malformed as error:
            raise CorruptTable(self.name, at, str(error)) from None

    def value(self, file: ReadableFile, handle: Handle, key: bytes) -> bytes | None:
        """Return the value of a key in a block, or ``None``, without decoding the whole block."""
        core = native.core()
        try:
            payload = payload_at(file, *handle)
            value = NotImplemented if core is None else core.find_value(payload, key)
            return find_value(payload, key) if value is NotImplemented else value
        except Malformed as error:
            raise CorruptTable(self.name, handle[0], str(error)) from None

    def block_at(self, file: ReadableFile, handle: Handle) -> Block:
        """Read and decode a block."""
        try:
            return decode_block(file.read(*handle), handle[1])
        except Malformed as error:
            raise CorruptTable(self.name, handle[0], str(error)) from None


_MOST_IN_RUN: Final = 64 << 20
"""The total size of the keys of a run, in bytes, after which no further block is decoded.

Keys in a bucket may be long, and share nearly everything with the key before.
"""

_MOST_COMPARED: Final = 2_048
"""The maximum number of items that are compared at once, since some comparisons copy them."""


def count_equal(is_equal: Callable[[int, int], bool], most: int) -> int:
    """Return how many leading items of two sequences are equal.

    Each step compares twice as many items as the previous one, but at most `_MOST_COMPARED`; after
    a difference, half as many.

    Args:
        is_equal: a function that compares the items between two positions.
        most: the number of items in the shorter sequence.
    """
    count, step, grows = 0, 1, True
    while step and count < most:
        end = min(count + step, most)
        if is_equal(count, end):
            count = end
            step = min(step * 2, _MOST_COMPARED) if grows else step // 2
        else:
            step, grows = step // 2, False
    return count


class SSTable(KeyLookup):
    """An open table: its properties and its whole index; data blocks are read as needed.

    Args:
        source: the file; the caller closes it.

    Attributes:
        separators: ascending keys, one for each data block: at least the last key of the block, and
            less than the first key of the next block.
        offsets: where each data block begins.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.tail.hold(self.data_size)
        self.separators, self.offsets, self._sizes = self.index()
        del self.tail
        self._read = source.read

    def find_block(self, key: bytes) -> int:
        """Return the number of the first block that may have a key >= `key`, else `block_count`."""
        return bisect_left(self.separators, key)

    def stored_block(self, number: int) -> bytes:
        """Verify the checksum of a block, and return the block as stored, trailer included."""
        stored = self._read(self.offsets[number], self._sizes[number])
        try:
            verify(stored, self._sizes[number])
        except Malformed as error:
            raise self._corrupt(number, str(error)) from None
        return stored

    def stored_blocks(self, first: int, last: int) -> bytes:
        """Return the file's bytes from block `first` to before block `last`, unverified."""
        start = self.offsets[first]
        return self._read(start, self.offsets[last - 1] + self._sizes[last - 1] - start)

    def count_equal_blocks(self, number: int, other: Self, at: int) -> int:
        """Count the blocks from `number` on that equal the blocks of `other` from `at` on.

        Blocks with the same bytes have the same records, so no checksum is verified.
        """

        def is_equal(start: int, stop: int) -> bool:
            return self._has_blocks_of(number + start, other, at + start, stop - start)

        return count_equal(is_equal, min(self.block_count - number, other.block_count - at))

    def _has_blocks_of(self, number: int, other: Self, at: int, count: int) -> bool:
        """Return whether `count` consecutive blocks are the same in both tables, without gaps."""
        sizes = self._sizes[number : number + count]
        if sizes != other._sizes[at : at + count]:
            return False
        last, size = number + count - 1, sum(sizes)
        return self.offsets[last] + sizes[-1] - self.offsets[number] == size and (
            other.offsets[at + count - 1] + sizes[-1] - other.offsets[at] == size
            and self._read(self.offsets[number], size) == other._read(other.offsets[at], size)
        )

    def block(self, number: int) -> Block:
        """Verify the checksum of a block, and return the block decoded."""
        return self._decoded(number, self._read(self.offsets[number], self._sizes[number]))

    def blocks(self, numbers: Sequence[int]) -> Iterator[Block]:
        """Yield decoded blocks; one read fetches many of them, and everything between them.

        Args:
            numbers: the numbers of the blocks, ascending, at least one.
        """
        offsets, sizes = self.offsets, self._sizes
        for at in range(0, len(numbers), _BLOCKS_AT_ONCE):
            part = numbers[at : at + _BLOCKS_AT_ONCE]
            first, last = part[0], part[-1]
            start = offsets[first]
            data = self._read(start, offsets[last] + sizes[last] - start)
            for number in part:
                position = offsets[number] - start
                yield self._decoded(number, data[position : position + sizes[number]])

    def verify(self) -> None:
        """Verify the checksums of all blocks, without decoding records."""
        for number in range(self.block_count):
            self.stored_block(number)

    def _decoded(self, number: int, stored: bytes) -> Block:
        """Verify the checksum of a block, decode it, and check it against the index."""
        try:
            block = decode_block(stored, self._sizes[number])
        except Malformed as error:
            raise self._corrupt(number, str(error)) from None
        self._check_bounds(number, block.keys)
        return block

    def _check_bounds(self, number: int, keys: Sequence[bytes]) -> None:
        """Check that the keys of a block are within the bounds that the index gives the block."""
        if not keys:
            if self.count or self.block_count > 1:
                raise self._corrupt(number, "a block without records")
        elif keys[-1] > self.separators[number] or (
            number and keys[0] <= self.separators[number - 1]
        ):
            raise self._corrupt(number, "a block with keys outside the bounds of its index entry")

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values in key order."""
        seen = 0
        for number in range(self.block_count):
            block = self.block(number)
            seen += len(block.keys)
            yield from zip(block.keys, block.values, strict=True)
        if seen != self.count:
            what = f"{seen} records, but the properties say {self.count}"
            raise CorruptTable(self.name, self.offsets[-1], what)

    def read_all(self) -> Run:
        """Return all blocks of a table that is known to be small."""
        return self._run(0, self.block_count)

    def runs(self) -> Iterator[Run]:
        """Yield all blocks, many at a time; each run is fetched by one read."""
        ends = [*accumulate(self._sizes, initial=0)]
        start = 0
        while start < self.block_count:
            stop = max(bisect_right(ends, ends[start] + RUN_SIZE) - 1, start + 1)
            run = self._run(start, stop, most=_MOST_IN_RUN)
            yield run
            start += len(run.sizes)

    def _run(self, start: int, stop: int, *, most: float = inf) -> Run:
        """Read the blocks from `start` to before `stop` in one read, and check them.

        Args:
            most: the total size of keys, in bytes, after which the run ends early. The core needs
                no limit, because it leaves blocks of such keys to its twin.
        """
        base = self.offsets[start]
        offsets = [offset - base for offset in self.offsets[start:stop]]
        sizes = self._sizes[start:stop]
        data = self._read(base, offsets[-1] + sizes[-1])
        core = native.core()
        found = None if core is None else core.decode_run(data, offsets, sizes)
        keys, values, starts = found or ([], [], [0])
        for number, (first, last) in enumerate(pairwise(starts), start):
            self._check_bounds(number, keys[first:last])
        if found is None:
            for number, at, size in zip(range(start, stop), offsets, sizes, strict=True):
                block = self._decoded(number, data[at : at + size])
                keys += block.keys
                values += block.values
                starts.append(len(keys))
                most -= sum(map(len, block.keys))
                if most < 0:
                    break
        count = len(starts) - 1
        separators = self.separators[start : start + count]
        return Run(
            memoryview(data), offsets[:count], sizes[:count], separators, starts, keys, values
        )

    def _corrupt(self, number: int, what: str) -> CorruptTable:
        return CorruptTable(self.name, self.offsets[number], what)
