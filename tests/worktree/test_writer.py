"""Directories that arrive whole, and what is done where they cannot."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from lakecli.objectstore.base import ANY, BucketNotFound
from lakecli.objectstore.local.files import write_all
from lakecli.worktree import fetching, writer
from lakecli.worktree.index import state_of
from tests.support.lakes import entry_of
from tests.support.worktrees import (
    DOWNLOADS,
    clone,
    commit_contents,
    files,
    items,
    pull,
    reopen,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.repository.core.lake import Repository

NEW = {"d/a": "1", "d/b": "2", "d/e/c": "3", "f/g/h": "4"}


@pytest.fixture
def root(repository: Repository, tmp_path: Path) -> Path:
    commit_contents(repository, {"a": "1"})
    clone(repository, tmp_path / "wd")
    commit_contents(repository, NEW)
    return tmp_path / "wd"


@pytest.fixture
def renamed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """Old and new names of what is renamed."""
    names: list[tuple[Any, Any]] = []
    rename = os.rename

    def note(old: Any, new: Any, **options: Any) -> None:
        rename(old, new, **options)
        names.append((old, new))

    monkeypatch.setattr(os, "rename", note)
    return names


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Let something happen when all files are fetched and none is published."""

    def let(happen: Callable[[], object]) -> None:
        fetch_all = fetching.Fetcher.fetch_all

        def fetch(self: Any, *args: Any) -> Any:
            fetched = fetch_all(self, *args)
            happen()
            return fetched

        monkeypatch.setattr(fetching.Fetcher, "fetch_all", fetch)

    return let


def is_clean(repository: Repository, root: Path) -> bool:
    return items(reopen(repository, root)) == {} and not (root / ".lakecli-incoming").exists()


def test_a_missing_directory_arrives_whole(
    repository: Repository, root: Path, renamed: list[tuple[Any, Any]]
) -> None:
    brought = pull(reopen(repository, root))
    assert (brought.downloaded, brought.size) == (4, 4)
    assert [new for _, new in renamed] == [b"d", b"e", b"g"]
    assert files(root) == {"a": "1", **NEW}
    assert is_clean(repository, root)


def test_the_states_of_its_files_are_recorded(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecli.worktree.index.TICK_NS", 0)
    pull(reopen(repository, root))
    index = reopen(repository, root).index
    for path in map(os.fsencode, NEW):
        found = index.find(path)
        assert found is not None
        assert found.state == state_of((root / os.fsdecode(path)).stat())


def test_a_directory_that_is_made_meanwhile_is_filled_file_by_file(
    repository: Repository, root: Path, meanwhile: Callable[[Callable[[], object]], None]
) -> None:
    meanwhile(lambda: write(root, {"d/a": "mine", "d/mine": "mine"}))
    brought = pull(reopen(repository, root))
    assert (brought.downloaded, brought.conflicts) == (3, [b"d/a"])
    assert files(root) == {"a": "1", **NEW, "d/a": "mine", "d/mine": "mine"}
    assert set(items(reopen(repository, root))) == {"d/a", "d/mine"}
    assert not (root / ".lakecli-incoming").exists()


@pytest.mark.parametrize("name", ["d", "f"])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_nothing_is_written_through_a_link_in_its_place(
    repository: Repository,
    root: Path,
    meanwhile: Callable[[Callable[[], object]], None],
    name: str,
    when: str,
) -> None:
    outside = root.parent / "outside"
    outside.mkdir()

    def link() -> None:
        (root / name).symlink_to(outside)

    if when == "before":
        link()
    else:
        meanwhile(link)
    brought = pull(reopen(repository, root))
    left = sorted(path for path in NEW if path.startswith(name))
    assert [os.fsdecode(path) for path, _ in brought.impossible] == left
    assert {reason for _, reason in brought.impossible} == {
        f"{name!r} is a file or a symbolic link, not a directory"
    }
    assert list(outside.iterdir()) == []
    assert brought.downloaded == len(NEW) - len(left)


@pytest.mark.parametrize("number", [errno.EEXIST, errno.EINVAL, errno.EILSEQ])
def test_a_name_that_the_disk_refuses_takes_the_way_of_a_single_file(
    repository: Repository,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    renamed: list[tuple[Any, Any]],
    number: int,
) -> None:
    opening = os.open

    def refuse(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if path == b"b" and flags & os.O_EXCL:
            raise OSError(number, os.strerror(number))
        return opening(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    pull(reopen(repository, root))
    assert [new for _, new in renamed] == [b"d", b"b", b"e", b"g"]
    assert files(root) == {"a": "1", **NEW}
    assert is_clean(repository, root)


def test_a_damaged_object_does_not_keep_its_directory_back(
    repository: Repository, root: Path
) -> None:
    address = entry_of(b"2").physical_address
    repository.store.put(address, b"wrong", ANY)
    brought = pull(reopen(repository, root))
    assert [path for path, _ in brought.failures] == [b"d/b"]
    assert files(root) == {"a": "1", **{path: text for path, text in NEW.items() if path != "d/b"}}
    repository.store.put(address, b"2", ANY)
    assert pull(reopen(repository, root)).failures == []
    assert files(root) == {"a": "1", **NEW}
    assert is_clean(repository, root)


def test_half_a_file_never_arrives(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_half(descriptor: int, data: bytes) -> None:
        if data == b"2":
            raise OSError(errno.EINVAL, "invalid argument")
        write_all(descriptor, data)

    with monkeypatch.context() as patched:
        patched.setattr("lakecli.worktree.fetching.write_all", write_half)
        brought = pull(reopen(repository, root))
    assert [path for path, _ in brought.failures] == [b"d/b"]
    assert not (root / "d/b").exists()
    assert (root / "d/a").read_text() == "1"
    assert pull(reopen(repository, root)).downloaded == 1
    assert is_clean(repository, root)


def test_a_directory_of_several_chunks(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "CHUNK", 3)
    contents = {f"d/{number}": str(number) for number in range(8)}
    commit_contents(repository, contents)
    clone(repository, tmp_path / "wd")
    assert files(tmp_path / "wd") == contents
    assert is_clean(repository, tmp_path / "wd")


def test_modes_of_directories_and_files(repository: Repository, root: Path) -> None:
    before = os.umask(0o027)
    try:
        pull(reopen(repository, root))
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE((root / path).stat().st_mode) for path in ("d", "d/e", "f", "d/a")}
    assert modes == {"d": 0o750, "d/e": 0o750, "f": 0o750, "d/a": 0o640}


def test_the_group_comes_from_the_directory_above(repository: Repository, root: Path) -> None:
    (root / "f").mkdir()
    (root / "f").chmod(0o2775)
    pull(reopen(repository, root))
    assert (root / "f/g").stat().st_mode & stat.S_ISGID
    assert not (root / "d").stat().st_mode & stat.S_ISGID
    assert files(root) == {"a": "1", **NEW}


def test_what_a_killed_command_has_left_is_removed(repository: Repository, root: Path) -> None:
    write(root, {".lakecli-incoming/new-0/d": "half", ".lakecli-incoming/new-0/deep/x": "half"})
    pull(reopen(repository, root))
    assert files(root) == {"a": "1", **NEW}
    assert is_clean(repository, root)


def test_the_executable_bit_of_a_file_in_it(
    repository: Repository, root: Path, tmp_path: Path
) -> None:
    from tests.support.worktrees import commit_worktree

    pull(reopen(repository, root))
    write(root, {"d/run.sh": "#!/bin/sh\n"})
    (root / "d/run.sh").chmod(0o755)
    commit_worktree(reopen(repository, root))
    clone(repository, tmp_path / "other")
    assert os.access(tmp_path / "other/d/run.sh", os.X_OK)
    assert not os.access(tmp_path / "other/d/a", os.X_OK)
    assert is_clean(repository, tmp_path / "other")


def test_a_file_that_was_touched_is_replaced(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state is not that of the index; its bytes are those of the base."""
    monkeypatch.setattr("lakecli.worktree.index.TICK_NS", 0)
    commit_contents(repository, {"a": "1", "b": "2"})
    clone(repository, tmp_path / "wd")
    for name in ("a", "b"):
        os.utime(tmp_path / "wd" / name)
    commit_contents(repository, {"a": "theirs", "b": None})
    brought = pull(reopen(repository, tmp_path / "wd"))
    assert (brought.conflicts, brought.downloaded, brought.removed) == ([], 1, 1)
    assert files(tmp_path / "wd") == {"a": "theirs"}


def test_a_missing_bucket_ends_it_if_it_is_that_of_the_repository(
    repository: Repository, root: Path
) -> None:
    """One that an imported object lies in concerns that object alone."""
    fetcher = fetching.Fetcher(reopen(repository, root), DOWNLOADS)

    def fetch() -> NoReturn:
        raise BucketNotFound("no bucket")

    wanted = fetching.Wanted(b"a", entry_of(b"1"), fetching.Expected.ABSENT)
    with pytest.raises(BucketNotFound):
        fetcher._try(wanted, fetch)
    assert fetcher.failures == []
    imported = wanted.entry._replace(physical_address="s3://elsewhere/1")
    assert fetcher._try(wanted._replace(entry=imported), fetch) is None
    assert fetcher.failures == [(b"a", "no bucket")]
