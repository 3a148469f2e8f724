"""Index files of directories that are gone, and of those that may only be away."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from lakecli.worktree.index import UNUSED_NS, Index, clear_unused, prune
from tests.support.worktrees import clone, commit_contents, items, reopen, write

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository


def indexes(repository: Repository) -> set[str]:
    directory = Path(repository.lake.home.store).with_name("directories")
    return {each.name for each in directory.iterdir()}


def test_the_index_of_a_deleted_directory_is_pruned(repository: Repository, tmp_path: Path) -> None:
    commit_contents(repository, {"a": "1"})
    kept, gone, moved, replaced = (tmp_path / name for name in ("kept", "gone", "moved", "new"))
    files = {root: clone(repository, root).index_file for root in (kept, gone, moved, replaced)}
    shutil.rmtree(gone)
    moved.rename(tmp_path / "elsewhere")
    replaced.rename(tmp_path / "old")
    replaced.mkdir()
    directory = files[kept].parent
    assert prune(directory) == sorted(map(os.fsencode, (gone, moved, replaced)))
    assert indexes(repository) == {files[kept].name}
    assert prune(directory) == []
    # Where it was pruned although it is there, it is made anew.
    write(tmp_path / "elsewhere", {"a": "mine"})
    assert set(items(reopen(repository, tmp_path / "elsewhere"))) == {"a"}


def test_a_directory_that_was_moved_and_used_since_keeps_its_index(
    repository: Repository, tmp_path: Path
) -> None:
    commit_contents(repository, {"a": "1"})
    file = clone(repository, tmp_path / "wd").index_file
    (tmp_path / "wd").rename(tmp_path / "moved")
    assert items(reopen(repository, tmp_path / "moved")) == {}
    assert prune(file.parent) == []
    assert file.exists()


def test_an_index_is_kept_where_there_is_doubt(tmp_path: Path) -> None:
    """A disk that is not mounted: what is at the path is on another device."""
    device = tmp_path.stat().st_dev
    gone = os.fsencode(tmp_path / "disk" / "wd")
    names = {f"{device + 1:x}-5.index": gone, f"{device:x}-5.index": gone, "1-1.index": b""}
    for name, root in names.items():
        Index("key", root).save(tmp_path / name)
    (tmp_path / "2-2.index").write_bytes(b"lakecli index 1\nold")
    assert prune(tmp_path) == [gone]
    left = {each.name for each in tmp_path.iterdir()}
    assert left == {f"{device + 1:x}-5.index", "1-1.index", "2-2.index"}


def test_an_index_that_nobody_uses_is_deleted_after_90_days(tmp_path: Path) -> None:
    for name, age in (("1-1.index", 1), ("1-2.index", -1)):
        Index("key").save(tmp_path / name)
        at = 10**18 - UNUSED_NS - age
        os.utime(tmp_path / name, ns=(at, at))
    (tmp_path / "other").write_text("")
    (tmp_path / "1-0.index").mkdir()  # cannot be deleted as a file
    os.utime(tmp_path / "1-0.index", ns=(0, 0))
    clear_unused(tmp_path, now_ns=10**18)
    assert {each.name for each in tmp_path.iterdir()} == {"1-0.index", "1-2.index", "other"}


def test_using_an_index_keeps_it(repository: Repository, tmp_path: Path) -> None:
    commit_contents(repository, {"a": "1"})
    file = clone(repository, tmp_path / "wd").index_file
    os.utime(file, ns=(0, 0))
    assert items(reopen(repository, tmp_path / "wd")) == {}
    clone(repository, tmp_path / "other")
    assert file.exists()
