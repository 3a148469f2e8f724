"""Committing a working directory."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from lakecli.base.identity import blake3_of
from lakecli.committed.values import encode_entry
from lakecli.errors import LakeError, NothingToDo, Refused, Unreachable, UsageError
from lakecli.repository.commit import commit as commit_staged
from lakecli.repository.diff import diff_uncommitted
from lakecli.repository.staged.changes import unstage_equal
from lakecli.repository.transfer.ignore_patterns import Selection
from lakecli.repository.transfer.ingest import Ingest
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.repository.undo.undo import redo, undo
from lakecli.repository.upload import UploadOptions, upload_file
from lakecli.worktree.checkout import WorktreeConflict
from lakecli.worktree.commit import _has_same_contents
from tests.support.lakes import entry_of, read, stage
from tests.support.worktrees import (
    clone,
    commit_contents,
    commit_worktree,
    files,
    items,
    pull,
    reopen,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.base.model import Entry
    from lakecli.repository.contract import Repository


@pytest.fixture
def root(repository: Repository, tmp_path: Path) -> Path:
    commit_contents(repository, {"w/a": "1", "w/b": "2", "out": "o"})
    clone(repository, tmp_path / "wd", "lakefs://demo/main/w/")
    return tmp_path / "wd"


def paths(repository: Repository, ref: str = "main") -> set[str]:
    return {os.fsdecode(path) for path in read(repository, ref)}


def test_a_commit_has_all_changes_of_the_directory(repository: Repository, root: Path) -> None:
    write(root, {"a": "mine", "b": None, "d/n": "n"})
    made = commit_worktree(reopen(repository, root))
    assert (made.uploaded, made.removed) == (2, 1)
    assert paths(repository, "main@") == {"w/a", "w/d/n", "out"}
    assert items(reopen(repository, root)) == {}
    assert reopen(repository, root).link.at_head == made.commit.id
    with pytest.raises(NothingToDo):
        commit_worktree(reopen(repository, root))


def test_others_changes_of_other_paths_come_with_it(repository: Repository, root: Path) -> None:
    write(root, {"a": "mine"})
    commit_contents(repository, {"w/b": "theirs", "w/t": "t"})
    made = commit_worktree(reopen(repository, root))
    assert made.brought.downloaded == 2
    assert files(root) == {"a": "mine", "b": "theirs", "t": "t"}
    assert items(reopen(repository, root)) == {}


def test_others_changes_of_the_same_paths_refuse_it(repository: Repository, root: Path) -> None:
    write(root, {"a": "mine", "b": None, "same": "s"})
    theirs = {"w/0": "theirs", "w/a": "theirs", "w/b": "theirs", "w/same": "s"}
    head = commit_contents(repository, theirs)
    with pytest.raises(WorktreeConflict, match="2 files were changed both") as error:
        commit_worktree(reopen(repository, root))
    assert list(error.value.paths) == [b"a", b"b"]
    assert "`local pull`" in (error.value.hint or "")
    assert reopen(repository, root).head().id == head
    made = commit_worktree(reopen(repository, root), ours=True)
    assert paths(repository, "main@") == {"w/0", "w/a", "w/same", "out"}
    assert made.commit.parents == (head,)
    assert items(reopen(repository, root)) == {}


def test_unresolved_paths_refuse_it_until_ours_decides(repository: Repository, root: Path) -> None:
    write(root, {"a": "mine"})
    commit_contents(repository, {"w/a": "theirs"})
    assert pull(reopen(repository, root)).conflicts == [b"a"]
    with pytest.raises(WorktreeConflict):
        commit_worktree(reopen(repository, root))
    commit_worktree(reopen(repository, root), ours=True)
    assert items(reopen(repository, root)) == {}
    assert reopen(repository, root).link.unresolved == ()


def test_staged_changes_elsewhere_stay_staged(repository: Repository, root: Path) -> None:
    stage(repository, "main", {b"out": b"staged", b"w/b": b"staged", b"w/s": b"staged"})
    write(root, {"a": "mine"})
    commit_worktree(reopen(repository, root))
    assert paths(repository, "main@") == {"w/a", "w/b", "out"}
    assert paths(repository) == {"w/a", "w/b", "w/s", "out"}
    before = read(repository, "main")
    commit_staged(repository, "main", message="staged", committer="x")
    assert read(repository, "main@") == before


def test_staged_changes_of_the_same_paths_refuse_it(repository: Repository, root: Path) -> None:
    stage(repository, "main", {b"w/0": b"other", b"w/a": b"staged"})
    write(root, {"a": "mine"})
    with pytest.raises(WorktreeConflict, match="a file was staged on main") as error:
        commit_worktree(reopen(repository, root))
    assert list(error.value.paths) == [b"a"]
    assert "see what is staged" in (error.value.hint or "")


def test_a_file_that_is_staged_as_the_directory_has_it_is_committed(
    repository: Repository, root: Path
) -> None:
    write(root, {"a": "mine"})
    options = UploadOptions()
    upload_file(repository, "main", b"w/a", source=root / "a", options=options)
    assert commit_worktree(reopen(repository, root)).uploaded == 1
    assert read(repository, "main@") == read(repository, "main")
    with diff_uncommitted(repository, "main") as left:
        assert list(left) == []


def test_a_record_staged_as_committed_does_not_undo_the_commit(
    repository: Repository, root: Path
) -> None:
    stage(repository, "main", {b"w/a": b"1", b"w/new": None})
    write(root, {"a": "mine", "new": "n"})
    commit_worktree(reopen(repository, root))
    assert read(repository, "main") == read(repository, "main@")
    assert paths(repository) == {"w/a", "w/b", "w/new", "out"}


def test_a_part_of_the_changes_is_committed(repository: Repository, root: Path) -> None:
    write(root, {"a": "mine", "n.csv": "n"})
    commit_worktree(reopen(repository, root), selection=Selection(["*.csv"], []))
    assert set(items(reopen(repository, root))) == {"a"}
    assert paths(repository, "main@") == {"w/a", "w/b", "w/n.csv", "out"}


def test_links_refuse_it_unless_skipped_or_followed(repository: Repository, root: Path) -> None:
    (root / "l").symlink_to("a")
    write(root, {"n": "n"})
    with pytest.raises(Refused, match=r"a file of .*: a symbolic link") as error:
        commit_worktree(reopen(repository, root))
    assert list(error.value.paths) == [b"l"]
    os.mkfifo(root / "pipe")
    with pytest.raises(Refused, match=r"2 files of .*: a symbolic link") as error:
        commit_worktree(reopen(repository, root))
    assert list(error.value.paths) == [b"l", b"pipe"]
    (root / "pipe").unlink()
    commit_worktree(reopen(repository, root, LinkPolicy.SKIP))
    assert "w/l" not in paths(repository)
    commit_worktree(reopen(repository, root, LinkPolicy.FOLLOW))
    assert "w/l" in paths(repository)


def test_undo_and_redo_move_the_branch_and_no_file(repository: Repository, root: Path) -> None:
    write(root, {"a": "mine"})
    made = commit_worktree(reopen(repository, root))
    undo(repository)
    assert reopen(repository, root).head().id == made.commit.parents[0]
    assert files(root)["a"] == "mine"
    redo(repository)
    assert items(reopen(repository, root)) == {}
    undo(repository)
    # The changes are the directory's again, and can be committed again.
    write(root, {"b": "more"})
    again = commit_worktree(reopen(repository, root))
    assert again.commit.parents == made.commit.parents
    assert again.uploaded == 2


def test_an_interrupted_pull_is_finished_first(repository: Repository, root: Path) -> None:
    commit_contents(repository, {"w/t": "theirs", "w/b": "new"})
    worktree = reopen(repository, root)
    worktree.relink(active="pull", target=worktree.head().id)
    write(root, {"a": "mine", "b": "new"})
    made = commit_worktree(reopen(repository, root))
    assert (made.uploaded, made.removed) == (1, 0)
    assert files(root) == {"a": "mine", "b": "new", "t": "theirs"}
    link = reopen(repository, root).link
    assert (link.active, link.at_head) == ("", made.commit.id)
    assert read(repository, "main@")[b"w/a"] == blake3_of(b"mine").hex()


def test_a_file_that_a_link_leads_to_has_its_own_permissions(
    repository: Repository, root: Path, tmp_path: Path
) -> None:
    for name in ("plain", "run"):
        (tmp_path / name).touch()
        (root / name).symlink_to(tmp_path / name)
    (tmp_path / "run").chmod(0o755)
    commit_worktree(reopen(repository, root, LinkPolicy.FOLLOW))
    clone(repository, tmp_path / "other", "lakefs://demo/main/w/")
    assert os.access(tmp_path / "other/run", os.X_OK)
    assert not os.access(tmp_path / "other/plain", os.X_OK)


def test_files_are_read_once(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: bytes, **options: object) -> NoReturn:
        raise OSError("read again")

    monkeypatch.setattr("lakecli.worktree.worktree.hash_file", refuse)
    write(root, {"n": "n"})
    assert commit_worktree(reopen(repository, root)).brought.conflicts == []
    assert items(reopen(repository, root)) == {}


def test_a_file_that_is_deleted_once_it_is_uploaded_is_committed(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = UploadOptions.entry

    def deleted(self: UploadOptions, *args: Any, **options: Any) -> Entry:
        write(root, {"n": None})
        return entry(self, *args, **options)

    monkeypatch.setattr(UploadOptions, "entry", deleted)
    write(root, {"n": "n"})
    commit_worktree(reopen(repository, root))
    assert "w/n" in paths(repository, "main@")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Unreachable("no answer"), "n: no answer"),
        (OSError(errno.EIO, os.strerror(errno.EIO)), "cannot be read: input/output error"),
    ],
)
def test_an_upload_that_fails_names_its_file(
    repository: Repository,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    message: str,
) -> None:
    def fail(*_: object, **_options: object) -> NoReturn:
        raise error

    monkeypatch.setattr(Ingest, "file", fail)
    write(root, {"n": "n"})
    with pytest.raises(LakeError) as raised:
        commit_worktree(reopen(repository, root))
    assert raised.value.message.endswith(message)


def test_contents_are_the_same_if_size_and_digest_are() -> None:
    a, b = (encode_entry(entry_of(each)) for each in (b"a", b"b"))
    longer = encode_entry(entry_of(b"a")._replace(size=2))
    assert [_has_same_contents(a, each) for each in (a, b, longer, None)] == [True, *[False] * 3]
    assert not _has_same_contents(None, a)
    assert _has_same_contents(None, None)


def test_what_others_have_committed_already_is_no_change_any_more(
    repository: Repository, root: Path
) -> None:
    write(root, {"a": "mine"})
    head = commit_contents(repository, {"w/a": "mine"})
    with pytest.raises(NothingToDo, match="already"):
        commit_worktree(reopen(repository, root))
    assert reopen(repository, root).link.at_head == head
    assert items(reopen(repository, root)) == {}


def test_a_commit_that_is_overtaken_compares_again(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others had the same contents at first, and change them while it is made."""
    write(root, {"a": "mine", "b": "mine"})
    commit_contents(repository, {"w/a": "mine"})
    heads: list[str] = []

    def meanwhile(*args: Any) -> None:
        if not heads:
            heads.append(commit_contents(repository, {"w/a": "theirs"}))
        unstage_equal(*args)

    monkeypatch.setattr("lakecli.worktree.commit.unstage_equal", meanwhile)
    made = commit_worktree(reopen(repository, root), ours=True)
    assert list(made.commit.parents) == heads
    assert read(repository, "main@")[b"w/a"] == blake3_of(b"mine").hex()


def test_a_path_that_is_too_long_is_refused_before_anything_is_uploaded(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ingest, "file", None)
    write(root, {"/".join(["x" * 204] * 5): "n"})  # 1,024 bytes, and two of the prefix
    with pytest.raises(UsageError, match="1026 bytes is too long"):
        commit_worktree(reopen(repository, root))
