"""What the best common ancestors of two commits are merged from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import EMPTY_TREE, MetarangeId
from lakecli.refs.graph import iter_merge_bases
from lakecli.repository.reading.merge_points import MAX_BASES, MAX_PAIRS, merge_base_of
from tests.support.graphs import FakeRefs, graph, id_of, name_of

if TYPE_CHECKING:
    from lakecli.committed.merge_base import MergeBase


def trees_of(text: str, *, same: str = "") -> FakeRefs:
    """Return a history in which each commit has a tree of its own, but for those of `same`."""
    refs = graph(text)
    for commit_id, commit in refs.commits.items():
        tree = MetarangeId("f" * 64) if name_of(commit_id) in same.split() else commit_id
        refs.commits[commit_id] = commit._replace(metarange_id=MetarangeId(tree))
    return refs


def base_of(refs: FakeRefs, left: str = "x", right: str = "y") -> MergeBase:
    return merge_base_of(refs, tuple(iter_merge_bases(refs, id_of(left), id_of(right))))


def shown(base: MergeBase) -> list[tuple[str, dict[tuple[int, int], int]]]:
    """Return the ancestors with the names of their commits."""
    return [
        (" ".join(bytes.fromhex(tree).rstrip(b"\0").decode() for tree in trees), dict(below))
        for trees, below in base.ancestors
    ]


def test_one_ancestor_is_all_there_is_to_know() -> None:
    refs = trees_of("a-b-x, b-y")
    assert shown(base_of(refs)) == [("b", {})]
    assert len(refs.reads) == 3


def test_two_ancestors_are_merged_from_theirs() -> None:
    refs = trees_of("a-b, a-c, b+c-x, c+b-y")
    assert shown(base_of(refs)) == [("c b", {(0, 1): 1}), ("a", {})]
    refs = trees_of("a-b, a-c, b+c-d, c+b-e, d+e-x, e+d-y")
    assert shown(base_of(refs)) == [("e d", {(0, 1): 1}), ("c b", {(0, 1): 2}), ("a", {})]


def test_of_three_ancestors_each_pair_has_its_own() -> None:
    refs = trees_of("a-b, a-c, a-p-d, b+c-x1, x1+d-x, c+b-y1, y1+d-y")
    base = base_of(refs)
    assert sorted(shown(base)[0][0]) == sorted("b c d")
    assert [below for _, below in base.ancestors] == [{(0, 1): 1, (0, 2): 2, (1, 2): 3}, {}, {}, {}]
    assert [trees for trees, _ in shown(base)[1:]] == ["a", "a", "a"]


def test_ancestors_of_one_tree_are_one() -> None:
    text = "a-b, a-c, b+c-x, c+b-y"
    assert len(base_of(trees_of(text, same="b c")).ancestors) == 1
    three = "a-b, a-c, a-p-d, b+c-x1, x1+d-x, c+b-y1, y1+d-y"
    base = base_of(trees_of(three, same="b c"))
    assert [below for _, below in base.ancestors] == [{(0, 1): 1, (0, 2): 2}, {}, {}]


def test_ancestors_without_a_common_history_come_from_nothing() -> None:
    refs = trees_of("b, c, b+c-x, c+b-y")
    assert base_of(refs).ancestors[1].trees == (EMPTY_TREE,)


def test_a_missing_commit_below_the_ancestors_leaves_their_difference_undecided() -> None:
    refs = trees_of("a-b, a-c, b+c-d, c+b-e, d+e-x, e+d-y")
    del refs.commits[id_of("a")]
    assert shown(base_of(refs)) == [("e d", {(0, 1): 1}), ("", {})]


def ladder(levels: int, width: int) -> str:
    """Return the text of a history in which commits are merged with all of a level before."""
    chains = [f"r-0n{at}" for at in range(width)]
    for level in range(1, levels):
        before = [f"{level - 1}n{at}" for at in range(width)]
        chains += ["+".join(before[at:] + before[:at]) + f"-{level}n{at}" for at in range(width)]
    return ", ".join(chains)


@pytest.mark.parametrize(("levels", "width"), [(1_000, 2), (300, 3), (40, MAX_BASES)])
def test_a_history_of_many_crossings_is_followed_to_a_bound(levels: int, width: int) -> None:
    refs = trees_of(ladder(levels, width))
    base = base_of(refs, f"{levels - 1}n0", f"{levels - 1}n1")
    assert len(base.trees) == width
    assert len(base.ancestors) == 1 + MAX_PAIRS
    assert all(min(below.values(), default=9) > 0 for _, below in base.ancestors)
    # All trees differ at this path, so each of the ancestors is asked.
    asked: list[MetarangeId] = []

    def content_of(tree: MetarangeId) -> str:
        asked.append(tree)
        return tree

    found = base.resolve(content_of, str.__eq__)
    assert len(found) == width  # undecided
    assert len(asked) <= width * (1 + MAX_PAIRS)


def test_more_ancestors_than_are_merged_leave_everything_undecided() -> None:
    refs = trees_of(ladder(2, MAX_BASES + 1))
    assert shown(base_of(refs, "1n0", "1n1")) == [("", {})]
    same = " ".join(f"0n{at}" for at in range(MAX_BASES + 1))
    refs = trees_of(ladder(2, MAX_BASES + 1), same=same)
    assert len(base_of(refs, "1n0", "1n1").trees) == 1
