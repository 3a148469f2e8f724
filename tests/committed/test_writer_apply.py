"""Commits: the counts, which changes count as none, and what is written when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from lakecli.base.model import EMPTY_TREE, MetarangeId
from lakecli.committed.values import MalformedValue
from lakecli.committed.writer import CHUNK_SIZE, TreeWriter, apply
from lakecli.errors import IntegrityError
from tests.committed.trees import (
    Changes,
    Model,
    build,
    change,
    changed,
    contents,
    edits,
    key,
    large_model,
    models,
    new_trees,
    reopened,
    value,
)
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@given(models(), edits())
def test_apply_is_the_models_update(model: Model, step: Changes) -> None:
    trees = new_trees()
    base = build(trees, model)
    result = apply(trees, base, sorted(step.items()))
    after = changed(model, step)
    assert contents(trees, result) == after
    assert (result == base) == (after == model)


def test_an_equal_identity_keeps_the_record_as_it_was() -> None:
    trees = new_trees()
    tree = build(trees, {key(1): value(1, b"old"), key(2): value(2)})
    result = apply(trees, tree, [(key(1), value(1, b"new")), (key(2), value(3))])
    assert contents(trees, result)[key(1)] == value(1, b"old")


@pytest.mark.parametrize(
    "step",
    [
        {},
        {key(1): value(1, b"other data, same identity")},
        {b"absent": None},
        {b"z absent": None, b"zz absent": None},
        {key(1): value(1), b"absent": None, key(299): value(299)},
    ],
)
def test_no_change_is_the_same_tree_and_writes_nothing(step: Changes) -> None:
    trees = new_trees()
    tree = build(trees, large_model(300))
    before = list(trees.store.list())
    trees = reopened(trees)
    assert apply(trees, tree, sorted(step.items())) == tree
    assert list(trees.store.list()) == before
    counts = trees.counts
    assert (counts.ranges_written, counts.metaranges_written, counts.bytes_written) == (0, 0, 0)


def test_no_change_of_the_empty_tree() -> None:
    trees = new_trees()
    assert apply(trees, EMPTY_TREE, []) == EMPTY_TREE
    assert apply(trees, EMPTY_TREE, [(b"a", None)]) == EMPTY_TREE


@pytest.mark.parametrize(
    "changes",
    [
        [(b"b", value(1)), (b"a", value(1))],
        [(b"a", value(1)), (b"a", value(2))],
        [(b"a", None), (b"a", None)],
        [(key(at), value(at)) for at in range(5000)] + [(key(4999), None)],
    ],
)
@pytest.mark.parametrize("base", [{}, {b"a": value(7)}])
def test_changes_out_of_order_are_refused_and_nothing_is_written(
    changes: list[tuple[bytes, bytes | None]], base: Model
) -> None:
    trees = new_trees()
    tree = build(trees, base)
    before = list(trees.store.list())
    with pytest.raises(ValueError, match="order"):
        apply(trees, tree, changes)
    assert list(trees.store.list()) == before


def test_a_value_without_identity_is_refused() -> None:
    with pytest.raises(MalformedValue):
        apply(new_trees(), EMPTY_TREE, [(b"a", b"")])


class Interrupted(Exception):
    pass


def test_an_interrupted_build_leaves_nothing() -> None:
    def stream() -> Iterator[tuple[bytes, bytes]]:
        for at in range(10_000):
            yield key(at), value(at)
        raise Interrupted

    store = MemoryStore()
    with pytest.raises(Interrupted):
        apply(new_trees(store), EMPTY_TREE, stream())
    assert list(store.list()) == []


def test_everything_is_durable_when_apply_returns() -> None:
    store = MemoryStore()
    tree = build(new_trees(store), large_model(1000))
    assert contents(new_trees(store), tree) == large_model(1000)


@pytest.mark.parametrize("base", [{}, {b"a": value(1), b"z": value(2)}, {b"z": value(2)}])
def test_many_new_paths_in_one_place_are_held_a_few_at_a_time(
    base: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = TreeWriter.add_many
    sizes: list[int] = []

    def add_many(
        writer: TreeWriter, keys: Sequence[bytes], values: Sequence[bytes], *copied: Any
    ) -> None:
        sizes.append(len(keys))
        added(writer, keys, values, *copied)

    trees = new_trees(range_entries=4096)
    tree = build(trees, base)
    monkeypatch.setattr(TreeWriter, "add_many", add_many)
    result = apply(trees, tree, ((key(at), value(at)) for at in range(20_000)))
    assert contents(trees, result) == base | large_model(20_000)
    assert max(sizes) <= CHUNK_SIZE + len(base)


def test_a_range_that_somebody_else_wrote_first_stays() -> None:
    store = MemoryStore()
    mine, theirs = new_trees(store), new_trees(store)
    model = {key(at): value(at, b"theirs") for at in range(100)}
    tree = build(theirs, model)
    assert build(mine, {key(at): value(at, b"mine") for at in range(100)}) == tree
    assert contents(new_trees(store), tree) == model


def test_a_tree_of_long_and_odd_paths() -> None:
    trees = new_trees()
    model = {
        path: value(at)
        for at, path in enumerate([b"\0", b"\xff" * 1024, b"a" * 1024, b"a" * 1023 + b"\n", b"%2f"])
    }
    assert contents(trees, build(trees, model)) == model


def test_a_missing_tree_is_an_integrity_error() -> None:
    with pytest.raises(IntegrityError, match="missing from memory:"):
        apply(new_trees(), MetarangeId("0" * 64), [(b"a", value(1))])


@pytest.mark.parametrize("count", [3, 4, 5, 20])
def test_many_new_paths_within_one_block_are_all_written(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """More than are held in memory at a time."""
    monkeypatch.setattr("lakecli.committed.writer.CHUNK_SIZE", 4)
    trees = new_trees(range_entries=64)
    model = large_model(100)
    tree = build(trees, model)
    step: Changes = {key(50) + b"%02d" % at: value(at) for at in range(count)}
    step |= {key(50): None, key(51): value(-1)}
    assert change(trees, tree, step) == build(new_trees(range_entries=64), changed(model, step))
