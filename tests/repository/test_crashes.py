"""A command whose process is killed at any step: repeating it gives the same end state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import MergeStrategy
from lakecli.committed.decisions import Decisions
from lakecli.repository import branch
from lakecli.repository.cherry_pick import cherry_pick
from lakecli.repository.commit import commit
from lakecli.repository.log import LogOptions, log
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.revert import revert
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import upload_tree
from tests.support import crashes
from tests.support.lakes import Numbered, make_repository, open_lake, read, stage

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.handle.lake import Lake
    from tests.support.crashes import Killer, Outcome

BRANCH_STEPS = ["build", "before put_new 1", "after put_new 1", "before flush 1", "after flush 1"]
CASES = [
    *[("create", step) for step in ("claim", "register")],
    *[("commit", step) for step in ("seal", *BRANCH_STEPS, "move", "tidy")],
    *[("merge", step) for step in (*BRANCH_STEPS, "move")],
    *[("cherry-pick", step) for step in ("after flush 1", "move")],
    # Reverting the newest commit gives a tree that exists already: nothing is written.
    *[("revert", step) for step in ("build", "move")],
    *[("upload", step) for step in ("after put_contents 1", "before flush 1", "after flush 1")],
]


def do(lake: Lake, killer: Killer, directory: Path, command: str) -> None:
    if command == "create":
        make_repository(lake, directory)
        return
    repository = lake.repository("demo")
    killer.watch(repository)
    if command == "upload":
        options = UploadOptions()
        upload_tree(repository, "main", b"up", source=directory / "source", options=options)
    elif command == "commit":
        commit(repository, "main", message="crashing", committer="me")
    elif command == "merge":
        options_of_merge = MergeOptions("me", decisions=Decisions(MergeStrategy.SOURCE_WINS))
        merge(repository, "side", "main", options_of_merge)
    elif command == "revert":
        revert(repository, "main", "main", committer="me")
    elif command == "cherry-pick":
        cherry_pick(repository, "side", "main", committer="me")
    else:
        raise ValueError(command)


def run(directory: Path, command: str, step: str, seed: str) -> Outcome:
    return crashes.run(do, directory, directory, command, step=step, seed=seed)


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
    """Return what main holds, with and without staging, and the messages of its history."""
    with open_lake(directory, new_id=Numbered("look")) as lake:
        repository = lake.repository("demo")
        with log(repository, "main", LogOptions(first_parent=True)) as commits:
            messages = [each.message for each in commits]
        return read(repository, "main"), read(repository, "main@"), messages


@pytest.mark.parametrize(("command", "step"), CASES, ids=lambda value: value.replace(" ", "-"))
def test_a_killed_command_succeeds_when_repeated(tmp_path: Path, command: str, step: str) -> None:
    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
        prepare(tmp_path / name, command)

    assert run(tmp_path / "killed", command, step, "first").killed
    again = run(tmp_path / "killed", command, "never", "second")
    assert run(tmp_path / "whole", command, "never", "first").answer == ""

    finished = step == "tidy"  # the branch had moved before the process died
    assert again.answer.startswith("nothing_to_do" if finished else "")
    assert state(tmp_path / "killed") == state(tmp_path / "whole")
