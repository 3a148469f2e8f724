"""Intervals contain every key that differs, each once, and few others."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.model import EMPTY_TREE
from lakecli.committed.diff import diff
from lakecli.committed.merge import compare
from lakecli.committed.merge_base import Ancestors, MergeBase
from lakecli.committed.scan import prefix_end
from lakecli.engine.differences import intervals
from lakecli.repository.diff import TreesToCompare
from tests.committed.trees import (
    Changes,
    Model,
    build,
    changed,
    edits,
    key,
    large_model,
    models,
    new_trees,
    reopened,
    value,
)

if TYPE_CHECKING:
    from lakecli.engine.differences import DiffInterval

prefixes = st.sampled_from([b"", b"k", b"k000", b"k0015", b"x", b"k00"])
sizes = st.sampled_from([1, 20, 60, 10_000])


def check(found: list[DiffInterval], prefix: bytes) -> None:
    """Intervals are ascending and adjacent, and stay within the prefix."""
    for left, right in pairwise(found):
        assert left.stop == right.start
    if found:
        assert found[0].start == prefix
        end = prefix_end(prefix)
        assert end is None or (found[-1].stop is not None and found[-1].stop <= end)
    assert all(each.stop is None or each.start < each.stop for each in found)


@given(models(500), edits(500), prefixes, sizes, st.sampled_from([16, 64]))
def test_of_two_trees(model: Model, step: Changes, prefix: bytes, size: int, number: int) -> None:
    trees = new_trees()
    left = model | large_model(400)
    a, b = (
        build(trees, left),
        build(new_trees(trees.store, range_entries=number), changed(left, step)),
    )
    found = list(intervals(trees, TreesToCompare(None, a, b, prefix), entries=size))
    check(found, prefix)
    parts = [
        difference
        for each in found
        for difference in diff(trees, a, b, start=each.start, stop=each.stop)
    ]
    assert parts == list(diff(trees, a, b, prefix=prefix))


@given(models(300), edits(300), edits(300), prefixes, sizes)
def test_of_three_trees(
    model: Model, left_step: Changes, right_step: Changes, prefix: bytes, size: int
) -> None:
    trees = new_trees()
    before = model | {key(at): value(at) for at in range(60, 200)}
    b = build(trees, before)
    x, y = build(trees, changed(before, left_step)), build(trees, changed(before, right_step))
    base = MergeBase.of(b)
    found = list(intervals(trees, TreesToCompare(base, x, y, prefix), entries=size))
    check(found, prefix)
    parts = [
        difference
        for each in found
        for difference in compare(
            trees, base=base, left=x, right=y, start=each.start, stop=each.stop
        )
    ]
    assert parts == list(compare(trees, base=base, left=x, right=y, prefix=prefix))


def test_a_tree_is_cut_at_its_ranges() -> None:
    trees = new_trees()
    tree = trees.metarange(build(trees, large_model(2_000)))
    found = list(intervals(trees, TreesToCompare(None, EMPTY_TREE, tree.id, b""), entries=200))
    assert sum(each.entries for each in found) == 2_000
    assert 7 <= len(found) <= 10
    ends = {last + b"\0" for last in tree.keys}
    assert all(each.stop in ends for each in found[:-1])


def test_each_range_is_read_once_and_equal_ones_never() -> None:
    trees = new_trees()
    model = large_model(2_000)
    a = build(trees, model)
    b = build(trees, changed(model, {key(number): value(9) for number in range(500, 1_500, 7)}))
    old, new = trees.metarange(a), trees.metarange(b)
    different = {each[2:66] for each in old.values} ^ {each[2:66] for each in new.values}
    opened = 0
    for each in intervals(trees, TreesToCompare(None, a, b, b""), entries=100):
        mine = reopened(trees)
        list(diff(mine, a, b, start=each.start, stop=each.stop))
        opened += mine.counts.ranges_opened
    assert opened == len(different)


@given(models(300), st.lists(edits(300), min_size=4, max_size=4), prefixes, sizes)
def test_of_a_base_of_several_trees(
    model: Model, steps: list[Changes], prefix: bytes, size: int
) -> None:
    trees = new_trees()
    before = model | {key(at): value(at) for at in range(60, 200)}
    one, other = changed(before, steps[0]), changed(before, steps[1])
    joined = changed(one, steps[1])
    b, c, d, x, y = (
        build(trees, each)
        for each in (before, one, other, changed(joined, steps[2]), changed(joined, steps[3]))
    )
    base = MergeBase((Ancestors((c, d), {(0, 1): 1}), Ancestors((b,), {})))
    found = list(intervals(trees, TreesToCompare(base, x, y, prefix), entries=size))
    check(found, prefix)
    parts = [
        difference
        for each in found
        for difference in compare(
            trees, base=base, left=x, right=y, start=each.start, stop=each.stop
        )
    ]
    assert parts == list(compare(trees, base=base, left=x, right=y, prefix=prefix))
