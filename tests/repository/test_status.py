"""Branches compared with the bucket, and uncommitted changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.errors import NotFound
from lakecli.repository import branch
from lakecli.repository.commit import commit
from lakecli.repository.push import PushOptions, push, push_deletion
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.status import BranchStatus, Distance, last_fetched, only_in_bucket, status
from tests.support.clones import Clones, make_commit
from tests.support.lakes import stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository

ME = PushOptions(who="Me <me@example.com>")


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[tuple[Repository, ...]]:
    with Clones.make(tmp_path, "one", "two") as made:
        yield made.repositories


def of(repository: Repository, name: str = "main") -> BranchStatus:
    (found,) = status(repository, name)
    return found


def test_status_counts_commits_ahead_and_behind(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    first = make_commit(one, b"a")
    assert of(one).distance == Distance(None, 0, 0)
    push(one, "main", options=ME)
    assert of(one).distance == Distance(first.id, 0, 0)
    make_commit(one, b"b")
    assert of(one).distance == Distance(first.id, 1, 0)
    make_commit(two, b"c")
    make_commit(two, b"d")
    fetch(two)
    assert of(two).distance == Distance(first.id, 2, 1)


def test_status_shows_a_branch_deleted_in_the_bucket(clones: tuple[Repository, ...]) -> None:
    one = clones[0]
    branch.create(one, "side", source="main")
    push(one, "side", options=ME)
    push_deletion(one, "side", options=ME)
    assert of(one, "side").distance == Distance(None, 0, 0, is_deleted=True)


def test_status_shows_uncommitted_changes(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    stage(one, "main", {b"a": b"1", b"b": b"1", b"c": b"1"})
    commit(one, "main", message="three", committer="me")
    stage(one, "main", {b"a": b"2", b"b": None, b"c": b"1", b"d": b"1", b"e": b"1", b"x": None})
    found = of(one)
    assert (found.added, found.changed, found.removed) == (2, 1, 1)
    push(one, "main", options=ME)
    fetch(two)
    assert (of(two).added, of(two).changed, of(two).removed) == (0, 0, 0)  # they stay here


def test_status_shows_all_branches(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    for name in ("b", "a"):
        branch.create(one, name, source="main")
        push(one, name, options=ME)
    assert [each.name for each in status(one)] == ["a", "b", "main"]
    assert list(only_in_bucket(one)) == []
    at_first = last_fetched(two)
    fetch(two)
    later = last_fetched(two)
    assert at_first is not None  # the clone read everything
    assert later is not None
    assert later > at_first
    assert [name for name, _ in only_in_bucket(two)] == ["a", "b"]
    assert last_fetched(one) is None


def test_status_of_an_unknown_branch_is_not_found(clones: tuple[Repository, ...]) -> None:
    with pytest.raises(NotFound, match="no branch 'nope'"):
        of(clones[0], "nope")
