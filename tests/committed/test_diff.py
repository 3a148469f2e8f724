"""Two-way and three-way differences against plain dictionaries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.model import EMPTY_TREE, ChangeType, Difference, MetarangeId
from lakecli.committed.diff import diff, differs_at, new_entries, new_ranges
from lakecli.committed.merge import compare
from lakecli.committed.merge_base import MergeBase
from lakecli.committed.values import encode_entry
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
from tests.support.lakes import entry_of

prefixes = st.sampled_from([b"", b"k", b"k0", b"k00", b"k0001", b"k00012", b"x", b"a"])
afters = st.sampled_from([b"", b"a", b"k00", b"x"]) | st.integers(0, 130).map(key)


def of_models(left: Model, right: Model) -> list[Difference]:
    found = []
    for path in sorted(left.keys() | right.keys()):
        old, new = left.get(path), right.get(path)
        if old == new:
            continue
        if old is None:
            kind = ChangeType.ADDED
        elif new is None:
            kind = ChangeType.REMOVED
        else:
            kind = ChangeType.CHANGED
        found.append(Difference(kind, path, old, new))
    return found


def three_way(base: Model, left: Model, right: Model) -> list[Difference]:
    found = []
    for each in of_models(left, right):
        if right.get(each.path) == base.get(each.path):
            continue
        if left.get(each.path) == base.get(each.path):
            found.append(each)
        else:
            found.append(Difference(ChangeType.CONFLICT, each.path, each.left, each.right))
    return found


def page(found: list[Difference], prefix: bytes, after: bytes) -> list[Difference]:
    return [each for each in found if each.path.startswith(prefix) and each.path > after]


@given(models(), models(), prefixes, afters)
def test_diff_of_unrelated_trees(left: Model, right: Model, prefix: bytes, after: bytes) -> None:
    trees = new_trees()
    a, b = build(trees, left), build(trees, right)
    found = list(diff(trees, a, b, prefix=prefix, start=after + b"\0" if after else b""))
    assert found == page(of_models(left, right), prefix, after)


@given(models(500), edits(500), prefixes, afters)
def test_diff_of_related_trees(model: Model, step: Changes, prefix: bytes, after: bytes) -> None:
    trees = new_trees()
    left = model | large_model(400)
    right = changed(left, step)
    found = list(
        diff(
            trees,
            build(trees, left),
            build(trees, right),
            prefix=prefix,
            start=after + b"\0" if after else b"",
        )
    )
    assert found == page(of_models(left, right), prefix, after)


@given(models(500), edits(500), st.sampled_from([16, 32, 256]))
def test_diff_does_not_need_ranges_to_end_alike(model: Model, step: Changes, number: int) -> None:
    trees = new_trees()
    other = new_trees(trees.store, range_entries=number)
    left = model | large_model(400)
    right = changed(left, step)
    found = list(diff(trees, build(trees, left), build(other, right)))
    assert found == of_models(left, right)


@given(models(300), st.lists(edits(300), max_size=3))
def test_what_none_of_the_parents_has_is_new(model: Model, steps: list[Changes]) -> None:
    def add(model: Model) -> MetarangeId:
        return build(trees, {path: encode_entry(entry_of(each)) for path, each in model.items()})

    trees = new_trees()
    model |= {key(at): value(at) for at in range(60, 200)}
    sides = [changed(model, step) for step in steps]
    tree, parents = add(model), [add(side) for side in sides]
    expected = [
        (path, entry_of(each))
        for path, each in sorted(model.items())
        if all(side.get(path) != each for side in sides)
    ]
    assert list(new_entries(trees, tree, parents)) == expected
    old = {each.id for parent in parents for each in trees.metarange(parent).records()}
    ranges = [each.id for each in trees.metarange(tree).records()]
    assert list(new_ranges(trees, tree, parents)) == [each for each in ranges if each not in old]


@given(models(300), edits(300), edits(300), prefixes, afters)
def test_compare(
    model: Model, left_step: Changes, right_step: Changes, prefix: bytes, after: bytes
) -> None:
    trees = new_trees()
    base = model | {key(at): value(at) for at in range(60, 200)}
    left, right = changed(base, left_step), changed(base, right_step)
    found = compare(
        trees,
        base=MergeBase.of(build(trees, base)),
        left=build(trees, left),
        right=build(trees, right),
        prefix=prefix,
        start=after + b"\0" if after else b"",
    )
    assert list(found) == page(three_way(base, left, right), prefix, after)


@given(models(), models(), models())
def test_compare_of_unrelated_trees(base: Model, left: Model, right: Model) -> None:
    trees = new_trees()
    b, x, y = (build(trees, model) for model in (base, left, right))
    found = list(compare(trees, base=MergeBase.of(b), left=x, right=y))
    assert found == three_way(base, left, right)


def test_equal_trees_do_not_differ() -> None:
    trees = new_trees()
    tree = build(trees, large_model(100))
    assert list(diff(trees, tree, tree)) == []
    assert list(diff(trees, EMPTY_TREE, EMPTY_TREE)) == []


def test_data_that_differs_under_one_identity_is_no_difference() -> None:
    trees = new_trees()
    model = large_model(100)
    left = build(trees, model | {key(50): value(50, b"old")})
    right = build(trees, model | {key(50): value(50, b"new"), key(51): value(-1)})
    assert [each.path for each in diff(trees, left, right)] == [key(51)]


def test_a_difference_at_one_path_is_found_without_ranges_that_both_trees_have() -> None:
    trees = new_trees()
    model = large_model(300)
    left = build(trees, model)
    changes = {key(100): value(-1), key(200): None, key(999): value(2)}
    right = build(trees, changed(model, changes))
    for one, two in ((left, right), (right, left)):
        assert all(differs_at(trees, one, two, path) for path in changes)
        assert not any(differs_at(trees, one, two, key(at)) for at in (101, 199, 201, 299, 1000))
        assert not differs_at(trees, one, two, b"z")
        assert differs_at(trees, one, EMPTY_TREE, key(7))
        assert not differs_at(trees, one, EMPTY_TREE, b"z")
        fresh = reopened(trees)
        assert not differs_at(fresh, one, two, key(0))
        assert fresh.counts.ranges_opened == 0


def test_a_path_between_two_blocks_of_the_destination_is_added() -> None:
    trees = new_trees(range_entries=4096)
    base = {key(at): value(at, bytes(range(200))) for at in range(0, 400, 2)}
    left = changed(base, {key(398): value(-1)})
    right = base | {key(at): value(at) for at in range(1, 400, 2)}
    ids = [build(trees, model) for model in (base, left, right)]
    table = trees.table(trees.metarange(ids[1]).record(0))
    ends = [table.block(number).keys[-1] for number in range(table.block_count - 1)]
    assert any(end < path <= table.separators[at] for at, end in enumerate(ends) for path in right)
    found = compare(trees, base=MergeBase.of(ids[0]), left=ids[1], right=ids[2])
    assert [each.path for each in found] == [key(at) for at in range(1, 400, 2)]


def test_an_interval_is_compared_from_its_start_to_before_its_stop() -> None:
    trees = new_trees()
    base = large_model(100)
    left, right = base, changed(base, {key(at): value(-at) for at in range(10, 90)})
    old, new = build(trees, left), build(trees, right)
    base_of = MergeBase.of(old)
    expected = of_models(left, right)
    for start, stop in ((key(20), key(40)), (b"", key(11)), (key(89), None), (key(40), key(40))):
        wanted = [e for e in expected if start <= e.path and (stop is None or e.path < stop)]
        assert list(diff(trees, old, new, start=start, stop=stop)) == wanted
        three = compare(trees, base=base_of, left=old, right=new, start=start, stop=stop)
        assert list(three) == wanted
    found = diff(trees, old, new, prefix=b"k0001", start=key(13) + b"\0", stop=key(15))
    assert [each.path for each in found] == [key(14)]
