"""``undo --remote`` killed at every step: the same command again gives the same end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from lakecli.repository import branch
from lakecli.repository.fetch import fetch
from lakecli.repository.push import PushOptions, push
from lakecli.repository.undo.log import iter_log
from tests.support.clones import Clones, machine, make_commit, position
from tests.support.lakes import read, stage

PROJECT = Path(__file__).parents[2]
STEPS = (
    "undo there",
    "pack",
    "intent",
    "move",
    "read",
    "put",
    "track",
    "undo here",
    "undo done",
)


class End(NamedTuple):
    """Where things stand on one machine, and in the bucket as another one sees it."""

    head: str
    tracked: str | None
    there: str | None
    contents: dict[bytes, str]
    committed: dict[bytes, str]
    undone: list[str]


def run(directory: Path, step: str, seed: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.repository.undo_worker", directory, "one", step, seed],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def prepare(directory: Path) -> Path:
    """Push two commits, and stage something after the second one was made and taken back."""
    with Clones.make(directory, "one", "two") as clones:
        one = clones.repositories[0]
        make_commit(one, b"a")
        push(one, "main", options=PushOptions(who="me"))
        make_commit(one, b"b")
        push(one, "main", options=PushOptions(who="me"))
    return directory


def end_of(directory: Path) -> End:
    with machine(directory, "one") as one, machine(directory, "two") as two:
        here, there = one.repository("demo"), two.repository("demo")
        fetch(there)
        return End(
            branch.show(here, "main").commit_id,
            position(here),
            position(there),
            read(here, "main"),
            read(here, "main@"),
            [each.operation.kind for each in iter_log(here) if each.undone],
        )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> End:
    """How it ends where nothing comes between."""
    directory = prepare(tmp_path_factory.mktemp("whole"))
    listed = run(directory, "list", "first")
    assert listed.returncode == 0, listed.stderr
    assert set(STEPS) >= set(listed.stdout.split("\n")) - {""}, "a step without a test"
    end = end_of(directory)
    assert end.undone == ["commit"]
    assert end.head == end.tracked == end.there
    assert set(end.contents) == {b"a", b"b"}
    assert set(end.committed) == {b"a"}
    return end


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.replace(" ", "-"))
def test_the_same_command_after_a_kill(tmp_path: Path, step: str, whole: End) -> None:
    directory = prepare(tmp_path)
    killed = run(directory, step, "first")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    if step != "undo done":  # it was done before the process died
        again = run(directory, "never", "second")
        assert again.returncode == 0, again.stderr
    assert end_of(directory) == whole


def test_what_others_see_after_a_kill_between(tmp_path: Path) -> None:
    """The bucket moved, this machine did not: what is staged since then is not lost."""
    directory = prepare(tmp_path)
    assert run(directory, "undo here", "first").returncode == -signal.SIGKILL
    with machine(directory, "one") as lake:
        here = lake.repository("demo")
        assert branch.show(here, "main").commit_id != position(here)
        stage(here, "main", {b"later": b"1"})
    for seed in ("second", "third"):
        assert run(directory, "never", seed).returncode == 0
    assert end_of(directory).head == end_of(directory).there
