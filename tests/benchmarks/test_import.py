"""Importing objects from a listing in Parquet, without moving them."""

from __future__ import annotations

import hashlib
from collections import deque
from itertools import count
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.context import random_id
from lakecli.engine.runner import LocalRunner, StoreLocation
from lakecli.engine.scratch import Scratch
from lakecli.engine.spark_runner import SparkRunner
from lakecli.imports.address_checks import Verify
from lakecli.imports.job import import_objects
from lakecli.imports.report import ImportOptions
from lakecli.imports.sources import open_source
from lakecli.repository import branch
from lakecli.repository.transfer.walk import LinkPolicy
from tests.benchmarks import protobuf_rows
from tests.benchmarks.claims import ENCODED, IMPORT, LOCAL
from tests.benchmarks.lake import MAIN
from tests.benchmarks.measure import LAKECLI, compare, family_seconds, timed

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from lakecli.engine.runner import Runner
    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Place
    from tests.benchmarks.measure import Machine, Usage

ROUNDS = 3
LISTED = 2
"""How many million objects are imported."""

LARGER = 3
"""How many million, by both engines."""


def key_of(number: int) -> str:
    year, month = 2020 + number % 5, number % 12
    return f"year={year}/month={month:02d}/part-{number:08d}.snappy.parquet"


def write_listing(path: Path, objects: int) -> Path:
    """Write a listing that is sorted by key."""
    import pyarrow as pa
    from pyarrow import parquet

    numbers = sorted(range(objects), key=key_of)
    keys = [key_of(number) for number in numbers]
    table = pa.table(
        {
            "path": keys,
            "physical_address": [f"s3://source-bucket/raw/{key}" for key in keys],
            "size": [number * 7_919 % 100_000_000 for number in numbers],
            "checksum": [hashlib.md5(key.encode()).hexdigest() for key in keys],
            "mtime": [1_700_000_000 + number % 1_000_000 for number in numbers],
        }
    )
    parquet.write_table(table, path, row_group_size=1 << 17)
    return path


def import_command(listing: Path, uri: str) -> tuple[str, ...]:
    """Return the words that import a listing by this process."""
    options = ("--engine", "local", "--verify", "none", "--no-progress")
    return LAKECLI, "import", "--from", str(listing), "--to", f"{uri}/{MAIN}/", *options


@pytest.mark.timeout(1200)
def test_in_process(  # noqa: PLR0917 - fixtures
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    place: Place,
    scratch: Path,
    objects: int,
) -> None:
    rows = LISTED * objects
    listing = write_listing(scratch / "listing.parquet", rows)

    def encode() -> None:
        deque(protobuf_rows.encoded(listing), maxlen=0)

    compared = compare(
        benchmark,
        rounds=ROUNDS,
        prepare=lambda number: place.create(f"imported-{number}"),
        subject=lambda number: machine.run(
            *import_command(listing, f"lakefs://imported-{number}")
        ).each(rows),
        baselines={ENCODED: lambda _: timed(encode).each(rows)},
    )
    report.check("import of a listing", compared)


@pytest.mark.timeout(1200)
def test_first_push(  # noqa: PLR0917 - fixtures
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    place: Place,
    scratch: Path,
    objects: int,
) -> None:
    """External objects need no check: only what may be lakecli's own is looked at."""
    listing = write_listing(scratch / "pushed.parquet", objects)

    def prepare(number: int) -> None:
        uri = place.create(f"pushed-{number}")
        machine.run(LAKECLI, "push", f"{uri}/{MAIN}")  # tests the store, too

    compared = compare(
        benchmark,
        rounds=ROUNDS,
        prepare=prepare,
        subject=lambda number: machine.run(LAKECLI, "push", f"lakefs://pushed-{number}/{MAIN}"),
        baselines={
            IMPORT: lambda number: machine.run(
                *import_command(listing, f"lakefs://pushed-{number}")
            )
        },
    )
    report.check("first push of an import", compared)


@pytest.mark.timeout(1800)
def test_on_spark(  # noqa: PLR0917 - fixtures
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    place: Place,
    scratch: Path,
    objects: int,
) -> None:
    """Import by both engines in turn; Spark has started before."""
    listing = str(write_listing(scratch / "larger.parquet", LARGER * objects))
    place.create("by-engines")
    names = map("import-{}".format, count())

    def run(runner: Runner) -> Usage:
        name = next(names)
        branch.create(repository, name, source=MAIN)
        return timed(lambda: by(runner, name), family_seconds)

    def by(runner: Runner, name: str) -> None:
        import_objects(
            repository,
            name,
            b"",
            source=open_source(repository, listing, links=LinkPolicy.FAIL),
            runner=runner,
            committer="benchmark",
            options=ImportOptions(verify=Verify.NONE),
        )

    with (
        place.open() as lake,
        SparkRunner(master="local[2]", environ=machine.environ, cache=scratch / "spark") as started,
    ):
        repository = lake.repository("by-engines")
        assert list(started.run(abs, [1])) == [(1, 1)]  # the session is up
        spark = SparkRunner(
            started.session, scratch=Scratch(StoreLocation.of(repository), random_id())
        )
        compared = compare(
            benchmark,
            rounds=ROUNDS,
            subject=lambda _: run(spark),
            baselines={LOCAL: lambda _: run(LocalRunner())},
        )
    report.check("import on Spark", compared)
