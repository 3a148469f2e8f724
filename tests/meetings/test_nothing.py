"""A command that changes nothing records nothing: undo and redo do what they did before it.

Every command of the table runs twice. Where the second run leaves refs and what is staged as they
were, the log is as it was. `IDLE` has command lines that never change anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.meetings.arguments import REPOSITORY, SPARK_WRITE, words_of
from tests.meetings.observe import log_of, observe
from tests.meetings.situations import SITUATIONS

if TYPE_CHECKING:
    from tests.meetings.matrix import Matrix
    from tests.meetings.serial import Line

MAIN: Final = f"{REPOSITORY}/main"

IDLE: Final[tuple[tuple[int, tuple[str, ...]], ...]] = (
    (7, ("branch", "create", MAIN, "-s", MAIN)),
    (7, ("branch", "rename", f"{REPOSITORY}/dev", "dev")),
    (0, ("branch", "reset", f"{REPOSITORY}/dev", "-y")),
    (0, ("branch", "reset", f"{REPOSITORY}/dev", "-y", "--to", f"{REPOSITORY}/dev")),
    (0, ("branch", "reset", f"{REPOSITORY}/dev", "-y", "--to", "dev", "--force-with-lease")),
    (0, ("branch", "reset", MAIN, "-y", "--prefix", "none/")),
    (0, ("branch", "reset", MAIN, "-y", "--object", "none")),
    (4, ("cherry-pick", f"{MAIN}~1", MAIN)),
    (11, ("commit", f"{REPOSITORY}/dev", "-m", "nothing")),
    (0, ("config", "set", "user.name", "Ada")),
    (0, ("fetch", REPOSITORY)),
    (2, ("fs", "cp", f"{MAIN}/a", f"{MAIN}/a")),
    (0, ("fs", "cp", f"{REPOSITORY}/v1/a", f"{MAIN}/a")),
    (0, ("fs", "cp", "-r", f"{REPOSITORY}/v1/t/", f"{MAIN}/t/")),
    (2, ("fs", "mv", f"{MAIN}/a", f"{MAIN}/a")),
    (0, ("fs", "rm", f"{MAIN}/none")),
    (0, ("fs", "rm", "-r", f"{MAIN}/none/")),
    (0, ("fs", "update-metadata", f"{MAIN}/a", "--content-type", "application/octet-stream")),
    (0, ("local", "pull", "{files}/wd")),
    (11, ("merge", f"{MAIN}~1", MAIN)),
    (11, ("merge", MAIN, MAIN)),
    (11, ("op", "restore", REPOSITORY, "{newest}", "-y")),
    (0, ("pull", MAIN)),
    (0, ("push", MAIN)),
    (7, ("repo", "create", REPOSITORY, "memory://meetings/demo")),
    (0, ("tag", "create", "-f", f"{REPOSITORY}/v1", f"{REPOSITORY}/v1")),
    (7, ("tag", "create", f"{REPOSITORY}/v1", f"{REPOSITORY}/v1")),
)
"""Exit codes and command lines that change nothing, of a repository in the situation "clean"."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("sync", [False, True], ids=["manual", "auto"])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_a_second_run_does_not_change_is_not_recorded(
    matrix: Matrix, situation: str, *, sync: bool
) -> None:
    problems: dict[Line, str] = {}
    moving: set[Line] = set()
    idle: set[Line] = set()
    for line in matrix.lines():
        if line[0] == "run" and line[1] not in ("abort", "resume"):
            continue  # it records the branch that it made and deleted, so that undo restores it
        alone = matrix.solo(situation, line, "ada", sync=sync)
        if alone.moves:
            moving.add(line)
        matrix.world.restore(alone.after)
        state, logged = _repositories(matrix), log_of(matrix.world, "ada")
        reply = matrix.run(situation, line, "ada", sync=sync)
        if _repositories(matrix) != state:
            continue
        idle.add(line)
        if (now := log_of(matrix.world, "ada")) != logged:
            problems[line] = f"{reply}: {now}"
    assert problems == {}
    # These always find something to do; what they do when there is nothing, `IDLE` says.
    assert words_of(moving) - words_of(idle) <= {"branch revert", "undo", "op undo", SPARK_WRITE[0]}


@pytest.mark.parametrize("sync", [False, True], ids=["manual", "auto"])
@pytest.mark.parametrize("line", IDLE, ids=lambda each: " ".join(each[1]))
def test_what_never_changes_anything_leaves_undo_and_redo_as_they_are(
    matrix: Matrix, line: tuple[int, tuple[str, ...]], *, sync: bool
) -> None:
    expected, words = line
    matrix.begin("clean")
    matrix.world.ok("ada", "branch", "create", f"{REPOSITORY}/new", "-s", MAIN, sync=sync)
    with_it = _repositories(matrix)
    matrix.world.ok("ada", "undo", REPOSITORY, "--remote", sync=sync)
    matrix.world.ok("ada", "tag", "list", REPOSITORY, sync=sync)
    before, logged = _repositories(matrix), log_of(matrix.world, "ada")
    newest = logged["demo"][0].rpartition(" ")[2]
    filled = [newest if word == "{newest}" else word for word in words]
    reply = matrix.run("clean", tuple(filled), "ada", sync=sync)
    assert (reply.exit_code, log_of(matrix.world, "ada")) == (expected, logged), reply
    assert _repositories(matrix) == before
    matrix.world.ok("ada", "redo", REPOSITORY, sync=sync)
    assert _repositories(matrix) == with_it


@pytest.mark.parametrize("sync", [False, True], ids=["manual", "auto"])
def test_a_commit_of_what_the_head_has_leaves_undo_and_redo_as_they_are(
    matrix: Matrix, *, sync: bool
) -> None:
    matrix.begin("clean")
    for words in (
        ("fs", "rm", f"{MAIN}/a"),
        ("fs", "cp", f"{REPOSITORY}/v1/a", f"{MAIN}/a"),
        ("fs", "rm", f"{MAIN}/t/1"),
        ("undo", REPOSITORY),
    ):
        matrix.world.ok("ada", *words, sync=sync)
    before, logged = _repositories(matrix), log_of(matrix.world, "ada")
    reply = matrix.run("clean", ("commit", MAIN, "-m", "nothing"), "ada", sync=sync)
    assert (reply.exit_code, log_of(matrix.world, "ada")) == (11, logged), reply
    assert _repositories(matrix) == before
    matrix.world.ok("ada", "redo", REPOSITORY, sync=sync)
    matrix.world.ok("ada", "commit", MAIN, "-m", "without t/1", sync=sync)


def _repositories(matrix: Matrix) -> object:
    return observe(matrix.world)["ada"]["repositories"]
