"""Undo of what had covered a staged record, after the branch has followed the bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.errors import ConflictError
from lakecli.repository import branch
from lakecli.repository.commit import commit
from lakecli.repository.push import PushOptions, push
from lakecli.repository.undo.undo import redo, undo
from tests.support.clones import Clones, auto
from tests.support.lakes import checksums, read, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.repository.core.lake import Repository

PATH, OTHER = b"path", b"other"
FIRST, MINE, THEIRS = b"first", b"mine", b"theirs"


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[tuple[Repository, Repository]]:
    """Return two clones that have the path as it was first committed."""
    with Clones.make(tmp_path, "ada", "eve") as made:
        ada, eve = made.repositories
        share(ada, FIRST)
        with auto(eve):
            pass
        yield ada, eve


@pytest.fixture
def eve(clones: tuple[Repository, Repository]) -> Repository:
    """Return a clone that has followed the bucket while an old change of a path was covered.

    The change was committed, and the commit undone; then the path was staged as it was committed
    before. Somebody else changed it in the bucket.
    """
    ada, eve = clones
    stage(eve, "main", {PATH: MINE})
    commit(eve, "main", message="mine", committer="eve")
    undo(eve)
    cover_with_head(eve)
    share(ada, THEIRS)
    with auto(eve):
        pass
    check(eve, THEIRS)
    return eve


def cover_with_head(repository: Repository) -> None:
    stage(repository, "main", {PATH: FIRST})


def unstage(repository: Repository) -> None:
    branch.reset_object(repository, "main", PATH)


def share(repository: Repository, contents: bytes) -> None:
    stage(repository, "main", {PATH: contents})
    commit(repository, "main", message="change", committer="ada")
    push(repository, "main", options=PushOptions(who="Ada <ada@example.com>"))


def check(repository: Repository, contents: bytes) -> None:
    assert read(repository, "main") == checksums({PATH: contents})


def check_conflict(repository: Repository) -> None:
    """Check that the change is staged, and that it does not overwrite the other one."""
    check(repository, MINE)
    with pytest.raises(ConflictError):
        commit(repository, "main", message="mine", committer="eve")
    check(repository, MINE)


def test_the_covered_change_is_staged_again(eve: Repository) -> None:
    undo(eve)
    check_conflict(eve)


@pytest.mark.parametrize("cover", [cover_with_head, unstage])
def test_a_change_that_is_staged_again_has_not_seen_what_the_branch_followed_to(
    clones: tuple[Repository, Repository], cover: Callable[[Repository], None]
) -> None:
    ada, eve = clones
    stage(eve, "main", {PATH: MINE})
    cover(eve)
    share(ada, b"between")
    with auto(eve):
        pass
    share(ada, THEIRS)
    with auto(eve):
        pass
    undo(eve)
    check_conflict(eve)
    redo(eve)
    check(eve, THEIRS)
    undo(eve)
    check_conflict(eve)


def test_redo_and_more_undo_leave_the_branch_as_it_followed(eve: Repository) -> None:
    for _ in range(2):
        undo(eve)
        redo(eve)
        check(eve, THEIRS)
    undo(eve)
    undo(eve)  # the change itself
    check(eve, THEIRS)
    redo(eve)
    check(eve, MINE)


def test_operations_undone_since_make_no_difference(eve: Repository) -> None:
    stage(eve, "main", {PATH: b"later", OTHER: b"other"})
    undo(eve)
    undo(eve)
    check(eve, MINE)


def test_other_paths_keep_what_was_unstaged(eve: Repository) -> None:
    stage(eve, "main", {OTHER: b"other"})
    undo(eve)
    check(eve, THEIRS)
