"""A command under ``sync = auto``, killed at any step: repeating it gives the same end state."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.repository import branch, repo, tag
from lakecli.repository.clone import clone
from lakecli.repository.commit import commit
from lakecli.repository.log import LogOptions, log
from tests.repository.sharing.test_crashes import state_of
from tests.support import crashes
from tests.support.clones import machine, make_commit, synced
from tests.support.lakes import stage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.repository.handle.lake import Lake
    from tests.support.crashes import Killer, Outcome

SENDING = ("pack", "after put_new 1", "intent", "move", "read", "put", "after put 1", "track")
CASES = [
    *[("commit", step) for step in ("begun", "seal", "build", "after flush 1", *SENDING, "tidy")],
    *[("branch create", step) for step in ("begun", "done", "intent", "put", "after put 1")],
    *[("tag create", step) for step in ("done", "move", "after put 1", "track")],
]
ANSWERS = {"commit": "nothing_to_do", "branch create": "refused", "tag create": "refused"}
"""What the repeated command says if the killed one had finished here."""


def do(lake: Lake, killer: Killer, command: str) -> None:
    local = lake.repository("demo")
    killer.watch(local)
    sharing = synced(local, "me")
    repository = sharing.repository
    sharing.catch_up()
    killer("begun")
    if command == "commit":
        commit(repository, "main", message="mine", committer="me")
    elif command == "branch create":
        branch.create(repository, "dev", source="main")
    elif command == "tag create":
        tag.create(repository, "v1", "main")
    else:
        raise ValueError(command)
    killer("done")
    sharing.finish()


def run(directory: Path, command: str, step: str, seed: str) -> Outcome:
    return crashes.run(do, directory / "one", command, step=step, seed=seed)


def prepare(directory: Path) -> None:
    """Make two synchronised machines, with something to commit on the first."""
    namespace = str(directory / "namespace")
    directory.mkdir()
    with machine(directory, "one") as lake, machine(directory, "two") as other_lake:
        one = repo.create(lake, "demo", namespace, range_entries=16)
        sharing = synced(one, "me")
        make_commit(sharing.repository, b"base")
        sharing.finish()
        clone(other_lake, namespace, "demo")
        stage(one, "main", {b"mine": b"1"})


def state(directory: Path) -> dict[str, Any]:
    """Return the state of the bucket and the first machine, once the second sees the same."""
    with machine(directory, "one") as lake, machine(directory, "two") as other_lake:
        one, two = lake.repository("demo"), other_lake.repository("demo")
        synced(two, "other").catch_up()
        here = state_of(one)
        there = state_of(two)
        assert (there["here"], there["there"]) == (here["here"], here["there"])
        with log(two, "main", LogOptions()) as commits:
            messages = [each.message for each in commits]
    # Commit IDs depend on the time, so only numbers and messages are compared.
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
    """The end state of each command that is not killed."""

    @cache
    def of(command: str) -> dict[str, Any]:
        directory = tmp_path_factory.mktemp("whole") / "made"
        prepare(directory)
        assert run(directory, command, "never", "first").answer == ""
        return state(directory)

    return of


@pytest.mark.parametrize(("command", "step"), CASES, ids=lambda value: value.replace(" ", "-"))
def test_a_killed_command_succeeds_when_repeated(
    tmp_path: Path, whole: Callable[[str], dict[str, Any]], command: str, step: str
) -> None:
    directory = tmp_path / "killed"
    prepare(directory)
    assert run(directory, command, step, "first").killed
    again = run(directory, command, "never", "second")
    assert again.answer == "" or again.answer.startswith(ANSWERS[command])
    assert state(directory) == whole(command)
