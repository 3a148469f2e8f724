"""Every command that writes, paused at every step, while every other one runs to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.meetings.arguments import REPOSITORY, command_lines
from tests.meetings.outcomes import Meeting
from tests.meetings.situations import SITUATIONS
from tests.meetings.world import MACHINES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.meetings.matrix import Matrix

LINES = [tuple(line) for lines in command_lines().values() for line in lines]
UNDO = ("undo", REPOSITORY)
SHOWN = 5
"""Problems that a failing test shows."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", LINES, ids=" ".join)
@pytest.mark.parametrize("sync", [False, True], ids=["manual", "auto"])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_commands_that_meet_have_the_outcome_of_a_serial_order(
    matrix: Matrix, situation: str, *, sync: bool, first: tuple[str, ...]
) -> None:
    if first not in matrix.writers(situation, sync=sync):
        reply = matrix.solo(situation, first, "ada", sync=sync).reply
        assert reply.exit_code != 1, reply
        return
    found = (
        matrix.problem(meeting, step)
        for meeting, step in _iter_meetings(matrix, situation, first, sync=sync)
    )
    problems = [each for each in found if each is not None]
    shown = "\n".join(problems[:SHOWN])
    assert not problems, f"{len(problems)} outcomes that no serial order has\n{shown}"


def _iter_meetings(
    matrix: Matrix, situation: str, first: tuple[str, ...], *, sync: bool
) -> Iterator[tuple[Meeting, int]]:
    writers = matrix.writers(situation, sync=sync)
    pauses = matrix.pauses(situation, first, sync=sync)
    if sync and first not in (writers[0], UNDO):
        # What all commands do before they begin is met by a writer that adds, and by one that
        # takes back.
        pauses = pauses[matrix.common_pauses(situation, sync=sync) :]

    for second in writers:
        if situation == "due" and "gc" not in (first[0], second[0]):
            continue  # the other situations have all other meetings
        both = [matrix.solo(situation, line, "ada", sync=sync) for line in (first, second)]
        meet_in_bucket = all(each.looks for each in both) and any(each.shares for each in both)
        for machine in MACHINES:
            if machine != "ada" and not meet_in_bucket:
                continue  # neither sees what the other one does
            for step in pauses:
                yield Meeting(situation, sync, first, second, machine), step
