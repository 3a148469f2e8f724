"""Undo takes back every command of the table that changes a ref or what is staged.

A command that fails has changed nothing, or undo takes it back, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakecli.repository.handle.lake import Lake
from lakecli.repository.runtime import Home, Runtime
from lakecli.repository.undo.log import is_passed_over, iter_log
from tests.meetings.arguments import REPOSITORY
from tests.meetings.observe import observe
from tests.meetings.situations import SITUATIONS

if TYPE_CHECKING:
    from tests.meetings.matrix import Matrix
    from tests.meetings.serial import Line

LEFT_OUT = {"undo", "redo", "op undo", "op redo", "run"}
"""Commands that take back others, which `_problem` runs, and a run: it records several operations.

Those are a branch, what the job does, the publication, and the end of the branch.
"""

State = dict[str, Any]
"""The refs of each of Ada's repositories, and the objects on each branch, staged ones included."""


def _state(matrix: Matrix) -> State:
    found: State = observe(matrix.world)["ada"]["repositories"]
    return found


def _logs(matrix: Matrix) -> dict[str, list[bytes]]:
    """Return the operations of each of Ada's repositories that undo does not pass over."""
    home = matrix.world.home("ada")
    runtime = Runtime(lambda: matrix.world.now, lambda: bytes(16), "observe")
    with Lake.open(Home(home / "store", home / "cache"), runtime) as lake:
        return {
            each.name: [
                logged.operation.id
                for logged in iter_log(lake.repository(each.name))
                if not is_passed_over(logged.operation)
            ]
            for each in lake.repositories()
        }


def _beginnings(matrix: Matrix, situation: str, *, sync: bool) -> list[State]:
    """Return the state before a command; also that after what it may do first."""
    matrix.begin(situation)
    states = [_state(matrix)]
    if sync:
        matrix.world.ok("ada", "status", REPOSITORY, sync=True)
    else:
        matrix.world("ada", ["pull", f"{REPOSITORY}/main", "--ff-only"])  # as `publish` does first
    states.append(_state(matrix))
    matrix.begin(situation)
    return states


def _problem(matrix: Matrix, before: list[State], logged: set[str], *, sync: bool) -> str | None:
    """Undo, redo and undo what a command did; return what is wrong.

    Args:
        matrix: after the command.
        before: the states that it may have begun with.
        logged: the repositories whose log it changed.
        sync: whether sharing is automatic.
    """
    after = _state(matrix)
    changed = {name for state in before for name in state.keys() | after.keys()}
    changed = {name for name in changed if all(s.get(name) != after.get(name) for s in before)}
    for word, wanted in (("undo", before), ("redo", [after]), ("undo", before)):
        for name in sorted(changed | logged):
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
    logs = _logs(matrix)
    problems: dict[Line, str] = {}
    changing: set[Line] = set()
    for line in matrix.lines():
        if {line[0], " ".join(line[:2])} & LEFT_OUT:
            continue
        solo = matrix.solo(situation, line, "ada", sync=sync)
        matrix.world.restore(solo.after)
        logged = {name for name, ids in _logs(matrix).items() if ids != logs.get(name)}
        has_changed = _state(matrix) not in before
        if not has_changed and (solo.reply.exit_code == 0 or not logged):
            continue
        if has_changed:
            changing.add(line)
        problem = _problem(matrix, before, logged, sync=sync)
        if problem is not None:
            problems[line] = f"{solo.reply}: {problem}"
    assert problems == {}
    assert len(changing) > 10
