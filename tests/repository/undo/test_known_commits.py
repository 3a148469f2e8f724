"""Undoing moves of a branch to commits that others have pushed: the bucket keeps their commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from lakecli.errors import Refused
from lakecli.repository import branch, repo
from lakecli.repository.push import PushLease, PushOptions, push
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.undo.log import iter_log
from lakecli.repository.undo.undo import redo, restore, undo
from tests.support.clones import Clones, auto, here, make_commit, there

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.base.model import CommitId
    from lakecli.repository.contract import Repository

ME: Final = PushOptions(who="Me <me@example.com>")


class World(NamedTuple):
    """Two clones, and two commits of ``main`` that Ada pushed; Eve has fetched them."""

    ada: Repository
    eve: Repository
    first: CommitId
    second: CommitId


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Clones.make(tmp_path, "ada", "eve") as made:
        ada, eve = made.repositories
        first = make_commit(ada, b"first").id
        second = make_commit(ada, b"second").id
        push(ada, "main", options=ME)
        fetch(eve)
        branch.reset(eve, "main", to=second)
        yield World(ada, eve, first, second)


def newest(repository: Repository) -> bytes:
    return next(iter_log(repository)).operation.id


def check_parted(world: World) -> None:
    """Check that Eve's branch is back, that of the bucket not, after two more commands too."""
    for _ in range(3):
        assert (here(world.eve), there(world.eve)) == (world.first, world.second)
        with auto(world.eve):
            pass


def go_back_and_forth(world: World) -> bytes:
    """Move Eve's branch back and forward again, without the bucket; return the first move."""
    branch.reset(world.eve, "main", to=world.first)
    operation = newest(world.eve)
    branch.reset(world.eve, "main", to=world.second)
    return operation


def test_restoring_what_was_never_sent_leaves_the_bucket(world: World) -> None:
    operation = go_back_and_forth(world)
    with auto(world.eve) as (shared, _):
        restore(shared, operation.hex(), remote=True, committer="eve")
    check_parted(world)


def test_a_deleted_repository_is_restored_as_it_was_before_a_reset(world: World) -> None:
    operation = go_back_and_forth(world)
    repo.delete(world.eve.lake, "demo")
    restore(world.eve, operation.hex(), committer="eve")
    assert (here(world.eve), there(world.eve)) == (world.first, world.second)


def test_undoing_what_was_never_sent_leaves_the_bucket(world: World) -> None:
    go_back_and_forth(world)
    with auto(world.eve) as (shared, _):
        undo(shared, remote=True, committer="eve")
    check_parted(world)


def test_undoing_an_undo_that_was_never_sent_leaves_the_bucket(world: World) -> None:
    branch.reset(world.eve, "main", to=world.first)
    operation = newest(world.eve)
    undo(world.eve)
    with auto(world.eve) as (shared, _):
        restore(shared, operation.hex(), remote=True, committer="eve")
    check_parted(world)


def test_what_was_never_sent_is_undone_without_remote(world: World) -> None:
    go_back_and_forth(world)
    undo(world.eve)
    assert (here(world.eve), there(world.eve)) == (world.first, world.second)


def test_a_move_forward_that_was_sent_goes_back_in_the_bucket(world: World) -> None:
    branch.reset(world.eve, "main", to=world.first)
    push(world.eve, "main", options=PushOptions(who="Eve <e@example.com>", lease=PushLease()))
    with auto(world.eve) as (shared, _):
        branch.reset(shared, "main", to=world.second)
    assert there(world.eve) == world.second
    with pytest.raises(Refused, match="this was pushed"):
        undo(world.eve)
    with auto(world.eve) as (shared, _):
        undo(shared, remote=True, committer="eve")
    assert here(world.eve) == there(world.eve) == world.first
    with auto(world.eve) as (shared, _):
        redo(shared)
    assert here(world.eve) == there(world.eve) == world.second


def test_a_move_that_was_sent_below_a_commit_goes_back_in_the_bucket(world: World) -> None:
    branch.reset(world.eve, "main", to=world.first)
    push(world.eve, "main", options=PushOptions(who="Eve <e@example.com>", lease=PushLease()))
    operation = newest(world.eve)
    branch.reset(world.eve, "main", to=world.second)
    with auto(world.eve) as (shared, _):
        make_commit(shared, b"third")
    assert there(world.eve) == here(world.eve) != world.second
    with auto(world.eve) as (shared, _):
        restore(shared, operation.hex(), remote=True, committer="eve")
    assert here(world.eve) == there(world.eve) == world.first


def test_a_branch_that_was_undone_here_follows_the_bucket_when_it_moves(world: World) -> None:
    go_back_and_forth(world)
    with auto(world.eve) as (shared, _):
        undo(shared, remote=True, committer="eve")
    third = make_commit(world.ada, b"third").id
    push(world.ada, "main", options=ME)
    with auto(world.eve):
        pass
    assert here(world.eve) == there(world.eve) == third
