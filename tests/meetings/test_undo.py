"""Undo takes back every command of the table that changes a ref or what is staged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.meetings.arguments import REPOSITORY
from tests.meetings.observe import observe
from tests.meetings.situations import SITUATIONS

if TYPE_CHECKING:
    from tests.meetings.matrix import Matrix
    from tests.meetings.serial import Line

TAKES_BACK = {"undo", "redo", "op undo", "op redo"}
"""Commands that take back others; `_problem` runs them."""

State = dict[str, Any]
"""The refs of each of Ada's repositories, and the objects on each branch, staged ones included."""


def _state(matrix: Matrix) -> State:
    found: State = observe(matrix.world)["ada"]["repositories"]
    return found


def _beginnings(matrix: Matrix, situation: str, *, sync: bool) -> list[State]:
    """Return the state before a command; also that after what automatic sync does first."""
    matrix.begin(situation)
    states = [_state(matrix)]
    if sync:
        matrix.world.ok("ada", "status", REPOSITORY, sync=True)
        states.append(_state(matrix))
    return states


def _problem(matrix: Matrix, before: list[State], *, sync: bool) -> str | None:
    """Undo, redo and undo what a command did; return what is wrong."""
    after = _state(matrix)
    changed = {name for state in before for name in state.keys() | after.keys()}
    changed = {name for name in changed if all(s.get(name) != after.get(name) for s in before)}
    for word, wanted in (("undo", before), ("redo", [after]), ("undo", before)):
        for name in sorted(changed):
            line = [word, f"lakefs://{name}"]
            reply = matrix.world("ada", line, sync=sync)
            if "--remote" in reply.stderr:  # it moved the branch in the bucket, too
                reply = matrix.world("ada", [*line, "--remote"], sync=sync)
            if reply.exit_code != 0:
                return f"{line}: {reply}"
        state = _state(matrix)
        if state not in wanted:
            return f"{word} leaves {state}, not {wanted}"
    return None


@pytest.mark.timeout(300)
@pytest.mark.parametrize("sync", [False, True], ids=["manual", "auto"])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_undo_takes_back_every_command_that_changes_refs_or_staging(
    matrix: Matrix, situation: str, *, sync: bool
) -> None:
    before = _beginnings(matrix, situation, sync=sync)
    problems: dict[Line, str] = {}
    changing: set[Line] = set()
    for line in matrix.lines():
        if {line[0], " ".join(line[:2])} & TAKES_BACK:
            continue
        solo = matrix.solo(situation, line, "ada", sync=sync)
        matrix.world.restore(solo.after)
        if solo.reply.exit_code != 0 or _state(matrix) in before:
            continue
        changing.add(line)
        problem = _problem(matrix, before, sync=sync)
        if problem is not None:
            problems[line] = problem
    assert problems == {}
    assert len(changing) > 10
