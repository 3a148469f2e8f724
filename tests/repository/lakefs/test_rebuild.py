"""Trees of lakeFS are written again once, remembered, and only where lakecli builds on them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from lakecli.base.layout import sstable_key
from lakecli.committed.writer import canonical, find_canonical
from lakecli.engine.runner import LocalRunner
from lakecli.fsck.check import fsck
from lakecli.imports.tree_parts import rebuild_heads
from lakecli.kv.local_store import Table
from lakecli.refs.ref_store import RefStore
from lakecli.repository import branch
from lakecli.repository.commit import commit
from lakecli.repository.guard import GcGuard
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.reading.view import open_view
from tests.support.lakes import stage
from tests.support.recorded_progress import RecordedProgress

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lakecli.base.model import MetarangeId
    from lakecli.base.progress import Progress
    from lakecli.repository.contract import Repository


def tree_of(repository: Repository, ref: str) -> MetarangeId:
    with open_view(repository, ref) as view:
        return view.commit.metarange_id


def entries(repository: Repository, ref: str) -> list[tuple[bytes, bytes]]:
    with open_view(repository, ref) as view:
        return list(view.scan())


def written(repository: Repository) -> int:
    return repository.trees.counts.ranges_written


def test_a_tree_is_rebuilt_once_for_all_branches_on_it(borrowed: Repository) -> None:
    before = entries(borrowed, "main")
    branch.create(borrowed, "side", source="main")
    stage(borrowed, "main", {b"new": b"1"})
    commit(borrowed, "main", message="m", committer="c")
    first = written(borrowed)
    assert first > 10
    stage(borrowed, "side", {b"other": b"2"})
    commit(borrowed, "side", message="m", committer="c")
    assert written(borrowed) - first <= 2
    assert [path for path, _ in entries(borrowed, "main")] == sorted(
        [*(path for path, _ in before), b"new"]
    )
    assert list(fsck(borrowed)) == []


def test_a_merge_reads_a_base_of_lakefs_as_it_is(borrowed: Repository) -> None:
    branch.create(borrowed, "side", source="main")
    stage(borrowed, "main", {b"new": b"1"})
    commit(borrowed, "main", message="m", committer="c")
    stage(borrowed, "side", {b"other": b"2"})
    commit(borrowed, "side", message="m", committer="c")
    before, opened = written(borrowed), borrowed.trees.counts.ranges_opened
    merge(borrowed, "side", "main", MergeOptions(committer="c"))
    assert written(borrowed) - before <= 2
    assert borrowed.trees.counts.ranges_opened - opened <= 6
    assert {b"new", b"other"} <= dict(entries(borrowed, "main")).keys()
    assert list(fsck(borrowed)) == []


def test_reading_and_empty_commits_rebuild_nothing(borrowed: Repository) -> None:
    tree = tree_of(borrowed, "main")
    made = commit(borrowed, "main", message="m", committer="c", allow_empty=True)
    assert made.metarange_id == tree
    assert len(entries(borrowed, "main")) > 0
    assert written(borrowed) == 0


def test_all_heads_are_rebuilt_ahead(borrowed: Repository) -> None:
    shown: list[tuple[int, RecordedProgress]] = []

    @contextmanager
    def show(count: int) -> Iterator[Progress]:
        shown.append((count, RecordedProgress()))
        yield shown[-1][1]

    lake = borrowed.lake
    lake.runtime = lake.runtime._replace(show_rebuild=show)
    with lake.kv.read() as txn:
        heads = [each.commit_id for each in RefStore(txn, borrowed.key).iter_branches()]
        trees = {RefStore(txn, borrowed.key).get_commit(each).metarange_id for each in heads}
    assert rebuild_heads(borrowed, LocalRunner()) == len(trees)
    assert [progress.items for _, progress in shown] == [count for count, _ in shown]
    assert rebuild_heads(borrowed, LocalRunner()) == len(trees)
    assert len(shown) == len(trees)
    before = written(borrowed)
    stage(borrowed, "main", {b"new": b"1"})
    commit(borrowed, "main", message="m", committer="c")
    assert written(borrowed) - before == 1
    for tree in trees:
        made = find_canonical(borrowed.trees, tree)
        assert borrowed.trees.cuts_as(made)


def test_a_rebuilt_tree_is_claimed_and_built_again_if_it_was_collected(
    borrowed: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tree_of(borrowed, "main")
    made = canonical(borrowed.trees, tree).id
    claimed: list[str] = []
    gone: set[str] = set()

    def claim(_guard: GcGuard, keys: Collection[str]) -> Mapping[str, int]:
        claimed.extend(keys)
        return dict.fromkeys(set(keys) - gone, 1)

    monkeypatch.setattr(GcGuard, "begin", lambda _guard: True)
    monkeypatch.setattr(GcGuard, "claim", claim)
    monkeypatch.setattr(GcGuard, "settle", lambda *_args, **_keys: None)
    assert canonical(borrowed.trees, tree).id == made
    assert claimed == [sstable_key(made)]
    gone.add(sstable_key(made))
    assert find_canonical(borrowed.trees, tree).id == tree
    before = written(borrowed)
    assert canonical(borrowed.trees, tree).id == made
    assert written(borrowed) > before


@pytest.mark.parametrize("forged", [b"", b"x", b"x" * 33])
def test_a_damaged_memory_is_forgotten(borrowed: Repository, forged: bytes) -> None:
    tree = tree_of(borrowed, "main")
    made = canonical(borrowed.trees, tree).id
    with borrowed.lake.kv.write() as txn:
        (key,) = [key for key, _ in txn.scan(Table.META, prefix=b"rebuilt/")]
        txn.put(Table.META, key, forged)
    assert canonical(borrowed.trees, tree).id == made
