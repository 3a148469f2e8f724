"""Sort a manifest that does not fit into memory: sorted runs on disk, merged slice by slice.

A run is an Arrow file of blocks of sorted rows; the first key of each block is kept in memory.
These keys show where to divide the manifest into equal parts. A part reads the blocks of each run
that reach into it, and sorts their rows. All parts need access to the same disk, as the threads of
this process and the executors of an embedded Spark have.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from lakecli.base.directories import make_private
from lakecli.imports.arrow import bytes_of, rows_of, schema
from lakecli.imports.journal import digest_of
from lakecli.imports.manifest import Piece
from lakecli.imports.part import Part, Task
from lakecli.imports.rows import ROWS_AT_ONCE, Failures, Rows

RUN_ROWS: Final = 196_608
BLOCK_ROWS: Final = 1_024
PART_ROWS: Final = 262_144


class Spill(NamedTuple):
    """The directory of runs, and the time of modification for rows without one."""

    directory: str
    now: int


class Run(NamedTuple):
    """A sorted run: the file, and the first key of each of its blocks."""

    path: str
    firsts: list[bytes]


class RunSlice(NamedTuple):
    """Consecutive blocks of a run, by their numbers."""

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
        import pyarrow as pa

        batches = []
        for path, start, end in self.slices:
            with pa.memory_map(path) as file:
                run = pa.ipc.open_file(file)
                for number in range(start, end):
                    batch = run.get_batch(number)
                    is_edge = number in (start, end - 1)
                    batches.append(self._inside(batch) if is_edge else batch)
        if batches:
            yield from map(rows_of, _ordered(batches, ROWS_AT_ONCE))

    def identity(self) -> list[Any]:
        """Return the manifest's digest and the interval."""
        return ["sorted", self.origin, self.low.hex(), self.high and self.high.hex()]

    def _inside(self, batch: Any) -> Any:  # noqa: ANN401
        """Return the rows of a block that are in the interval."""
        keys = bytes_of(batch.column(0))
        start = bisect_left(keys, self.low)
        end = len(keys) if self.high is None else bisect_left(keys, self.high)
        return batch.slice(start, max(0, end - start))


def write_runs(spill: Spill, pieces: tuple[Piece, ...]) -> list[Run]:
    """Write pieces of a manifest as sorted runs, and return these."""
    make_private(Path(spill.directory))
    name = digest_of([piece.identity() for piece in pieces])
    runs: list[Run] = []
    waiting: list[Any] = []
    count = 0
    for batch in chain.from_iterable(piece.batches(spill.now) for piece in pieces):
        waiting.append(batch)
        count += len(batch)
        if count >= RUN_ROWS:
            runs.append(_write(waiting, Path(spill.directory, f"{name}-{len(runs)}")))
            waiting, count = [], 0
    if count:
        runs.append(_write(waiting, Path(spill.directory, f"{name}-{len(runs)}")))
    return runs


def _ordered(batches: list[Any], size: int) -> Iterator[Any]:
    """Yield rows sorted by key, in batches."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = pa.Table.from_batches(batches).combine_chunks()
    order = pc.sort_indices(table.column("path"))
    for batch in table.take(order).to_batches(max_chunksize=size):
        if len(batch):
            yield batch


def _write(batches: list[Any], path: Path) -> Run:
    import pyarrow as pa

    run = Run(str(path), [])
    fresh = path.with_name(path.name + ".new")
    with pa.OSFile(str(fresh), "wb") as file, pa.ipc.new_file(file, schema()) as writer:
        for block in _ordered(batches, BLOCK_ROWS):
            writer.write_batch(block)
            run.firsts.append(block.column(0)[0].as_py())
    fresh.replace(path)
    return run


def plan_runs(
    runs: Iterable[Run], prefix: bytes, high: bytes | None, *, origin: str
) -> Iterator[Part]:
    """Yield parts of about equal size, in order.

    Args:
        runs: runs of the whole manifest.
        prefix: prefix of the paths on the branch.
        high: the first path after those below the prefix; ``None``: there is none.
        origin: a digest of the manifest.
    """
    runs = sorted(runs)
    firsts = sorted(key for run in runs for key in run.firsts)
    step = PART_ROWS // BLOCK_ROWS
    bounds = sorted(set(firsts[step::step]) - set(firsts[:1]))
    for low, following in pairwise([b"", *bounds, None]):
        assert low is not None  # only the last one is
        source = SortedSource(tuple(_slices(runs, low, following)), low, following, origin)
        yield Part(prefix + low, high if following is None else prefix + following, source)


def _slices(runs: list[Run], low: bytes, high: bytes | None) -> Iterator[RunSlice]:
    """Yield the blocks that may contain keys from `low` up to `high`."""
    for run in runs:
        start = max(0, bisect_left(run.firsts, low) - 1)
        end = len(run.firsts) if high is None else bisect_left(run.firsts, high)
        if start < end:
            yield RunSlice(run.path, start, end)
