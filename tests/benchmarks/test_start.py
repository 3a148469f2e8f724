"""Commands on a small repository, against the interpreter's own start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.repository import branch
from lakecli.repository.commit import commit
from lakecli.repository.staged.stager import Stager
from tests.benchmarks import dataset
from tests.benchmarks.claims import START
from tests.benchmarks.lake import MAIN
from tests.benchmarks.measure import LAKECLI, PYTHON, compare
from tests.support.lakes import unclaimed

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Place
    from tests.benchmarks.measure import Machine

ROUNDS = 21
COMMANDS = {
    "version": None,
    "branch list": "",
    "log": f"/{MAIN}",
    "rev-parse": f"/{MAIN}",
    "status": "",
    "fs ls": f"/{MAIN}/",
    "fs stat": f"/{MAIN}/file",
}
"""What the commands append to the repository's URI; ``None`` for no argument."""


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
        entry = b"file", dataset.changed_value(bytes(16))
        Stager(repository, MAIN).write(unclaimed([entry]), kind="upload")
        commit(repository, MAIN, message="A file", committer="Ada")
    return uri


@pytest.mark.parametrize("name", COMMANDS)
def test_start(
    benchmark: BenchmarkFixture, report: Report, machine: Machine, small: str, name: str
) -> None:
    place = COMMANDS[name]
    command = (LAKECLI, *name.split(), *([] if place is None else [small + place]))
    compared = compare(
        benchmark,
        rounds=ROUNDS,
        subject=lambda _: machine.run(*command),
        baselines={START: lambda _: machine.run(PYTHON, "-c", "pass")},
    )
    if place is None:
        report.note_ratio(f"start of {name}", compared, START)
    else:
        report.check("start of fs" if name.startswith("fs ") else "start", compared, of=name)
