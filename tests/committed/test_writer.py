"""The writer of trees on its own: records, blocks and whole ranges, in any mixture."""

from __future__ import annotations

import pytest

from lakecli.base.model import EMPTY_TREE
from lakecli.committed.metaranges import Mismatch, decode_range_record
from lakecli.committed.writer import TreeWriter
from tests.committed.trees import N, boundaries, build, contents, key, large_model, new_trees, value

MODEL = large_model(500)


def test_nothing_is_the_empty_tree() -> None:
    trees = new_trees()
    writer = TreeWriter(trees)
    writer.add_many([], [])
    assert writer.at_cut
    assert writer.finish() == EMPTY_TREE
    assert list(trees.store.list()) == []


@pytest.mark.parametrize("size", [1, 7, 100, 500])
def test_records_in_portions_of_any_size(size: int) -> None:
    trees = new_trees()
    writer = TreeWriter(trees)
    keys, values = list(MODEL), list(MODEL.values())
    for start in range(0, len(keys), size):
        writer.add_many(keys[start : start + size], values[start : start + size])
    assert writer.finish() == build(new_trees(), MODEL)


@pytest.mark.parametrize("records", [0, 1, 5, 40])
@pytest.mark.parametrize("verbatim", [True, False])
def test_ranges_and_blocks_behind_records(records: int, verbatim: bool) -> None:  # noqa: FBT001
    trees = new_trees()
    tree = trees.metarange(build(trees, MODEL))
    first = {b"a%03d" % at: value(at) for at in range(records)}
    writer = TreeWriter(trees)
    writer.add_many(list(first), list(first.values()))
    writer.copy_ranges(tree, 0, 10, more=True)
    for position in range(10, 15):
        table = trees.table(tree.record(position))
        for run in table.runs():
            writer.add_run(run, verbatim=verbatim)
    writer.copy_ranges(tree, 15, len(tree), more=True)
    writer.add_many([b"z"], [value(1)])
    assert writer.finish() == build(new_trees(), first | MODEL | {b"z": value(1)})


@pytest.mark.parametrize("verbatim", [True, False])
def test_only_blocks_that_lakecli_cut_are_copied_as_they_are_stored(*, verbatim: bool) -> None:
    trees = new_trees(range_entries=1024)
    tree = trees.metarange(build(trees, MODEL))
    (run, *_) = trees.table(tree.record(0)).runs()
    writer = TreeWriter(trees)
    writer.add_run(run, 0, run.starts[2], verbatim=verbatim)
    assert writer._table is not None
    # Encoded blocks are bytes of their own; copied ones are views of the other table.
    assert isinstance(writer._table._blocks[0], memoryview) == verbatim


def test_a_whole_tree_is_taken_unread() -> None:
    trees = new_trees()
    tree = build(trees, MODEL)
    trees.counts.ranges_written = 0
    writer = TreeWriter(trees)
    writer.copy_ranges(trees.metarange(tree), 0, len(trees.metarange(tree)), more=False)
    assert writer.finish() == tree
    assert (trees.counts.ranges_opened, trees.counts.ranges_written) == (0, 0)


def test_the_last_range_is_read_only_where_something_follows() -> None:
    trees = new_trees()
    tree = trees.metarange(build(trees, MODEL))
    assert key(499) == boundaries(trees, tree.id)[-1]
    writer = TreeWriter(trees)
    writer.copy_ranges(tree, 0, len(tree), more=True)
    assert trees.counts.ranges_opened == 1
    assert not writer.at_cut


def test_what_one_writer_finished_another_one_takes_unread() -> None:
    trees = new_trees()
    keys, values = list(MODEL), list(MODEL.values())
    writer, other = TreeWriter(trees), TreeWriter(trees)
    assert (writer.open_entries, writer.finish_ranges()) == (0, ([], []))
    writer.add_many(keys[:250], values[:250])
    ranges = writer.finish_ranges()
    rest = keys.index(ranges[0][-1]) + 1
    assert writer.open_entries == 250 - rest > 0
    other.take_ranges(*ranges)
    with pytest.raises(ValueError, match="ascending"):
        other.take_ranges(*ranges)
    other.add_many(keys[rest:], values[rest:])
    with pytest.raises(ValueError, match="in the middle"):
        other.take_ranges(*ranges)
    other.take_ranges([], [])
    assert other.finish() == build(new_trees(), MODEL)
    assert trees.counts.ranges_opened == 0


def test_finished_ranges_are_durable_and_follow_each_other() -> None:
    trees = new_trees()
    writer = TreeWriter(trees)
    writer.add_many(list(MODEL), list(MODEL.values()))
    keys, values = writer.finish_ranges()
    records = [decode_range_record(each) for each in values]
    assert {info.key for info in trees.store.list()} == {f"_lakefs/{each.id}" for each in records}
    taken = TreeWriter(trees)
    taken.take_ranges(keys[:3], values[:3])
    with pytest.raises(ValueError, match="ascending"):
        taken.take_ranges(keys[2:5], values[2:5])
    with pytest.raises(ValueError, match="ascending"):
        taken.add_many([keys[1]], [value(1)])
    taken.take_ranges(keys[3:], values[3:])
    rest = list(MODEL)[list(MODEL).index(keys[-1]) + 1 :]
    taken.add_many(rest, [MODEL[path] for path in rest])
    tree = taken.finish()
    assert tree == build(new_trees(), MODEL)
    assert len(trees.metarange(tree)) == len(keys) + 1
    assert trees.counts.metaranges_opened == 0


def test_ranges_of_another_n_are_read() -> None:
    trees = new_trees()
    other = new_trees(trees.store, range_entries=2 * N)
    tree = other.metarange(build(other, MODEL))
    writer = TreeWriter(trees)
    writer.copy_ranges(tree, 0, len(tree), more=False)
    assert writer.finish() == build(new_trees(), MODEL)
    assert trees.counts.ranges_opened == len(tree)


def test_keys_have_to_ascend() -> None:
    trees = new_trees()
    tree = trees.metarange(build(trees, MODEL))
    writer = TreeWriter(trees)
    writer.add_many([key(100)], [value(1)])
    with pytest.raises(ValueError, match="ascending"):
        writer.add_many([key(100)], [value(1)])
    with pytest.raises(ValueError, match="ascending"):
        writer.add_many([key(200), key(150)], [value(1), value(2)])
    with pytest.raises(ValueError, match="ascending"):
        writer.copy_ranges(tree, 0, 1, more=False)

    # After a cut, no table is open that would refuse it.
    (cut, *_) = boundaries(trees, tree.id)
    at_cut = TreeWriter(trees)
    at_cut.add_many([cut], [value(1)])
    assert at_cut.at_cut
    with pytest.raises(ValueError, match="ascending"):
        at_cut.add_many([cut], [value(1)])
    many = [path for path in MODEL if path <= cut]
    at_cut = TreeWriter(trees)
    at_cut.add_many(many, [MODEL[path] for path in many])
    assert at_cut.at_cut
    with pytest.raises(ValueError, match="ascending"):
        at_cut.add_many([many[1]], [value(1)])

    behind = TreeWriter(trees)
    behind.copy_ranges(tree, 0, 5, more=True)
    with pytest.raises(Mismatch, match=f"would be {tree.record(4).min_key!r}"):  # as if forged
        behind.copy_ranges(tree, 4, 6, more=True)
    with pytest.raises(ValueError, match="ascending"):
        behind.add_many([key(0), key(499)], [value(1), value(2)])


def test_the_empty_key_may_come_first() -> None:
    trees = new_trees()
    writer = TreeWriter(trees)
    writer.add_many([b""], [value(1)])
    writer.add_many([b"a"], [value(2)])
    assert contents(trees, writer.finish()) == {b"": value(1), b"a": value(2)}
