"""Removing, copying and moving objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.errors import NotFound, UsageError
from lakecli.kv import operations
from lakecli.repository import branch as branches
from lakecli.repository import rearrange as module
from lakecli.repository.commit import commit
from lakecli.repository.rearrange import copy, copy_tree, move, move_tree, remove, remove_tree
from tests.support.lakes import checksums, read, stage

if TYPE_CHECKING:
    from lakecli.repository.lake import Repository

TREE = {b"a": b"1", b"a/b": b"2", b"a/c/d": b"3", b"ab": b"4", b"z": b"5"}


@pytest.fixture
def filled(repository: Repository) -> Repository:
    """A branch ``main`` with half of `TREE` committed and half of it staged; ``side`` is empty."""
    branches.create(repository, "side", source="main")
    stage(repository, "main", {path: TREE[path] for path in (b"a", b"a/b", b"ab")})
    commit(repository, "main", message="first", committer="me")
    stage(repository, "main", {path: TREE[path] for path in (b"a/c/d", b"z")})
    return repository


def expect(repository: Repository, contents: dict[bytes, bytes], branch: str = "main") -> None:
    assert read(repository, branch) == checksums(contents)


def without(*paths: bytes) -> dict[bytes, bytes]:
    return {path: data for path, data in TREE.items() if path not in paths}


@pytest.mark.parametrize("path", [b"a", b"z"])
def test_remove(filled: Repository, path: bytes) -> None:
    remove(filled, "main", path)
    expect(filled, without(path))
    with pytest.raises(NotFound):
        remove(filled, "main", path)


@pytest.mark.parametrize(
    ("path", "gone"),
    [
        (b"a", {b"a", b"a/b", b"a/c/d"}),
        (b"a/", {b"a/b", b"a/c/d"}),
        (b"a/c", {b"a/c/d"}),
        (b"z", {b"z"}),
        (b"", set(TREE)),
    ],
)
def test_remove_a_tree(filled: Repository, path: bytes, gone: set[bytes]) -> None:
    assert remove_tree(filled, "main", path) == len(gone)
    expect(filled, without(*gone))
    with pytest.raises(NotFound):
        remove_tree(filled, "main", path)


@pytest.mark.parametrize("path", [b"b", b"a/x", b"a/b/"])
def test_nothing_to_remove(filled: Repository, path: bytes) -> None:
    with pytest.raises(NotFound, match="no object at"):
        remove_tree(filled, "main", path)
    expect(filled, TREE)


def test_copy(filled: Repository) -> None:
    copy(filled, source_ref="main", source=b"z", branch="side", path=b"new")
    copy(filled, source_ref="main@", source=b"a", branch="main", path=b"z")
    expect(filled, {b"new": b"5"}, "side")
    expect(filled, TREE | {b"z": b"1"})


def test_move(filled: Repository) -> None:
    move(filled, source_branch="main", source=b"z", branch="side", path=b"new")
    move(filled, source_branch="main", source=b"ab", branch="main", path=b"a")
    expect(filled, {b"new": b"5"}, "side")
    expect(filled, without(b"z", b"ab") | {b"a": b"4"})


@pytest.mark.parametrize("source", [b"a", b"a/"])
@pytest.mark.parametrize("target", [b"t", b"t/"])
def test_copy_a_tree(filled: Repository, source: bytes, target: bytes) -> None:
    place = {"source_ref": "main", "source": source, "branch": "main", "path": target}
    assert copy_tree(filled, **place) == 2  # type: ignore[arg-type]
    expect(filled, TREE | {b"t/b": b"2", b"t/c/d": b"3"})


def test_copy_a_tree_into_itself(filled: Repository) -> None:
    assert copy_tree(filled, source_ref="main", source=b"", branch="main", path=b"a") == 5
    expect(filled, TREE | {b"a/" + path: data for path, data in TREE.items()})


def test_move_a_tree(filled: Repository) -> None:
    assert move_tree(filled, source_branch="main", source=b"a", branch="main", path=b"t") == 2
    expect(filled, without(b"a/b", b"a/c/d") | {b"t/b": b"2", b"t/c/d": b"3"})
    assert move_tree(filled, source_branch="main", source=b"", branch="side", path=b"") == 5
    expect(filled, {})
    expect(filled, {b"a": b"1", b"ab": b"4", b"t/b": b"2", b"t/c/d": b"3", b"z": b"5"}, "side")


def test_in_batches(filled: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    assert move_tree(filled, source_branch="main", source=b"", branch="side", path=b"x") == 5
    assert copy_tree(filled, source_ref="side", source=b"x", branch="main", path=b"y") == 5
    assert remove_tree(filled, "side", b"x") == 5
    expect(filled, {}, "side")
    expect(filled, {b"y/" + path: data for path, data in TREE.items()})


def test_one_operation_each(filled: Repository) -> None:
    move_tree(filled, source_branch="main", source=b"a", branch="side", path=b"t")
    remove_tree(filled, "side", b"t")
    copy(filled, source_ref="main", source=b"z", branch="side", path=b"z")
    with filled.lake.kv.read() as txn:
        kinds = [each.kind for each in operations.iter_operations(txn, filled.key)]
    assert [kinds.count(kind) for kind in ("mv", "rm", "cp")] == [1, 1, 1]


def test_places_that_are_one(filled: Repository) -> None:
    same = {"source": b"a", "branch": "main", "path": b"a"}
    with pytest.raises(UsageError, match="same path"):
        copy(filled, source_ref="main", **same)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="same path"):
        move(filled, source_branch="main", **same)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="same path"):
        copy_tree(filled, source_ref="main", source=b"a/", branch="main", path=b"a")
    for source, path in ((b"a", b"a/c"), (b"a/c", b"a"), (b"", b"x"), (b"x", b"")):
        with pytest.raises(UsageError, match="inside the other"):
            move_tree(filled, source_branch="main", source=source, branch="main", path=path)
    expect(filled, TREE)


def test_paths_that_would_be_too_long(filled: Repository) -> None:
    for long in (b"x" * 1022, b"x" * 1024):
        with pytest.raises(UsageError, match="too long"):
            copy_tree(filled, source_ref="main", source=b"", branch="side", path=long)
        with pytest.raises(UsageError, match="too long"):
            move_tree(filled, source_branch="main", source=b"", branch="side", path=long)
    with pytest.raises(UsageError, match="too long"):
        copy(filled, source_ref="main", source=b"a", branch="side", path=b"x" * 1025)
    expect(filled, TREE)
    expect(filled, {}, "side")


def test_what_is_not_there(filled: Repository) -> None:
    with pytest.raises(NotFound):
        copy(filled, source_ref="main", source=b"nope", branch="main", path=b"x")
    with pytest.raises(NotFound):
        copy(filled, source_ref="main", source=b"a/c", branch="main", path=b"x")
    with pytest.raises(NotFound):
        copy_tree(filled, source_ref="main", source=b"nope", branch="main", path=b"x")
    with pytest.raises(NotFound):
        move_tree(filled, source_branch="main", source=b"nope", branch="main", path=b"x")
    for branch in ("nope", "main~1"):
        with pytest.raises(NotFound, match="no branch"):
            copy(filled, source_ref="main", source=b"a", branch=branch, path=b"x")
    with pytest.raises(NotFound, match="no branch 'main@'"):
        move(filled, source_branch="main@", source=b"a", branch="main", path=b"x")
    with pytest.raises(NotFound, match="no branch 'main@'"):
        move_tree(filled, source_branch="main@", source=b"a", branch="main", path=b"x")
    expect(filled, TREE)
