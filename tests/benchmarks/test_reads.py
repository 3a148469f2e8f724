"""Point reads in one process."""

from __future__ import annotations

import random
import time
from statistics import median
from typing import TYPE_CHECKING

from lakecli.committed.scan import find
from lakecli.repository.core.view import open_view
from tests.benchmarks import dataset
from tests.benchmarks.lake import EVERYTHING
from tests.benchmarks.measure import repeat

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Large

ROUNDS = 3
NEXT = 500_000


def test_point_reads(benchmark: BenchmarkFixture, report: Report, million: Large) -> None:
    """Read every entry once in random order, beginning with nothing in memory."""
    entries = dict(dataset.records(million.count))
    keys = list(entries)
    random.Random(1).shuffle(keys)
    expected = [entries[key] for key in keys]
    taken: list[float] = []
    wall: list[float] = []

    def read() -> list[bytes | None]:
        with million.open() as repository, open_view(repository, EVERYTHING) as view:
            trees, tree = repository.trees, view.commit.metarange_id
            start, wall_start = time.process_time(), time.perf_counter()
            found = [find(trees, tree, key) for key in keys]
            taken.append(time.process_time() - start)
            wall.append(time.perf_counter() - wall_start)
        return found

    assert repeat(benchmark, read, rounds=ROUNDS) == expected
    rate = len(keys) / median(taken)
    detail = f"{len(keys) / median(wall):,.0f}/s by the wall clock; next are {NEXT:,}"
    report.check("point reads", rate, detail)
