"""A sharing command whose process is killed at any step: repeating it gives the same end."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.model import RefKind
from lakecli.kv.bucket import IntentStore, TrackingStore
from lakecli.refs.ref_store import RefStore
from lakecli.remote.refs import find_ref
from lakecli.repository import branch, repo, tag
from lakecli.repository.clone import clone
from lakecli.repository.pull import PullOptions, pull
from lakecli.repository.push import PushOptions, push, push_all, push_deletion
from lakecli.repository.sharing.fetch import fetch
from tests.support import crashes
from tests.support.clones import machine, make_commit
from tests.support.lakes import read, stage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import Lake
    from tests.support.crashes import Killer, Outcome

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


def do(lake: Lake, killer: Killer, directory: Path, command: str) -> None:
    if command == "clone":
        clone(lake, str(directory / "namespace"), "demo")
        return
    repository = lake.repository("demo")
    killer.watch(repository)
    if command in ("push", "first-push"):
        push(repository, "main", options=ME)
    elif command == "delete":
        push_deletion(repository, "side", options=ME)
    elif command == "fetch":
        fetch(repository)
    elif command in ("pull", "merge"):
        pull(repository, "main", PullOptions(committer="me"))
    else:
        raise ValueError(command)


def run(directory: Path, command: str, step: str, seed: str) -> Outcome:
    home = directory / ("new" if command == "clone" else "one")
    return crashes.run(do, home, directory, command, step=step, seed=seed)


def prepare(directory: Path, command: str) -> None:
    """Make two machines that share a repository, with something for the command to share."""
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
    """Return the refs here and in the bucket, their numbers of moves, and their contents."""
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
    for kind, name in ((RefKind.BRANCH, "main"), (RefKind.BRANCH, "side"), (RefKind.TAG, "v1")):
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
    """The end state of each command that is not killed."""

    @cache
    def of(command: str) -> dict[str, Any]:
        directory = tmp_path_factory.mktemp("whole") / command
        prepare(directory, command)
        assert run(directory, command, "never", "first").answer == ""
        return state(directory, command)

    return of


@pytest.mark.parametrize(("command", "step"), CASES, ids=lambda value: value.replace(" ", "-"))
def test_a_killed_command_succeeds_when_repeated(
    tmp_path: Path, whole: Callable[[str], dict[str, Any]], command: str, step: str
) -> None:
    directory = tmp_path / "killed"
    prepare(directory, command)
    assert run(directory, command, step, "first").killed
    again = run(directory, command, "never", "second")

    # A deletion that reached the bucket leaves nothing to delete there.
    arrived = command == "delete" and step in ("after put 1", "track")
    assert again.answer.startswith("not_found" if arrived else "")
    assert arrived or again.answer == ""
    assert state(directory, command) == whole(command)
