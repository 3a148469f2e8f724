"""`annotate` keeps answers, and meets commands that move what it has read: they stay right.

It changes nothing that another command reads, so the matrix leaves it out. Here it is paused before
it reads what was kept, and before it keeps, while each command that writes runs to its end.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from lakecli.cli.exit_codes import ExitCode
from lakecli.repository import annotate
from lakecli.repository.annotations_kept import KeptAnnotations
from tests.meetings.arguments import REPOSITORY
from tests.meetings.outcomes import Meeting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from _pytest.mark import ParameterSet

    from lakecli.model import Commit
    from tests.meetings.hook import Hook
    from tests.meetings.matrix import Matrix
    from tests.meetings.world import Reply

ANNOTATE: Final = {
    name: ("annotate", f"{REPOSITORY}/{name}/", "-r") for name in ("main", "dev", "v1")
}
"""All of them keep their answers in one table: the question is the same."""

PAUSES: Final = ("<_load>", "<keep>")

SAMPLED: Final = 6
"""Commands that run during a pause, of each setting, unless all do."""


def _setting(situation: str, *, sync: bool, machine: str, quick: bool) -> ParameterSet:
    marks = () if quick else pytest.mark.nightly
    name = f"{situation}-{'auto' if sync else 'manual'}-{machine}"
    return pytest.param(situation, sync, machine, marks=marks, id=name)


SETTINGS: Final = [
    _setting("staged", sync=False, machine="ada", quick=False),
    _setting("clean", sync=False, machine="ada", quick=True),
    _setting("due", sync=False, machine="ada", quick=True),
    _setting("apart", sync=False, machine="ada", quick=False),
    _setting("apart", sync=True, machine="bob", quick=True),
    _setting("pushed", sync=True, machine="ada", quick=False),
]


@pytest.fixture
def keeping(
    matrix: Matrix, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.MonkeyPatch]:
    """Let short walks keep their answers, and these be steps of a command."""
    monkeypatch.setattr(annotate, "MANY_COMMITS", 1)
    for name in ("_load", "keep"):
        watched = hook._watched(getattr(KeptAnnotations, name), name)
        monkeypatch.setattr(KeptAnnotations, name, watched)
    for line in ANNOTATE.values():
        matrix.forget_command(line)
    yield monkeypatch
    for line in ANNOTATE.values():
        matrix.forget_command(line)


def _answers(matrix: Matrix, situation: str) -> dict[str, Reply]:
    return {name: matrix.run(situation, line, "ada", sync=False) for name, line in ANNOTATE.items()}


def _problem(matrix: Matrix, meeting: Meeting, step: int, expected: Reply) -> str | None:
    """Let a command run while `annotate` is paused; return what is wrong."""
    met, _ = matrix._meet(meeting, step)
    assert met.first is not None
    if met.first != expected and met.first.exit_code != ExitCode.LOST_RACE:
        return f"{meeting}, pause {step}: {met.first} is not {expected}"
    for then in (None, ("undo", REPOSITORY)):
        if then is not None:
            matrix.run(meeting.situation, then, "ada", sync=meeting.sync)
        found = _answers(matrix, meeting.situation)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(KeptAnnotations, "_load", lambda _: None)
            computed = _answers(matrix, meeting.situation)
        if found != computed:
            return f"{meeting}, pause {step}, then {then}: {found} is not {computed}"
    return None


def _check(
    matrix: Matrix, situation: str, *, sync: bool, machine: str, sampled: int | None = None
) -> None:
    line = ANNOTATE["main"]
    alone = matrix.solo(situation, line, "ada", sync=sync)
    pauses = [number for number, name in enumerate(alone.steps) if name in PAUSES]
    assert [alone.steps[each] for each in pauses] == [*PAUSES]
    writers = matrix.writers(situation, sync=sync)
    if sampled is not None:
        writers = Random(situation).sample(writers, sampled)
    problems = [
        problem
        for second in (*writers, ANNOTATE["dev"])
        for step in pauses
        if (
            problem := _problem(
                matrix, Meeting(situation, sync, line, second, machine), step, alone.reply
            )
        )
    ]
    assert problems == []


@pytest.mark.usefixtures("keeping")
@pytest.mark.parametrize(("situation", "sync", "machine"), SETTINGS)
def test_answers_that_are_kept_stay_right_whatever_is_done_meanwhile(
    matrix: Matrix, situation: str, *, sync: bool, machine: str
) -> None:
    _check(matrix, situation, sync=sync, machine=machine, sampled=SAMPLED)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("keeping")
@pytest.mark.parametrize(("situation", "sync", "machine"), SETTINGS)
def test_answers_that_are_kept_stay_right_whatever_any_command_does(
    matrix: Matrix, situation: str, *, sync: bool, machine: str
) -> None:
    _check(matrix, situation, sync=sync, machine=machine)


def test_a_wrong_answer_that_is_kept_is_found(matrix: Matrix, keeping: pytest.MonkeyPatch) -> None:
    line, other = ANNOTATE["main"], ANNOTATE["dev"]
    alone = matrix.solo("clean", line, "ada", sync=False)
    meeting = Meeting("clean", sync=False, first=line, second=other, machine="ada")
    step = alone.steps.index("<keep>")
    assert _problem(matrix, meeting, step, alone.reply) is None

    def find(_kept: KeptAnnotations, items: Sequence[bytes], at: Commit) -> dict[bytes, Commit]:
        return dict.fromkeys(items, at)

    keeping.setattr(KeptAnnotations, "find", find)
    assert _problem(matrix, meeting, step, alone.reply) is not None
