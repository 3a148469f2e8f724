"""Manifests of any number of rows without data: keys are computed when a sample takes them.

The keys are the numbers from 0 up to the number of rows, in some order, so the rows of an interval
are the difference of its ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from lakecli.engine.runner import LocalRunner
from lakecli.imports import sorting

if TYPE_CHECKING:
    from pathlib import Path

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


class Listed(NamedTuple):
    """A piece of a listing: `size` rows from `start` on, of `rows` in all."""

    start: int
    size: int
    rows: int
    order: Order
    prefix: bytes

    def iter_keys(self) -> Iterator[list[bytes]]:
        end = self.start + self.size
        for start in range(self.start, end, 65_536):
            numbers = range(start, min(end, start + 65_536))
            yield [self.prefix + b"%012d" % self.order(at, self.rows) for at in numbers]


class Listing(NamedTuple):
    """A manifest that consists of such pieces, which counts their rows wrong by a factor."""

    listed: list[Listed]
    factor: float = 1.0

    def estimate(self) -> int:
        return int(sum(each.size for each in self.listed) * self.factor)

    def pieces(self) -> list[tuple[Listed, int]]:
        return [(each, int(each.size * self.factor)) for each in self.listed]

    def origin(self) -> str:
        return "listing"


def listing(
    rows: int, pieces: Sequence[int], order: Order, *, prefix: bytes = b"", factor: float = 1.0
) -> Listing:
    """Return a listing of pieces of some sizes; the last one has the rest of the rows."""
    found: list[Listed] = []
    start = 0
    for size in [*pieces, rows - sum(pieces)]:
        found.append(Listed(start, size, rows, order, prefix))
        start += size
    return Listing(found, factor)


def interval_sizes(source: Listing, directory: Path) -> list[int]:
    """Plan a listing as an import on a cluster does; return the rows of each interval."""
    rows = sum(each.size for each in source.listed)
    portions = sorting.portions_of(source)  # type: ignore[arg-type]
    kept = directory / "kept"
    bounds = sorting.find_bounds(LocalRunner(), source, portions, kept=kept)  # type: ignore[arg-type]
    numbers = [int(bound[-12:]) for bound in bounds]
    return [high - low for low, high in pairwise([0, *numbers, rows])]
