"""DataFrames of lakecli, against Spark's own reading of the same files.

Both take turns in one session on two cores.
The column of entries is the path, which is what most of an entry is; a column of numbers alone
Parquet reads without looking at anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from lakecli.engine.spark_runner import SparkRunner
from lakecli.repository.commit import commit
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import upload_tree
from lakecli.spark import read_table, register
from tests.benchmarks.claims import SPARK
from tests.benchmarks.lake import EVERYTHING, MAIN, Large
from tests.benchmarks.measure import compare, timed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Place
    from tests.benchmarks.measure import Comparison, Machine


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


ROUNDS: Final = 5

WARM_UPS: Final = 4
"""Runs of both sides that are not counted: until then the JVM compiles what they need."""

TABLE_ROWS: Final = 8
"""Million rows of the table."""

ENTRIES: Final = 2
"""Million entries."""

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
@pytest.mark.parametrize("way", ["native", "fetched"])
def test_table(  # noqa: PLR0917 - fixtures
    benchmark: BenchmarkFixture,
    report: Report,
    place: Place,
    scratch: Path,
    session: Any,
    objects: int,
    *,
    way: str,
) -> None:
    """Read one file of about 300 MB, whose row groups several tasks read."""
    files = scratch / f"table-{way}"
    rows = session.range(0, TABLE_ROWS * objects, 1, 1).selectExpr(*COLUMNS)
    rows.write.option("parquet.block.size", 32 << 20).parquet(str(files))
    uri = place.create(f"table-{way}")
    with place.open() as lake:
        repository = lake.repository(f"table-{way}")
        upload_tree(repository, MAIN, b"t", source=files, options=UploadOptions())
        commit(repository, MAIN, message="Table", committer="benchmark")
    ours = read_table(session, f"{uri}/{MAIN}/t", native=way == "native", home=place.home)
    compared = compare_frames(
        benchmark, ours, session.read.parquet(str(files)), TABLE_AGGREGATES, against=SPARK
    )
    report.check("table by Spark", compared, of=way)


@pytest.mark.timeout(1200)
def test_entries(  # noqa: PLR0917 - fixtures
    benchmark: BenchmarkFixture,
    report: Report,
    place: Place,
    scratch: Path,
    session: Any,
    objects: int,
) -> None:
    large = Large(place, "entries", ENTRIES * objects)
    large.create()
    large.commit_all()
    register(session, home=place.home)
    entries = session.read.format("lakefs").load(f"{large.uri}/{EVERYTHING}")
    copy, against = str(scratch / "entries.parquet"), "Spark on the same rows in Parquet"
    entries.write.parquet(copy)
    compared = compare_frames(
        benchmark, entries, session.read.parquet(copy), ["sum(length(path))"], against=against
    )
    report.note_ratio("entries as a DataFrame", compared, against)


def compare_frames(
    benchmark: BenchmarkFixture, ours: Any, sparks: Any, sums: Sequence[str], *, against: str
) -> Comparison:
    """Compare the time of the same aggregates, which have the same result."""

    def aggregate(frame: Any) -> Any:
        return frame.selectExpr(*sums).first()

    for _ in range(WARM_UPS):
        assert aggregate(ours) == pytest.approx(aggregate(sparks))
    return compare(
        benchmark,
        rounds=ROUNDS,
        subject=lambda _: timed(lambda: aggregate(ours)),
        baselines={against: lambda _: timed(lambda: aggregate(sparks))},
    )
