"""Manifests of any number of rows without data: keys are computed when a sample takes them.

The keys are the numbers from 0 up to the number of rows, in some order, so the rows of an interval
are the difference of its ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from lakecli.imports import sorting

if TYPE_CHECKING:
    from lakecli.imports.sorting import Keys

Order = Callable[[int, int], int]
"""Maps the position of a row, among a number of rows, to the number in its key."""

PREFIX = b"the/same/prefix/for/all/of/them/" * 4


def in_order(at: int, _rows: int) -> int:
    return at


def shuffled(at: int, rows: int) -> int:
    """A bijection without structure: a Feistel network, applied until the number is in range."""
    bits = max(2, (rows - 1).bit_length() + 1) // 2
    mask = (1 << bits) - 1
    while True:
        left, right = at >> bits, at & mask
        for turn in range(4):
            mixed = (right * 0x9E3779B1 + turn * 0x85EBCA6B) & 0xFFFFFFFF
            left, right = right, left ^ ((mixed ^ mixed >> 15) * 0x2C1B3C6D >> 7 & mask)
        at = left << bits | right
        if at < rows:
            return at


def clustered(at: int, rows: int) -> int:
    """Files of 10,000 neighbouring keys each, in random order, and mixed within each file."""
    size = min(10_000, rows)
    file, place = divmod(at, size)
    whole = rows // size
    if file == whole:  # the rest
        return at
    return shuffled(file, whole) * size + shuffled(place, size)


def strided(at: int, rows: int) -> int:
    """Keys that come round and round, in step with samples of every 64th."""
    columns = 64
    if rows % columns:
        raise ValueError("not a multiple of 64")
    return at % columns * (rows // columns) + at // columns


class Batch(Sequence[bytes]):
    """Keys of consecutive rows, computed when they are asked for."""

    def __init__(self, start: int, size: int, key_of: Callable[[int], bytes]) -> None:
        self._start, self._size, self._key_of = start, size, key_of

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        if isinstance(at, slice):
            return [self._key_of(self._start + each) for each in range(*at.indices(self._size))]
        return self._key_of(self._start + at)


class Listed(NamedTuple):
    """A piece of a listing: `size` rows from `start` on, of `rows` in all."""

    start: int
    size: int
    rows: int
    order: Order
    prefix: bytes

    def iter_keys(self) -> Iterator[Sequence[bytes]]:
        for start in range(self.start, self.start + self.size, 65_536):
            size = min(65_536, self.start + self.size - start)
            yield Batch(start, size, lambda at: self.prefix + b"%012d" % self.order(at, self.rows))

    def identity(self) -> list[Any]:
        return [self.start, self.size]


def listing(
    rows: int, pieces: Sequence[int], order: Order, prefix: bytes = b""
) -> list[tuple[Keys, int]]:
    """Return the pieces of a listing with their rows; the last one has the rest."""
    found: list[tuple[Keys, int]] = []
    start = 0
    for size in [*pieces, rows - sum(pieces)]:
        found.append((Listed(start, size, rows, order, prefix), size))
        start += size
    return found


def interval_sizes(sizes: Sequence[tuple[Keys, int]], *, row_size: int | None = None) -> list[int]:
    """Plan a listing as an import on a cluster does; return the rows of each interval.

    Args:
        sizes: the pieces with their rows.
        row_size: bytes of a row, if the planner knows bytes and not rows, as of text.
    """
    rows = sum(size for _, size in sizes)
    told = [(piece, size * (row_size or 1)) for piece, size in sizes]
    wanted = sorting.intervals_for(rows, 4)
    wishes = sorting.wish_for(told, wanted, is_exact=row_size is None)
    starts = sorting.bounds_of(map(sorting.sample, wishes), least=4)
    numbers = [int(key[-12:]) for key in starts]
    return [high - low for low, high in pairwise([0, *numbers, rows])]
