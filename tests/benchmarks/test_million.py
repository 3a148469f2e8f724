"""Commands on large repositories, whose cost must depend on the change and not on the tree.

Every round uses another random path, every second one a new path. The namespace is a local
directory, so ranges and metaranges are read in place.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.benchmarks.claims import CLAIMS, LIST, ONE_MILLION
from tests.benchmarks.lake import MAIN, Large
from tests.benchmarks.measure import LAKECLI, MIB, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.measure import Machine, Usage

ROUNDS = 21
PAGE = "1000"


class Operation(NamedTuple):
    """A command to measure: the preparation of a round, and its arguments."""

    prepare: Callable[[Large, int], None]
    arguments: Callable[[Large, int], list[str]]


def _commit(large: Large, number: int) -> list[str]:
    return ["commit", f"{large.uri}/{MAIN}", "-m", f"Round {number}"]


def _diff(large: Large, _number: int) -> list[str]:
    return ["diff", f"{large.uri}/{MAIN}~1", f"{large.uri}/{MAIN}"]


def _stat(large: Large, number: int) -> list[str]:
    return ["fs", "stat", f"{large.uri}/{MAIN}/{os.fsdecode(large.path(number))}"]


def _list(large: Large, number: int) -> list[str]:
    after = os.fsdecode(large.path(number))
    return ["fs", "ls", "-r", f"{large.uri}/{MAIN}/", "--amount", PAGE, "--after", after]


def _merge(large: Large, _number: int) -> list[str]:
    return ["merge", f"{large.uri}/right", f"{large.uri}/left"]


OPERATIONS = {
    "commit of one change": Operation(Large.stage, _commit),
    "diff of two commits": Operation(Large.commit, _diff),
    "fs stat": Operation(Large.commit, _stat),
    "fs ls, one page": Operation(Large.commit, _list),
    "merge of one change each": Operation(Large.part, _merge),
}


def _check_sizes(
    report: Report,
    machine: Machine,
    name: str,
    *,
    large: Large,
    taken: Sequence[Usage],
) -> None:
    """Check what an operation writes and how much memory it needs, if there is a claim about it."""
    suffix = ", 10M" if large.count > 1_000_000 else ""
    if f"{name}{suffix}, written" in CLAIMS:
        most = max(usage.written for usage in taken)
        report.check(f"{name}{suffix}, written", most / 1_000_000, "the most of all rounds")
    if f"{name}{suffix}, memory" in CLAIMS:
        operation = OPERATIONS[name]
        operation.prepare(large, ROUNDS + 1)
        memory = machine.memory(LAKECLI, *operation.arguments(large, ROUNDS + 1))
        detail = f"RssAnon; VmHWM {memory.resident / MIB:.0f} MiB"
        report.check(f"{name}{suffix}, memory", memory.anonymous / MIB, detail)


@pytest.mark.parametrize("name", OPERATIONS)
def test_one_million(
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    million: Large,
    name: str,
) -> None:
    operation = OPERATIONS[name]
    compared = compare(
        benchmark,
        rounds=ROUNDS,
        prepare=lambda number: operation.prepare(million, number),
        subject=lambda number: machine.run(LAKECLI, *operation.arguments(million, number)),
        baselines={LIST: lambda _: machine.run(LAKECLI, "branch", "list", million.uri)},
    )
    _check_sizes(report, machine, name, large=million, taken=compared.subject)
    report.check(name, compared.ratio(LIST), compared.detail(LIST))
    if f"{name}, processor" in CLAIMS:
        report.check(f"{name}, processor", compared.cpu_ratio(LIST))


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", OPERATIONS)
def test_ten_million(
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    both: tuple[Large, Large],
    name: str,
) -> None:
    million, ten_million = both
    operation = OPERATIONS[name]

    def prepare(number: int) -> None:
        operation.prepare(million, number)
        operation.prepare(ten_million, number)

    compared = compare(
        benchmark,
        rounds=ROUNDS,
        prepare=prepare,
        subject=lambda number: machine.run(LAKECLI, *operation.arguments(ten_million, number)),
        baselines={
            ONE_MILLION: lambda number: machine.run(LAKECLI, *operation.arguments(million, number)),
            LIST: lambda _: machine.run(LAKECLI, "branch", "list", ten_million.uri),
        },
    )
    if f"{name}, 10M, start" in CLAIMS:
        report.check(f"{name}, 10M, start", compared.ratio(LIST), compared.detail(LIST))
    _check_sizes(report, machine, name, large=ten_million, taken=compared.subject)
    report.check(f"{name}, 10M", compared.ratio(ONE_MILLION), compared.detail(ONE_MILLION))
