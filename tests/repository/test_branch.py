from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import ChangeType
from lakecli.errors import AlreadyExists, NotFound, NothingToDo, Refused, UsageError
from lakecli.repository import branch, tag
from lakecli.repository.commit import commit
from lakecli.repository.diff import diff_refs, diff_uncommitted
from lakecli.repository.log import LogOptions, log
from tests.support.lakes import checksums, make_repository, open_lake, read, stage

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.contract import Repository


def put(repository: Repository, name: str, contents: dict[bytes, bytes | None]) -> str:
    stage(repository, name, contents)
    return commit(repository, name, message="m", committer="me").id


def uncommitted(repository: Repository, name: str) -> list[tuple[ChangeType, bytes]]:
    with diff_uncommitted(repository, name) as differences:
        return [(each.type, each.path) for each in differences]


def test_a_new_branch_starts_at_a_commit_without_staged_changes(repository: Repository) -> None:
    head = put(repository, "main", {b"a": b"1"})
    stage(repository, "main", {b"b": b"2"})
    assert branch.create(repository, "side", source="main").commit_id == head
    assert read(repository, "side") == checksums({b"a": b"1"})
    assert [each.name for each in branch.iter_branches(repository)] == ["main", "side"]
    assert [each.name for each in branch.iter_branches(repository, after="main")] == ["side"]
    assert [each.name for each in branch.iter_branches(repository, prefix="ma")] == ["main"]


def test_an_existing_name_is_refused(repository: Repository) -> None:
    branch.create(repository, "one", source="main")
    tag.create(repository, "two", "main")
    for name, taken in (("one", "branch one exists"), ("two", "a tag has the name two")):
        with pytest.raises(AlreadyExists, match=taken):
            branch.create(repository, name, source="main")
    with pytest.raises(AlreadyExists, match="branch one exists"):
        tag.create(repository, "one", "main", force=True)
    with pytest.raises(AlreadyExists, match="tag two exists already, at"):
        tag.create(repository, "two", "main")
    with pytest.raises(UsageError):
        branch.create(repository, "no/slash", source="main")
    with pytest.raises(NotFound):
        branch.create(repository, "three", source="nowhere")


def test_a_tag_moves_only_by_force(repository: Repository) -> None:
    first = tag.create(repository, "v1", "main")
    head = put(repository, "main", {b"a": b"1"})
    assert tag.show(repository, "v1") == first
    assert tag.create(repository, "v1", "main", force=True).commit_id == head
    tag.delete(repository, "v1")
    with pytest.raises(NotFound):
        tag.show(repository, "v1")
    assert list(tag.iter_tags(repository)) == []


def test_the_default_branch_cannot_be_deleted(repository: Repository) -> None:
    branch.create(repository, "side", source="main")
    branch.delete(repository, "side")
    with pytest.raises(NotFound):
        branch.show(repository, "side")
    with pytest.raises(Refused, match="default branch main"):
        branch.delete(repository, "main")


def test_uncommitted_changes_are_the_differences_from_the_head(repository: Repository) -> None:
    put(repository, "main", {b"changed": b"1", b"gone": b"1", b"same": b"1"})
    stage(
        repository,
        "main",
        {b"changed": b"2", b"gone": None, b"never": None, b"new": b"1", b"same": b"1"},
    )
    assert uncommitted(repository, "main") == [
        (ChangeType.CHANGED, b"changed"),
        (ChangeType.REMOVED, b"gone"),
        (ChangeType.ADDED, b"new"),
    ]
    with diff_uncommitted(repository, "main", prefix=b"ne") as differences:
        assert [each.path for each in differences] == [b"new"]


def test_reset_discards_everything_or_a_prefix_or_one_object(repository: Repository) -> None:
    put(repository, "main", {b"a/1": b"1"})
    stage(repository, "main", {b"a/1": b"2", b"a/2": b"2", b"b": b"2"})
    assert branch.reset_object(repository, "main", b"a/1") == 1
    assert branch.reset_object(repository, "main", b"a/1") == 0
    assert uncommitted(repository, "main") == [(ChangeType.ADDED, b"a/2"), (ChangeType.ADDED, b"b")]
    assert branch.reset_prefix(repository, "main", b"a/") == 1
    assert uncommitted(repository, "main") == [(ChangeType.ADDED, b"b")]
    branch.reset(repository, "main")
    assert uncommitted(repository, "main") == []


def test_reset_discards_changes_sealed_by_an_interrupted_commit(tmp_path: Path) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(step: str) -> None:
        if step == "move" and armed:
            raise Interrupted

    armed: list[bool] = []
    with open_lake(tmp_path, on_step=interrupt) as lake:
        repository = make_repository(lake, tmp_path)
        put(repository, "main", {b"a/1": b"1"})
        armed.append(True)
        stage(repository, "main", {b"a/1": b"2", b"a/2": b"2", b"b": b"2"})
        with pytest.raises(Interrupted):
            commit(repository, "main", message="m", committer="me")
        assert branch.show(repository, "main").sealed_tokens != ()

        assert branch.reset_prefix(repository, "main", b"a/") == 2
        assert read(repository, "main") == checksums({b"a/1": b"1", b"b": b"2"})
        branch.reset(repository, "main")
        assert uncommitted(repository, "main") == []
        armed.clear()
        with pytest.raises(NothingToDo):
            commit(repository, "main", message="m", committer="me")


def test_two_refs_are_compared_both_ways(repository: Repository) -> None:
    put(repository, "main", {b"a": b"1", b"b": b"1"})
    branch.create(repository, "side", source="main")
    put(repository, "side", {b"a": b"2"})
    put(repository, "main", {b"b": b"2"})
    stage(repository, "side", {b"a": b"1", b"b": None, b"c": b"3"})

    def between(left: str, right: str, *, two_way: bool) -> list[tuple[str, bytes]]:
        with diff_refs(repository, left, right, two_way=two_way) as differences:
            return [(str(each.type), each.path) for each in differences]

    assert between("main", "side", two_way=False) == [("changed", b"a")]
    assert between("main", "side", two_way=True) == [("changed", b"a"), ("changed", b"b")]
    assert between("main", "side$", two_way=True) == [("removed", b"b"), ("added", b"c")]
    assert between("side", "side$", two_way=True) == uncommitted(repository, "side")
    with pytest.raises(UsageError):
        between("side$", "main", two_way=True)
    with pytest.raises(UsageError):
        between("main", "side$", two_way=False)


def test_the_log_can_be_limited_to_paths(repository: Repository) -> None:
    first = put(repository, "main", {b"a/1": b"1", b"b": b"1"})
    second = put(repository, "main", {b"a/2": b"1"})
    third = put(repository, "main", {b"b": b"2"})

    def ids(**options: object) -> list[str]:
        with log(repository, "main", LogOptions(**options)) as commits:  # type: ignore[arg-type]
            return [each.id for each in commits]

    assert ids()[:3] == [third, second, first]
    assert ids(objects=[b"b"]) == [third, first]
    assert ids(prefixes=[b"a/"]) == [second, first]
    assert ids(objects=[b"a/"], prefixes=[]) == []
    assert ids(objects=[b"a/2"], prefixes=[b"b"]) == [third, second, first]
    assert ids(stop_at="main~1") == [third, second]
    assert ids(after="main~1")[:1] == [first]
