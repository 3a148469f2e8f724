"""DataFrames of lakecli, against Spark's own reading of the same rows from Parquet.

All in one session on two cores, in turn; the table first, as its row has the memory of workers,
which keep some of what they used before. The column of entries is the path, which is what most of
an entry is; a column of numbers alone Parquet reads without looking at anything else.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import pytest

from lakecli.pipeline.spark_runner import SparkRunner
from lakecli.repository.commit import commit
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import upload_tree
from lakecli.spark import read_entries, read_table, register
from lakecli.spark import table as table_module
from tests.benchmarks.claims import SPARK_FILES, SPARK_PARQUET
from tests.benchmarks.lake import EVERYTHING, Large
from tests.benchmarks.measure import KIB, MIB, repeat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Place
    from tests.benchmarks.measure import Machine


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


TABLE_ROWS: Final = 8_000_000
TABLE_ROUNDS: Final = 3
COLUMNS: Final = (
    "id",
    "id * 0.37d as price",
    "concat('customer-', pmod(hash(id), 1000000)) as name",
    "xxhash64(id) as code",
    "date'2026-01-01' + cast(id % 365 as int) as day",
    "xxhash64(id, 3) as session",
)
TABLE_AGGREGATES: Final = (
    *("sum(id)", "sum(price)", "sum(length(name))"),
    *("max(code)", "max(day)", "min(session)"),
)


@pytest.mark.timeout(1800)
def test_aggregate_of_a_large_table(  # noqa: PLR0917 - fixtures
    benchmark: BenchmarkFixture,
    report: Report,
    place: Place,
    scratch: Path,
    session: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One file of about 300 MB."""
    files = scratch / "table"
    rows = session.range(0, TABLE_ROWS, 1, 1).selectExpr(*COLUMNS)
    rows.write.option("parquet.block.size", 32 * MIB).parquet(str(files))
    uri = place.create("table")
    with place.open() as lake:
        repository = lake.repository("table")
        upload_tree(repository, "main", b"t", source=files, options=UploadOptions())
        commit(repository, "main", message="Table", committer="benchmark")
    there = f"{uri}/main/t"
    # As on a cluster: otherwise Spark would read links to the files itself.
    monkeypatch.setattr(table_module, "is_here", lambda _spark: False)
    frames = {
        SPARK_FILES: session.read.parquet(str(files)),
        "native": read_table(session, there, native=True, home=place.home),
        "fetched": read_table(session, there, native=False, home=place.home),
    }
    taken: dict[str, list[float]] = {name: [] for name in frames}

    def measure() -> None:
        sums = set()
        for name, frame in frames.items():
            start = time.perf_counter()
            sums.add(tuple(frame.selectExpr(*TABLE_AGGREGATES).first()))
            taken[name].append(time.perf_counter() - start)
        # Sums of doubles depend on the order of the rows.
        assert len({row[:1] + row[2:] for row in sums}) == 1

    repeat(benchmark, measure, rounds=TABLE_ROUNDS, warmup_rounds=1)
    medians = {name: median(times[-TABLE_ROUNDS:]) for name, times in taken.items()}
    report.check("aggregate of a table, memory of a worker", max(_worker_memory()) * KIB / MIB)
    for name in ("native", "fetched"):
        detail = f"{medians[name]:.2f} s : {medians[SPARK_FILES]:.2f} s, {SPARK_FILES}"
        report.check(f"aggregate of a table, {name}", medians[name] / medians[SPARK_FILES], detail)


def _worker_memory() -> Iterator[int]:
    """Yield the peak resident memory of each Python process of this session, in KiB."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                status = (process / "status").read_text(encoding="utf-8")
                yield int(status.partition("VmHWM:")[2].split()[0])
        except FileNotFoundError:
            continue


COUNT: Final = 2_000_000
ROUNDS: Final = 7
AGGREGATE: Final = "sum(length(path))"


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
        "aggregate of entries": read_entries(session, uri, home=place.home),
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
