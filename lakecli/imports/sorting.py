"""Divide and sort a manifest that does not fit into memory.

Sort a manifest that does not fit into memory: sorted runs on disk, merged slice by slice.

A run is an Arrow file of blocks of sorted rows; the first key of each block is kept in memory.
These keys show where to divide the manifest into equal parts. A part reads the blocks of each run
that reach into it, and sorts their rows. All parts need access to the same disk, as the threads of
this process and the executors of an embedded Spark have.

Divide a manifest into intervals of keys that hold about the same number of rows.

Every piece of the manifest gives a sample in proportion to its rows: one key at random of each so
many rows, so that no order of the rows matters. With `SAMPLES` keys for each interval, not one of
the intervals of a billion rows is expected to have twice its share.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, pairwise, repeat
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from lakecli.base.directories import make_private
from lakecli.imports.arrow import bytes_of, rows_of, schema
from lakecli.imports.finished_parts import digest_of
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


ROWS_PER_INTERVAL: Final = 131_072
MOST_INTERVALS: Final = 20_000
SAMPLES: Final = 64
"""Sampled keys for each interval, at least."""

ROWS_PER_MAP: Final = 1_048_576
"""Rows of the manifest that one task reads, at most, unless one piece has more."""


LEAST_TASKS: Final = 8
"""Tasks that read a small manifest, and intervals of it, where it has so many pieces or rows."""


class Keys(Protocol):
    """What a sample is taken of: a piece of a manifest."""

    def iter_keys(self) -> Iterator[Sequence[bytes]]:
        """Yield the keys of all rows."""

    def identity(self) -> list[Any]:
        """Return JSON values that change whenever the rows do."""


class Wish(NamedTuple):
    """The sample that is wanted of a piece.

    Attributes:
        piece: of the manifest.
        step: take one of so many keys.
        most: keys to return, or one more; the step is doubled as often as that takes.
    """

    piece: Keys
    step: int
    most: int


class Sample(NamedTuple):
    """The sample of a piece.

    Attributes:
        rows: number of rows of the piece.
        step: the number of rows that each key stands for.
        keys: of the sample, in the order of the piece.
    """

    rows: int
    step: int
    keys: list[bytes]


def wish_for(sizes: Sequence[tuple[Keys, int]], wanted: int, *, is_exact: bool) -> list[Wish]:
    """Return what to ask of each piece for a number of intervals.

    Args:
        sizes: the pieces, and for each its rows, or another size.
        wanted: number of intervals.
        is_exact: whether the sizes are rows. If not, the step is found while a piece is read.
    """
    total = sum(size for _, size in sizes)
    samples = max(1, wanted) * SAMPLES
    if is_exact:
        step = max(1, total // samples)
        return [Wish(piece, step, 2 * size // step + 2) for piece, size in sizes]
    # Doubling leaves between half of the keys and all.
    share = 2 * samples / max(1, total)
    return [Wish(piece, 1, max(2, int(share * size))) for piece, size in sizes]


def sample(wish: Wish) -> Sample:
    """Read the keys of a piece, and return a sample: one at random of each `step` rows."""
    step = wish.step
    # The same after a restart, and another one for each piece.
    chance = random.Random(digest_of(wish.piece.identity()))  # noqa: S311 - no secret
    found: list[bytes] = []
    seen = 0
    wanted = chance.randrange(step)
    for keys in wish.piece.iter_keys():
        while wanted < seen + len(keys):
            found.append(keys[wanted - seen])
            if len(found) > wish.most and len(found) % 2 == 0:
                found = [found[at + chance.getrandbits(1)] for at in range(0, len(found), 2)]
                step *= 2
            wanted = len(found) * step + chance.randrange(step)
        seen += len(keys)
    return Sample(seen, step, found)


def bounds_of(samples: Iterable[Sample], *, least: int) -> list[bytes]:
    """Return the keys at which intervals begin, except for the first one.

    Args:
        samples: of all pieces.
        least: number of intervals that a small manifest is divided into.
    """
    by_step: dict[int, list[bytes]] = {}
    rows = weight = 0
    for each in samples:
        rows += each.rows
        weight += each.step * len(each.keys)
        by_step.setdefault(each.step, []).extend(each.keys)
    wanted = intervals_for(rows, least)
    ordered = merge(*(zip(sorted(keys), repeat(step)) for step, keys in by_step.items()))
    bounds: list[bytes] = []
    passed, last, limit = 0, b"", 1
    for key, step in ordered:
        if passed * wanted >= limit * weight and key > last:
            bounds.append(key)
            last, limit = key, passed * wanted // weight + 1
        passed += step
    return bounds


def intervals_for(rows: int, least: int) -> int:
    """Return the number of intervals for a number of rows."""
    return min(MOST_INTERVALS, max(-(-rows // ROWS_PER_INTERVAL), least))


def tasks_for(sizes: Sequence[int], *, most: int) -> list[range]:
    """Return consecutive pieces that are read by one task each, as ranges of their numbers.

    Each task writes one block for each interval, so few tasks are better than many. Small manifests
    make about `LEAST_TASKS`.

    Args:
        sizes: of the pieces, in rows or any other unit.
        most: size of a task, at most, unless one piece is larger.
    """
    limit = min(most, max(1, sum(sizes) // LEAST_TASKS))
    tasks = []
    start = total = 0
    for number, size in enumerate(sizes):
        if number > start and total + size > limit:
            tasks.append(range(start, number))
            start, total = number, 0
        total += size
    if start < len(sizes):
        tasks.append(range(start, len(sizes)))
    return tasks
