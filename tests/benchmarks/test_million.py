"""Commands on large repositories, whose cost must depend on the change and not on the tree.

Every round uses another random path, every second one a new path. The namespace is a local
directory, so ranges and metaranges are read in place.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.benchmarks.claims import LIST, MERGE, ONE_BASE
from tests.benchmarks.lake import MAIN, Large
from tests.benchmarks.measure import LAKECLI, compare

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.measure import Machine, Usage

ROUNDS = 21
PAGE = "1000"


class Operation(NamedTuple):
    """A command to measure: the preparation of a round, and its arguments."""

    prepare: Callable[[Large, int], None]
    arguments: Callable[[Large, int], list[str]]


def _path(large: Large, number: int) -> str:
    return os.fsdecode(large.path(number))


OPERATIONS = {
    "commit of one change": Operation(
        Large.stage, lambda large, number: ["commit", f"{large.uri}/{MAIN}", "-m", f"{number}"]
    ),
    "diff of two commits": Operation(
        Large.commit, lambda large, _: ["diff", f"{large.uri}/{MAIN}~1", f"{large.uri}/{MAIN}"]
    ),
    "merge of one change each": Operation(
        Large.part, lambda large, _: ["merge", f"{large.uri}/right", f"{large.uri}/left"]
    ),
    "fs stat": Operation(
        Large.commit,
        lambda large, number: ["fs", "stat", f"{large.uri}/{MAIN}/{_path(large, number)}"],
    ),
    "fs ls, one page": Operation(
        Large.commit,
        lambda large, number: [
            *("fs", "ls", "-r", f"{large.uri}/{MAIN}/"),
            *("--amount", PAGE, "--after", _path(large, number)),
        ],
    ),
    "completion of a path": Operation(
        lambda _large, _number: None,
        lambda large, number: [
            *("__complete", "path"),
            f"{large.uri}/{MAIN}/{_path(large, number).rpartition('/')[0]}/",
        ],
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_one_million(
    benchmark: BenchmarkFixture, report: Report, machine: Machine, million: Large, name: str
) -> None:
    operation = OPERATIONS[name]
    compared = compare(
        benchmark,
        rounds=ROUNDS,
        prepare=lambda number: operation.prepare(million, number),
        subject=lambda number: machine.run(LAKECLI, *operation.arguments(million, number)),
        baselines={LIST: lambda _: machine.run(LAKECLI, "branch", "list", million.uri)},
    )
    if name == "commit of one change":
        report.check(f"{name} in a million", compared)
    else:
        report.note_ratio(f"{name} at a million", compared, LIST)


def test_publish(
    benchmark: BenchmarkFixture, report: Report, machine: Machine, million: Large
) -> None:
    uri = million.uri

    def prepare(number: int) -> None:
        for into in ("published", "pushed"):
            million.diverge(number, into=into, source=f"{into}-source")

    def merge_and_push(_number: int) -> Usage:
        merged = machine.run(LAKECLI, "merge", f"{uri}/pushed-source", f"{uri}/pushed")
        return merged + machine.run(LAKECLI, "push", f"{uri}/pushed")

    compared = compare(
        benchmark,
        rounds=7,
        prepare=prepare,
        subject=lambda _: machine.run(
            *(LAKECLI, "publish", f"{uri}/published-source", f"{uri}/published"),
            *("--check", "true"),
        ),
        baselines={MERGE: merge_and_push},
    )
    report.check("publish of one change in a million", compared)


@pytest.mark.parametrize(("changes", "rounds"), [(1, ROUNDS), (30, 7)])
def test_merge_with_two_bases(  # noqa: PLR0917 - fixtures
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    million: Large,
    changes: int,
    rounds: int,
) -> None:
    crossed, in_line = ("crossed-left", "crossed-right"), ("line-left", "line-right")

    def prepare(number: int) -> None:
        million.cross(number, names=crossed, changes=changes)
        million.cross(number, names=in_line, changes=changes, at_once=False)

    def merge(names: tuple[str, str]) -> Callable[[int], Usage]:
        into, source = (f"{million.uri}/{name}" for name in names)
        return lambda _: machine.run(LAKECLI, "merge", source, into)

    compared = compare(
        benchmark,
        rounds=rounds,
        prepare=prepare,
        subject=merge(crossed),
        baselines={ONE_BASE: merge(in_line)},
    )
    report.check("merge with two bases", compared, of=f"{changes:,} changed on each side")
