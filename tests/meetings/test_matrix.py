"""Every command that writes, paused at every step, while every other one runs from end to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.meetings.arguments import command_lines
from tests.meetings.outcomes import Meeting
from tests.meetings.situations import SITUATIONS
from tests.meetings.world import MACHINES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.meetings.matrix import Matrix

LINES = [tuple(line) for lines in command_lines().values() for line in lines]
SHOWN = 5
"""Problems that a failing test shows."""


BY_HAND: Final = 3
BY_ITSELF: Final = 15
"""Of the meetings with each kind of sharing, one in so many is tried in each run; nightly all."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", LINES, ids=" ".join)
@pytest.mark.parametrize("sync", [False, True], ids=["manual", "auto"])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_two_commands_that_meet_agree_with_a_serial_order(
    matrix: Matrix, situation: str, *, sync: bool, first: tuple[str, ...]
) -> None:
    _check(matrix, situation, first, sync=sync, every=BY_ITSELF if sync else BY_HAND)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", LINES, ids=" ".join)
@pytest.mark.parametrize("sync", [False, True], ids=["manual", "auto"])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_all_commands_that_meet_agree_with_a_serial_order(
    matrix: Matrix, situation: str, *, sync: bool, first: tuple[str, ...]
) -> None:
    _check(matrix, situation, first, sync=sync, every=1)


def _check(
    matrix: Matrix, situation: str, first: tuple[str, ...], *, sync: bool, every: int
) -> None:
    writers = matrix.writers(situation, sync=sync)
    if first not in writers:
        reply = matrix.solo(situation, first, "ada", sync=sync).reply
        assert reply.exit_code != 1, reply
        return
    problems = [
        problem
        for number, (meeting, step) in enumerate(_cells(matrix, situation, first, sync=sync))
        if (number + LINES.index(first)) % every == 0
        and (problem := matrix.problem(meeting, step)) is not None
    ]
    shown = "\n".join(problems[:SHOWN])
    assert not problems, f"{len(problems)} outcomes that no serial order has\n{shown}"


def _cells(
    matrix: Matrix, situation: str, first: tuple[str, ...], *, sync: bool
) -> Iterator[tuple[Meeting, int]]:
    writers = matrix.writers(situation, sync=sync)
    pauses = matrix.pauses(situation, first, sync=sync)
    if sync and first != writers[0]:
        # What comes before a command is the same for all: it need not be met by each again.
        pauses = pauses[matrix.common_pauses(situation, sync=sync) :]

    def shares(*lines: tuple[str, ...]) -> bool:
        return all(matrix.solo(situation, line, "ada", sync=sync).shares for line in lines)

    for second in writers:
        if situation == "due" and "gc" not in (first[0], second[0]):
            continue  # only collection makes a difference there
        for machine in MACHINES:
            if machine != "ada" and not sync and not shares(first, second):
                continue  # they have nothing to meet at
            for step in pauses:
                yield Meeting(situation, sync, first, second, machine), step
