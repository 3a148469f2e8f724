"""A process that shares, killed at every step: the same command again gives the same end."""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.kv.intents import IntentStore
from lakecli.kv.tracking import TrackingStore
from lakecli.refs.store import RefStore
from lakecli.remote.refs import find_ref
from lakecli.repository import branch, repo, tag
from lakecli.repository.clone import clone
from lakecli.repository.fetch import fetch
from lakecli.repository.push import PushOptions, push, push_all
from tests.support.clones import machine, make_commit
from tests.support.lakes import read, stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.repository.core.lake import Repository

PROJECT = Path(__file__).parents[2]
ME = PushOptions(who="Me <me@example.com>")

MOVE_STEPS = ["pack", "intent", "move", "read", "put", "track"]
CASES = [
    *[("push", step) for step in (*MOVE_STEPS, "after put_new 1", "after put 1")],
    *[("first-push", step) for step in ("intent", "put", "track")],
    *[("delete", step) for step in ("intent", "put", "after put 1", "track")],
    ("fetch", "track"),
    *[("pull", step) for step in ("track", "move")],
    *[("merge", step) for step in ("track", "build", "after flush 1", "move")],
    *[("clone", step) for step in ("read", "register")],
]


def run(directory: Path, command: str, step: str, seed: str) -> subprocess.CompletedProcess[str]:
    argv = [directory, "new" if command == "clone" else "one", command, step, seed]
    return subprocess.run(
        [sys.executable, "-m", "tests.repository.share_worker", *map(str, argv)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def prepare(directory: Path, command: str) -> None:
    """Make two machines that share a repository, and what the command is to share."""
    namespace = str(directory / "namespace")
    directory.mkdir()
    with machine(directory, "one") as lake, machine(directory, "two") as other_lake:
        one = repo.create(lake, "demo", namespace, range_entries=16)
        if command != "first-push":
            make_commit(one, b"base")
            branch.create(one, "side", source="main")
            tag.create(one, "v1", "main")
            push_all(one, ME)
            fetch(one)
        two = clone(other_lake, namespace, "demo")
        if command in ("push", "first-push", "merge"):
            make_commit(one, b"mine")
        if command in ("fetch", "pull", "merge", "clone"):
            make_commit(two, b"theirs")
            push(two, "main", options=ME)
        if command == "pull":
            stage(one, "main", {b"staged": b"staged"})


def state_of(repository: Repository) -> dict[str, Any]:
    """Refs here and in the bucket, how often these moved, and what they read as."""
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        branches = {each.name: each.commit_id for each in refs.iter_branches()}
        tags = {each.name: each.commit_id for each in refs.iter_tags()}
        tracked = [
            (each.kind, each.name, each.commit_id, each.sequence)
            for each in TrackingStore(txn, repository.key).iter()
        ]
        begun = list(IntentStore(txn, repository.key).iter())
    there = {}
    for kind, name in (("branch", "main"), ("branch", "side"), ("tag", "v1")):
        ref = find_ref(repository.store, kind, name)
        there[name] = None if ref is None else (ref.commit_id, ref.sequence, len(ref.moves))
    contents = {name: read(repository, name) for name in branches}
    return {
        "here": (branches, tags),
        "tracked": tracked,
        "begun": begun,
        "there": there,
        "contents": contents,
    }


def state(directory: Path, command: str) -> dict[str, Any]:
    with machine(directory, "new" if command == "clone" else "one") as lake:
        return state_of(lake.repository("demo"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """The end of each command when nothing happens to it."""

    @cache
    def of(command: str) -> dict[str, Any]:
        directory = tmp_path_factory.mktemp("whole") / command
        prepare(directory, command)
        done = run(directory, command, "never", "first")
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        return state(directory, command)

    return of


@pytest.mark.parametrize(("command", "step"), CASES, ids=lambda value: value.replace(" ", "-"))
def test_the_same_command_after_a_kill(
    tmp_path: Path, whole: Callable[[str], dict[str, Any]], command: str, step: str
) -> None:
    directory = tmp_path / "killed"
    prepare(directory, command)
    killed = run(directory, command, step, "first")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = run(directory, command, "never", "second")
    assert again.returncode == 0, again.stderr

    # A deletion that has reached the bucket finds nothing to delete there any more.
    arrived = command == "delete" and step in ("after put 1", "track")
    assert again.stdout.startswith("not_found" if arrived else "")
    assert arrived or again.stdout == ""
    assert state(directory, command) == whole(command)
