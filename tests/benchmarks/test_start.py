"""Commands on a small repository, against the interpreter's own start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.repository import branch
from lakecli.repository.commit import commit
from tests.benchmarks.claims import START
from tests.benchmarks.lake import MAIN
from tests.benchmarks.measure import LAKECLI, MIB, PYTHON, compare

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Place
    from tests.benchmarks.measure import Machine

ROUNDS = 21
COMMANDS = {"branch list": "", "log": f"/{MAIN}"}
"""The claims, and what the commands append to the repository's URI."""


@pytest.fixture(scope="module")
def small(place: Place) -> str:
    """The URI of a repository with some branches and commits."""
    uri = place.create("small")
    with place.open() as lake:
        repository = lake.repository("small")
        for number in range(10):
            message = f"Commit {number}"
            commit(repository, MAIN, message=message, committer="Ada", allow_empty=True)
            branch.create(repository, f"branch-{number}", source=MAIN)
    return uri


@pytest.mark.parametrize("name", COMMANDS)
def test_start(
    benchmark: BenchmarkFixture,
    report: Report,
    machine: Machine,
    small: str,
    name: str,
) -> None:
    command = (LAKECLI, *name.split(), small + COMMANDS[name])
    compared = compare(
        benchmark,
        rounds=ROUNDS,
        subject=lambda _: machine.run(*command),
        baselines={START: lambda _: machine.run(PYTHON, "-c", "pass")},
    )
    report.check(f"{name}, memory", machine.memory(*command).resident / MIB, "VmHWM")
    report.check(name, compared.ratio(START), compared.detail(START))
