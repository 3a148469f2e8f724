"""Files that are exchanged between the scan of a commit and its reading."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from lakecli.errors import PartialFailure
from lakecli.worktree.linked_files import hard_link
from lakecli.worktree.worktree import Worktree
from tests.support.lakes import read
from tests.support.worktrees import clone, commit_contents, commit_worktree, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.repository.contract import Repository


@pytest.fixture
def worktree(repository: Repository, tmp_path: Path) -> Worktree:
    commit_contents(repository, {"a": "1"})
    return clone(repository, tmp_path / "wd")


def after_scan(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    scan_all = Worktree.scan_all

    def scanned(self: Worktree) -> object:
        found = scan_all(self)
        act()
        return found

    monkeypatch.setattr(Worktree, "scan_all", scanned)


def test_a_directory_that_becomes_a_link_is_not_followed(
    repository: Repository, worktree: Worktree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"secret/key": "secret"})
    write(worktree.root, {"d/key": "public", "e": "e"})

    def exchange() -> None:
        shutil.rmtree(worktree.root / "d")
        (worktree.root / "d").symlink_to(tmp_path / "secret")

    after_scan(monkeypatch, exchange)
    done = commit_worktree(worktree)
    assert [path for path, _ in done.left] == [b"d/key"]
    assert set(read(repository, "main")) == {b"a", b"e"}


def test_a_file_that_grows_is_left_for_the_next_commit(
    repository: Repository, worktree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(worktree.root, {"a": "12", "b": "b"})
    before = read(repository, "main")[b"a"]

    def grow() -> None:
        with (worktree.root / "a").open("a") as file:
            file.write("more")

    with monkeypatch.context() as patch:
        after_scan(patch, grow)
        done = commit_worktree(worktree)
    assert [path for path, _ in done.left] == [b"a"]
    assert not done.brought.conflicts
    assert read(repository, "main")[b"a"] == before
    assert not commit_worktree(worktree).left
    assert read(repository, "main")[b"a"] != before


def test_a_commit_of_nothing_but_such_files_is_none(
    worktree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(worktree.root, {"a": "12"})
    after_scan(monkeypatch, lambda: (worktree.root / "a").write_text("123"))
    with pytest.raises(PartialFailure, match="nothing was committed"):
        commit_worktree(worktree)


def test_a_hard_link_of_a_link_changes_no_other_file(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("x")
    victim.chmod(0o666)
    (tmp_path / "object").symlink_to(victim)
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="symbolic links"):
            hard_link(tmp_path / "object", b"name", directory)
    finally:
        os.close(directory)
    assert victim.stat().st_mode & 0o777 == 0o666
