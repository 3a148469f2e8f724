"""Fields that only commits of lakeFS have: nanoseconds, an old order of parents, no generation."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.identity import commit_id
from lakecli.base.model import EMPTY_TREE, Commit, CommitId
from lakecli.refs.history import iter_log
from lakecli.refs.ref_store import RefStore
from lakecli.repository import branch
from lakecli.repository.clone import clone
from lakecli.repository.lakefs.dump import BadDump, read_dump
from lakecli.repository.lakefs.restore import restore_refs
from lakecli.repository.log import show_commit
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.push import PushOptions, push
from lakecli.repository.refs_dump import write_dump
from lakecli.repository.undo.undo import undo
from tests.committed.trees import new_trees
from tests.support.clones import machine
from tests.support.memory_store import MemoryStore
from tests.support.stores import get_branch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.repository.lakefs.dump import RefsManifest

NOW = datetime(2021, 3, 1, tzinfo=UTC)


def a_commit(
    message: str,
    *parents: Commit,
    generation: int | None = None,
    nanoseconds: int = 0,
    version: int = 1,
) -> Commit:
    """Return a commit of one second that all have; parents in the order in which they count."""
    ids = tuple(parent.id for parent in parents)
    recorded = ids if version else ids[::-1]
    id_ = commit_id(
        committer="c",
        message=message,
        metarange_id=EMPTY_TREE,
        created_at=int(NOW.timestamp()),
        metadata={},
        parents=recorded,
    )
    if generation is None:
        generation = 1 + max((parent.generation for parent in parents), default=0)
    return Commit(
        CommitId(id_), ids, EMPTY_TREE, message, "c", NOW, {}, generation, nanoseconds, version
    )


def dumped(repository: Repository, commits: Sequence[Commit]) -> RefsManifest:
    """Write a dump of commits whose last one is the branch main."""
    return write_dump(
        repository.trees,
        commits=sorted(commits),
        branches={"main": commits[-1].id},
        tags={},
        default_branch="main",
    )


def stored(repository: Repository) -> dict[CommitId, Commit]:
    with repository.lake.kv.read() as txn:
        return {each.id: each for each in RefStore(txn, repository.key).iter_commits()}


def log(repository: Repository) -> list[str]:
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        head = get_branch(refs, "main").commit_id
        return [each.message for each in iter_log(refs, head)]


def test_nanoseconds_order_the_log_of_one_second_wherever_the_commits_go(
    repository: Repository, tmp_path: Path
) -> None:
    root = a_commit("root")
    sides = [a_commit(f"side {number}", root, nanoseconds=number) for number in (5, 999_999_999, 7)]
    head = sides[0]
    for side in sides[1:]:
        head = a_commit("merge", head, side, nanoseconds=999_999_999)
    commits = [root, *sides, *_merges(sides, head)]
    restore_refs(repository, dumped(repository, commits))
    assert stored(repository).items() >= {each.id: each for each in commits}.items()
    expected = ["merge", "merge", "side 999999999", "side 7", "side 5", "root"]
    assert log(repository) == expected
    push(repository, "main", options=PushOptions("me"))
    with machine(tmp_path / "elsewhere", "two") as lake:
        other = clone(lake, repository.record.storage_namespace, "demo")
        assert log(other) == expected
        assert stored(other).items() >= {each.id: each for each in commits}.items()
    again = read_dump(repository.trees, dumped(repository, commits))
    assert dict(again.commits) == {each.id: each for each in commits}


def _merges(sides: Sequence[Commit], head: Commit) -> list[Commit]:
    """Return the merges that lead to a head, the first one first."""
    first = a_commit("merge", sides[0], sides[1], nanoseconds=999_999_999)
    assert head.parents[0] == first.id
    return [first, head]


def test_old_commits_keep_their_order_of_parents(repository: Repository, tmp_path: Path) -> None:
    root = a_commit("root", version=0)
    ours, theirs = (a_commit(name, root, version=0) for name in ("ours", "theirs"))
    head = a_commit("merge", ours, theirs, version=0)
    assert head.recorded_parents == (theirs.id, ours.id)
    assert head.compute_id() == head.id != a_commit("merge", ours, theirs).id
    commits = [root, ours, theirs, head]
    restore_refs(repository, dumped(repository, commits))
    assert show_commit(repository, "main~1") == ours
    assert show_commit(repository, "main^2") == theirs
    assert stored(repository)[head.id] == head
    made = merge(repository, theirs.id, "main", MergeOptions("me", allow_empty=True))
    assert (made.version, made.parents) == (1, (head.id, theirs.id))
    undo(repository)
    push(repository, "main", options=PushOptions("me"))
    with machine(tmp_path / "elsewhere", "two") as lake:
        other = clone(lake, repository.record.storage_namespace, "demo")
        assert stored(other)[head.id] == head
        assert branch.show(other, "main").commit_id == head.id
    assert read_dump(repository.trees, dumped(repository, commits)).commits[head.id] == head


@given(st.lists(st.booleans(), min_size=1, max_size=8))
def test_generations_are_computed_where_one_is_missing(had_none: Iterable[bool]) -> None:
    """An old server recorded none; a newer one counts on from 0."""
    trees = new_trees(MemoryStore())
    commits = [a_commit("root", generation=0)]
    for number, is_old in enumerate(had_none):
        recorded = 0 if is_old else 1 + commits[-1].generation
        commits.append(a_commit(str(number), commits[-1], generation=recorded))
    written = write_dump(
        trees,
        commits=sorted(commits),
        branches={"main": commits[-1].id},
        tags={},
        default_branch="main",
    )
    found = read_dump(trees, written).commits
    assert [found[each.id].generation for each in commits] == list(range(1, len(commits) + 1))


def test_generations_that_contradict_the_parents_are_refused(repository: Repository) -> None:
    root = a_commit("root", generation=5)
    head = a_commit("head", root, generation=5)
    with pytest.raises(BadDump, match="generation of commit"):
        read_dump(repository.trees, dumped(repository, [root, head]))
