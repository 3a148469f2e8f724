"""Working directories against cp, on the same files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.benchmarks.claims import COPY
from tests.benchmarks.lake import MAIN
from tests.benchmarks.measure import KIB, LAKECLI, compare
from tests.benchmarks.test_upload import _fill, _program

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Place
    from tests.benchmarks.measure import Machine, Usage


def test_checkout(
    benchmark: BenchmarkFixture, report: Report, machine: Machine, place: Place, scratch: Path
) -> None:
    source = scratch / "checked-out-files"
    _fill(source, files=10_000, size=4 * KIB)
    place.create("checked-out")
    branch = f"lakefs://checked-out/{MAIN}"
    machine.run(LAKECLI, "fs", "upload", "-r", source, f"{branch}/")
    machine.run(LAKECLI, "commit", branch, "-m", "All")

    def copy(number: int) -> Usage:
        os.sync()
        copied = machine.run(_program("cp"), "-r", source, scratch / f"copied-{number}")
        return copied + machine.run(_program("sync"))

    def checkout(number: int) -> Usage:
        os.sync()
        return machine.run(LAKECLI, "local", "clone", f"{branch}/", scratch / f"cloned-{number}")

    compared = compare(benchmark, rounds=5, subject=checkout, baselines={COPY: copy})
    report.check("checkout of 10,000 files", compared.ratio(COPY), compared.detail(COPY))
