"""A process killed at every step: the same command again gives the same end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lakecli.repository import branch
from lakecli.repository.commit import commit
from tests.support.lakes import Numbered, make_repository, open_lake, read, stage

PROJECT = Path(__file__).parents[2]

BRANCH_STEPS = ["build", "before put_new 1", "after put_new 1", "before flush 1", "after flush 1"]
CASES = [
    *[("create", step) for step in ("claim", "register")],
    *[("commit", step) for step in ("seal", *BRANCH_STEPS, "move", "tidy")],
    *[("merge", step) for step in (*BRANCH_STEPS, "move")],
    *[("cherry-pick", step) for step in ("after flush 1", "move")],
    # Reverting the newest commit gives a tree that is there already: nothing is written.
    *[("revert", step) for step in ("build", "move")],
    *[("upload", step) for step in ("after put_content 3", "before flush 1", "after flush 1")],
]


def run(directory: Path, command: str, step: str, seed: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.repository.crash_worker", directory, command, step, seed],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def prepare(directory: Path, command: str) -> None:
    """Make a repository with two branches that both changed, and something staged on main."""
    source = directory / "source"
    source.mkdir()
    for number in range(40):
        (source / f"file-{number}.txt").write_text(f"contents {number}")
    if command == "create":
        return
    with open_lake(directory, new_id=Numbered("prepare")) as lake:
        repository = make_repository(lake, directory)
        stage(repository, "main", {b"%03d" % number: b"base" for number in range(200)})
        commit(repository, "main", message="base", committer="me")
        branch.create(repository, "side", source="main")
        stage(repository, "side", {b"050": b"side", b"051": None, b"new": b"side"})
        commit(repository, "side", message="side", committer="me")
        stage(repository, "main", {b"150": b"main"})
        commit(repository, "main", message="main", committer="me")
        if command == "commit":
            stage(repository, "main", {b"100": b"staged", b"101": None, b"zzz": b"staged"})


def state(directory: Path) -> tuple[dict[bytes, str], dict[bytes, str], list[str]]:
    """What main reads as, with and without staging, and the messages of its history."""
    from lakecli.repository.log import LogOptions, log

    with open_lake(directory, new_id=Numbered("look")) as lake:
        repository = lake.repository("demo")
        with log(repository, "main", LogOptions(first_parent=True)) as commits:
            messages = [each.message for each in commits]
        return read(repository, "main"), read(repository, "main@"), messages


@pytest.mark.parametrize(("command", "step"), CASES, ids=lambda value: value.replace(" ", "-"))
def test_the_same_command_after_a_kill(tmp_path: Path, command: str, step: str) -> None:
    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
        prepare(tmp_path / name, command)

    killed = run(tmp_path / "killed", command, step, "first")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = run(tmp_path / "killed", command, "never", "second")
    whole = run(tmp_path / "whole", command, "never", "first")
    assert whole.returncode == 0, whole.stderr
    assert whole.stdout == ""
    assert again.returncode == 0, again.stderr

    finished = step == "tidy"  # the branch had moved before the process died
    assert again.stdout.startswith("nothing_to_do" if finished else "")
    assert state(tmp_path / "killed") == state(tmp_path / "whole")
