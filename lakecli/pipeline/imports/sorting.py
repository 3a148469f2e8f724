"""Sorting a listing that does not fit into memory: sorted runs on disk, merged slice by slice.

A run is a file of blocks of rows, in order, with the first key and the place of each block kept
in memory. Together those keys say where to divide the listing into equal parts; a part then takes
the blocks of every run that reach into it and sorts their rows, which are in order for long
stretches, at once.
"""

from __future__ import annotations

import marshal
from dataclasses import fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.pipeline.imports.part import Part
from lakecli.pipeline.imports.rows import ROWS_AT_ONCE, Failures, Rows, joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lakecli.pipeline.imports.part import Task

RUN_ROWS: Final = 196_608
BLOCK_ROWS: Final = 1_024
PART_ROWS: Final = 262_144
COLUMNS: Final = tuple(field.name for field in fields(Rows))


class Run(NamedTuple):
    """A sorted run: the file, the first key of each block, and where blocks begin and end."""

    path: str
    firsts: list[bytes]
    offsets: list[int]


class RunSlice(NamedTuple):
    """Consecutive blocks of a run."""

    path: str
    start: int
    end: int


class SortedSource(NamedTuple):
    """The rows of some slices with keys from `low` up to `high`."""

    slices: tuple[RunSlice, ...]
    low: bytes
    high: bytes | None
    origin: str

    def rows(self, task: Task, failures: Failures) -> Iterator[Rows]:
        """Yield the rows in order."""
        del task, failures
        pieces = []
        for path, start, end in self.slices:
            with open(path, "rb") as file:  # noqa: PTH123 - many, and small
                file.seek(start)
                while file.tell() < end:
                    pieces.append(self._inside(Rows(*marshal.load(file))))  # noqa: S302 - ours
        if not pieces:
            return
        whole = joined(pieces).ordered()
        for start in range(0, len(whole), ROWS_AT_ONCE):
            yield whole.slice(start, start + ROWS_AT_ONCE)

    def identity(self) -> list[Any]:
        """Return which rows of which listing these are."""
        return ["sorted", self.origin, self.low.hex(), self.high and self.high.hex()]

    @property
    def is_live(self) -> bool:
        """The listing was read already."""
        return False

    def _inside(self, rows: Rows) -> Rows:
        keys = rows.keys
        if keys[0] >= self.low and (self.high is None or keys[-1] < self.high):
            return rows
        return rows.take(
            [
                at
                for at, key in enumerate(keys)
                if key >= self.low and (self.high is None or key < self.high)
            ]
        )


def write_runs(pieces: Iterable[Rows], directory: Path) -> list[Run]:
    """Write a listing as sorted runs, and return them."""
    directory.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    waiting: list[Rows] = []
    count = 0
    for piece in pieces:
        waiting.append(piece)
        count += len(piece)
        if count >= RUN_ROWS:
            runs.append(_write(joined(waiting).ordered(), directory / str(len(runs))))
            waiting, count = [], 0
    if count:
        runs.append(_write(joined(waiting).ordered(), directory / str(len(runs))))
    return runs


def _write(rows: Rows, path: Path) -> Run:
    run = Run(str(path), [], [0])
    with path.open("wb") as file:
        for start in range(0, len(rows), BLOCK_ROWS):
            block = rows.slice(start, start + BLOCK_ROWS)
            marshal.dump([getattr(block, name) for name in COLUMNS], file)
            run.firsts.append(block.keys[0])
            run.offsets.append(file.tell())
    return run


def plan_runs(runs: list[Run], prefix: bytes, high: bytes | None, *, origin: str) -> Iterator[Part]:
    """Yield parts of about equal size, in order.

    Args:
        runs: of the whole listing.
        prefix: where everything goes.
        high: the first path that is not below it any more.
        origin: a digest of the listing.
    """
    firsts = sorted(key for run in runs for key in run.firsts)
    step = PART_ROWS // BLOCK_ROWS
    bounds = sorted(set(firsts[step::step]) - set(firsts[:1]))
    for low, following in pairwise([b"", *bounds, None]):
        assert low is not None  # only the last one is
        source = SortedSource(tuple(_slices(runs, low, following)), low, following, origin)
        yield Part(prefix + low, high if following is None else prefix + following, source)


def _slices(runs: list[Run], low: bytes, high: bytes | None) -> Iterator[RunSlice]:
    """Yield the blocks that may hold keys from `low` up to `high`."""
    from bisect import bisect_left

    for run in runs:
        start = max(0, bisect_left(run.firsts, low) - 1)
        end = len(run.firsts) if high is None else bisect_left(run.firsts, high)
        if start < end:
            yield RunSlice(run.path, run.offsets[start], run.offsets[end])
