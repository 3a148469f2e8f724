"""Removing, copying and moving objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.uri import as_directory
from lakecli.errors import LostRace, NotFound, UsageError
from lakecli.kv import operations
from lakecli.kv import operations as log
from lakecli.repository import branch as branches
from lakecli.repository.commit import commit
from lakecli.repository.cp import cp, cp_tree
from lakecli.repository.mv import mv, mv_tree
from lakecli.repository.rm import rm, rm_paths, rm_trees
from lakecli.repository.staged import stager as module
from lakecli.repository.staged.stager import Stager
from lakecli.repository.transfer.plan import PathAction, PathStep
from lakecli.repository.undo.undo import undo
from tests.support.lakes import checksums, read, stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.repository.contract import Repository

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


def count_operations(repository: Repository) -> int:
    return len(kinds(repository))


def without(*paths: bytes) -> dict[bytes, bytes]:
    return {path: data for path, data in TREE.items() if path not in paths}


@pytest.mark.parametrize("path", [b"a", b"z"])
def test_remove(filled: Repository, path: bytes) -> None:
    assert rm(filled, "main", path)
    expect(filled, without(path))
    assert not rm(filled, "main", path)
    expect(filled, without(path))


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
    assert rm_trees(filled, "main", [path]) == len(gone)
    expect(filled, without(*gone))
    assert rm_trees(filled, "main", [path]) == 0


def test_a_path_below_another_one_is_removed_once_and_no_path_is_compared_with_all_others(
    filled: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    def counted(path: bytes) -> bytes:
        asked.append(path)
        return as_directory(path)

    monkeypatch.setattr("lakecli.repository.rm.as_directory", counted)
    paths = [b"a", b"a/", b"a/b", b"a/c/d", b"ab", *(b"%d" % number for number in range(20))]
    assert rm_trees(filled, "main", paths) == 4
    expect(filled, {b"z": TREE[b"z"]})
    assert len(asked) <= len(paths)


@pytest.mark.parametrize("path", [b"b", b"a/x", b"a/b/"])
def test_nothing_to_remove(filled: Repository, path: bytes) -> None:
    newest = count_operations(filled)
    assert rm_trees(filled, "main", [path]) == 0
    assert not rm(filled, "main", path)
    assert count_operations(filled) == newest
    expect(filled, TREE)
    with pytest.raises(NotFound, match="no branch"):
        rm(filled, "nope", path)
    with pytest.raises(NotFound, match="no branch"):
        rm_trees(filled, "nope", [path])


@pytest.mark.parametrize("remove", [rm_paths, rm_trees])
def test_a_dry_run_tells_what_a_removal_would_remove_and_removes_nothing(
    filled: Repository, remove: Callable[..., object]
) -> None:
    newest, steps = count_operations(filled), list[PathStep]()
    paths = [b"a", b"a/b", b"z", b"nothing"]
    before = read(filled, "main")
    remove(filled, "main", paths, listed=steps.append)
    assert count_operations(filled) == newest
    assert read(filled, "main") == before
    with pytest.raises(NotFound):
        remove(filled, "main", paths, must_exist=True, listed=steps.append)
    remove(filled, "main", paths)
    gone = sorted(before.keys() - read(filled, "main").keys())
    assert gone
    assert steps == [(PathAction.DELETED, path, len(TREE[path]), "") for path in gone]


def test_copy(filled: Repository) -> None:
    cp(filled, source_ref="main", source=b"z", branch="side", path=b"new")
    cp(filled, source_ref="main@", source=b"a", branch="main", path=b"z")
    expect(filled, {b"new": b"5"}, "side")
    expect(filled, TREE | {b"z": b"1"})


def test_move(filled: Repository) -> None:
    mv(filled, source_branch="main", source=b"z", branch="side", path=b"new")
    mv(filled, source_branch="main", source=b"ab", branch="main", path=b"a")
    expect(filled, {b"new": b"5"}, "side")
    expect(filled, without(b"z", b"ab") | {b"a": b"4"})


@pytest.mark.parametrize("source", [b"a", b"a/"])
@pytest.mark.parametrize("target", [b"t", b"t/"])
def test_copy_a_tree(filled: Repository, source: bytes, target: bytes) -> None:
    place = {"source_ref": "main", "source": source, "branch": "main", "path": target}
    assert cp_tree(filled, **place) == 2  # type: ignore[arg-type]
    expect(filled, TREE | {b"t/b": b"2", b"t/c/d": b"3"})


def test_a_directory_becomes_what_it_is_elsewhere(filled: Repository) -> None:
    stage(
        filled, "side", {b"a": b"0", b"a/b": b"1", b"a/more": b"1", b"a/x/more": b"2", b"ab": b"3"}
    )
    place = {"source_ref": "main", "source": b"a/", "branch": "side", "path": b"a"}
    assert cp_tree(filled, **place, delete=True) == 2  # type: ignore[arg-type]
    expect(filled, {b"a": b"0", b"a/b": b"2", b"a/c/d": b"3", b"ab": b"3"}, "side")
    undo(filled)
    assert b"a/x/more" in read(filled, "side"), "it is one operation"
    with pytest.raises(NotFound):
        cp_tree(filled, **place | {"source": b"none"}, delete=True)  # type: ignore[arg-type]
    assert b"a/x/more" in read(filled, "side")


def test_copy_a_tree_into_itself(filled: Repository) -> None:
    assert cp_tree(filled, source_ref="main", source=b"", branch="main", path=b"a") == 5
    expect(filled, TREE | {b"a/" + path: data for path, data in TREE.items()})


def test_move_a_tree(filled: Repository) -> None:
    assert mv_tree(filled, source_branch="main", source=b"a", branch="main", path=b"t") == 2
    expect(filled, without(b"a/b", b"a/c/d") | {b"t/b": b"2", b"t/c/d": b"3"})
    assert mv_tree(filled, source_branch="main", source=b"", branch="side", path=b"") == 5
    expect(filled, {})
    expect(filled, {b"a": b"1", b"ab": b"4", b"t/b": b"2", b"t/c/d": b"3", b"z": b"5"}, "side")


def test_in_batches(filled: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    assert mv_tree(filled, source_branch="main", source=b"", branch="side", path=b"x") == 5
    assert cp_tree(filled, source_ref="side", source=b"x", branch="main", path=b"y") == 5
    assert rm_trees(filled, "side", [b"x"]) == 5
    expect(filled, {}, "side")
    expect(filled, {b"y/" + path: data for path, data in TREE.items()})


def test_one_operation_each(filled: Repository) -> None:
    mv_tree(filled, source_branch="main", source=b"a", branch="side", path=b"t")
    rm_trees(filled, "side", [b"t"])
    cp(filled, source_ref="main", source=b"z", branch="side", path=b"z")
    with filled.lake.kv.read() as txn:
        kinds = [each.kind for each in operations.iter_operations(txn, filled.key)]
    assert [kinds.count(kind) for kind in ("mv", "rm", "cp")] == [1, 1, 1]


def test_places_that_are_one(filled: Repository) -> None:
    same = {"source": b"a", "branch": "main", "path": b"a"}
    with pytest.raises(UsageError, match="same path"):
        cp(filled, source_ref="main", **same)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="same path"):
        mv(filled, source_branch="main", **same)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="same path"):
        cp_tree(filled, source_ref="main", source=b"a/", branch="main", path=b"a")
    for source, path in ((b"a", b"a/c"), (b"a/c", b"a"), (b"", b"x"), (b"x", b"")):
        with pytest.raises(UsageError, match="inside the other"):
            mv_tree(filled, source_branch="main", source=source, branch="main", path=path)
    expect(filled, TREE)


def test_paths_that_would_be_too_long(filled: Repository) -> None:
    for long in (b"x" * 1022, b"x" * 1024):
        with pytest.raises(UsageError, match="too long"):
            cp_tree(filled, source_ref="main", source=b"", branch="side", path=long)
        with pytest.raises(UsageError, match="too long"):
            mv_tree(filled, source_branch="main", source=b"", branch="side", path=long)
    with pytest.raises(UsageError, match="too long"):
        cp(filled, source_ref="main", source=b"a", branch="side", path=b"x" * 1025)
    expect(filled, TREE)
    expect(filled, {}, "side")


def test_what_is_not_there(filled: Repository) -> None:
    with pytest.raises(NotFound):
        cp(filled, source_ref="main", source=b"nope", branch="main", path=b"x")
    with pytest.raises(NotFound):
        cp(filled, source_ref="main", source=b"a/c", branch="main", path=b"x")
    with pytest.raises(NotFound):
        cp_tree(filled, source_ref="main", source=b"nope", branch="main", path=b"x")
    with pytest.raises(NotFound):
        mv_tree(filled, source_branch="main", source=b"nope", branch="main", path=b"x")
    for branch in ("nope", "main~1"):
        with pytest.raises(NotFound, match="no branch"):
            cp(filled, source_ref="main", source=b"a", branch=branch, path=b"x")
    with pytest.raises(NotFound, match="no branch 'main@'"):
        mv(filled, source_branch="main@", source=b"a", branch="main", path=b"x")
    with pytest.raises(NotFound, match="no branch 'main@'"):
        mv_tree(filled, source_branch="main@", source=b"a", branch="main", path=b"x")
    expect(filled, TREE)


class Meddling:
    """Does something once, right before the first change of the local store that follows."""

    def __init__(self, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
        self._store = repository.lake.kv
        self._patch = monkeypatch

    def before_the_next_write(self, act: Callable[[], object]) -> None:
        write = self._store.write

        def meddle() -> Any:
            self._patch.undo()
            act()
            return write()

        self._patch.setattr(self._store, "write", meddle)


@pytest.fixture
def meddling(filled: Repository, monkeypatch: pytest.MonkeyPatch) -> Meddling:
    return Meddling(filled, monkeypatch)


def kinds(repository: Repository) -> list[str]:
    with repository.lake.kv.read() as txn:
        return [each.kind for each in log.iter_operations(txn, repository.key)]


@pytest.mark.parametrize("branch", ["main", "side"])
@pytest.mark.parametrize("source", [b"a", b"z"])
def test_what_is_uploaded_while_it_is_moved_is_moved(
    filled: Repository, meddling: Meddling, source: bytes, branch: str
) -> None:
    """Of what is committed (a) and of what is staged (z)."""
    meddling.before_the_next_write(lambda: stage(filled, "main", {source: b"new"}))
    mv(filled, source_branch="main", source=source, branch=branch, path=b"to")
    assert read(filled, branch)[b"to"] == blake3_of(b"new").hex()
    assert source not in read(filled, "main")
    assert kinds(filled)[:2] == ["mv", "test"]
    undo(filled)
    expect(filled, {**TREE, source: b"new"})


def test_what_is_committed_while_it_is_moved_is_moved(
    filled: Repository, meddling: Meddling
) -> None:
    """Nothing is staged, before or after: only the head says that there is another object."""

    def replace() -> None:
        stage(filled, "main", {b"a": b"new"})
        commit(filled, "main", message="m", committer="me")

    meddling.before_the_next_write(replace)
    mv(filled, source_branch="main", source=b"a", branch="side", path=b"to")
    assert read(filled, "side")[b"to"] == blake3_of(b"new").hex()
    expect(filled, without(b"a"))


def test_what_is_removed_while_it_is_moved_is_not_there(
    filled: Repository, meddling: Meddling
) -> None:
    meddling.before_the_next_write(lambda: stage(filled, "main", {b"z": None}))
    with pytest.raises(NotFound):
        mv(filled, source_branch="main", source=b"z", branch="side", path=b"to")
    expect(filled, without(b"z"))
    expect(filled, {}, "side")


def test_a_commit_while_something_is_moved_changes_nothing(
    filled: Repository, meddling: Meddling
) -> None:
    meddling.before_the_next_write(lambda: commit(filled, "main", message="m", committer="me"))
    assert mv_tree(filled, source_branch="main", source=b"a", branch="side", path=b"to") == 2
    expect(filled, without(b"a/b", b"a/c/d"))
    expect(filled, {b"to/b": b"2", b"to/c/d": b"3"}, "side")


@pytest.mark.parametrize("branch", ["main", "side"])
def test_what_comes_while_a_tree_is_moved_is_not_lost(
    filled: Repository, meddling: Meddling, branch: str
) -> None:
    """Replaced: moved as it is now; added: stays; removed: not moved."""
    meddling.before_the_next_write(
        lambda: stage(filled, "main", {b"a/b": b"new", b"a/added": b"5", b"a/c/d": None})
    )
    assert mv_tree(filled, source_branch="main", source=b"a", branch=branch, path=b"to") == 1
    assert read(filled, branch)[b"to/b"] == blake3_of(b"new").hex()
    assert b"to/c/d" not in read(filled, branch)
    left = read(filled, "main")
    assert left[b"a/added"] == blake3_of(b"5").hex()
    assert not {b"a/b", b"a/c/d"} & left.keys()


def test_what_comes_while_a_tree_is_removed_stays(filled: Repository, meddling: Meddling) -> None:
    meddling.before_the_next_write(
        lambda: stage(filled, "main", {b"a/b": b"new", b"a/added": b"5"})
    )
    assert rm_trees(filled, "main", [b"a"]) == 2 + 1 - 1  # a, in a batch of its own, and a/c/d
    expect(filled, {**without(b"a", b"a/c/d"), b"a/b": b"new", b"a/added": b"5"})


def test_no_changes_are_no_operation(filled: Repository) -> None:
    before = kinds(filled)
    Stager(filled, "main").write([], kind="test")
    assert kinds(filled) == before


def test_who_never_gets_to_move_says_so(
    filled: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecli.repository.staged.stager._state", lambda *_: object())
    with pytest.raises(LostRace):
        mv(filled, source_branch="main", source=b"z", branch="side", path=b"to")
    with pytest.raises(LostRace):
        mv_tree(filled, source_branch="main", source=b"a", branch="side", path=b"to")
    with pytest.raises(LostRace):
        rm_trees(filled, "main", [b"a"])
    expect(filled, TREE)
