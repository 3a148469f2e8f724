"""A command that shares by itself, killed at every step: the next one gives the same end."""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.repository import repo
from lakecli.repository.clone import clone
from lakecli.repository.log import LogOptions, log
from tests.repository.test_share_crashes import state_of
from tests.support.clones import machine, make_commit, synchronise
from tests.support.lakes import stage

if TYPE_CHECKING:
    from collections.abc import Callable

PROJECT = Path(__file__).parents[2]

SENDING = ("pack", "after put_new 1", "intent", "move", "read", "put", "after put 1", "track")
CASES = [
    *[("commit", step) for step in ("begun", "seal", "build", "after flush 1", *SENDING, "tidy")],
    *[("branch create", step) for step in ("begun", "done", "intent", "put", "after put 1")],
    *[("tag create", step) for step in ("done", "move", "after put 1", "track")],
]
ANSWERS = {"commit": "nothing_to_do", "branch create": "refused", "tag create": "refused"}
"""What the same command says where the one that was killed had done it here."""


def run(directory: Path, command: str, step: str, seed: str) -> subprocess.CompletedProcess[str]:
    argv = ["-m", "tests.repository.sync_crash_worker", str(directory), command, step, seed]
    return subprocess.run(
        [sys.executable, *argv],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def prepare(directory: Path) -> None:
    """Make two machines that share by themselves, with something to commit on the first."""
    namespace = str(directory / "namespace")
    directory.mkdir()
    with machine(directory, "one") as lake, machine(directory, "two") as other_lake:
        one = repo.create(lake, "demo", namespace, range_entries=16)
        synchroniser = synchronise(one, "me")
        make_commit(one, b"base")
        synchroniser.end()
        clone(other_lake, namespace, "demo")
        stage(one, "main", {b"mine": b"1"})


def state(directory: Path) -> dict[str, Any]:
    """Return what there is in the bucket and on the first machine, and what the second sees."""
    with machine(directory, "one") as lake, machine(directory, "two") as other_lake:
        one, two = lake.repository("demo"), other_lake.repository("demo")
        synchronise(two, "other").begin()
        here = state_of(one)
        there = state_of(two)
        assert (there["here"], there["there"]) == (here["here"], here["there"])
        with log(two, "main", LogOptions()) as commits:
            messages = [each.message for each in commits]
    # Commits are dated by when they were made, so only their number and messages compare.
    moves = {name: ref and ref[1:] for name, ref in here["there"].items()}
    return {
        "names": [sorted(names) for names in here["here"]],
        "begun": here["begun"],
        "moves": moves,
        "messages": messages,
        "contents": here["contents"],
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """The end of each command when nothing happens to it."""

    @cache
    def of(command: str) -> dict[str, Any]:
        directory = tmp_path_factory.mktemp("whole") / "made"
        prepare(directory)
        done = run(directory, command, "never", "first")
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        return state(directory)

    return of


@pytest.mark.parametrize(("command", "step"), CASES, ids=lambda value: value.replace(" ", "-"))
def test_the_same_command_after_a_kill(
    tmp_path: Path, whole: Callable[[str], dict[str, Any]], command: str, step: str
) -> None:
    directory = tmp_path / "killed"
    prepare(directory)
    killed = run(directory, command, step, "first")
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    again = run(directory, command, "never", "second")
    assert again.returncode == 0, again.stderr
    assert again.stdout == "" or again.stdout.startswith(ANSWERS[command])
    assert state(directory) == whole(command)
