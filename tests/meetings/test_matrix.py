"""Every command that writes, paused at every step, while another one runs to its end.

CI tries a sample of the meetings, the nightly run all of them. The smallest sample that finds every
mutant of `test_matrix_mutants` is the meetings that are named there, since each shows one mutant;
that module tries them with the mutant and without. `test_a_sample_of_meetings…` adds what finds a
defect of a single command: each command that writes is paused once and interrupts once in every
situation, so a new command takes part without a line here.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from tests.meetings.arguments import BLOCK_WRITE, READS, SERVE_PUT, SPARK_WRITE, command_lines
from tests.meetings.life import RULED
from tests.meetings.outcomes import Meeting, agree, explain
from tests.meetings.serial import ALONE
from tests.meetings.situations import SITUATIONS
from tests.meetings.world import MACHINES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.meetings.matrix import Matrix

LINES = [
    *(tuple(line) for lines in command_lines().values() for line in lines),
    *(SPARK_WRITE, BLOCK_WRITE, SERVE_PUT),
]
SHOWN = 5
"""Problems that a failing test shows."""

SAMPLED = 12
"""Meetings that are left out, and tried nevertheless."""

ONLY: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "due": (("gc",),),
    "pushed": (("undo",), ("op", "restore")),
}
"""Situations in which one of the two commands begins so; others have all other meetings."""

SETTINGS = [
    pytest.param(situation, sync, id=f"{situation}-{'auto' if sync else 'manual'}")
    for situation in SITUATIONS
    for sync in (False, True)
    if sync or situation != "pushed"  # else nothing pushed is taken back
]


@pytest.mark.parametrize("words", command_lines())
def test_a_command_that_writes_has_a_situation_in_which_it_does(matrix: Matrix, words: str) -> None:
    found = [
        each
        for line in command_lines()[words]
        for situation in SITUATIONS
        if (each := matrix.solo(situation, tuple(line), "ada", sync=False)).writes
    ]
    assert bool(found) is (words not in READS), "the marks of `_WORDS` in lakecli/cli/tree.py"
    if words not in {*READS, *ALONE}:
        assert any(each.reply.exit_code == 0 for each in found)
    assert words not in RULED or any(each.moves for each in found)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("situation", "sync"), SETTINGS)
def test_a_sample_of_meetings_has_the_outcome_of_a_serial_order(
    matrix: Matrix, situation: str, *, sync: bool
) -> None:
    random = Random(f"{situation} {sync}")
    writers = matrix.writers(situation, sync=sync)
    others = [line for line in writers if _is_tried(situation, line)]
    problems: list[str] = []
    for line in writers:
        first, second = random.sample([line, random.choice(others)], 2)  # each is first of many
        meeting = Meeting(situation, sync, first, second, random.choice(MACHINES))
        problems += matrix.problems(meeting)
    _check_none(problems)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", LINES, ids=" ".join)
@pytest.mark.parametrize(("situation", "sync"), SETTINGS)
def test_commands_that_meet_have_the_outcome_of_a_serial_order(
    matrix: Matrix, situation: str, *, sync: bool, first: tuple[str, ...]
) -> None:
    if first not in matrix.writers(situation, sync=sync):
        reply = matrix.solo(situation, first, "ada", sync=sync).reply
        assert reply.exit_code != 1, reply
        return
    problems = [
        problem
        for meeting in _iter_meetings(matrix, situation, first, sync=sync)
        for problem in matrix.problems(meeting)
    ]
    _check_none(problems)


def _check_none(problems: list[str]) -> None:
    shown = "\n".join(problems[:SHOWN])
    assert not problems, f"{len(problems)} outcomes that no serial order has\n{shown}"


def _is_tried(situation: str, *lines: tuple[str, ...]) -> bool:
    """Tell whether a meeting of commands belongs to a situation."""
    return any(
        words == line[: len(words)] for words in ONLY.get(situation, ((),)) for line in lines
    )


def _iter_meetings(
    matrix: Matrix, situation: str, first: tuple[str, ...], *, sync: bool
) -> Iterator[Meeting]:
    for second in matrix.writers(situation, sync=sync):
        if not _is_tried(situation, first, second):
            continue
        for machine in MACHINES:
            yield Meeting(situation, sync, first, second, machine)


@pytest.mark.parametrize(("situation", "sync"), SETTINGS)
def test_meetings_that_are_left_out_have_the_outcome_of_what_stands_for_them(
    matrix: Matrix, situation: str, *, sync: bool
) -> None:
    random = Random(f"{situation} {sync}")
    writers = matrix.writers(situation, sync=sync)
    left_out = 0
    while left_out < SAMPLED:
        lines = random.choice(writers), random.choice(writers)
        meeting = Meeting(situation, sync, *lines, random.choice(MACHINES))
        pauses = [*matrix.meet_everywhere(meeting)]
        met = {pause.step: each.outcome for pause, each in pauses if each is not None}
        known = [pause for pause, each in pauses if each is None]
        for pause in random.sample(known, min(len(known), 2)):
            left_out += 1
            expected = met.get(pause.like) or matrix.outcome_of(meeting, pause)
            outcome = matrix.meet(meeting, pause.step).outcome
            assert agree(outcome, expected), explain(meeting, pause.step, outcome, [expected])
