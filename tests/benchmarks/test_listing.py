"""Listings and diffs of many entries, as whole processes whose output goes to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.lake import EVERYTHING
from tests.benchmarks.measure import LAKECLI, processor_seconds, repeat

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Large
    from tests.benchmarks.measure import Machine, Usage

ROUNDS = 3
LISTED = 200_000


@pytest.mark.parametrize("form", ["", "--json"])
@pytest.mark.parametrize("name", ["fs ls -r", "diff of everything"])
def test_listing(
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    million: Large,
    *,
    name: str,
    form: str,
) -> None:
    ref = f"{million.uri}/{EVERYTHING}"
    line = {
        "fs ls -r": ["fs", "ls", "-r", f"{ref}/", "--amount", str(LISTED)],
        "diff of everything": ["diff", f"{ref}~1", ref],
    }[name]
    count = LISTED if name == "fs ls -r" else million.count
    taken: list[Usage] = []
    repeat(
        benchmark,
        lambda: taken.append(machine.run(LAKECLI, *line, *([form] if form else []))),
        rounds=ROUNDS,
    )
    seconds = processor_seconds(taken)
    report.check(f"{name} {form}".strip(), count / seconds, f"{seconds:.2f} s of processor")
