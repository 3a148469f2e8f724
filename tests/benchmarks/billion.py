"""What an import of a billion objects costs on 1 to 1,000 cores, without a billion objects.

Run it: ``python -m tests.benchmarks.billion [OBJECTS]``. The planners of `lakecli` divide synthetic
listings, whose keys are computed when a sample takes them. The time of a task is its rows divided
by the speed of one core, which is measured here first by processor time; a core takes the next task
when it is free. Spark's own shuffle and start are not included.
"""

from __future__ import annotations

import heapq
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.model import MetarangeId
from lakecli.pipeline.imports import bounds, shuffle
from lakecli.pipeline.imports.arrow import rows_of
from lakecli.pipeline.imports.bounds import intervals_for, tasks_for
from lakecli.pipeline.imports.part import Part, Task, import_rows
from lakecli.pipeline.imports.rows import Failures
from lakecli.pipeline.imports.sources import Manifest, open_source
from lakecli.pipeline.store_location import StoreLocation
from lakecli.repository.core.walk import LinkPolicy
from tests.pipeline.imports.listings import clustered, in_order, interval_sizes, listing, shuffled
from tests.pipeline.imports.lists import row_of, write_parquet
from tests.support.lakes import make_repository, open_lake

if TYPE_CHECKING:
    from collections.abc import Sequence

BILLION: Final = 1_000_000_000
CORES: Final = (1, 16, 256, 1_000)
GROUP: Final = 100_000
"""Rows of a row group."""

MEASURED: Final = 200_000
"""Rows by which the speeds are measured."""


class Speeds(NamedTuple):
    """Rows that one core handles in a second of processor time.

    Attributes:
        sampling: reading keys for the sample.
        mapping: reading rows, and finding the interval of each.
        importing: sorted rows into ranges of the tree.
    """

    sampling: float
    mapping: float
    importing: float


def measure() -> Speeds:
    """Measure the speeds on a small manifest in a directory."""
    with tempfile.TemporaryDirectory() as name, open_lake(Path(name)) as lake:
        directory = Path(name)
        repository = make_repository(lake, directory, range_entries=8_192)
        rows = [row_of(f"year=2026/month=03/part-{n:09d}.parquet", n) for n in range(MEASURED)]
        source = open_source(
            repository,
            str(write_parquet(directory / "m.parquet", rows, group=GROUP)),
            links=LinkPolicy.FAIL,
        )
        assert isinstance(source, Manifest)
        pieces = source.sized_pieces(divides=True)
        starts = [f"year=2026/month=03/part-{n:09d}".encode() for n in range(0, MEASURED, 30)]
        begin = process_time()
        for wish in bounds.wish_for(pieces, 8, is_exact=True):
            bounds.sample(wish)
        sampled = process_time()
        portion = shuffle.Portion(tuple(piece for piece, _ in pieces))
        batches = list(shuffle.placed(portion, starts, None, now=0))
        mapped = process_time()
        task = Task(
            StoreLocation.of(repository),
            MetarangeId(""),
            b"",
            replaces=False,
            copies=False,
            writes=True,
            seconds=0,
        )
        part = Part(b"", None, shuffle.Interval(b"", None, ""))
        ordered = (rows_of(batch.drop_columns(shuffle.PLACE)) for batch in batches)
        import_rows(task, part, ordered, Failures())
        imported = process_time()
    return Speeds(
        MEASURED / (sampled - begin), MEASURED / (mapped - sampled), MEASURED / (imported - mapped)
    )


def makespan(sizes: Sequence[int], cores: int, speed: float) -> float:
    """Return the seconds until the last task ends, if each core takes the next one."""
    free = [0.0] * cores
    for size in sizes:
        heapq.heapreplace(free, free[0] + size / speed)
    return max(free)


def main(objects: int) -> None:
    """Print the distributions of the intervals, and the times."""
    speeds = measure()
    print(f"one core: {speeds.sampling:,.0f} sampled, {speeds.mapping:,.0f} mapped, "
          f"{speeds.importing:,.0f} imported rows a second")  # fmt: skip
    pieces = [GROUP] * (objects // GROUP - 1)
    target = -(-objects // intervals_for(objects, 4))
    reducers: list[int] = []
    for order in (in_order, clustered, shuffled):
        start = perf_counter()
        reducers = interval_sizes(listing(objects, pieces, order))
        print(
            f"{order.__name__}: {len(reducers):,} intervals, the largest has "
            f"{max(reducers) / target:.2f} times its share, after {perf_counter() - start:.0f} s"
        )
    groups = [size for _, size in listing(objects, pieces, in_order)]
    for cores in CORES:
        tasks = tasks_for(groups, most=bounds.ROWS_PER_MAP)
        sizes = [sum(groups[task.start : task.stop]) for task in tasks]
        seconds = [
            makespan(sizes, cores, speeds.sampling),
            makespan(sizes, cores, speeds.mapping),
            makespan(reducers, cores, speeds.importing),
        ]
        ideal = objects / cores * sum(1 / speed for speed in speeds)
        print(
            f"{cores:,} cores: {len(tasks):,} tasks read, {len(tasks) * len(reducers):,} blocks, "
            f"{sum(seconds):,.0f} s ({', '.join(f'{each:,.0f}' for each in seconds)}), "
            f"{ideal / sum(seconds):.0%} of the cores busy"
        )


if __name__ == "__main__":
    os.nice(5)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else BILLION)
