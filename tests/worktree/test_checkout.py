"""Bringing a working directory to a commit: clone, pull and checkout."""

from __future__ import annotations

import os
import threading
from functools import partial
from shutil import rmtree
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from lakecli import native
from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.base.model import ChangeType, CommitId, StagingToken
from lakecli.base.uri import parse_path
from lakecli.errors import IntegrityError, NotFound, Refused, Unreachable
from lakecli.kv.local_store import Table
from lakecli.repository.guard import GcGuard
from lakecli.repository.reading.view import commit_at
from lakecli.repository.transfer.ingest import SMALL
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.repository.undo.log import redo_target
from lakecli.repository.undo.undo import redo, undo
from lakecli.repository.upload import UploadOptions
from lakecli.staging import area
from lakecli.stores.contract import ANY, ObjectNotFound
from lakecli.stores.local.store import DirectoryStore
from lakecli.worktree import create
from lakecli.worktree.checkout import OwnChanges, WorktreeConflict, bring, restore
from lakecli.worktree.index import FileState, TrackedFile, state_of
from lakecli.worktree.kept_for_undo import (
    DirectoryGone,
    check_directory,
    is_unfinished,
    keep,
    overwrite_again,
    restore_kept,
)
from lakecli.worktree.link import write_link
from lakecli.worktree.worktree import Busy, LinkMode
from tests.support.lakes import entry_of, stage_entries
from tests.support.worktrees import (
    DOWNLOADS,
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

    from lakecli.repository.contract import Repository
    from lakecli.worktree.fetching import WriteReport


@pytest.fixture
def root(repository: Repository, tmp_path: Path) -> Path:
    commit_contents(repository, {"a": "1", "b": "2", "d/c": "3", "d/x": "4"})
    clone(repository, tmp_path / "wd")
    return tmp_path / "wd"


def go_to(
    repository: Repository, root: Path, ref: str, policy: OwnChanges = OwnChanges.REFUSE
) -> Any:
    worktree = reopen(repository, root)
    src, target = create.link_target(
        repository, parse_path(f"lakefs://demo/{ref}/"[:-1] + "/", allow_empty=True)
    )
    with worktree.locked():
        return bring(
            worktree, target, operation="checkout", policy=policy, options=DOWNLOADS, src=src
        )


def test_a_pull_brings_what_changed_there_and_keeps_what_changed_here(
    repository: Repository, root: Path
) -> None:
    write(root, {"a": "mine", "new": "n"})
    commit_contents(repository, {"b": "theirs", "d/c": None, "t/u": "t"})
    brought = pull(reopen(repository, root))
    assert (brought.downloaded, brought.removed, brought.conflicts) == (2, 1, [])
    assert files(root) == {"a": "mine", "b": "theirs", "d/x": "4", "new": "n", "t/u": "t"}
    assert set(items(reopen(repository, root))) == {"a", "new"}
    again = pull(reopen(repository, root))
    assert (again.downloaded, again.removed) == (0, 0)


def test_conflicts_keep_the_users_files_until_they_are_resolved(
    repository: Repository, root: Path
) -> None:
    write(root, {"a": "mine", "b": None, "new": "mine", "d/c": "edited"})
    commit_contents(repository, {"a": "theirs", "b": "theirs", "new": "theirs", "d/c": None})
    brought = pull(reopen(repository, root))
    assert brought.conflicts == [b"a", b"b", b"d/c", b"new"]
    assert files(root) == {"a": "mine", "d/c": "edited", "d/x": "4", "new": "mine"}
    found = items(reopen(repository, root))
    assert all(found[path].is_conflict for path in ("a", "b", "d/c", "new"))
    with pytest.raises(WorktreeConflict, match="unresolved"):
        commit_worktree(reopen(repository, root))
    # Others' changes of other paths do not make it forget them.
    commit_contents(repository, {"z": "z"})
    assert pull(reopen(repository, root)).conflicts == [b"a", b"b", b"d/c", b"new"]
    write(root, {"a": "theirs", "b": "theirs", "d/c": None, "new": "theirs"})
    assert items(reopen(repository, root)) == {}
    assert pull(reopen(repository, root)).conflicts == []


def test_force_overwrites_conflicts_only_and_undo_brings_them_back(
    repository: Repository, root: Path
) -> None:
    write(root, {"a": "mine", "b": "kept", "d/c": "edited"})
    commit_contents(repository, {"a": "theirs", "d/c": None})
    brought = pull(reopen(repository, root), OwnChanges.FORCE)
    assert brought.kept == 2
    assert files(root) == {"a": "theirs", "b": "kept", "d/x": "4"}
    undone = undo(repository)
    assert undone.operation.kind == "local pull"
    written = restore_kept(repository, undone.operation, DOWNLOADS)
    assert written is not None
    assert written.downloaded == 2
    assert files(root) == {"a": "mine", "b": "kept", "d/c": "edited", "d/x": "4"}
    found = items(reopen(repository, root))
    assert {path: item.is_conflict for path, item in found.items()} == {
        "a": True,
        "b": False,
        "d/c": True,
    }


def test_undo_of_a_command_that_was_killed_before_it_overwrote_a_file(
    repository: Repository, root: Path
) -> None:
    write(root, {"a": "mine"})
    worktree = reopen(repository, root)
    keep(worktree, [b"a"], kind="local pull", commit=None, options=UploadOptions())
    written = restore_kept(repository, undo(repository).operation, DOWNLOADS)
    assert written is not None
    assert (written.downloaded, written.kept) == (0, [])
    assert files(root)["a"] == "mine"


def test_discarding_undoes_every_change_and_undo_brings_them_back(
    repository: Repository, root: Path
) -> None:
    changed = {"a": "mine", "new/n": "n"}
    write(root, {**changed, "b": None})
    os.utime(root / "new/n", (1_000_000_000, 1_000_000_000))
    staged = staged_records(repository)
    go_to(repository, root, "main", OwnChanges.DISCARD)
    assert staged_records(repository) == staged
    assert files(root) == {"a": "1", "b": "2", "d/c": "3", "d/x": "4"}
    assert not (root / "new").exists()
    assert items(reopen(repository, root)) == {}
    write(root, {"a": "since"})
    undone = undo(repository)
    written = restore_kept(repository, undone.operation, DOWNLOADS)
    assert written is not None
    assert written.kept == [b"a"]
    assert files(root) == {"a": "since", "b": "2", "d/c": "3", "d/x": "4", "new/n": "n"}
    assert (root / "new/n").stat().st_mtime == 1_000_000_000


def test_discarding_does_not_write_through_a_link_that_is_followed(
    repository: Repository, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "target").write_text("mine")
    (root / "a").unlink()
    (root / "a").symlink_to(tmp_path / "target")
    worktree = reopen(repository, root, LinkPolicy.FOLLOW)
    with worktree.locked():
        brought = bring(
            worktree,
            worktree.head(),
            operation="checkout",
            policy=OwnChanges.DISCARD,
            options=DOWNLOADS,
        )
    assert (brought.conflicts, brought.kept) == ([b"a"], 0)
    assert (tmp_path / "target").read_text() == "mine"
    with pytest.raises(ObjectNotFound):  # nothing was kept for undo either
        repository.store.head(data_key(blake3_of(b"mine").hex()))


def test_each_object_that_is_kept_is_claimed(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed = []

    settle = GcGuard.settle

    def note(guard: Any, *, found: Any, written: Any) -> None:
        claimed.append(sorted([*found, *written]))
        settle(guard, found=found, written=written)

    monkeypatch.setattr(GcGuard, "settle", note)
    write(root, {"a": "mine", "b": "mine too"})
    go_to(repository, root, "main", OwnChanges.DISCARD)
    assert claimed == [sorted(data_key(blake3_of(each).hex()) for each in (b"mine", b"mine too"))]


def test_undo_finds_files_that_somebody_has_brought_back(
    repository: Repository, root: Path
) -> None:
    mine = {"a": "mine", "b": "mine", "d/c": "mine"}
    write(root, mine)
    go_to(repository, root, "main", OwnChanges.DISCARD)
    write(root, {"a": "mine"})
    written = take_back(repository)
    assert (written.downloaded, written.kept) == (2, [])
    assert files(root) == {**mine, "d/x": "4"}


def test_redo_goes_back_behind_an_undone_commit(repository: Repository, root: Path) -> None:
    write(root, {"a": "mine"})
    go_to(repository, root, "main", OwnChanges.DISCARD)
    write(root, {"b": "mine"})
    commit_worktree(reopen(repository, root))
    undo(repository)
    take_back(repository)
    assert do_again(repository) is not None
    assert files(root) == {"a": "1", "b": "mine", "d/c": "3", "d/x": "4"}


def test_redo_leaves_a_file_whose_directory_is_none_any_more(
    repository: Repository, root: Path
) -> None:
    write(root, {"d/c": "mine", "d/x": "mine"})
    go_to(repository, root, "main", OwnChanges.DISCARD)
    take_back(repository)
    write(root, {"d/c": None, "d/x": None})
    (root / "d").rmdir()
    write(root, {"d": "a file"})
    written = do_again(repository)
    assert written is not None
    assert written.kept == [b"d/c", b"d/x"]
    assert files(root) == {"a": "1", "b": "2", "d": "a file"}


def test_redo_leaves_a_file_that_was_deleted(repository: Repository, root: Path) -> None:
    write(root, {"a": "mine", "b": "mine"})
    go_to(repository, root, "main", OwnChanges.DISCARD)
    take_back(repository)
    write(root, {"a": None})
    written = do_again(repository)
    assert written is not None
    assert (written.kept, written.downloaded) == ([b"a"], 1)
    assert files(root) == {"b": "2", "d/c": "3", "d/x": "4"}


def test_files_are_given_back_to_a_directory_of_the_same_repository(
    repository: Repository, root: Path
) -> None:
    write(root, {"a": "mine"})
    go_to(repository, root, "main", OwnChanges.DISCARD)
    link = reopen(repository, root).link
    operation = undo(repository).operation
    for src in ("lakefs://other/main/data/", "lakefs://demo/main/other/"):
        reopen(repository, root).relink(src=parse_path(src))
        with pytest.raises(DirectoryGone, match="is not linked with lakefs://demo/REF/"):
            restore_kept(repository, operation, DOWNLOADS)
        assert overwrite_again(repository, operation, DOWNLOADS) is None
    (root / ".lakefs_ref.yaml").unlink()
    with pytest.raises(DirectoryGone):
        restore_kept(repository, operation, DOWNLOADS)
    assert files(root)["a"] == "1"
    write_link(root, link)
    assert restore_kept(repository, operation, DOWNLOADS) is not None
    assert files(root)["a"] == "mine"


def discarded(repository: Repository, root: Path) -> None:
    """Commit, then overwrite a change on request."""
    write(root, {"b": "committed"})
    commit_worktree(reopen(repository, root))
    write(root, {"a": "mine"})
    go_to(repository, root, "main", OwnChanges.DISCARD)
    assert files(root)["a"] == "1"


def take_back_checked(repository: Repository) -> WriteReport | None:
    undone = undo(repository, check=partial(check_directory, repository))
    return restore_kept(repository, undone.operation, DOWNLOADS)


def test_undo_finds_a_directory_that_was_renamed(repository: Repository, root: Path) -> None:
    discarded(repository, root)
    renamed = root.rename(root.with_name("renamed"))
    written = take_back_checked(repository)
    assert written is not None
    assert (written.directory, written.downloaded) == (renamed, 1)
    assert files(renamed)["a"] == "mine"
    written = do_again(repository)
    assert written is not None
    assert (written.directory, written.downloaded) == (renamed, 1)
    assert files(renamed)["a"] == "1"


def test_undo_finds_a_directory_where_its_index_was_used_last(
    repository: Repository, root: Path
) -> None:
    discarded(repository, root)
    (root.parent / "elsewhere").mkdir()
    moved = root.rename(root.parent / "elsewhere" / "moved")
    with pytest.raises(DirectoryGone):
        take_back_checked(repository)
    assert items(reopen(repository, moved)) == {}
    written = take_back_checked(repository)
    assert written is not None
    assert (written.directory, files(moved)["a"]) == (moved, "mine")


def test_undo_prefers_the_directory_to_another_one_at_its_path(
    repository: Repository, root: Path
) -> None:
    discarded(repository, root)
    renamed = root.rename(root.with_name("renamed"))
    clone(repository, root)
    assert take_back_checked(repository) is not None
    assert (files(renamed)["a"], files(root)["a"]) == ("mine", "1")


def test_undo_takes_a_new_clone_at_the_path_of_a_directory_that_was_deleted(
    repository: Repository, root: Path
) -> None:
    discarded(repository, root)
    rmtree(root)
    with pytest.raises(DirectoryGone, match=f"belong in {root}"):
        take_back_checked(repository)
    clone(repository, root)
    assert take_back_checked(repository) is not None
    assert files(root)["a"] == "mine"


def test_restore_goes_back_behind_an_undone_commit(repository: Repository, root: Path) -> None:
    write(root, {"a": "mine"})
    commit_worktree(reopen(repository, root))
    undo(repository)
    restore(reopen(repository, root), [b"a"], source=None, options=DOWNLOADS)
    assert files(root)["a"] == "1"


def test_restore_leaves_the_conflict_of_a_file_that_it_did_not_overwrite(
    repository: Repository, root: Path
) -> None:
    (root / "a").unlink()
    (root / "a").symlink_to("b")
    worktree = reopen(repository, root, LinkPolicy.FOLLOW)
    worktree.relink(unresolved=(b"a",))
    brought = restore(worktree, [b""], source=None, options=DOWNLOADS)
    assert (brought.conflicts, brought.kept) == ([b"a"], 0)
    assert reopen(repository, root).link.unresolved == (b"a",)


@pytest.mark.parametrize("links", LinkPolicy)
def test_restore_says_that_a_link_stands_at_a_path(
    repository: Repository, root: Path, links: LinkPolicy
) -> None:
    (root / "a").unlink()
    (root / "a").symlink_to("b")
    with pytest.raises(Refused, match=r"/a is a symbolic link") as error:
        restore(reopen(repository, root, links), [b"a"], source=None, options=DOWNLOADS)
    assert error.value.hint
    (root / "a").unlink()
    restore(reopen(repository, root, links), [b"a"], source=None, options=DOWNLOADS)
    assert files(root)["a"] == "1"


def test_restore_removes_what_the_commit_lacks(repository: Repository, root: Path) -> None:
    commit_contents(repository, {"new": "n"})
    pull(reopen(repository, root))
    first = reopen(repository, root).commit(CommitId(first_commit(repository)))
    brought = restore(reopen(repository, root), [b""], source=first, options=DOWNLOADS)
    assert (brought.removed, brought.downloaded) == (1, 0)
    assert files(root) == {"a": "1", "b": "2", "d/c": "3", "d/x": "4"}


def test_a_checkout_names_how_many_files_would_be_overwritten(
    repository: Repository, root: Path
) -> None:
    commit_contents(repository, {"a": "second", "b": "second"})
    write(root, {"a": "mine", "b": "mine"})
    with pytest.raises(WorktreeConflict, match="2 changed files of"):
        go_to(repository, root, "main")


def test_force_overwrites_what_was_unresolved_before(repository: Repository, root: Path) -> None:
    write(root, {"a": "mine"})
    commit_contents(repository, {"a": "theirs"})
    assert pull(reopen(repository, root)).conflicts == [b"a"]
    commit_contents(repository, {"b": "theirs"})
    go_to(repository, root, "main")  # which is refused for new conflicts only
    assert reopen(repository, root).link.unresolved == (b"a",)
    assert pull(reopen(repository, root), OwnChanges.FORCE).conflicts == []
    assert files(root) == {"a": "theirs", "b": "theirs", "d/c": "3", "d/x": "4"}


def test_conflicts_of_files_that_are_as_wanted_already(repository: Repository, root: Path) -> None:
    """Undo marks them, and redo does not, whoever has written these bytes."""
    write(root, {"a": "mine"})
    commit_contents(repository, {"a": "theirs"})
    pull(reopen(repository, root))
    go_to(repository, root, "main", OwnChanges.DISCARD)
    write(root, {"a": "mine"})
    assert take_back(repository).downloaded == 0
    assert reopen(repository, root).link.unresolved == (b"a",)
    write(root, {"a": "theirs"})
    written = do_again(repository)
    assert written is not None
    assert written.downloaded == 0
    assert reopen(repository, root).link.unresolved == ()


def test_restore_changes_no_other_file(repository: Repository, root: Path) -> None:
    commit_contents(repository, {"a": "second", "b": "second"})
    pull(reopen(repository, root))
    first = reopen(repository, root).commit(CommitId(first_commit(repository)))
    restore(reopen(repository, root), [b"a"], source=first, options=DOWNLOADS)
    assert files(root) == {"a": "1", "b": "second", "d/c": "3", "d/x": "4"}


def test_a_file_that_the_scan_has_read_is_not_read_again(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: bytes, **options: object) -> NoReturn:
        raise OSError("read again")

    monkeypatch.setattr("lakecli.worktree.worktree.hash_file", refuse)
    write(root, {"a": "x"})
    commit_contents(repository, {"a": "x"})
    assert pull(reopen(repository, root)).conflicts == []


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("command", ["redo", "restore"])
def test_the_states_of_written_files_are_known(
    repository: Repository, root: Path, command: str
) -> None:
    write(root, {"a": "mine"})
    if command == "redo":
        go_to(repository, root, "main", OwnChanges.DISCARD)
        take_back(repository)
        do_again(repository)
    else:
        restore(reopen(repository, root), [b"a"], source=None, options=DOWNLOADS)
    found = reopen(repository, root).index.find(b"a")
    assert found is not None
    assert found.state == state_of((root / "a").stat())


@pytest.mark.usefixtures("settled")
def test_only_the_states_of_files_as_committed_are_known_after_a_pull(
    repository: Repository, root: Path
) -> None:
    write(root, {"a": "mine", "b": "theirs"})
    commit_contents(repository, {"a": "theirs", "b": "theirs"})
    assert pull(reopen(repository, root)).conflicts == [b"a"]
    index = reopen(repository, root).index
    mine, theirs = index.find(b"a"), index.find(b"b")
    assert mine is not None
    assert theirs is not None
    assert (mine.state, theirs.state) == (FileState(0, 6), state_of((root / "b").stat()))
    assert set(items(reopen(repository, root))) == {"a"}


def test_what_an_interrupted_command_has_brought_is_nobodys_change(
    repository: Repository, root: Path
) -> None:
    commit_contents(repository, {"b": "second"})
    worktree = reopen(repository, root)
    worktree.relink(active="pull", target=worktree.head().id)
    write(root, {"b": "second", "new": "mine"})
    here = {path for path, item in items(reopen(repository, root)).items() if item.here}
    assert here == {"new"}
    write(root, {"new": None})
    commit_contents(repository, {"a": None, "b": "third", "d/c": None, "d/x": "third"})
    assert pull(reopen(repository, root)).conflicts == []
    assert files(root) == {"b": "third", "d/x": "third"}


def test_what_could_not_be_replaced_is_left_out(repository: Repository, root: Path) -> None:
    outside = root.parent / "outside"
    (root / "d").rename(outside)
    (root / "d").symlink_to(outside)
    commit_contents(repository, {"d/c": "theirs"})
    assert pull(reopen(repository, root)).conflicts == [b"d/c"]
    (root / "d").unlink()
    found = items(reopen(repository, root))
    assert {path: (item.here, item.there) for path, item in found.items()} == {
        "d/c": (None, ChangeType.ADDED),
        "d/x": (ChangeType.REMOVED, None),
    }
    assert pull(reopen(repository, root)).conflicts == []
    assert files(root)["d/c"] == "theirs"
    assert files(outside) == {"c": "3", "x": "4"}


def take_back(repository: Repository) -> WriteReport:
    """Undo, as the command does it."""
    written = restore_kept(repository, undo(repository).operation, DOWNLOADS)
    assert written is not None
    return written


def do_again(repository: Repository) -> WriteReport | None:
    """Redo, as the command does it."""
    operation = redo_target(repository)
    assert operation is not None
    written = overwrite_again(repository, operation, DOWNLOADS)
    assert redo(repository).operation == operation
    return written


@pytest.mark.parametrize("command", ["discard", "force", "restore", "restore --source"])
def test_undo_and_redo_give_files_their_contents_in_turn(
    repository: Repository, root: Path, command: str
) -> None:
    commit_contents(repository, {"a": "theirs"})
    if command != "force":
        pull(reopen(repository, root))
    write(root, {"a": "mine", "b": "2 mine" if command == "discard" else "2"})
    write(root, {"new": "n"} if command == "discard" else {})
    mine, staged = files(root), staged_records(repository)
    if command == "discard":
        go_to(repository, root, "main", OwnChanges.DISCARD)
    elif command == "force":
        pull(reopen(repository, root), OwnChanges.FORCE)
    else:
        worktree = reopen(repository, root)
        source = (
            worktree.commit(CommitId(first_commit(repository))) if "source" in command else None
        )
        restore(worktree, [b"a"], source=source, options=DOWNLOADS)
    after = files(root)
    assert after["a"] == ("1" if "source" in command else "theirs")
    changes = items(reopen(repository, root))
    for _ in range(2):
        take_back(repository)
        assert files(root) == mine
        again = do_again(repository)
        assert again is not None
        assert again.downloaded + again.removed == (3 if command == "discard" else 1)
        assert files(root) == after
        assert items(reopen(repository, root)) == changes
    take_back(repository)
    assert files(root) == mine
    assert staged_records(repository) == staged


def staged_records(repository: Repository) -> int:
    with repository.lake.kv.read() as txn:
        return sum(1 for _ in txn.scan_keys(Table.STAGING))


def test_redo_overwrites_nothing_that_has_changed_since_undo(
    repository: Repository, root: Path
) -> None:
    write(root, {"a": "mine", "b": "mine", "new": "n", "d/c": "mine"})
    go_to(repository, root, "main", OwnChanges.DISCARD)
    take_back(repository)
    write(root, {"a": "since", "new": "since", "d/c": "3"})
    again = do_again(repository)
    assert again is not None
    assert again.kept == [b"a", b"new"]
    assert (again.downloaded, again.removed) == (1, 0)
    assert files(root) == {"a": "since", "b": "2", "d/c": "3", "d/x": "4", "new": "since"}
    take_back(repository)
    assert files(root)["b"] == "mine"
    assert files(root)["a"] == "since"


def test_redo_writes_no_file_where_the_directory_is_at_another_commit(
    repository: Repository, root: Path
) -> None:
    commit_contents(repository, {"b": "theirs"})
    pull(reopen(repository, root))
    write(root, {"a": "mine"})
    go_to(repository, root, "main", OwnChanges.DISCARD)
    take_back(repository)
    go_to(repository, root, "main~1")
    assert do_again(repository) is None
    assert files(root)["a"] == "mine"


def test_a_checkout_carries_changes_over_and_refuses_conflicts(
    repository: Repository, root: Path
) -> None:
    write(root, {"a": "mine"})
    commit_contents(repository, {"b": "second"})
    pull(reopen(repository, root))
    go_to(repository, root, "main~1")
    assert files(root) == {"a": "mine", "b": "2", "d/c": "3", "d/x": "4"}
    link = reopen(repository, root).link
    assert link.ref == link.at_head
    with pytest.raises(Refused, match="not a branch"):
        commit_worktree(reopen(repository, root))
    write(root, {"b": "mine"})
    with pytest.raises(WorktreeConflict, match="a changed file of") as error:
        go_to(repository, root, "main")
    assert list(error.value.paths) == [b"b"]
    assert files(root)["b"] == "mine"
    go_to(repository, root, "main", OwnChanges.FORCE)
    assert files(root) == {"a": "mine", "b": "second", "d/c": "3", "d/x": "4"}


def test_files_and_directories_take_each_others_place(repository: Repository, root: Path) -> None:
    commit_contents(repository, {"a": None, "a/b/c": "deep", "d/c": None, "d/x": None, "d": "file"})
    pull(reopen(repository, root))
    assert files(root) == {"a/b/c": "deep", "b": "2", "d": "file"}
    go_to(repository, root, "main~1")
    assert files(root) == {"a": "1", "b": "2", "d/c": "3", "d/x": "4"}


HOSTILE = [
    "../evil",
    "/evil",
    "x/../../evil",
    "x//y",
    ".lakefs_ref.yaml",
    "x/.lakefs_ref.yaml",
    ".lakecli-incoming/x",
    "nul\0byte",
    "directory/",
    "n" * 256,
    ".",
]


def test_hostile_paths_stay_on_the_branch_and_out_of_the_directory(
    repository: Repository, root: Path
) -> None:
    commit_contents(repository, {**dict.fromkeys(HOSTILE, "evil"), "good": "g"})
    brought = pull(reopen(repository, root))
    assert (brought.failures, brought.conflicts) == ([], [])
    assert files(root) == {"a": "1", "b": "2", "d/c": "3", "d/x": "4", "good": "g"}
    assert not (root.parent / "evil").exists()
    write(root, {"a": "mine"})
    commit_worktree(reopen(repository, root))
    from tests.support.lakes import read

    assert {os.fsdecode(path) for path in read(repository, "main")} >= set(HOSTILE)


def test_nothing_is_written_through_a_link(repository: Repository, root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (root / "l").symlink_to(outside)
    commit_contents(repository, {"l/x": "evil", "ok": "o"})
    brought = pull(reopen(repository, root))
    assert (brought.conflicts, brought.impossible) == ([b"l/x"], [])
    assert list(outside.iterdir()) == []
    # What is left out is not taken for deleted, and comes when nothing is in its way.
    (root / "l").unlink()
    assert items(reopen(repository, root))["l/x"].there is ChangeType.ADDED
    pull(reopen(repository, root))
    assert files(root)["l/x"] == "evil"


def test_paths_that_exclude_each_other_are_left_out(repository: Repository, root: Path) -> None:
    commit_contents(repository, {"p": "file", "p/q": "below"})
    brought = pull(reopen(repository, root))
    assert len(brought.impossible) == 1
    assert items(reopen(repository, root)) == {}


def test_names_that_no_file_can_have_are_reported(repository: Repository, root: Path) -> None:
    commit_contents(repository, {"s/": "data", "s/x": "1", "empty/": "", "a//b": "2"})
    brought = pull(reopen(repository, root))
    assert [path for path, _ in brought.impossible] == [b"a//b", b"s/"]
    assert reopen(repository, root).link.left_out == ()
    assert items(reopen(repository, root)) == {}
    clone(repository, root.parent / "s", "lakefs://demo/main/s/")
    assert files(root.parent / "s") == {"x": "1"}


def test_a_damaged_object_stops_the_state_and_the_next_pull_goes_on(
    repository: Repository, root: Path
) -> None:
    entry = entry_of(b"whole")
    stage_entries(repository, "main", {b"damaged": entry})
    repository.store.put(entry.physical_address, b"wrong", ANY)
    commit_contents(repository, {"b": "theirs"})
    base = reopen(repository, root).link.at_head
    brought = pull(reopen(repository, root))
    assert [path for path, _ in brought.failures] == [b"damaged"]
    link = reopen(repository, root).link
    assert (link.at_head, link.active) == (base, "pull")
    assert files(root)["b"] == "theirs"
    assert set(items(reopen(repository, root))) == {"b", "damaged"}
    repository.store.put(entry.physical_address, b"whole", ANY)
    assert pull(reopen(repository, root)).failures == []
    assert files(root)["damaged"] == "whole"
    assert items(reopen(repository, root)) == {}


def test_an_unreadable_entry_is_a_failure(repository: Repository, root: Path) -> None:
    from lakecli.repository.commit import commit
    from lakecli.repository.staged.stager import Stager
    from lakecli.staging.area import ClaimedValue
    from tests.support.lakes import Numbered

    del Numbered
    whole = entry_of(b"x")
    from lakecli.committed.values import encode_entry

    value = encode_entry(whole)
    Stager(repository, "main").write([(b"bad", ClaimedValue(value[:-3]))], kind="test")
    try:
        commit(repository, "main", message="bad", committer="x")
    except IntegrityError:
        return  # refused before it can reach a directory
    assert [path for path, _ in pull(reopen(repository, root)).failures] == [b"bad"]


def test_a_file_that_appears_meanwhile_is_kept(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_contents(repository, {"late": "theirs", "b": "theirs"})
    from lakecli.worktree import fetching

    fetch_all = fetching.Fetcher.fetch_all

    def edited_meanwhile(self: Any, *args: Any) -> Any:
        write(root, {"late": "mine", "b": "mine"})
        return fetch_all(self, *args)

    monkeypatch.setattr(fetching.Fetcher, "fetch_all", edited_meanwhile)
    assert pull(reopen(repository, root)).conflicts == [b"b", b"late"]
    assert files(root)["late"] == files(root)["b"] == "mine"
    # They are compared with what others have committed from now on.
    late = reopen(repository, root).index.find(b"late")
    assert late == TrackedFile(FileState(0, 6), blake3_of(b"theirs"))
    write(root, {"b": "2"})
    found = {path: item.here for path, item in items(reopen(repository, root)).items()}
    assert found == {"b": ChangeType.CHANGED, "late": ChangeType.CHANGED}


def test_a_second_command_in_one_directory_is_refused(repository: Repository, root: Path) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with reopen(repository, root).locked():
            entered.set()
            leave.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert entered.wait(30)
        with pytest.raises(Busy):
            pull(reopen(repository, root))
        assert items(reopen(repository, root)) == {}  # reading needs no lock
    finally:
        leave.set()
        holder.join()
    pull(reopen(repository, root))


def test_a_sparse_directory_has_only_what_was_chosen(
    repository: Repository, tmp_path: Path
) -> None:
    commit_contents(
        repository,
        {"e/dt=2026-10-31/x": "o", "e/dt=2026-11-01/x": "n", "e/dt=2026-11-02/y": "m", "r": "r"},
    )
    root = tmp_path / "sparse"
    clone(repository, root, "lakefs://demo/main/e/", include=["dt=2026-11-*/**"])
    assert files(root) == {"dt=2026-11-01/x": "n", "dt=2026-11-02/y": "m"}
    assert items(reopen(repository, root)) == {}
    commit_contents(repository, {"e/dt=2026-10-31/x": "changed", "e/dt=2026-11-03/z": "z"})
    assert pull(reopen(repository, root)).downloaded == 1
    write(root, {"dt=2026-11-01/x": None, "dt=2026-12-01/x": "outside", "dt=2026-11-01/w": "w"})
    commit_worktree(reopen(repository, root))
    from tests.support.lakes import read

    assert {os.fsdecode(path) for path in read(repository, "main")} == {
        "e/dt=2026-10-31/x",
        "e/dt=2026-11-01/w",
        "e/dt=2026-11-02/y",
        "e/dt=2026-11-03/z",
        "r",
    }


def test_a_directory_is_linked_as_it_is(repository: Repository, tmp_path: Path) -> None:
    commit_contents(repository, {"p/a": "1", "p/b": "2"})
    root = tmp_path / "own"
    write(root, {"a": "1", "c": "3"})
    create.init(repository, parse_path("lakefs://demo/main/p"), root)
    assert files(root) == {"a": "1", "c": "3"}
    assert set(items(reopen(repository, root))) == {"b", "c"}
    with pytest.raises(Refused, match="linked already"):
        create.init(repository, parse_path("lakefs://demo/main/p"), root)
    create.init(repository, parse_path("lakefs://demo/main/p"), root, force=True)


def test_places_that_cannot_be_working_directories(
    repository: Repository, root: Path, tmp_path: Path
) -> None:
    uri = parse_path("lakefs://demo/main/", allow_empty=True)
    with pytest.raises(Refused, match="linked itself"):
        create.init(repository, uri, root / "d")
    with pytest.raises(Refused, match="its own data"):
        create.init(repository, uri, tmp_path)
    with pytest.raises(Refused, match="its own data"):
        create.clone(repository, uri, tmp_path / "namespace", options=DOWNLOADS)
    write(tmp_path / "full", {"x": "y"})
    with pytest.raises(Refused, match="not empty"):
        create.clone(repository, uri, tmp_path / "full", options=DOWNLOADS)
    with pytest.raises(Exception, match="is an object"):
        create.init(repository, parse_path("lakefs://demo/main/a"), tmp_path / "o")


def test_hard_links_are_read_only_objects(
    repository: Repository, root: Path, tmp_path: Path
) -> None:
    write(root, {"run.sh": "#!/bin/sh\n", "a": "again"})
    (root / "run.sh").chmod(0o755)
    commit_worktree(reopen(repository, root))
    linked = tmp_path / "linked"
    clone(repository, linked, linking=LinkMode.HARDLINK)
    assert files(linked) == files(root)
    assert (linked / "a").stat().st_nlink > 1
    assert not (linked / "a").stat().st_mode & 0o222
    assert (linked / "run.sh").stat().st_nlink == 1
    assert os.access(linked / "run.sh", os.X_OK)
    assert items(reopen(repository, linked)) == {}
    # A new file takes the place of the link: the object stays as it is.
    (linked / "a").unlink()
    write(linked, {"a": "mine"})
    commit_worktree(reopen(repository, linked))
    assert pull(reopen(repository, root)).downloaded == 1
    assert files(root)["a"] == "mine"
    go_to(repository, root, "main~1")
    assert files(root)["a"] == "again"


def test_what_cannot_be_linked_is_copied_or_refused(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = "x" * (SMALL + 1)
    commit_contents(repository, {"large": large, "small": "s"})
    monkeypatch.setattr("lakecli.worktree.linked_files.reflink", lambda *_: False)
    clone(repository, tmp_path / "auto")
    assert files(tmp_path / "auto") == {"large": large, "small": "s"}
    uri = parse_path("lakefs://demo/main/", allow_empty=True)
    refused = create.clone(
        repository, uri, tmp_path / "no", options=DOWNLOADS, linking=LinkMode.REFLINK
    )
    assert len(refused.failures) == 2
    assert "no reflinks" in refused.failures[0][1]

    def share(source: Path, name: bytes, directory: int) -> bool:
        with open(
            name, "wb", opener=lambda path, flags: os.open(path, flags, dir_fd=directory)
        ) as to:
            to.write(source.read_bytes())
        return True

    monkeypatch.setattr("lakecli.worktree.linked_files.reflink", share)
    clone(repository, tmp_path / "shared", linking=LinkMode.REFLINK)
    assert files(tmp_path / "shared") == {"large": large, "small": "s"}
    assert items(reopen(repository, tmp_path / "shared")) == {}


def test_a_damaged_object_is_not_linked(repository: Repository, tmp_path: Path) -> None:
    commit_contents(repository, {"x": "whole"})
    repository.store.put(entry_of(b"whole").physical_address, b"wrong", ANY)
    uri = parse_path("lakefs://demo/main/", allow_empty=True)
    brought = create.clone(
        repository, uri, tmp_path / "wd", options=DOWNLOADS, linking=LinkMode.HARDLINK
    )
    assert [path for path, _ in brought.failures] == [b"x"]
    assert files(tmp_path / "wd") == {}  # nor is it among the incoming files


def test_files_get_their_committed_contents(repository: Repository, root: Path) -> None:
    write(root, {"a": "mine", "d/c": None, "d/new": "n", "b": "mine"})
    commit_contents(repository, {"a": "theirs"})
    assert pull(reopen(repository, root)).conflicts == [b"a"]
    for path in (b"a", b"d"):
        restore(reopen(repository, root), [path], source=None, options=DOWNLOADS)
    assert files(root) == {"a": "theirs", "b": "mine", "d/c": "3", "d/new": "n", "d/x": "4"}
    assert set(items(reopen(repository, root))) == {"b", "d/new"}
    assert reopen(repository, root).link.unresolved == ()
    old = reopen(repository, root).commit(CommitId(first_commit(repository)))
    restore(reopen(repository, root), [b"a"], source=old, options=DOWNLOADS)
    assert files(root)["a"] == "1"
    assert set(items(reopen(repository, root))) == {"a", "b", "d/new"}
    with pytest.raises(NotFound):
        restore(reopen(repository, root), [b"nothing"], source=None, options=DOWNLOADS)
    unchanged = restore(reopen(repository, root), [b"d/x"], source=None, options=DOWNLOADS)
    assert (unchanged.downloaded, unchanged.commit) == (0, reopen(repository, root).head())
    undone = undo(repository)
    assert undone.operation.kind == "restore"
    restore_kept(repository, undone.operation, DOWNLOADS)
    assert files(root)["a"] == "1"


def first_commit(repository: Repository) -> str:
    with repository.lake.kv.read() as txn:
        return commit_at(repository, txn, "main~1").id


def test_the_executable_bit_comes_back(repository: Repository, root: Path, tmp_path: Path) -> None:
    write(root, {"run.sh": "#!/bin/sh\n"})
    (root / "run.sh").chmod(0o755)
    commit_worktree(reopen(repository, root))
    clone(repository, tmp_path / "other")
    assert os.access(tmp_path / "other/run.sh", os.X_OK)
    assert not os.access(tmp_path / "other/a", os.X_OK)


def test_an_undo_is_repeated_when_the_store_answers_again(
    repository: Repository, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, {"a": "mine", "b": "mine too"})
    go_to(repository, root, "main", OwnChanges.DISCARD)
    operation = undo(repository).operation
    get = DirectoryStore.get

    def refuse(store: DirectoryStore, key: str, **options: Any) -> bytes:
        if key == entry_of(b"mine too").physical_address:
            raise Unreachable("no answer")
        return get(store, key, **options)

    with monkeypatch.context() as patched:
        patched.setattr(native, "core", lambda: None)
        patched.setattr(DirectoryStore, "get", refuse)
        written = restore_kept(repository, operation, DOWNLOADS)
    assert written is not None
    assert (written.failures, written.can_repeat) == ([(b"b", "no answer")], True)
    assert files(root)["a"] == "mine"
    write(root, {"a": "since"})  # it was given back
    assert is_unfinished(repository, operation)
    written = restore_kept(repository, operation, DOWNLOADS)
    assert written is not None
    assert (written.failures, written.can_repeat, written.downloaded) == ([], False, 1)
    assert written.kept == []
    assert files(root) == {"a": "since", "b": "mine too", "d/c": "3", "d/x": "4"}
    assert not is_unfinished(repository, operation)
    assert not (root / ".lakecli-incoming").exists()


def test_an_undo_tells_what_is_damaged_and_is_complete(repository: Repository, root: Path) -> None:
    write(root, {"a": "mine", "b": "mine too"})
    go_to(repository, root, "main", OwnChanges.DISCARD)
    repository.store.put(entry_of(b"mine").physical_address, b"else", ANY)
    operation = undo(repository).operation
    written = restore_kept(repository, operation, DOWNLOADS)
    assert written is not None
    assert [path for path, _ in written.failures] == [b"a"]
    assert files(root)["a"] == "1"
    assert not is_unfinished(repository, operation)


@pytest.mark.parametrize("command", ["restore", "restore --source", "discard"])
def test_what_was_a_conflict_is_one_again_after_undo(
    repository: Repository, root: Path, command: str
) -> None:
    write(root, {"a": "mine", "b": "mine"})
    commit_contents(repository, {"a": "theirs"})
    assert pull(reopen(repository, root)).conflicts == [b"a"]

    def unresolved() -> tuple[bytes, ...]:
        return reopen(repository, root).link.unresolved

    if command == "discard":
        go_to(repository, root, "main", OwnChanges.DISCARD)
    else:
        worktree = reopen(repository, root)
        first = worktree.commit(CommitId(first_commit(repository)))
        source = first if "source" in command else None
        restore(worktree, [b"a", b"b"], source=source, options=DOWNLOADS)
    resolved = (b"a",) if "source" in command else ()
    assert unresolved() == resolved
    for _ in range(2):
        take_back(repository)
        assert files(root)["a"] == "mine"
        assert unresolved() == (b"a",)
        with pytest.raises(WorktreeConflict, match="unresolved"):
            commit_worktree(reopen(repository, root))
        assert do_again(repository) is not None
        assert unresolved() == resolved


@pytest.mark.parametrize("times", ["settled", "unsettled"])
def test_a_file_that_has_the_new_bytes_already_counts_only_once_it_is_settled(
    repository: Repository, root: Path, request: pytest.FixtureRequest, times: str
) -> None:
    request.getfixturevalue(times)
    commit_contents(repository, {"a": "theirs"})
    write(root, {"a": "theirs"})
    assert pull(reopen(repository, root)).downloaded == 0
    tracked = reopen(repository, root).index.find(b"a")
    assert tracked is not None
    here = state_of((root / "a").stat())
    assert tracked.state == (here if times == "settled" else FileState(0, here.size))


def test_a_file_that_is_replaced_by_one_of_its_size_meanwhile_stays(
    repository: Repository, root: Path
) -> None:
    write(root, {"a": "mine"})
    runtime = repository.lake.runtime

    def on_step(name: str) -> None:
        if name == "publish":
            write(root, {"a": "late"})
            os.utime(root / "a", ns=(1, 1))  # the two may be written in one tick of the clock

    repository.lake.runtime = runtime._replace(on_step=on_step)
    brought = go_to(repository, root, "main", OwnChanges.DISCARD)
    assert (brought.conflicts, brought.downloaded) == ([b"a"], 0)
    assert files(root)["a"] == "late"


@pytest.mark.parametrize("is_committed", [False, True])
def test_the_executable_bit_survives_restore_and_undo(
    repository: Repository, root: Path, *, is_committed: bool
) -> None:
    if is_committed:
        (root / "a").chmod(0o755)
        write(root, {"a": "committed"})
        commit_worktree(reopen(repository, root))
    write(root, {"a": "mine", "b": "mine"})
    (root / "a").chmod(0o755)
    restore(reopen(repository, root), [b"a", b"b"], source=None, options=DOWNLOADS)
    modes = [(root / name).stat().st_mode & 0o111 for name in ("a", "b")]
    assert (files(root)["a"], [bool(mode) for mode in modes]) == (
        "committed" if is_committed else "1",
        [True, False],
    )
    (root / "a").chmod(0o644)  # the bit comes from what was kept
    take_back_checked(repository)
    assert files(root)["a"] == "mine"
    assert [bool((root / name).stat().st_mode & 0o111) for name in ("a", "b")] == [True, False]


def test_an_undo_with_a_damaged_entry_removes_nothing(repository: Repository, root: Path) -> None:
    write(root, {"new/x": "mine", "new/y": "mine too"})
    commit_contents(repository, {"new": "theirs"})
    pull(reopen(repository, root), OwnChanges.FORCE)
    operation = undo(repository).operation
    (staged,) = operation.staging
    with repository.lake.kv.write() as txn:
        area.put_many(txn, StagingToken(staged.token), [(b"new/y", area.ClaimedValue(b"damaged"))])
    before = files(root)
    assert before["new"] == "theirs"
    with pytest.raises(IntegrityError):
        restore_kept(repository, operation, DOWNLOADS)
    assert files(root) == before
