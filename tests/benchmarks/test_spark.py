"""Entries as a DataFrame, against Spark's own reading of the same rows from Parquet.

All in one session on two cores, in turn. The column is the path, which is what most of an entry
is; a column of numbers alone Parquet reads without looking at anything else.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import pytest

from lakecli.pipeline.spark_runner import SparkRunner
from lakecli.spark import register
from tests.benchmarks.claims import SPARK_PARQUET
from tests.benchmarks.lake import EVERYTHING, Large
from tests.benchmarks.measure import repeat

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Place
    from tests.benchmarks.measure import Machine

COUNT: Final = 2_000_000
ROUNDS: Final = 7
AGGREGATE: Final = "sum(length(path))"


@pytest.fixture(scope="module")
def session(machine: Machine, scratch: Path) -> Iterator[Any]:
    conf = {
        "spark.driver.memory": "2g",
        "spark.local.dir": str(scratch / "spark"),
        "spark.sql.session.timeZone": "UTC",
    }
    with SparkRunner(
        master="local[2]", conf=conf, environ=machine.environ, cache=scratch
    ) as runner:
        yield runner.session


@pytest.mark.timeout(1200)
def test_aggregate_of_entries(
    benchmark: BenchmarkFixture, report: Report, place: Place, scratch: Path, session: Any
) -> None:
    large = Large(place, "two-million", COUNT)
    large.create()
    large.commit_all()
    register(session, home=place.home)
    uri = f"{large.uri}/{EVERYTHING}"
    entries = session.read.format("lakefs").load(uri)
    parquet = str(scratch / "entries.parquet")
    entries.write.parquet(parquet)
    frames = {
        "parquet": session.read.parquet(parquet),
        "aggregate of entries": entries,
        "aggregate of entries, path and size": session.read.format("lakefs")
        .option("columns", "path,size")
        .load(uri),
    }
    taken: dict[str, list[float]] = {name: [] for name in frames}

    def measure() -> None:
        sums = set()
        for name, frame in frames.items():
            start = time.perf_counter()
            sums.add(frame.selectExpr(AGGREGATE).first()[0])
            taken[name].append(time.perf_counter() - start)
        assert len(sums) == 1

    repeat(benchmark, measure, rounds=ROUNDS, warmup_rounds=2)
    medians = {name: median(times[-ROUNDS:]) for name, times in taken.items()}
    for name in list(frames)[1:]:
        detail = f"{medians[name]:.2f} s : {medians['parquet']:.2f} s, {SPARK_PARQUET}"
        report.check(name, medians[name] / medians["parquet"], detail)
