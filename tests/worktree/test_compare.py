"""How a working directory differs from its base and its ref."""

from __future__ import annotations

import errno
import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.errors import NotFound
from lakecli.model import ChangeType
from lakecli.repository.core.walk import LinkPolicy
from lakecli.repository.transfer.selection import EVERYTHING
from lakecli.worktree import scan as scanning
from lakecli.worktree.compare import Item, status
from lakecli.worktree.worktree import Worktree
from tests.support.worktrees import clone, commit_contents, files, items, reopen, write

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.core.lake import Repository

ADDED, REMOVED, CHANGED = ChangeType.ADDED, ChangeType.REMOVED, ChangeType.CHANGED


@pytest.fixture
def root(repository: Repository, tmp_path: Path) -> Path:
    commit_contents(repository, {"a": "1", "d/b": "2", "d/e/c": "3", "gone": "4"})
    clone(repository, tmp_path / "wd")
    return tmp_path / "wd"


def test_a_clone_has_the_files_and_no_changes(repository: Repository, root: Path) -> None:
    assert files(root) == {"a": "1", "d/b": "2", "d/e/c": "3", "gone": "4"}
    assert items(reopen(repository, root)) == {}


def test_files_are_compared_with_the_base_and_the_ref(repository: Repository, root: Path) -> None:
    write(root, {"a": "mine", "new/x": "n", "gone": None, "both": "same", "d/b": "here"})
    commit_contents(repository, {"d/e/c": "theirs", "t": "t", "both": "same", "d/b": "there"})
    found = {path: item[1:] for path, item in items(reopen(repository, root)).items()}
    assert found == {
        "a": (CHANGED, None, False),
        "new/x": (ADDED, None, False),
        "gone": (REMOVED, None, False),
        "d/e/c": (None, CHANGED, False),
        "t": (None, ADDED, False),
        "both": (ADDED, ADDED, False),
        "d/b": (CHANGED, CHANGED, True),
    }
    here = items(reopen(repository, root), local=True)
    assert set(here) == {"a", "new/x", "gone", "both", "d/b"}


def test_a_new_time_is_no_change(repository: Repository, root: Path) -> None:
    os.utime(root / "a", (1, 1))
    (root / "d/b").write_text("2")
    assert items(reopen(repository, root)) == {}


def test_the_same_size_and_time_do_not_hide_a_change(repository: Repository, root: Path) -> None:
    before = (root / "a").stat()
    (root / "a").write_text("x")
    os.utime(root / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert items(reopen(repository, root)) == {"a": Item(b"a", CHANGED, None)}


def test_unchanged_files_are_read_once(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []
    hash_file = scanning.hash_file

    def noted(path: bytes, *, follow: bool = False) -> tuple[str, os.stat_result]:
        read.append(os.path.relpath(path, os.fsencode(root)))
        return hash_file(path, follow=follow)

    monkeypatch.setattr(scanning, "hash_file", noted)
    old = Worktree.clock_ns
    # A minute later: files that were read then are settled.
    monkeypatch.setattr(Worktree, "clock_ns", lambda self: old(self) + 60 * 10**9)
    os.utime(root / "a")
    items(reopen(repository, root))
    assert b"a" in read
    read.clear()
    assert items(reopen(repository, root)) == {}
    assert read == []


def test_a_file_that_was_read_just_after_its_change_is_read_again(
    repository: Repository, root: Path
) -> None:
    (root / "a").write_text("1")
    assert items(reopen(repository, root)) == {}
    tracked = reopen(repository, root).index.find(b"a")
    assert tracked is not None
    assert tracked.state.inode == 0


def test_a_lost_index_is_made_anew(repository: Repository, root: Path) -> None:
    worktree = reopen(repository, root)
    worktree.index_file.unlink()
    write(root, {"a": "mine"})
    assert set(items(reopen(repository, root))) == {"a"}
    worktree.index_file.write_bytes(b"damaged")
    assert set(items(reopen(repository, root))) == {"a"}


def test_links_and_special_files_follow_the_policy(repository: Repository, root: Path) -> None:
    (root / "link").symlink_to("a")
    (root / "linked").symlink_to("d")
    os.mkfifo(root / "pipe")
    (root / "d/b").unlink()
    (root / "d/b").symlink_to("/etc/passwd")

    def look(policy: LinkPolicy) -> tuple[set[str], list[bytes]]:
        found = status(reopen(repository, root, policy), local=False, selection=EVERYTHING)
        return {os.fsdecode(each.path) for each in found.items}, [p.path for p in found.problems]

    assert look(LinkPolicy.FAIL) == (set(), [b"d/b", b"link", b"linked", b"pipe"])
    assert look(LinkPolicy.SKIP) == (set(), [])
    assert look(LinkPolicy.FOLLOW) == ({"d/b", "link", "linked/b", "linked/e/c"}, [b"pipe"])


def test_a_link_that_leads_back_ends(repository: Repository, root: Path) -> None:
    (root / "d/up").symlink_to("..")
    found = status(reopen(repository, root, LinkPolicy.FOLLOW), local=False, selection=EVERYTHING)
    assert [each.path for each in found.problems] == [b"d/up"]


def test_an_unreadable_directory_is_a_problem_and_no_removal(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = os.open

    def refused(path: Any, *args: Any, **options: Any) -> int:
        # root may read everything, so the system is not asked
        if os.fsencode(path).rstrip(b"/").endswith(b"/d"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opens(path, *args, **options)

    monkeypatch.setattr(os, "open", refused)
    found = status(reopen(repository, root), local=False, selection=EVERYTHING)
    assert (found.items, [each.path for each in found.problems]) == ([], [b"d"])


def test_ignored_files_are_not_seen_unless_the_ref_has_them(
    repository: Repository, root: Path
) -> None:
    commit_contents(repository, {"kept.log": "k"})
    write(root, {"kept.log": "other"})  # as if it had been tracked: another content than the ref's
    write(
        root,
        {
            ".lakefsignore": "*.log\n\nbuild/\n!keep.log\n",
            "x.log": "x",
            "keep.log": "k",
            "build/o": "o",
            "d/.lakefsignore": "!deep.log\n/b2\n",
            "d/deep.log": "d",
            "d/b2": "b",
            "d/e/b2": "b",
        },
    )
    found = items(reopen(repository, root))
    new = {path for path, item in found.items() if item.here is ADDED}
    assert new == {".lakefsignore", "keep.log", "d/.lakefsignore", "d/deep.log", "d/e/b2"}
    (root / ".lakefsignore").write_text("a\n")
    write(root, {"a": "tracked"})
    assert items(reopen(repository, root))["a"].here is CHANGED


def test_own_files_and_other_working_directories_are_not_seen(
    repository: Repository, root: Path
) -> None:
    write(root, {".DS_Store": "x", ".lakecli-1-2.tmp": "x", ".lakecli-incoming/x": "x"})
    write(root, {"nested/.lakefs_ref.yaml": "x", "nested/y": "y"})
    assert items(reopen(repository, root)) == {}


def test_after_an_undone_commit_its_changes_are_changes_of_the_directory(
    repository: Repository, root: Path
) -> None:
    from lakecli.repository.undo.undo import undo
    from tests.support.worktrees import commit_worktree

    write(root, {"a": "mine", "new": "n", "gone": None})
    commit_worktree(reopen(repository, root))
    assert items(reopen(repository, root)) == {}
    undo(repository)
    found = {path: item[1:] for path, item in items(reopen(repository, root)).items()}
    assert found == {
        "a": (CHANGED, None, False),
        "new": (ADDED, None, False),
        "gone": (REMOVED, None, False),
    }


def test_a_base_that_is_not_here_is_named(repository: Repository, root: Path) -> None:
    text = (root / ".lakefs_ref.yaml").read_text()
    head = reopen(repository, root).link.at_head
    assert head is not None
    (root / ".lakefs_ref.yaml").write_text(text.replace(head, "ab" * 32))
    with pytest.raises(NotFound, match="is not on this machine"):
        items(reopen(repository, root))


def test_a_file_that_is_deleted_once_it_was_listed_is_removed(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, {"new": "n"})
    scandir = os.scandir

    def listed(descriptor: int) -> Any:
        entries = list(scandir(descriptor))
        write(root, {"a": None, "new": None})
        return nullcontext(entries)

    monkeypatch.setattr(os, "scandir", listed)
    assert items(reopen(repository, root)) == {"a": Item(b"a", REMOVED, None)}


def test_a_link_is_read_only_where_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    (tmp_path / "link").symlink_to("file")
    link = os.fsencode(tmp_path / "link")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        scanning.hash_file(link)
    found = scanning.hash_file(link, follow=True)
    assert found == scanning.hash_file(os.fsencode(tmp_path / "file"))
