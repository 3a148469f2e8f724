"""A command on a working directory that is killed at any step: the next command goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from lakecli.base.uri import parse_path
from lakecli.repository.undo.log import redo_target
from lakecli.repository.undo.undo import redo, undo
from lakecli.worktree import create
from lakecli.worktree.checkout import OwnChanges, bring, restore
from lakecli.worktree.kept_for_undo import is_unfinished, overwrite_again, restore_kept
from tests.support import crashes
from tests.support.lakes import Numbered, make_repository, open_lake, read
from tests.support.worktrees import (
    DOWNLOADS,
    clone,
    commit_contents,
    commit_worktree,
    files,
    items,
    pull,
    real_now,
    reopen,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.handle.lake import Lake
    from lakecli.worktree.status import ChangedPath
    from tests.support.crashes import Killer, Outcome

FIRST = {"a": "1", "b": "2", "d/c": "3", "d/e": "4", **{f"n/{n}": str(n) for n in range(20)}}
SECOND = {"a": "1", "b": "theirs", "d/e": "4", "t/u": "t", **{f"n/{n}": f"x{n}" for n in range(20)}}
MINE = {"a": "mine", "m": "m"}

BRINGING = ["announce", "remove", "fetch", "publish", "index", "settle"]
CASES = [
    *[("clone", step) for step in ("announce", "fetch", "publish", "index", "settle")],
    *[("pull", step) for step in BRINGING],
    *[("discard", step) for step in ("keep", *BRINGING)],
    *[("commit", step) for step in ("upload", "build", "move", "tidy", *BRINGING)],
    ("clone", "publish directory 2"),
    ("clone", "publish directory 3"),
    ("pull", "publish directory 3"),
    ("commit", "publish directory 3"),
]


def do(lake: Lake, killer: Killer, directory: Path, command: str) -> None:
    del killer
    repository = lake.repository("demo")
    root = directory / "wd"
    if command == "clone":
        create.clone(
            repository, parse_path("lakefs://demo/main/", allow_empty=True), root, options=DOWNLOADS
        )
    elif command == "pull":
        pull(reopen(repository, root))
    elif command == "commit":
        commit_worktree(reopen(repository, root))
    else:
        worktree = reopen(repository, root)
        with worktree.locked():
            bring(
                worktree,
                worktree.head(),
                operation="checkout",
                policy=OwnChanges.DISCARD,
                options=DOWNLOADS,
            )


def run(directory: Path, command: str, step: str, seed: str) -> Outcome:
    return crashes.run(do, directory, directory, command, step=step, seed=seed, clock=real_now)


def prepare(directory: Path, command: str) -> None:
    directory.mkdir()
    with open_lake(directory, new_id=Numbered("prepare"), clock=real_now) as lake:
        repository = make_repository(lake, directory)
        commit_contents(repository, FIRST)
        if command != "clone":
            clone(repository, directory / "wd")
            write(directory / "wd", MINE)
        commit_contents(repository, {**dict.fromkeys(FIRST), **SECOND})


class State(NamedTuple):
    files: dict[str, str]
    differing: dict[str, ChangedPath]
    active: str
    branch: dict[bytes, str]


def state(directory: Path) -> State:
    with open_lake(directory, new_id=Numbered("look"), clock=real_now) as lake:
        repository = lake.repository("demo")
        worktree = reopen(repository, directory / "wd")
        link = worktree.link
        branch = read(repository, "main@")
        return State(files(directory / "wd"), items(worktree), link.active, branch)


@pytest.mark.parametrize(("command", "step"), CASES, ids=lambda value: value.replace(" ", "-"))
def test_the_next_command_goes_on(tmp_path: Path, command: str, step: str) -> None:
    for name in ("killed", "whole"):
        prepare(tmp_path / name, command)

    assert run(tmp_path / "killed", command, step, "first").killed
    for path, text in files(tmp_path / "killed/wd").items():
        # Complete or untouched: the bytes of the base, of the target, or of the user.
        if not path.startswith(".lakecli-"):
            assert text in (FIRST.get(path), SECOND.get(path), MINE.get(path)), path
    if (tmp_path / "killed/wd/.lakefs_ref.yaml").exists() and command != "clone":
        differing = state(tmp_path / "killed").differing  # reading does not stumble
        if command in {"pull", "discard"} and step != "settle":
            mine = {path for path, item in differing.items() if item.here is not None}
            assert mine <= set(MINE)
    again = run(tmp_path / "killed", command, "never", "second")
    assert run(tmp_path / "whole", command, "never", "first").answer == ""
    moved = command == "commit" and step in {"tidy", "publish directory 3", *BRINGING}
    assert again.answer.startswith("nothing_to_do" if moved else "")
    assert again.answer == "" or moved
    assert state(tmp_path / "killed") == state(tmp_path / "whole")
    assert not (tmp_path / "killed/wd/.lakecli-incoming").exists()


@pytest.mark.parametrize("step", BRINGING)
def test_another_command_goes_on_too(tmp_path: Path, step: str) -> None:
    """A commit finishes a pull that was interrupted, and takes none of it for the user's."""
    prepare(tmp_path / "killed", "pull")
    assert run(tmp_path / "killed", "pull", step, "first").killed
    with open_lake(tmp_path / "killed", new_id=Numbered("third"), clock=real_now) as lake:
        repository = lake.repository("demo")
        # Meanwhile others have changed again what the pull has brought in part.
        commit_contents(repository, {"n/0": FIRST["n/0"], "n/1": "again"})
    assert run(tmp_path / "killed", "commit", "never", "second").answer == ""
    expected = {**SECOND, **MINE, "n/0": FIRST["n/0"], "n/1": "again"}
    assert state(tmp_path / "killed")[:3] == (expected, {}, "")


REDONE = {**FIRST, **MINE, "b": "mine"}
"""The user's files before the commands that are undone, redone and killed."""

BROUGHT = {**dict.fromkeys(FIRST), **SECOND}
REDOS = [
    *[("discard", s) for s in ("keep", "remove", "fetch", "publish", "index", "settle", "redo")],
    *[("force", step) for step in ("publish", "index", "settle", "redo")],
    *[("restore", step) for step in ("publish", "redo")],
]


def prepare_redo(directory: Path, command: str) -> tuple[dict[str, str], dict[str, str]]:
    """Overwrite files, and undo that; return the files behind the undo and before it."""
    directory.mkdir()
    root = directory / "wd"
    with open_lake(directory, new_id=Numbered("prepare"), clock=real_now) as lake:
        repository = make_repository(lake, directory)
        commit_contents(repository, FIRST)
        clone(repository, root)
        commit_contents(repository, BROUGHT)
        if command != "force":
            pull(reopen(repository, root))
        write(root, {path: text for path, text in REDONE.items() if text != FIRST.get(path)})
        worktree = reopen(repository, root)
        if command == "force":
            pull(worktree, OwnChanges.FORCE)
        elif command == "discard":
            with worktree.locked():
                head = worktree.head()
                bring(
                    worktree,
                    head,
                    operation="checkout",
                    policy=OwnChanges.DISCARD,
                    options=DOWNLOADS,
                )
        else:
            restore(worktree, [b"a", b"b"], source=None, options=DOWNLOADS)
        after = files(root)
        assert restore_kept(repository, undo(repository).operation, DOWNLOADS) is not None
        assert files(root)["b"] == "mine"
        return files(root), after


def do_again(lake: Lake, killer: Killer, root: Path) -> str:
    """Redo, as the command does it."""
    repository = lake.repository("demo")
    operation = redo_target(repository)
    assert operation is not None
    written = overwrite_again(repository, operation, DOWNLOADS)
    assert written is not None
    assert not written.failures
    killer("redo")
    redo(repository)
    return repr((reopen(repository, root).link.unresolved, written.kept))


def again(directory: Path, step: str, seed: str) -> Outcome:
    return crashes.run(do_again, directory, directory / "wd", step=step, seed=seed, clock=real_now)


def undone(directory: Path) -> list[bytes]:
    """Undo, as the command does it; return the files that stay as they are."""
    with open_lake(directory, new_id=Numbered("undo"), clock=real_now) as lake:
        repository = lake.repository("demo")
        written = restore_kept(repository, undo(repository).operation, DOWNLOADS)
        assert written is not None
        assert (written.failures, written.impossible) == ([], [])
        return written.kept


@pytest.mark.parametrize(("command", "step"), REDOS)
def test_a_redo_that_is_killed_is_repeated(tmp_path: Path, command: str, step: str) -> None:
    before, after = prepare_redo(tmp_path / "killed", command)
    prepare_redo(tmp_path / "whole", command)
    assert again(tmp_path / "killed", step, "first").killed
    root = tmp_path / "killed/wd"
    for path, text in files(root).items():
        if not path.startswith(".lakecli-"):
            assert text in (before.get(path), after.get(path)), path
    left = state(tmp_path / "killed").differing  # reading does not stumble
    assert left.keys() <= before.keys() | after.keys()

    repeated, whole = (again(tmp_path / name, "never", "second") for name in ("killed", "whole"))
    assert repeated.answer == whole.answer == repr(((), []))
    assert files(root) == after
    assert state(tmp_path / "killed") == state(tmp_path / "whole")
    assert not (root / ".lakecli-incoming").exists()
    assert undone(tmp_path / "killed") == []
    assert files(root) == before
    assert again(tmp_path / "killed", "never", "third").answer == repr(((), []))
    assert files(root) == after


def take_back(lake: Lake, killer: Killer, root: Path) -> str:
    """Undo, as the command does it."""
    del root
    repository = lake.repository("demo")
    operation = redo_target(repository)
    if operation is None or not is_unfinished(repository, operation):
        operation = undo(repository).operation
    killer("undone")
    written = restore_kept(repository, operation, DOWNLOADS)
    assert written is not None
    return repr((operation.kind, written.kept, written.failures))


@pytest.mark.parametrize("step", ["undone", "fetch", "publish"])
def test_an_undo_that_is_killed_is_repeated(tmp_path: Path, step: str) -> None:
    directory = tmp_path / "killed"
    before, after = prepare_redo(directory, "discard")
    root = directory / "wd"

    def undone_at(step: str, seed: str) -> Outcome:
        return crashes.run(take_back, directory, root, step=step, seed=seed, clock=real_now)

    assert again(directory, "never", "first").answer == repr(((), []))
    assert files(root) == after
    assert undone_at(step, "second").killed
    for path, text in files(root).items():
        if not path.startswith(".lakecli-"):
            assert text in (before.get(path), after.get(path)), path
    assert undone_at("never", "third").answer == repr(("local checkout", [], []))
    assert files(root) == before
    assert again(directory, "never", "fourth").answer == repr(((), []))
    assert files(root) == after


@pytest.mark.parametrize("step", ["undone", "fetch", "publish", "settle", "tidy"])
def test_an_undo_that_is_killed_marks_what_was_a_conflict(tmp_path: Path, step: str) -> None:
    root = tmp_path / "wd"
    with open_lake(tmp_path, new_id=Numbered("prepare"), clock=real_now) as lake:
        repository = make_repository(lake, tmp_path)
        commit_contents(repository, {"a": "1", "b": "1"})
        clone(repository, root)
        write(root, {"a": "mine", "b": "mine"})
        commit_contents(repository, {"a": "theirs"})
        assert pull(reopen(repository, root)).conflicts == [b"a"]
        restore(reopen(repository, root), [b"a", b"b"], source=None, options=DOWNLOADS)
        assert reopen(repository, root).link.unresolved == ()

    def undone_at(step: str, seed: str) -> Outcome:
        return crashes.run(take_back, tmp_path, root, step=step, seed=seed, clock=real_now)

    assert undone_at(step, "second").killed
    assert undone_at("never", "third").answer == repr(("restore", [], []))
    assert files(root) == {"a": "mine", "b": "mine"}
    with open_lake(tmp_path, new_id=Numbered("look"), clock=real_now) as lake:
        repository = lake.repository("demo")
        assert reopen(repository, root).link.unresolved == (b"a",)
        operation = redo_target(repository)
        assert operation is not None
        assert not is_unfinished(repository, operation)


@pytest.mark.parametrize("step", ["keep", "publish", "index"])
def test_files_that_change_after_a_killed_redo_stay(tmp_path: Path, step: str) -> None:
    before, after = prepare_redo(tmp_path / "killed", "discard")
    root = tmp_path / "killed/wd"
    assert again(tmp_path / "killed", step, "first").killed
    write(root, {"a": "since"})
    assert again(tmp_path / "killed", "never", "second").answer == repr(((), [b"a"]))
    assert files(root) == {**after, "a": "since"}
    assert undone(tmp_path / "killed") == ([] if step == "keep" else [b"a"])
    assert files(root) == {**before, "a": "since"}
