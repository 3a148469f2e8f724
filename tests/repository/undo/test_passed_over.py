"""Undo of what had covered a staged record, after the branch has followed the bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.errors import ConflictError
from lakecli.repository import branch
from lakecli.repository.commit import commit
from lakecli.repository.push import PushOptions, push
from lakecli.repository.undo.undo import redo, undo
from tests.support.clones import Clones, auto, here
from tests.support.lakes import checksums, read, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository

PATH, OTHER = b"path", b"other"
ADA = PushOptions(who="Ada <ada@example.com>")
FIRST, MINE, THEIRS = b"first", b"mine", b"theirs"


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[tuple[Repository, Repository]]:
    """Return two clones that have the path as it was first committed."""
    with Clones.make(tmp_path, "ada", "eve") as made:
        ada, eve = made.repositories
        share(ada, FIRST)
        follow(eve)
        yield ada, eve


@pytest.fixture
def eve(clones: tuple[Repository, Repository]) -> Repository:
    """Return a clone that has followed the bucket while an old change of a path was covered.

    The change was committed, and the commit undone; then the path was staged as it was committed
    before. Somebody else changed it in the bucket.
    """
    ada, eve = clones
    cover_old_change(eve)
    share(ada, THEIRS)
    follow(eve)
    check(eve, THEIRS)
    return eve


def cover_old_change(repository: Repository, name: str = "main") -> None:
    stage(repository, name, {PATH: MINE})
    commit(repository, name, message="mine", committer="eve")
    undo(repository)
    cover_with_head(repository, name)


def cover_with_head(repository: Repository, name: str = "main") -> None:
    stage(repository, name, {PATH: FIRST})


def unstage(repository: Repository) -> None:
    branch.reset_object(repository, "main", PATH)


def share(repository: Repository, contents: bytes, name: str = "main") -> None:
    stage(repository, name, {PATH: contents})
    commit(repository, name, message="change", committer="ada")
    push(repository, name, options=ADA)


def follow(repository: Repository) -> None:
    with auto(repository):
        pass


def check(repository: Repository, contents: bytes, name: str = "main") -> None:
    assert read(repository, name) == checksums({PATH: contents})


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
    follow(eve)
    share(ada, THEIRS)
    follow(eve)
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


def test_operations_undone_before_and_since_make_no_difference(
    clones: tuple[Repository, Repository],
) -> None:
    ada, eve = clones
    cover_old_change(eve)
    stage(eve, "main", {PATH: b"later"})
    undo(eve)
    share(ada, THEIRS)
    follow(eve)
    redo(eve)
    check(eve, b"later")
    undo(eve)
    check(eve, THEIRS)
    undo(eve)
    check_conflict(eve)


def test_what_another_path_had_unstaged_stays_so(clones: tuple[Repository, Repository]) -> None:
    ada, eve = clones
    cover_old_change(eve)
    stage(eve, "main", {OTHER: b"other"})
    share(ada, THEIRS)
    follow(eve)
    undo(eve)
    check(eve, THEIRS)


def test_what_another_branch_had_unstaged_stays_so(clones: tuple[Repository, Repository]) -> None:
    ada, eve = clones
    make_dev(ada)
    follow(eve)
    cover_old_change(eve, "dev")
    stage(eve, "main", {PATH: b"other"})
    share(ada, THEIRS, "dev")
    follow(eve)
    undo(eve)
    check(eve, FIRST)
    check(eve, THEIRS, "dev")


def test_what_is_staged_again_has_seen_where_another_branch_followed_to(
    clones: tuple[Repository, Repository],
) -> None:
    ada, eve = clones
    make_dev(ada)
    share(ada, THEIRS)
    follow(eve)
    stage(eve, "main", {PATH: MINE})
    stage(eve, "main", {PATH: b"later"})
    branch.reset(ada, "dev", to=here(ada))
    push(ada, "dev", options=ADA)
    follow(eve)
    assert here(eve, "dev") == here(eve)
    undo(eve)
    check(eve, MINE)
    commit(eve, "main", message="mine", committer="eve")


def test_a_running_commit_is_outdated(eve: Repository) -> None:
    before = branch.show(eve, "main").sealed_tokens
    added = set()
    for act in (undo, redo):
        act(eve)
        *kept, beneath = branch.show(eve, "main").sealed_tokens
        assert tuple(kept) == before
        added.add(beneath)
    assert len(added - set(before)) == 2


def make_dev(repository: Repository) -> None:
    branch.create(repository, "dev", source="main")
    push(repository, "dev", options=ADA)
