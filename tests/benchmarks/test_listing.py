"""Listings, diffs and a manifest of a million entries, as whole processes that write to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.benchmarks import dataset, protobuf_rows
from tests.benchmarks.claims import DECODED
from tests.benchmarks.lake import EVERYTHING
from tests.benchmarks.measure import LAKECLI, compare, timed

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Large
    from tests.benchmarks.measure import Comparison, Machine

ROUNDS = 3


@pytest.mark.parametrize("form", ["", "--json"])
@pytest.mark.parametrize("name", ["fs ls -r", "diff"])
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
    line = [*name.split(), *([form] if form else [])]
    line += [f"{ref}/"] if name == "fs ls -r" else [f"{ref}~1", ref]
    compared = _compare(benchmark, machine, million, line)
    if form:
        report.note_ratio(f"{name} of everything {form}, a row", compared, DECODED)
    else:
        report.check("fs ls -r and diff of everything", compared, of=name)


def test_manifest(
    benchmark: BenchmarkFixture, report: Report, machine: Machine, million: Large, scratch: Path
) -> None:
    manifest = str(scratch / "manifest.parquet")
    line = ["export", f"{million.uri}/{EVERYTHING}/", manifest, "--to-lakefs-import"]
    report.check("manifest of everything", _compare(benchmark, machine, million, line))


def _compare(
    benchmark: BenchmarkFixture, machine: Machine, million: Large, line: list[str]
) -> Comparison:
    """Compare a command about a million entries with protobuf that decodes them."""
    sample = million.count // 10
    messages = protobuf_rows.messages(value for _, value in dataset.records(sample))
    return compare(
        benchmark,
        rounds=ROUNDS,
        subject=lambda _: machine.run(LAKECLI, *line).each(million.count),
        baselines={DECODED: lambda _: timed(lambda: protobuf_rows.decode(messages)).each(sample)},
    )
