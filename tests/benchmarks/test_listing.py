"""Listings and diffs of a million entries, as whole processes whose output goes to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.benchmarks import dataset, protobuf_rows
from tests.benchmarks.claims import DECODED
from tests.benchmarks.lake import EVERYTHING
from tests.benchmarks.measure import LAKECLI, compare, timed

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Large
    from tests.benchmarks.measure import Machine

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
    sample = million.count // 10
    messages = protobuf_rows.messages(value for _, value in dataset.records(sample))
    compared = compare(
        benchmark,
        rounds=ROUNDS,
        subject=lambda _: machine.run(LAKECLI, *line).each(million.count),
        baselines={DECODED: lambda _: timed(lambda: protobuf_rows.decode(messages)).each(sample)},
    )
    if form:
        report.note_ratio(f"{name} of everything {form}, a row", compared, DECODED)
    else:
        report.check("fs ls -r and diff of everything", compared, of=name)
