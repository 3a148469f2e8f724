"""An import on Spark meets other commands as one in this process does.

The same parts run in either, on executors in place of threads. The only difference is the results
of executors, which are in the bucket for a while; of the other commands, only a collection sees
them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from lakecli.engine import scratch as scratches
from lakecli.engine.runner import StoreLocation
from lakecli.engine.scratch import Scratch
from lakecli.engine.spark_runner import SparkRunner
from tests.meetings.accesses import Accesses
from tests.meetings.arguments import REPOSITORY, command_lines
from tests.meetings.outcomes import Meeting
from tests.meetings.world import MACHINES
from tests.support.in_process_spark import InProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakecli.repository.contract import Repository
    from tests.meetings.matrix import Matrix
    from tests.meetings.serial import Solo

IMPORT: Final = tuple(command_lines()["import"][0])
COLLECT: Final = ("gc", "run", REPOSITORY, "--yes")
RUN: Final = b"results of spark"
RESULTS: Final = f"/_lakecli/scratch/{RUN.hex()}/".encode()
"""Part of the keys of the results."""

BY_SYNC = pytest.mark.parametrize("sync", [False, True], ids=["manual", "auto"])


@pytest.fixture
def on_spark(matrix: Matrix) -> Iterator[Callable[[], None]]:
    """A function from whose call on imports run on Spark, and results are in the bucket."""

    @contextmanager
    def open_runner(*_: object, repository: Repository, **__: object) -> Iterator[SparkRunner]:
        kept = Scratch(StoreLocation.of(repository), RUN)
        with SparkRunner(InProcess(), scratch=kept) as runner:
            yield runner

    with pytest.MonkeyPatch.context() as patch:

        def begin() -> None:
            matrix.forget_command(IMPORT)
            patch.setattr("lakecli.cli.commands.import_.open_runner", open_runner)
            patch.setattr(scratches, "LIMIT", 0)

        yield begin
    matrix.forget_command(IMPORT)


def _only_there(here: Solo, there: Solo) -> Accesses:
    """Return what an import on Spark reads and writes, and one in this process does not."""
    known = {(each.space, each.key, each.end) for each in here.found}
    return Accesses(each for each in there.found if (each.space, each.key, each.end) not in known)


@BY_SYNC
@pytest.mark.parametrize("situation", ["clean", "due"])
def test_an_import_on_spark_meets_others_as_one_in_this_process_does(
    matrix: Matrix, on_spark: Callable[[], None], situation: str, *, sync: bool
) -> None:
    """It meets only those to whom the difference matters; all others meet the one in here."""
    here = matrix.solo(situation, IMPORT, "ada", sync=sync)
    others = {
        line: matrix.solo(situation, line, "ada", sync=sync).accesses
        for line in matrix.writers(situation, sync=sync)
        if line != IMPORT
    }
    on_spark()
    there = matrix.solo(situation, IMPORT, "ada", sync=sync)
    assert there.reply == here.reply
    assert there.accesses.changed == here.accesses.changed  # the results are gone
    more = _only_there(here, there)
    results = {(each.space, each.key) for each in there.found if RESULTS in each.key}
    assert results
    # They are gone at the end, but not before.
    seen = [line for line, each in others.items() if more.conflict(each) or each.touch(results)]
    assert COLLECT in seen  # it lists where results lie
    problems = [
        problem
        for line in seen
        for first, second in ((IMPORT, line), (line, IMPORT))
        for machine in MACHINES
        for problem in matrix.problems(Meeting(situation, sync, first, second, machine))
    ]
    assert problems == []
