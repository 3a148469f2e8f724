"""Runs of data blocks: many blocks of a table, handled at the cost of one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from google_crc32c import value as crc32c

from lakecli.sstable.block import payload_size
from lakecli.sstable.format import (
    BLOCK_CUT_MASK,
    BLOCK_SIZE_MAX,
    BLOCK_SIZE_MIN,
    RESTART_INTERVAL,
)

RUN_SIZE = 64 << 10
"""Stored bytes in a run, at most, unless one block has more: memory of this size is used again."""


class Run(NamedTuple):
    """Consecutive data blocks of a table, decoded.

    Attributes:
        data: the blocks as the file holds them, and what is between them.
        offsets: of each block in the data.
        sizes: of each block in the data, trailer included.
        separators: of each block, as in `Table.separators`.
        ends: for each block, how many records of the run end with it.
        keys: user keys of all records, ascending.
        values: of the keys, in the same order.
    """

    data: memoryview
    offsets: list[int]
    sizes: list[int]
    separators: list[bytes]
    ends: list[int]
    keys: list[bytes]
    values: list[bytes]

    def start_of(self, number: int) -> int:
        """Return the position of the first record of a block, or after the last block."""
        return self.ends[number - 1] if number else 0

    def block_of(self, position: int) -> int:
        """Return the number of the block that has a record."""
        return bisect_right(self.ends, position)

    def blocks_between(self, start: int, stop: int) -> tuple[int, int]:
        """Return which blocks lie between two positions: the first, and that after the last."""
        first = bisect_left(self.ends, start) + 1 if start else 0
        return first, max(first, bisect_right(self.ends, stop))

    def stored(self, first: int, last: int) -> list[memoryview]:
        """Return blocks up to `last` as the file holds them, as one piece if nothing is between."""
        pieces = zip(self.offsets[first:last], self.sizes[first:last], strict=True)
        start, stop = self.offsets[first], self.offsets[last - 1] + self.sizes[last - 1]
        if stop - start == sum(self.sizes[first:last]):
            return [self.data[start:stop]]
        return [self.data[at : at + size] for at, size in pieces]

    def ends_at_cut(self, number: int) -> bool:
        """Return whether the cut rule ends a block where this one ends."""
        end = self.ends[number]
        restarts = -(-(end - self.start_of(number)) // RESTART_INTERVAL)
        size = payload_size(bytes(self.stored(number, number + 1)[0])) - 4 * restarts - 4
        return size >= BLOCK_SIZE_MIN and (
            size >= BLOCK_SIZE_MAX or crc32c(self.keys[end - 1]) & BLOCK_CUT_MASK == 0
        )
