"""The cost depends on the change, not on the tree: counts of ranges and requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import EMPTY_TREE, MergeStrategy, MetarangeId
from lakecli.committed import merge as tree_merge
from lakecli.committed import tree_store
from lakecli.committed.cache import SstableCache
from lakecli.committed.decisions import UNDECIDED
from lakecli.committed.diff import diff
from lakecli.committed.merge import compare
from lakecli.committed.merge_base import Ancestors, MergeBase
from lakecli.committed.point_reads import find
from lakecli.committed.writer import apply
from lakecli.sstable.reader import Block, SSTable
from lakecli.sstable.writer import TableWriter
from tests.committed.trees import (
    Changes,
    Model,
    boundaries,
    build,
    change,
    changed,
    iter_ranges,
    key,
    large_model,
    merge,
    new_trees,
    put_foreign_metarange,
    put_foreign_range,
    reopened,
    value,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lakecli.committed.metaranges import RangeRecord
    from lakecli.committed.tree_store import TreeCounts, TreeStore

COUNT = 12_000
MODEL: Model = large_model(COUNT)
FAIL = MergeStrategy.FAIL


@pytest.fixture(scope="module")
def trees() -> TreeStore:
    return new_trees(range_entries=32)


@pytest.fixture(scope="module")
def tree(trees: TreeStore) -> MetarangeId:
    return build(trees, MODEL)


def inner_keys(trees: TreeStore, tree: MetarangeId) -> list[bytes]:
    """Return keys, each inside another range and none at a range's end."""
    return [
        record.min_key for record in iter_ranges(trees, tree) if record.min_key != record.max_key
    ]


def cost_of(trees: TreeStore, tree: MetarangeId, changes: Changes) -> TreeCounts:
    fresh = reopened(trees)
    change(fresh, tree, changes)
    return fresh.counts


def test_the_tree_has_hundreds_of_ranges(trees: TreeStore, tree: MetarangeId) -> None:
    assert len(trees.metarange(tree)) > 400


@pytest.mark.parametrize("number", [0, 1, 200, -2, -1])
def test_one_changed_entry(trees: TreeStore, tree: MetarangeId, number: int) -> None:
    path = inner_keys(trees, tree)[number]
    counts = cost_of(trees, tree, {path: value(-1)})
    assert (counts.metaranges_opened, counts.ranges_opened) == (1, 1)
    assert (counts.metaranges_written, counts.ranges_written) == (1, 1)


def test_one_added_or_removed_entry(trees: TreeStore, tree: MetarangeId) -> None:
    """It may shift by one if a long range may end there, which few edits do."""
    steps: list[Changes] = []
    for path in inner_keys(trees, tree)[20:380:20]:
        steps += [{path + b"+": value(1)}, {path: None}]
    costs = [cost_of(trees, tree, step) for step in steps]
    for touched in (
        [counts.ranges_opened for counts in costs],
        [counts.ranges_written for counts in costs],
    ):
        assert sum(each <= 2 for each in touched) > 0.9 * len(touched)
        assert max(touched) <= 6


def test_a_removed_boundary(trees: TreeStore, tree: MetarangeId) -> None:
    """Two ranges become one; rarely a few more have to be cut anew."""
    opened = [
        cost_of(trees, tree, {path: None}).ranges_opened
        for path in boundaries(trees, tree)[50:250:10]
    ]
    assert max(opened) <= 6
    assert sum(opened) <= 2.5 * len(opened)


def test_blocks_of_the_metarange_are_copied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trees: TreeStore, tree: MetarangeId
) -> None:
    """Only the records around the range that changed are encoded, on either level."""
    monkeypatch.setattr(tree_store, "OUTLINED_FROM", 0)
    cache = SstableCache(tmp_path, secret=lambda: bytes(32))
    reopened(trees, cache=cache).metarange(tree)
    fresh = reopened(trees, cache=cache)
    encoded: list[bytes] = []
    add_many = TableWriter.add_many

    def counted(table: TableWriter, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        encoded.extend(keys)
        add_many(table, keys, values)

    monkeypatch.setattr(TableWriter, "add_many", counted)
    change(fresh, tree, {key(6000): value(-1)})
    assert 0 < len(encoded) < 200


def test_many_changes_in_one_place(trees: TreeStore, tree: MetarangeId) -> None:
    counts = cost_of(trees, tree, {key(5000 + at): value(-1) for at in range(100)})
    assert counts.ranges_opened <= 12
    assert counts.ranges_written <= 12


def test_a_new_prefix_opens_a_range_beside_it_at_most(trees: TreeStore, tree: MetarangeId) -> None:
    between = key(6000) + b"/"
    counts = cost_of(trees, tree, {between + b"%05d" % at: value(at) for at in range(2000)})
    assert counts.ranges_opened <= 3
    assert counts.ranges_written <= 2000 / 32 * 3


def test_an_appended_tail_opens_the_last_range_at_most(trees: TreeStore, tree: MetarangeId) -> None:
    counts = cost_of(trees, tree, {b"z%05d" % at: value(at) for at in range(100)})
    assert counts.ranges_opened <= 1


def test_deleting_what_no_range_reaches_opens_nothing(trees: TreeStore, tree: MetarangeId) -> None:
    gone: Changes = dict.fromkeys(path + b"!" for path in boundaries(trees, tree))
    assert cost_of(trees, tree, gone).ranges_opened <= 1  # the last range has no cut at its end


def test_a_change_taken_back_writes_nothing_but_names(trees: TreeStore, tree: MetarangeId) -> None:
    path = inner_keys(trees, tree)[77]
    other = change(trees, tree, {path: value(-1)})
    fresh = reopened(trees)
    assert change(fresh, other, {path: MODEL[path]}) == tree
    assert fresh.counts.ranges_written == 1
    assert list(fresh.store.list()) == list(trees.store.list())


def test_diff_opens_both_sides_of_what_differs(trees: TreeStore, tree: MetarangeId) -> None:
    paths = inner_keys(trees, tree)
    for count in (1, 5):
        other = change(trees, tree, {path: value(-1) for path in paths[:: len(paths) // count]})
        fresh = reopened(trees)
        found = list(diff(fresh, tree, other))
        assert len(found) in {count, count + 1}
        assert fresh.counts.ranges_opened == 2 * len(found)


def test_diff_opens_no_range_beside_those_that_one_side_lacks(
    trees: TreeStore, tree: MetarangeId
) -> None:
    other = change(trees, tree, {key(6000) + b"/%05d" % at: value(at) for at in range(3000)})
    of_both = {record.id for record in iter_ranges(trees, tree)}
    of_both ^= {record.id for record in iter_ranges(trees, other)}
    for left, right in ((tree, other), (other, tree)):
        fresh = reopened(trees)
        assert len(list(diff(fresh, left, right))) == 3000
        assert fresh.counts.ranges_opened == len(of_both)


def test_diff_meets_again_behind_records_that_one_side_has_in_a_gap() -> None:
    trees = new_trees()
    records = sorted(large_model(60).items())
    longer, shorter, rest = (
        put_foreign_range(trees.store, part) for part in (records[:20], records[:15], records[30:])
    )
    left = put_foreign_metarange(trees.store, [longer, rest])
    right = put_foreign_metarange(trees.store, [shorter, rest])
    for one, two in ((left, right), (right, left)):
        fresh = reopened(trees)
        assert [each.path for each in diff(fresh, one, two)] == [key(at) for at in range(15, 20)]
        assert fresh.counts.ranges_opened == 2


def test_diff_of_an_unrelated_prefix_opens_nothing(trees: TreeStore, tree: MetarangeId) -> None:
    other = change(trees, tree, {key(8000): value(-1)})
    fresh = reopened(trees)
    assert list(diff(fresh, tree, other, prefix=b"k00")) == []
    assert list(diff(fresh, tree, other, start=key(9000) + b"\0")) == []
    assert fresh.counts.ranges_opened == 0


def test_diff_skips_equal_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of many blocks that differ in one: only that one is decoded on either side."""
    wide = new_trees(range_entries=4096)
    model = {path: value(at, bytes(100)) for at, path in enumerate(MODEL)}
    tree = build(wide, model)
    other = change(wide, tree, {key(COUNT // 2): value(-1, bytes(100))})
    fresh = reopened(wide)
    decode = SSTable.block
    decoded: list[int] = []

    def block(table: SSTable, number: int) -> Block:
        assert table.block_count > 10
        decoded.append(number)
        return decode(table, number)

    fresh.metarange(tree), fresh.metarange(other)
    monkeypatch.setattr(SSTable, "block", block)
    assert [each.path for each in diff(fresh, tree, other)] == [key(COUNT // 2)]
    assert len(decoded) == 2
    assert decoded[0] == decoded[1]


def sides(
    trees: TreeStore, tree: MetarangeId, left: Changes, right: Changes
) -> tuple[MetarangeId, MetarangeId]:
    return change(trees, tree, left), change(trees, tree, right)


def test_merge_of_changes_in_different_ranges(trees: TreeStore, tree: MetarangeId) -> None:
    paths = inner_keys(trees, tree)
    source, destination = sides(trees, tree, {paths[10]: value(-1)}, {paths[300]: value(-2)})
    fresh = reopened(trees)
    merge(fresh, base=tree, source=source, destination=destination, strategy=FAIL)
    counts = fresh.counts
    assert counts.metaranges_opened == 3
    assert counts.ranges_opened == 0
    assert counts.ranges_written == 0
    assert counts.metaranges_written == 1


def test_merge_of_changes_in_one_range(trees: TreeStore, tree: MetarangeId) -> None:
    record = next(each for each in iter_ranges(trees, tree) if each.count > 20)
    inside = [path for path in MODEL if record.min_key <= path < record.max_key]
    source, destination = sides(trees, tree, {inside[2]: value(-1)}, {inside[9]: value(-2)})
    fresh = reopened(trees)
    merge(fresh, base=tree, source=source, destination=destination, strategy=FAIL)
    assert fresh.counts.ranges_opened == 3
    assert fresh.counts.ranges_written == 1


def test_ranges_that_both_sides_share_are_not_read(trees: TreeStore, tree: MetarangeId) -> None:
    """Both sides have the same thousand changes; only the further changes of the source count."""
    common: Changes = {key(at): value(-at - 1) for at in range(1000, 2000)}
    other = change(trees, tree, common)
    assert build(trees, changed(MODEL, common)) == other
    source, destination = sides(trees, other, {key(9000): value(-1)}, {key(11000): value(-2)})
    fresh = reopened(trees)
    found = compare(fresh, base=MergeBase.of(tree), left=destination, right=source)
    assert [each.path for each in found] == [key(9000)]
    assert fresh.counts.ranges_opened <= 3


def test_a_branch_of_new_ranges_is_merged_unread(trees: TreeStore, tree: MetarangeId) -> None:
    new: Changes = {b"new/%05d" % at: value(at) for at in range(3000)}
    source, destination = sides(trees, tree, new, {key(11): value(-1)})
    fresh = reopened(trees)
    merge(fresh, base=tree, source=source, destination=destination, strategy=FAIL)
    assert fresh.counts.ranges_opened <= 4  # the tail that the new ranges begin in
    assert fresh.counts.ranges_written <= 2


@pytest.mark.parametrize("at", [0, 1, 2])
def test_of_several_bases_no_more_is_read_than_of_one(
    trees: TreeStore, tree: MetarangeId, at: int
) -> None:
    """They differ in two thirds of all ranges; each side has changed one of any kind."""
    paths = inner_keys(trees, tree)
    one: Changes = dict.fromkeys(paths[::3], value(-1))
    other: Changes = dict.fromkeys(paths[1::3], value(-2))
    bases = [change(trees, tree, each) for each in (one, other)]
    joined = change(trees, bases[0], other)
    source, destination = sides(
        trees, joined, {paths[30 + at]: value(-3)}, {paths[90 + at]: value(-4)}
    )
    base = MergeBase((Ancestors(tuple(bases), {(0, 1): 1}), Ancestors((tree,), {})))
    fresh = reopened(trees)
    found = compare(fresh, base=base, left=destination, right=source)
    assert [each.path for each in found] == [paths[30 + at]]
    assert fresh.counts.metaranges_opened == 4 + (at < 2)  # the last only where bases differ
    assert fresh.counts.ranges_opened == 2
    fresh = reopened(trees)
    tree_merge.merge(fresh, base=base, source=source, destination=destination, decisions=UNDECIDED)
    assert (fresh.counts.ranges_opened, fresh.counts.ranges_written) == (0, 0)


def test_a_merge_onto_an_unchanged_destination_writes_nothing(
    trees: TreeStore, tree: MetarangeId
) -> None:
    other = change(trees, tree, {key(7): value(-1)})
    fresh = reopened(trees)
    merge(fresh, base=tree, source=other, destination=tree, strategy=FAIL)
    assert (fresh.counts.ranges_written, fresh.counts.metaranges_written) == (0, 0)


def test_a_merge_that_arrives_at_the_source_writes_nothing(
    trees: TreeStore, tree: MetarangeId
) -> None:
    destination = change(trees, tree, {key(7): value(-1)})
    source = change(trees, destination, {key(9000): value(-2)})
    fresh = reopened(trees)
    merged = merge(fresh, base=tree, source=source, destination=destination, strategy=FAIL)
    assert merged == source
    assert (fresh.counts.ranges_written, fresh.counts.metaranges_written) == (0, 0)


def test_a_point_read_opens_one_range(trees: TreeStore, tree: MetarangeId) -> None:
    fresh = reopened(trees)
    assert find(fresh, tree, key(4321)) == MODEL[key(4321)]
    assert find(fresh, tree, key(4321)) == MODEL[key(4321)]
    assert (fresh.counts.metaranges_opened, fresh.counts.ranges_opened) == (1, 1)
    assert find(fresh, tree, b"before everything") is None
    assert find(fresh, tree, b"z behind everything") is None
    assert find(fresh, EMPTY_TREE, key(1)) is None
    assert fresh.counts.ranges_opened == 1


def test_written_bytes_are_counted(trees: TreeStore, tree: MetarangeId) -> None:
    fresh = reopened(trees)
    other = apply(fresh, tree, [(key(4000), value(-4000))])
    known = {record.id for record in iter_ranges(fresh, tree)}
    new: list[RangeRecord] = [
        record for record in iter_ranges(fresh, other) if record.id not in known
    ]
    size = fresh.store.head(f"_lakefs/{other}").size
    assert fresh.counts.bytes_written == size + sum(record.size for record in new)
