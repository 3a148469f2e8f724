"""The memory of each long operation at a million objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.lake import MAIN, Large
from tests.benchmarks.measure import LAKECLI, repeat
from tests.benchmarks.test_import import import_command, write_listing

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Place
    from tests.benchmarks.measure import Machine


@pytest.mark.timeout(1200)
def test_commit(
    benchmark: BenchmarkFixture, report: Report, machine: Machine, place: Place, objects: int
) -> None:
    """A million staged entries become a tree."""
    large = Large(place, "staged", objects)
    large.create()
    large.stage_all()
    commit = (LAKECLI, "commit", f"{large.uri}/{MAIN}", "-m", "Everything")
    memory = repeat(benchmark, lambda: machine.memory(*commit), rounds=1)
    report.check_memory("commit", memory)


@pytest.mark.timeout(1200)
def test_after_an_import(  # noqa: PLR0917 - fixtures
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    place: Place,
    scratch: Path,
    objects: int,
) -> None:
    """An import, and what reads all that was imported."""
    uri = place.create("imported")
    command = import_command(write_listing(scratch / "imported.parquet", objects), uri)
    report.check_memory("import", repeat(benchmark, lambda: machine.memory(*command), rounds=1))
    for line in (
        f"fs ls -r {uri}/{MAIN}/",
        f"diff {uri}/{MAIN}~1 {uri}/{MAIN}",
        f"gc run --dry-run {uri}",
        f"fsck {uri}",
    ):
        words = line.split()
        name = line.partition(" lakefs:")[0]
        report.check_memory(name, machine.memory(LAKECLI, *words))
