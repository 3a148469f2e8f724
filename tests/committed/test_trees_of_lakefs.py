"""Trees of lakeFS: they are read as they are, rebuilt at their first commit, and never spliced."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.model import EMPTY_TREE, MergeStrategy, MetarangeId, RangeId
from lakecli.base.progress import NO_PROGRESS
from lakecli.committed.check import Problem, check_metarange, check_range
from lakecli.committed.diff import diff
from lakecli.committed.metaranges import RangeRecord
from lakecli.committed.point_reads import find
from lakecli.committed.tree_store import RebuiltTrees, TreeStore
from lakecli.committed.values import decode_entry, identity_of
from lakecli.committed.writer import apply
from lakecli.kv.local_store import LocalStore
from lakecli.sstable.reader import BytesSource, SSTable
from lakecli.stores.contract import ABSENT
from tests.committed.trees import (
    Changes,
    Model,
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
    put_foreign,
    put_foreign_metarange,
    reopened,
    value,
)
from tests.support.lakefs_files import DIRECTORY
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@given(models(300), edits(300), st.integers(1, 100))
def test_the_first_commit_rebuilds_the_tree(model: Model, step: Changes, size: int) -> None:
    model |= {key(at): value(at) for at in range(50, 150)}
    trees = new_trees()
    tree = put_foreign(trees.store, model, size=size)
    assert contents(trees, tree) == model
    after = changed(model, step)
    result = apply(trees, tree, sorted(step.items()))
    if after == model:
        assert result == tree
    else:
        assert result == build(new_trees(), after)
        foreign = {record.id for record in iter_ranges(trees, tree)}
        assert not foreign & {record.id for record in iter_ranges(trees, result)}


@given(models(300), models(300), st.integers(1, 100))
def test_diff_of_a_foreign_tree_and_ours(left: Model, right: Model, size: int) -> None:
    trees = new_trees()
    foreign = put_foreign(trees.store, left | {key(1): value(1)}, size=size)
    ours = build(trees, right)
    changes = [(each.path, each.right) for each in diff(trees, foreign, ours)]
    assert apply(trees, foreign, changes) == ours or contents(trees, foreign) == right


def test_a_tree_of_another_n_is_rebuilt() -> None:
    trees = new_trees()
    model = large_model(500)
    other = build(new_trees(trees.store, range_entries=64), model)
    step: Changes = {key(3): None}
    assert change(trees, other, step) == build(new_trees(), changed(model, step))


@pytest.mark.parametrize("foreign", ["base", "source", "destination"])
def test_merge_with_a_foreign_side(foreign: str) -> None:
    trees = new_trees()
    model = large_model(400)
    sides = {
        "base": model,
        "source": changed(model, {key(30): value(-1), key(200): None}),
        "destination": changed(model, {key(370): value(-2), key(7): None}),
    }
    built = {
        name: put_foreign(trees.store, each, size=70) if name == foreign else build(trees, each)
        for name, each in sides.items()
    }
    merged = merge(trees, **built, strategy=MergeStrategy.FAIL)
    expected = changed(sides["destination"], {key(30): value(-1), key(200): None})
    assert merged == build(new_trees(), expected)


@pytest.fixture
def remembered(tmp_path: Path) -> Iterator[RebuiltTrees]:
    """Remembers rebuilt trees for the time of a test."""
    with LocalStore.open(tmp_path) as store:
        yield RebuiltTrees(store, b"r" * 16, lambda _entries: nullcontext(NO_PROGRESS))


def test_a_tree_is_rebuilt_once_before_it_changes(remembered: RebuiltTrees) -> None:
    trees = TreeStore(MemoryStore(), cache=None, range_entries=16, rebuilt=remembered)
    model = large_model(100)
    tree = put_foreign(trees.store, model, size=30)
    steps: list[Changes] = [{key(3): value(-1)}, {key(90): value(-2)}]
    for step in steps:
        assert change(trees, tree, step) == build(new_trees(), changed(model, step))
        assert remembered.find(tree) == build(new_trees(), model)


def test_only_the_destination_of_a_merge_is_rebuilt(remembered: RebuiltTrees) -> None:
    store = MemoryStore()
    trees = TreeStore(store, cache=None, range_entries=16, rebuilt=remembered)
    model = large_model(100)
    versions = (model, changed(model, {key(3): value(-1)}), changed(model, {key(90): value(-2)}))
    base, source, destination = (put_foreign(store, each, size=30) for each in versions)
    merged = merge(
        trees, base=base, source=source, destination=destination, strategy=MergeStrategy.FAIL
    )
    assert contents(trees, merged) == changed(versions[2], {key(3): value(-1)})
    made = remembered.find(destination)
    assert made is not None
    assert contents(trees, made) == versions[2]
    # Onto the base itself, the source is taken as it is.
    merged = merge(trees, base=base, source=source, destination=base, strategy=MergeStrategy.FAIL)
    assert merged == source
    assert remembered.find(base) is remembered.find(source) is None


def test_point_reads_of_a_foreign_tree_do_not_trust_its_sizes() -> None:
    trees = new_trees()
    model = large_model(2000)
    tree = put_foreign(trees.store, model, size=900)
    for at in (0, 899, 900, 1999):
        assert find(reopened(trees), tree, key(at)) == model[key(at)]


# What lakeFS itself wrote.

RANGE = RangeId("a83af763ba098c15369d9d6d723731eb9ce18b8dfac4f88c6f1287e772393d0e")
METARANGE = MetarangeId("732d4016245c5547113e0cd0f1a588fc55e36c21f460ac670cca4396922f5c11")
OLD_RANGE = RangeId("0e4c319008ebb087332f165559960f7e53d32e9331c8338e147239fd008bd662")
LARGE_RANGE = RangeId("56569996e174e06211632b143e7160a003e107c30790e1bd7267f3f227a06159")


@pytest.fixture
def fixtures() -> Path:
    return DIRECTORY


def put_fixture(store: MemoryStore, table_id: str, path: Path) -> SSTable:
    data = path.read_bytes()
    store.put(f"_lakefs/{table_id}", data, ABSENT)
    return SSTable(BytesSource(path.name, data))


def test_a_tree_that_lakefs_wrote(fixtures: Path) -> None:
    store = MemoryStore()
    put_fixture(store, RANGE, fixtures / "range.sst")
    put_fixture(store, METARANGE, fixtures / "metarange.sst")
    trees = new_trees(store)
    found = contents(trees, METARANGE)
    assert list(found) == [b"a/b/c/no", b"a/b/c/yes"]
    entry = decode_entry(found[b"a/b/c/no"])
    assert (entry.size, entry.checksum) == (11, "664c688b4ea9c56730daacfc3d70aeed")
    assert find(trees, METARANGE, b"a/b/c/yes") == found[b"a/b/c/yes"]
    assert [each.path for each in diff(trees, EMPTY_TREE, METARANGE)] == list(found)

    step: Changes = {b"a/b/c/yes": None, b"new": value(1)}
    tree = change(trees, METARANGE, step)
    assert tree == build(new_trees(), changed(found, step))
    assert [each.path for each in diff(trees, METARANGE, tree)] == [b"a/b/c/yes", b"new"]
    check_everything(store, tree, made_up={b"new"})
    check_everything(store, METARANGE, made_up=set())


@pytest.mark.parametrize(
    ("range_id", "name"), [(OLD_RANGE, "ok1.sst"), (LARGE_RANGE, "56569996.sst")]
)
def test_the_first_commit_on_a_range_that_lakefs_wrote(
    fixtures: Path, range_id: RangeId, name: str
) -> None:
    store = MemoryStore()
    table = put_fixture(store, range_id, fixtures / name)
    records = dict(table.records())
    first, last = min(records), max(records)
    tree = put_foreign_metarange(store, [RangeRecord(range_id, first, last, 1, len(records))])
    trees = new_trees(store, range_entries=1024)
    assert contents(trees, tree) == records
    assert find(trees, tree, last) == records[last]

    step: Changes = {first: None, last + b"!": value(1)}
    after = change(trees, tree, step)
    assert contents(trees, after) == changed(records, step)
    assert after == build(new_trees(range_entries=1024), changed(records, step))
    assert [each.path for each in diff(trees, tree, after)] == [first, last + b"!"]
    rebuilt = contents(trees, after)
    kept = rebuilt.keys() & records.keys()
    assert all(identity_of(rebuilt[path]) == identity_of(records[path]) for path in kept)
    check_everything(store, after, made_up={last + b"!"})


def check_everything(store: MemoryStore, tree: MetarangeId, *, made_up: set[bytes]) -> None:
    """Verify a tree; the test's made-up values are not entries."""
    trees = new_trees(store, range_entries=1024)
    records, problems = check_metarange(trees, tree)
    assert problems == []
    found = [each for record in records for each in check_range(trees, record)]
    assert {each.path for each in found if isinstance(each, Problem)} == made_up
