"""Importing two million objects without moving them, from a manifest on disk."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.benchmarks.claims import LOCAL
from tests.benchmarks.engines import compare_engines
from tests.benchmarks.measure import LAKECLI, MIB, PYTHON, processor_seconds, repeat, seconds

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Place
    from tests.benchmarks.measure import Machine, Usage

COUNT = 2_000_000
ROUNDS = 3
CORES = 2
LARGER = 3_000_000


class Manifests(NamedTuple):
    """Manifests of the same objects, sorted by key and unsorted."""

    ordered: Path
    mixed: Path


@pytest.fixture(scope="module")
def manifests(scratch: Path) -> Manifests:
    numbers = sorted(range(COUNT), key=key_of)
    ordered = write(scratch / "ordered.parquet", numbers)
    random.Random(1).shuffle(numbers)
    return Manifests(ordered, write(scratch / "mixed.parquet", numbers))


def key_of(number: int) -> str:
    year, month = 2020 + number % 5, number % 12
    return f"year={year}/month={month:02d}/part-{number:08d}.snappy.parquet"


def write(path: Path, numbers: list[int]) -> Path:
    import pyarrow as pa
    from pyarrow import parquet

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


def test_in_process(
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    place: Place,
    manifests: Manifests,
) -> None:
    taken: list[Usage] = []
    names = iter(range(ROUNDS + 1))

    def create() -> tuple[str, ...]:
        uri = place.create(f"imported-{next(names)}")
        options = ("--engine", "local", "--verify", "none", "--no-progress")
        return LAKECLI, "import", "--from", str(manifests.ordered), "--to", f"{uri}/main/", *options

    repeat(
        benchmark,
        lambda *argv: taken.append(machine.run(*argv)),
        rounds=ROUNDS,
        set_up=lambda: (create(), {}),
    )
    memory = machine.memory(*create())
    report.check("import in order, memory", memory.anonymous / MIB, "RssAnon")
    rate = COUNT / processor_seconds(taken)
    report.check("import in order", rate, f"{COUNT / seconds(taken):,.0f}/s by the wall clock")


def test_on_spark(
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    place: Place,
    manifests: Manifests,
) -> None:
    uri = place.create("on-spark")
    cache = place.namespaces / "spark"
    program = (PYTHON, "-m", "tests.benchmarks.import_on_spark", place.home, cache, uri)

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*program, *manifests],
            env=machine.environ,
            capture_output=True,
            text=True,
            check=False,
        )

    done = repeat(benchmark, run, rounds=1)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    for name, figures in zip(("mixed up", "in order"), told, strict=True):
        wall = f"{COUNT / figures['seconds']:,.0f}/s by the wall clock"
        report.check(f"import {name}, Spark", CORES * COUNT / figures["cpu"], wall)
    report.check("import on Spark, memory", told[-1]["memory"] / MIB, "VmHWM, JVM and Python")


@pytest.mark.timeout(1800)
def test_engines(
    benchmark: BenchmarkFixture, report: Report, machine: Machine, place: Place, scratch: Path
) -> None:
    """The first line of the table that `python -m tests.benchmarks.engines` prints."""
    manifest = write(scratch / "larger.parquet", sorted(range(LARGER), key=key_of))
    works = compare_engines(
        place, manifest, LARGER, environ=machine.environ, cache=scratch / "engines"
    )
    with closing(works):
        work = repeat(benchmark, lambda: next(works), rounds=1)
    detail = (
        f"{work.spark.cpu:.1f} s : {work.local.cpu:.1f} s, {LOCAL}; by the wall clock "
        f"{work.spark.seconds:.1f} s : {work.local.seconds:.1f} s"
    )
    report.check("import on Spark, processor", work.ratio, detail)
