"""A working directory that is opened."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import TYPE_CHECKING, NoReturn

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.model import ChangeType, CommitId
from lakecli.base.uri import parse_path
from lakecli.committed.values import encode_entry
from lakecli.errors import NotFound
from lakecli.repository import tag
from lakecli.repository.undo.undo import undo
from lakecli.worktree.index import NO_DIGEST, FileState, Index
from lakecli.worktree.link import write_link
from lakecli.worktree.scan import LocalChange, is_below
from lakecli.worktree.worktree import Busy, lock
from tests.support.disk import open_below
from tests.support.lakes import entry_of
from tests.support.worktrees import clone, commit_contents, pull, reopen

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.contract import Repository


def test_a_directory_is_locked_by_one(tmp_path: Path) -> None:
    with lock(tmp_path), pytest.raises(Busy, match="another command"), lock(tmp_path):
        pass
    with lock(tmp_path):
        pass


@pytest.mark.parametrize("name", ["absent", "file"])
def test_only_a_directory_is_locked(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotFound, match="no such directory"), lock(tmp_path / name):
        pass


def refuse_locks(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(descriptor: int, operation: int) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)


def test_on_a_disk_without_locks_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_locks(monkeypatch, errno.ENOLCK)
    with lock(tmp_path), lock(tmp_path):
        assert open_below(tmp_path) == [str(tmp_path)] * 2


def test_a_lock_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_locks(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)), lock(tmp_path):
        pass


@pytest.fixture
def root(repository: Repository, tmp_path: Path) -> Path:
    commit_contents(repository, {"a": "1", "b": "2"})
    clone(repository, tmp_path / "wd")
    return tmp_path / "wd"


def test_a_link_that_has_changed_is_read_again(repository: Repository, root: Path) -> None:
    worktree = reopen(repository, root)
    assert worktree.index.find(b"b") is not None
    assert worktree.selection.takes(b"b")
    write_link(root, worktree.link._replace(include=("a",)))
    with worktree.locked():
        assert worktree.link.include == ("a",)
        assert not worktree.selection.takes(b"b")
        assert worktree.index.find(b"b") is None
    index = worktree.index
    with worktree.locked():
        assert worktree.index is index


def test_what_is_left_out_makes_another_index(repository: Repository, root: Path) -> None:
    worktree = reopen(repository, root)
    assert worktree.index.find(b"b") is not None
    worktree.relink(left_out=(b"b",))
    left = reopen(repository, root).index
    assert (left.find(b"a") is None, left.find(b"b")) == (False, None)


def test_a_pull_deletes_the_indexes_that_nobody_uses(repository: Repository, root: Path) -> None:
    other = reopen(repository, root).index_file.with_name("1-1.index")
    Index("key").save(other)
    os.utime(other, (0, 0))
    commit_contents(repository, {"b": "second"})
    pull(reopen(repository, root))
    assert not other.exists()


def test_a_link_with_another_repository_is_refused(repository: Repository, root: Path) -> None:
    worktree = reopen(repository, root)
    write_link(root, worktree.link._replace(src=parse_path("lakefs://other/main/data/")))
    with pytest.raises(Busy, match="another repository"), worktree.locked():
        pass
    (root / ".lakefs_ref.yaml").unlink()
    with pytest.raises(NotFound, match="linked"), worktree.locked():
        pass


def test_what_is_known_of_a_file_that_nobody_has_seen(repository: Repository, root: Path) -> None:
    worktree = reopen(repository, root)
    entry = entry_of(b"1")
    assert worktree.unseen(encode_entry(entry)) == (FileState(0, 1), blake3_of(b"1"))
    unnamed = encode_entry(entry._replace(physical_address="data/x"))
    assert worktree.unseen(unnamed) == (FileState(0, 1), NO_DIGEST)
    assert worktree.unseen(b"damaged") == (FileState(0, 0), NO_DIGEST)


@pytest.mark.parametrize("address", [None, "data/x"])
def test_a_file_that_is_gone_equals_nothing(
    repository: Repository, root: Path, address: str | None
) -> None:
    entry = entry_of(b"1")
    if address is not None:
        digest = "c4ca4238a0b923820dcc509a6f75849b"
        entry = entry._replace(physical_address=address, checksum=digest)
    value = encode_entry(entry)
    change = LocalChange(ChangeType.CHANGED, FileState(1, 1))
    assert reopen(repository, root).equals(b"a", change, value)
    assert not reopen(repository, root).equals(b"absent", change, value)


def test_only_a_branch_is_followed_back(repository: Repository, root: Path) -> None:
    """A tag that was moved is no commit that was undone, nor is anything under way."""
    first = reopen(repository, root).head().id
    second = commit_contents(repository, {"b": "second"})
    tag.create(repository, "v", "main")
    clone(repository, root.parent / "tagged", "lakefs://demo/v/")
    third = commit_contents(repository, {"b": "third"})
    pull(reopen(repository, root))
    undo(repository)
    tag.create(repository, "v", first, force=True)
    tagged, under_way = reopen(repository, root.parent / "tagged"), reopen(repository, root)
    under_way.relink(active="pull", target=CommitId(third))
    for worktree, head in ((tagged, second), (under_way, third)):
        worktree.follow_back()
        assert worktree.link.at_head == head
    under_way.relink(active="", target=None)
    under_way.follow_back()
    assert under_way.link.at_head == second


@pytest.mark.parametrize(
    ("place", "below"),
    [
        (b"", [b"a", b"a/b", b"ab"]),
        (b"a", [b"a", b"a/b"]),
        (b"a/", [b"a/b"]),
        (b"a//", [b"a/b"]),
        (b"b", []),
    ],
)
def test_what_is_below_a_place(place: bytes, below: list[bytes]) -> None:
    assert [path for path in (b"a", b"a/b", b"ab") if is_below(path, [b"c", place])] == below
