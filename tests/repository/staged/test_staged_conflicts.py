"""Committing changes that were staged before commits of another clone came in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import MergeStrategy
from lakecli.refs.ref_store import RefStore
from lakecli.repository import branch
from lakecli.repository.commit import StagedConflict, commit
from lakecli.repository.commit_attempts import seal
from lakecli.repository.merge import MergeOptions, merge
from tests.support.lakes import checksums, read, stage
from tests.support.stores import get_branch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecli.repository.contract import Repository


def others_push(repository: Repository, contents: Mapping[bytes, bytes | None]) -> None:
    """Move the head of main, as following the bucket does, whatever is staged on it."""
    branch.create(repository, "theirs", source="main")
    stage(repository, "theirs", contents)
    made = commit(repository, "theirs", message="theirs", committer="they")
    with repository.lake.kv.write() as txn:
        refs = RefStore(txn, repository.key)
        refs.put_branch(get_branch(refs, "main")._replace(commit_id=made.id))
    branch.delete(repository, "theirs")


@pytest.fixture
def shared(repository: Repository) -> Repository:
    stage(repository, "main", {b"a": b"1", b"b": b"1", b"c": b"1"})
    commit(repository, "main", message="first", committer="me")
    return repository


def test_changes_of_different_paths_are_combined(shared: Repository) -> None:
    stage(shared, "main", {b"a": b"mine"})
    others_push(shared, {b"b": b"theirs"})
    commit(shared, "main", message="mine", committer="me")
    assert read(shared, "main@") == checksums({b"a": b"mine", b"b": b"theirs", b"c": b"1"})


def test_one_path_changed_on_both_sides_is_a_conflict(shared: Repository) -> None:
    stage(shared, "main", {b"a": b"mine", b"b": b"mine", b"c": None})
    others_push(shared, {b"b": b"theirs", b"c": b"theirs", b"d": b"new"})
    head = branch.show(shared, "main").commit_id
    with pytest.raises(StagedConflict, match="2 staged paths") as caught:
        commit(shared, "main", message="mine", committer="me")
    assert caught.value.paths == (b"b", b"c")
    assert branch.show(shared, "main").commit_id == head


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (MergeStrategy.SOURCE_WINS, {b"a": b"mine", b"b": b"mine"}),
        (MergeStrategy.DEST_WINS, {b"a": b"mine", b"b": b"theirs", b"c": b"theirs"}),
    ],
)
def test_a_strategy_decides_a_conflict(
    shared: Repository, strategy: MergeStrategy, expected: dict[bytes, bytes]
) -> None:
    stage(shared, "main", {b"a": b"mine", b"b": b"mine", b"c": None})
    others_push(shared, {b"b": b"theirs", b"c": b"theirs"})
    commit(shared, "main", message="mine", committer="me", strategy=strategy)
    assert read(shared, "main") == checksums(expected)


def test_staging_a_path_again_decides_a_conflict(shared: Repository) -> None:
    stage(shared, "main", {b"a": b"mine", b"b": b"mine"})
    others_push(shared, {b"b": b"theirs"})
    with pytest.raises(StagedConflict, match="conflict: a staged path was changed on main by"):
        commit(shared, "main", message="mine", committer="me")
    stage(shared, "main", {b"b": b"both"})
    commit(shared, "main", message="mine", committer="me")
    assert read(shared, "main@") == checksums({b"a": b"mine", b"b": b"both", b"c": b"1"})


def test_conflicts_of_several_areas_are_in_path_order(shared: Repository) -> None:
    """What is staged since, on top of the head, decides none of other paths."""
    paths = [b"%d" % number for number in range(8)]
    stage(shared, "main", dict.fromkeys(paths[::2], b"mine"))
    seal(shared, "main")
    stage(shared, "main", dict.fromkeys(paths[1::2], b"mine"))
    theirs = {path: b"theirs" + path for path in paths}
    others_push(shared, theirs)
    for _ in range(2):
        with pytest.raises(StagedConflict) as caught:
            commit(shared, "main", message="mine", committer="me")
        assert caught.value.paths == tuple(paths)
        stage(shared, "main", {b"later": b"mine"})
    strategy = MergeStrategy.DEST_WINS
    commit(shared, "main", message="mine", committer="me", strategy=strategy)
    kept = {b"a": b"1", b"b": b"1", b"c": b"1", b"later": b"mine"}
    assert read(shared, "main@") == checksums(theirs | kept)


def test_a_head_that_went_back_brings_no_conflict(shared: Repository) -> None:
    first = branch.show(shared, "main").commit_id
    stage(shared, "main", {b"a": b"2"})
    commit(shared, "main", message="second", committer="me")
    stage(shared, "main", {b"a": b"mine"})
    with shared.lake.kv.write() as txn:
        refs = RefStore(txn, shared.key)
        refs.put_branch(get_branch(refs, "main")._replace(commit_id=first))
    commit(shared, "main", message="mine", committer="me")
    assert read(shared, "main@") == checksums({b"a": b"mine", b"b": b"1", b"c": b"1"})


def test_the_same_change_on_both_sides_is_no_conflict(shared: Repository) -> None:
    stage(shared, "main", {b"a": b"mine", b"b": b"same", b"c": None})
    others_push(shared, {b"b": b"same", b"c": None})
    commit(shared, "main", message="mine", committer="me")
    assert read(shared, "main@") == checksums({b"a": b"mine", b"b": b"same"})


def test_a_change_committed_here_is_no_conflict(shared: Repository) -> None:
    branch.create(shared, "side", source="main")
    stage(shared, "side", {b"a": b"side"})
    commit(shared, "side", message="side", committer="me")
    merge(shared, "side", "main", MergeOptions("me"))  # into an area that was started before it
    stage(shared, "main", {b"a": b"after the merge"})
    commit(shared, "main", message="after", committer="me")
    stage(shared, "main", {b"a": b"and again"})
    commit(shared, "main", message="again", committer="me")
    assert read(shared, "main")[b"a"] == checksums({b"a": b"and again"})[b"a"]
