"""A due collection meets all commands that take objects into use, two of them at a time.

Only `gc run` looks whether a collection is due. So one that becomes due while commands are paused
is one that is due and runs then. `fs stage --location` takes nothing into use that could be
collected: it refuses locations within the namespace.
"""

from __future__ import annotations

from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from lakecli.repository.guard import GcGuard
from tests.meetings.arguments import REPOSITORY
from tests.meetings.longer import Command, Longer
from tests.meetings.outcomes import Meeting
from tests.meetings.world import MACHINES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.meetings.hook import Hook
    from tests.meetings.matrix import Matrix

DUE: Final = "due"
COLLECT: Final = ("gc", "run", REPOSITORY, "--yes")
KEEPS: Final = b"/_lakecli/gc/keep/"
SHARE: Final = 10
"""One of this many meetings of two commands takes place, on average."""

PARTS: Final = 4
"""One of this many pairs of commands meets a collection in each setting."""

LESS: Final = 8
"""CI tries one of so many of these meetings; that is enough to find writers that keep nothing."""

SHOWN: Final = 5

BY_SYNC = pytest.mark.parametrize("sync", [False, True], ids=["manual", "auto"])
BY_SIZE = pytest.mark.parametrize(
    "less", [LESS, pytest.param(1, marks=pytest.mark.nightly)], ids=["some", "all"]
)


def _taking(matrix: Matrix, *, sync: bool) -> list[tuple[str, ...]]:
    """Return the command lines that keep objects, and so take them into use."""
    return [
        line
        for line in matrix.writers(DUE, sync=sync)
        if any(KEEPS in key for _, key in matrix.solo(DUE, line, "ada", sync=sync).accesses.changed)
    ]


@BY_SYNC
def test_commands_of_every_kind_take_objects_into_use(matrix: Matrix, *, sync: bool) -> None:
    lines = _taking(matrix, sync=sync)
    found = {line[0] for line in lines} | {" ".join(line[:2]) for line in lines}
    missing = {
        *("branch create", "branch reset", "branch revert", "cherry-pick", "commit", "fs cp"),
        *("fs mv", "fs update-metadata", "fs upload", "import", "local commit", "merge"),
        *("refs-dump", "spark-write", "block-write", "tag create"),
    } - found
    assert not missing


def _problems(
    matrix: Matrix, hook: Hook, random: Random, *, sync: bool, less: int = LESS
) -> Iterator[str]:
    """Let two commands meet while a collection runs; yield what is wrong."""
    longer = Longer(matrix, hook, random)
    taking = _taking(matrix, sync=sync)
    for number, (first, second) in enumerate(product(taking, repeat=2)):
        if number % (PARTS * less) != sync:
            continue
        machines = random.choice(MACHINES), random.choice(MACHINES)
        commands = (
            Command("ada", first),
            Command(machines[0], second),
            Command(machines[1], COLLECT),
        )
        if problem := longer.meet_three(DUE, commands, sync=sync):
            yield problem


@pytest.mark.timeout(900)
@BY_SIZE
@BY_SYNC
def test_a_collection_runs_while_two_commands_meet(
    matrix: Matrix, hook: Hook, *, sync: bool, less: int
) -> None:
    problems = [*_problems(matrix, hook, Random(1), sync=sync, less=less)]
    assert not problems, f"{len(problems)}\n" + "\n".join(problems[:SHOWN])


@pytest.mark.timeout(900)
@BY_SIZE
@BY_SYNC
def test_two_commands_meet_while_a_collection_is_due(
    matrix: Matrix, *, sync: bool, less: int
) -> None:
    random = Random(f"due {sync}")
    problems = [
        problem
        for first, second in product(_taking(matrix, sync=sync), repeat=2)
        if not random.randrange(SHARE * less)
        for problem in matrix.problems(Meeting(DUE, sync, first, second, random.choice(MACHINES)))
    ]
    assert not problems, f"{len(problems)}\n" + "\n".join(problems[:SHOWN])


def test_writers_that_neither_keep_nor_renew_objects_are_found(
    matrix: Matrix, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep deletes what it has taken into use meanwhile."""

    def keep(guard: Any, state: Any, _keys: set[str]) -> bool:
        now = guard._read()
        return (now.phase, now.epoch) == (state.phase, state.epoch)

    sound = [*_taking(matrix, sync=False)]
    monkeypatch.setattr(GcGuard, "_keep", keep)
    monkeypatch.setattr(GcGuard, "_touch", lambda *_: None)
    monkeypatch.setattr("tests.meetings.test_due._taking", lambda *_, **__: sound)
    matrix.forget()
    try:
        assert any(_problems(matrix, hook, Random(1), sync=False))
    finally:
        matrix.forget()
