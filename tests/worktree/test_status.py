"""How a working directory differs from its base and its ref."""

from __future__ import annotations

import errno
import os
from contextlib import nullcontext
from shutil import rmtree
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.model import ChangeType, Difference
from lakecli.committed.values import decode_entry
from lakecli.errors import NotFound
from lakecli.repository.transfer.ignore_patterns import EVERYTHING, Selection
from lakecli.repository.transfer.walk import LinkPolicy, open_below
from lakecli.worktree import scan as scanning
from lakecli.worktree.index import Index, state_of
from lakecli.worktree.status import ChangedPath, differences, status
from lakecli.worktree.worktree import Worktree
from tests.support.worktrees import clone, commit_contents, files, items, pull, reopen, write

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.contract import Repository

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


def test_only_the_chosen_paths_are_compared(repository: Repository, root: Path) -> None:
    write(root, {"a": "mine", "gone": None})
    commit_contents(repository, {"d/b": "theirs", "t": "t"})
    chosen = Selection(["t", "gone"], [])
    found = status(reopen(repository, root), local=False, selection=chosen)
    assert found.items == [ChangedPath(b"gone", REMOVED, None), ChangedPath(b"t", None, ADDED)]


def test_a_new_time_is_no_change(repository: Repository, root: Path) -> None:
    os.utime(root / "a", (1, 1))
    (root / "d/b").write_text("2")
    assert items(reopen(repository, root)) == {}


def test_the_same_size_and_time_do_not_hide_a_change(repository: Repository, root: Path) -> None:
    before = (root / "a").stat()
    (root / "a").write_text("x")
    os.utime(root / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert items(reopen(repository, root)) == {"a": ChangedPath(b"a", CHANGED, None)}


def note_hashed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return a list to which the path of each file that is read to be hashed is added."""
    read: list[bytes] = []
    hash_file = scanning.hash_file

    def noted(root: bytes, relative: bytes, *, follow: bool) -> tuple[str, os.stat_result]:
        read.append(relative)
        return hash_file(root, relative, follow=follow)

    monkeypatch.setattr(scanning, "hash_file", noted)
    return read


def test_unchanged_files_are_read_once(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = note_hashed(monkeypatch)
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
    assert tracked.state != state_of((root / "a").stat())


def test_a_lost_index_is_made_anew(repository: Repository, root: Path) -> None:
    worktree = reopen(repository, root)
    worktree.index_file.unlink()
    write(root, {"a": "mine"})
    assert set(items(reopen(repository, root))) == {"a"}
    assert worktree.index_file.exists()
    worktree.index_file.write_bytes(b"damaged")
    assert set(items(reopen(repository, root))) == {"a"}


def test_an_index_that_cannot_be_read_or_saved_ends_no_command(
    repository: Repository, root: Path
) -> None:
    file = reopen(repository, root).index_file
    file.unlink()
    file.mkdir()
    write(root, {"a": "mine"})
    assert set(items(reopen(repository, root))) == {"a"}
    (notice,) = repository.notices
    assert notice.message == (
        f"cannot save {file}: is a directory; without this index, each command reads all files of "
        f"{root}"
    )
    commit_contents(repository, {"t": "theirs"})
    pull(reopen(repository, root))
    assert files(root) == {"a": "mine", "d/b": "2", "d/e/c": "3", "gone": "4", "t": "theirs"}
    assert set(items(reopen(repository, root))) == {"a"}
    assert repository.notices == [notice]
    file.rmdir()
    assert set(items(reopen(repository, root))) == {"a"}
    assert Index.load(file, reopen(repository, root).index.key) is not None


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


def test_a_link_that_is_followed_has_the_bytes_of_its_file(
    repository: Repository, root: Path
) -> None:
    (root.parent / "file").write_text("same")
    (root / "both").symlink_to(root.parent / "file")
    commit_contents(repository, {"both": "same"})
    found = items(reopen(repository, root, LinkPolicy.FOLLOW))
    assert found == {"both": ChangedPath(b"both", ADDED, ADDED, is_conflict=False)}


def test_a_link_to_itself_is_a_broken_one(repository: Repository, root: Path) -> None:
    (root / "loop").symlink_to("loop")
    found = status(reopen(repository, root, LinkPolicy.FOLLOW), local=False, selection=EVERYTHING)
    assert found.problems == [(b"loop", "a broken symbolic link")]


def test_a_link_that_leads_back_ends(repository: Repository, root: Path) -> None:
    (root / "d/up").symlink_to("..")
    found = status(reopen(repository, root, LinkPolicy.FOLLOW), local=False, selection=EVERYTHING)
    assert [each.path for each in found.problems] == [b"d/up"]


def test_an_unreadable_directory_is_a_problem_and_no_removal(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, {"gone": None})
    opens = os.open

    def refused(path: Any, *args: Any, **options: Any) -> int:
        # root may read everything, so the system is not asked
        if os.fsencode(path).rpartition(b"/")[2] == b"d":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opens(path, *args, **options)

    monkeypatch.setattr(os, "open", refused)
    found = status(reopen(repository, root), local=False, selection=EVERYTHING)
    assert found.problems == [(b"d", "permission denied")]
    assert found.items == [ChangedPath(b"gone", REMOVED, None)]


def failing(number: int) -> Any:
    def fail(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number), "name")

    return fail


def test_a_directory_that_cannot_be_listed_is_a_problem(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "scandir", failing(errno.EIO))
    found = status(reopen(repository, root), local=False, selection=EVERYTHING)
    assert (found.items, found.problems) == ([], [(b"", "input/output error")])


def test_a_file_that_cannot_be_read_is_a_problem(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.utime(root / "a")
    monkeypatch.setattr(scanning, "hash_file", failing(errno.EIO))
    found = status(reopen(repository, root), local=False, selection=EVERYTHING)
    assert (b"a", "input/output error") in found.problems
    assert found.items == []


@pytest.mark.parametrize("more", [{}, {"new": "n"}])
def test_a_file_that_cannot_be_described_is_a_problem(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, str]
) -> None:
    write(root, more)
    worktree = reopen(repository, root)
    assert worktree.index.find(b"a") is not None
    scandir, stat_of = os.scandir, os.stat

    class Entry:
        """An entry of a directory whose file cannot be described."""

        name = "a"
        stat = failing(errno.EIO)

        def is_file(self, *, follow_symlinks: bool) -> bool:
            return not follow_symlinks

    def listed(descriptor: int) -> Any:
        with scandir(descriptor) as entries:
            return nullcontext([Entry() if each.name == "a" else each for each in entries])

    def described(path: Any, **options: Any) -> os.stat_result:
        return failing(errno.EIO)() if path == worktree.path_of(b"a") else stat_of(path, **options)

    monkeypatch.setattr(os, "scandir", listed)
    monkeypatch.setattr(os, "stat", described)
    found = status(worktree, local=True, selection=EVERYTHING)
    assert found.problems == [(b"a", "input/output error")]
    assert [each.path for each in found.items] == list(map(os.fsencode, more))


def test_a_removed_directory_has_removed_files(repository: Repository, root: Path) -> None:
    rmtree(root / "d")
    found = {path: item.here for path, item in items(reopen(repository, root)).items()}
    assert found == {"d/b": REMOVED, "d/e/c": REMOVED}


def test_a_directory_linked_itself_is_left_alone(repository: Repository, root: Path) -> None:
    write(root, {"d/.lakefs_ref.yaml": "x", "d/b": "changed", "d/e/c": None})
    assert items(reopen(repository, root)) == {}


def test_links_are_ignored_as_files_are(repository: Repository, root: Path) -> None:
    write(root, {".lakefsignore": "/link\n/gone\n/d\n", "gone": None})
    for name in ("link", "seen", "gone"):
        (root / name).symlink_to("a")
    rmtree(root / "d")
    (root / "d").symlink_to("..")
    found = status(reopen(repository, root), local=False, selection=EVERYTHING)
    assert [each.path for each in found.problems] == [b"d", b"gone", b"seen"]
    assert [each.path for each in found.items] == [b".lakefsignore"]


def test_files_that_the_ref_has_are_seen_in_ignored_directories(
    repository: Repository, root: Path
) -> None:
    commit_contents(repository, {"x/y/z/tracked": "1"})
    pull(reopen(repository, root))
    write(root, {".lakefsignore": "/d/\n/x/\n", "d/e/c": "changed", "x/y/z/tracked": "changed"})
    write(root, {"d/e/new": "n", "d/f/new": "n", "x/y/new": "n"})
    assert set(items(reopen(repository, root))) == {".lakefsignore", "d/e/c", "x/y/z/tracked"}


def test_own_directories_are_not_opened(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, {".lakecli-incoming/x": "x"})
    opens = os.open

    def refused(path: Any, *args: Any, **options: Any) -> int:
        assert not os.fsencode(path).endswith(b"incoming")
        return opens(path, *args, **options)

    monkeypatch.setattr(os, "open", refused)
    assert items(reopen(repository, root)) == {}


def test_a_file_at_a_path_that_was_left_out_is_a_new_file(
    repository: Repository, root: Path
) -> None:
    write(root, {"x": "mine"})
    worktree = reopen(repository, root)
    worktree.relink(left_out=(b"x",))
    assert set(items(worktree)) == {"x"}


@pytest.mark.usefixtures("settled")
def test_each_file_of_another_state_is_read_and_no_other(
    repository: Repository, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    clone(repository, other)
    write(other, {"a": "longer", "gone": "x"})
    read = note_hashed(monkeypatch)
    assert set(items(reopen(repository, other))) == {"a", "gone"}
    assert read == [b"gone"]  # the size of the other one is enough


@pytest.mark.usefixtures("settled")
def test_an_index_is_written_when_it_has_changed_and_nothing_is_under_way(
    repository: Repository, root: Path
) -> None:
    def inode() -> int:
        return reopen(repository, root).index_file.stat().st_ino

    before = inode()
    items(reopen(repository, root))
    assert inode() == before
    os.utime(root / "a")
    worktree = reopen(repository, root)
    worktree.relink(active="pull", target=worktree.link.at_head)
    items(worktree)
    assert inode() == before
    worktree.relink(active="", target=None)
    items(reopen(repository, root))
    assert inode() != before


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


@pytest.mark.parametrize("more", [{}, {"new": "n"}])
def test_a_file_that_is_deleted_once_it_was_listed_is_removed(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, str]
) -> None:
    write(root, {"gone": "changed", **more})
    scandir = os.scandir

    def listed(descriptor: int) -> Any:
        entries = list(scandir(descriptor))
        write(root, {path: None for path in ("a", *more) if (root / path).exists()})
        return nullcontext(entries)

    monkeypatch.setattr(os, "scandir", listed)
    found = {path: item.here for path, item in items(reopen(repository, root)).items()}
    assert found == {"a": REMOVED, "gone": CHANGED}


def move_away_before_opening(
    monkeypatch: pytest.MonkeyPatch, directory: Path, relative: bytes
) -> None:
    """Move a directory away just before the scan opens the directory `relative`."""

    def moved(root: bytes, path: bytes, *args: Any, **options: Any) -> int:
        if path == relative:
            directory.rename(directory.parent / "away")
        return open_below(root, path, *args, **options)

    monkeypatch.setattr(scanning, "open_below", moved)


def test_a_directory_that_is_removed_once_it_was_listed_has_removed_files(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move_away_before_opening(monkeypatch, root / "d", b"d")
    found = {path: item.here for path, item in items(reopen(repository, root)).items()}
    assert found == {"d/b": REMOVED, "d/e/c": REMOVED}


def test_files_behind_a_link_whose_target_disappears_are_not_removed(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "d").rename(root.parent / "target")
    (root / "d").symlink_to(root.parent / "target")
    move_away_before_opening(monkeypatch, root.parent / "target", b"d")
    worktree = reopen(repository, root, LinkPolicy.FOLLOW)
    found = status(worktree, local=True, selection=EVERYTHING)
    assert (found.items, found.problems) == ([], [(b"d", "no such file or directory")])


def test_a_working_directory_that_disappears_has_no_removed_files(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worktree = reopen(repository, root)
    assert worktree.index.find(b"a") is not None
    move_away_before_opening(monkeypatch, root, b"")
    found = worktree.scan_all()
    assert (found.changes, found.problems) == ({}, [(b"", "no such file or directory")])


def test_a_link_is_read_only_where_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "above").symlink_to(tmp_path)
    root = os.fsencode(tmp_path)
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        scanning.hash_file(root, b"link", follow=False)
    with pytest.raises(NotADirectoryError):
        scanning.hash_file(root, b"above/file", follow=False)
    found = scanning.hash_file(root, b"above/link", follow=True)
    assert found == scanning.hash_file(root, b"file", follow=False)


def test_differences_have_what_was_asked_for(repository: Repository, root: Path) -> None:
    write(root, {"a": "mine", "gone": None})
    commit_contents(repository, {"d/b": "theirs"})
    worktree = reopen(repository, root)
    differing = status(worktree, local=False, selection=EVERYTHING).items
    write(root, {"gone": "again"})  # it was removed when the files were compared
    short = list(differences(worktree, differing, has_values=False))
    assert short == [
        Difference(CHANGED, b"a", None, None),
        Difference(REMOVED, b"gone", None, None),
    ]
    changed, removed = differences(worktree, differing, has_values=True)
    assert changed.left == worktree.find(worktree.base_tree, b"a")
    assert changed.right is not None
    assert decode_entry(changed.right).size == len("mine")
    assert (removed.left is None, removed.right) == (False, None)
    write(root, {"a": None})
    assert [each.right for each in differences(worktree, differing, has_values=True)] == [None] * 2
