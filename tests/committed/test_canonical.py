"""Equal contents make equal trees, whatever their history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.model import EMPTY_TREE, MergeStrategy
from lakecli.committed.diff import diff
from lakecli.committed.writer import apply
from tests.committed.trees import (
    Changes,
    Model,
    N,
    boundaries,
    build,
    change,
    changed,
    contents,
    edits,
    iter_ranges,
    key,
    large_model,
    merge,
    models,
    new_trees,
    value,
)


@given(st.lists(edits(400), max_size=8))
def test_any_history_of_commits_makes_the_tree_that_is_built_at_once(steps: list[Changes]) -> None:
    trees = new_trees()
    tree, model = EMPTY_TREE, Model()
    for step in steps:
        tree = change(trees, tree, step)
        model = changed(model, step)
        assert tree == build(new_trees(), model)
    assert contents(trees, tree) == model


@given(
    st.integers(100, 600), st.lists(st.integers(0, 10_000), min_size=1, max_size=8), st.booleans()
)
def test_deleting_boundary_keys(count: int, chosen: list[int], everything: bool) -> None:  # noqa: FBT001
    trees = new_trees()
    model = large_model(count)
    tree = build(trees, model)
    ends = boundaries(trees, tree)
    gone: Changes = {ends[at % len(ends)]: None for at in chosen}
    if everything:
        gone = dict.fromkeys(ends)
    tree = change(trees, tree, gone)
    assert tree == build(new_trees(), changed(model, gone))
    again = change(trees, tree, {path: model[path] for path in gone})
    assert again == build(new_trees(), model)


@given(st.lists(st.integers(1, 90), min_size=1, max_size=10))
def test_appended_tails(sizes: list[int]) -> None:
    trees = new_trees()
    tree, end = EMPTY_TREE, 0
    for size in sizes:
        tail: Changes = {key(end + at): value(end + at) for at in range(size)}
        tree = change(trees, tree, tail)
        end += size
        assert tree == build(new_trees(), large_model(end))


@given(models(300), st.lists(edits(300), max_size=3), st.lists(edits(300), max_size=3))
def test_a_merge_makes_the_tree_that_is_built_at_once(
    model: Model, left: list[Changes], right: list[Changes]
) -> None:
    trees = new_trees()
    base = build(trees, model)
    source = destination = base
    for step in left:
        source = change(trees, source, step)
    for step in right:
        destination = change(trees, destination, step)
    merged = merge(
        trees, base=base, source=source, destination=destination, strategy=MergeStrategy.SOURCE_WINS
    )
    assert merged == build(new_trees(), contents(trees, merged))


@given(models(300), models(300))
def test_the_difference_applied_is_the_other_tree(left: Model, right: Model) -> None:
    trees = new_trees()
    a, b = build(trees, left), build(trees, right)
    changes = [(each.path, each.right) for each in diff(trees, a, b)]
    assert apply(trees, a, changes) == b


@given(models(300), edits(300))
def test_a_range_has_the_bytes_that_its_records_alone_decide(model: Model, step: Changes) -> None:
    """However a range came about, blocks copied or not, its file is the one built at once."""
    trees, fresh = new_trees(), new_trees()
    tree = change(trees, build(trees, model), step)
    build(fresh, changed(model, step))
    for record in iter_ranges(trees, tree):
        object_key = f"_lakefs/{record.id}"
        assert trees.store.get(object_key) == fresh.store.get(object_key)


def test_blocks_are_copied_and_the_bytes_are_still_decided_by_the_records() -> None:
    """As above, with ranges of many blocks."""
    trees, fresh = new_trees(range_entries=1024), new_trees(range_entries=1024)
    model = {path: value(at, bytes(at % 200)) for at, path in enumerate(large_model(5000))}
    base = build(trees, model)
    step: Changes = {key(at): value(-1 - at, bytes(150)) for at in range(0, 5000, 700)}
    step |= {key(at): None for at in range(100, 5000, 900)}
    step |= {key(at) + b"!": value(at) for at in range(50, 5000, 1100)}
    tree = change(trees, base, step)
    assert tree == build(fresh, changed(model, step))
    for record in iter_ranges(trees, tree):
        object_key = f"_lakefs/{record.id}"
        assert trees.store.get(object_key) == fresh.store.get(object_key)


def test_the_order_of_commits_does_not_matter() -> None:
    trees = new_trees()
    model = large_model(3 * 4 * N * 4)
    tree = EMPTY_TREE
    paths = sorted(model, key=hash_of)
    for start in range(0, len(paths), 37):
        tree = change(trees, tree, {path: model[path] for path in paths[start : start + 37]})
    assert tree == build(new_trees(), model)


def hash_of(path: bytes) -> bytes:
    return value(int(path[1:]) * 7919)[1:33]
