"""The base of a merge where two commits have several best common ancestors."""

from __future__ import annotations

import pickle
from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.model import ChangeType, Difference, MergeStrategy
from lakecli.committed.decisions import Decisions
from lakecli.committed.merge import MergeConflict, compare, merge
from lakecli.committed.merge_base import Ancestors, MergeBase
from lakecli.committed.scan import type_of
from lakecli.committed.tree_store import MissingTable
from tests.committed.trees import (
    Changes,
    Model,
    build,
    changed,
    contents,
    edits,
    key,
    large_model,
    models,
    new_trees,
    put_foreign,
    reopened,
    value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakecli.base.model import MetarangeId
    from lakecli.committed.tree_store import TreeStore

A, B, C, D, X = value(1), value(2), value(3), value(4), None
UNDECIDED = "undecided"


def crossed(
    trees: Sequence[MetarangeId], before: MetarangeId, *, missing: Sequence[tuple[int, int]] = ()
) -> MergeBase:
    """Return a base of several trees, all pairs of which have one best common ancestor."""
    pairs = [(one, other) for other in range(len(trees)) for one in range(other)]
    below = {pair: 1 for pair in pairs if pair not in missing}
    return MergeBase((Ancestors(tuple(trees), below), Ancestors((before,), {})))


def resolve(base: MergeBase, content: Mapping[str, bytes | None]) -> bytes | str | None:
    found = base.resolve(content.__getitem__, lambda left, right: left == right)
    return found[0] if len(found) == 1 else UNDECIDED


@pytest.mark.parametrize(
    ("left", "right", "before", "expected"),
    [
        (A, A, A, A),
        (A, A, B, A),
        (B, A, A, B),
        (A, B, A, B),
        (A, X, A, X),
        (X, A, A, X),
        (A, X, X, A),
        (X, X, A, X),
        (B, C, A, UNDECIDED),
        (B, X, A, UNDECIDED),
        (B, C, X, UNDECIDED),
    ],
)
def test_the_side_that_changed_a_path_has_its_content(
    left: bytes | None, right: bytes | None, before: bytes | None, expected: bytes | str | None
) -> None:
    base = crossed(["left", "right"], "before")  # type: ignore[list-item,arg-type]
    content = {"left": left, "right": right, "before": before}
    assert resolve(base, content) == expected
    assert resolve(pickle.loads(pickle.dumps(base)), content) == expected


@pytest.mark.parametrize(
    ("contents", "before", "expected"),
    [
        ((A, A, A), B, A),
        ((B, A, A), A, B),
        ((B, B, A), A, B),
        ((X, A, A), A, X),
        ((B, C, A), A, UNDECIDED),
        ((B, C, D), A, UNDECIDED),
        ((B, B, C), A, UNDECIDED),
    ],
)
def test_of_three_trees_one_wins_whatever_their_order(
    contents: tuple[bytes | None, ...], before: bytes, expected: bytes | str | None
) -> None:
    base = crossed(["0", "1", "2"], "before")  # type: ignore[list-item,arg-type]
    for order in permutations(contents):
        given = {str(at): each for at, each in enumerate(order)} | {"before": before}
        assert resolve(base, given) == expected


def test_what_two_others_changed_in_different_ways_is_undecided() -> None:
    """Whichever Git merges first, two of them conflict, though the third wins against each."""
    bases = Ancestors(("b", "c", "d"), {(0, 1): 1, (0, 2): 2, (1, 2): 3})  # type: ignore[arg-type]
    before = [Ancestors((each,), {}) for each in ("a", "b", "c")]  # type: ignore[arg-type]
    base = MergeBase((bases, *before))
    assert resolve(base, {"a": A, "b": B, "c": C, "d": D}) == UNDECIDED


def test_what_two_others_changed_in_one_way_is_undecided() -> None:
    """Both have made B of A; the third has made C of the B that it has in common with each."""
    bases = Ancestors(("l", "m", "r"), {(0, 1): 1, (0, 2): 2, (1, 2): 2})  # type: ignore[arg-type]
    before = [Ancestors((each,), {}) for each in ("new", "old")]  # type: ignore[arg-type]
    base = MergeBase((bases, *before))
    assert resolve(base, {"l": B, "m": B, "r": C, "new": A, "old": B}) == UNDECIDED
    assert resolve(base, {"l": B, "m": B, "r": C, "new": B, "old": B}) == C


def test_ancestors_are_merged_from_theirs() -> None:
    base = MergeBase(
        (
            Ancestors(("l1", "r1"), {(0, 1): 1}),  # type: ignore[arg-type]
            Ancestors(("l0", "r0"), {(0, 1): 2}),  # type: ignore[arg-type]
            Ancestors(("root",), {}),  # type: ignore[arg-type]
        )
    )
    old = {"l0": B, "r0": A, "root": A}  # merge to B
    assert resolve(base, old | {"l1": B, "r1": C}) == C
    assert resolve(base, old | {"l1": A, "r1": B}) == A
    assert resolve(base, old | {"l1": A, "r1": C}) == UNDECIDED
    undecided = {"l0": B, "r0": C, "root": A}
    assert resolve(base, undecided | {"l1": B, "r1": C}) == UNDECIDED
    assert resolve(base, undecided | {"l1": D, "r1": D}) == D


def test_a_pair_that_was_not_followed_decides_nothing() -> None:
    base = crossed(["l", "r"], "before", missing=[(0, 1)])  # type: ignore[list-item,arg-type]
    assert resolve(base, {"l": A, "r": B}) == UNDECIDED
    assert resolve(base, {"l": A, "r": A}) == A
    assert resolve(MergeBase((Ancestors((), {}),)), {}) == UNDECIDED


def expected_of(
    bases: Sequence[Model], before: Model, left: Model, right: Model
) -> list[Difference]:
    """Return what merging `right` into `left` changes, path by path."""
    found = []
    paths: set[bytes] = set().union(left, right)
    for path in sorted(paths):
        ours, theirs = left.get(path), right.get(path)
        values = {each.get(path) for each in bases}
        new = values - {before.get(path)}
        decided = len(values) == 1 or len(new) == 1
        base = next(iter(values if len(values) == 1 else new)) if decided else UNDECIDED
        if theirs in {ours, base}:
            continue
        kind = ChangeType.CONFLICT if base != ours else type_of(ours, theirs)
        found.append(Difference(kind, path, ours, theirs))
    return found


def check(trees: TreeStore, base: MergeBase, left: MetarangeId, right: MetarangeId) -> None:
    """Merge, and hold the result against the differences, which were checked."""
    found = list(compare(trees, base=base, left=left, right=right))
    conflicts = [each.path for each in found if each.type == ChangeType.CONFLICT]
    sides = {"source": right, "destination": left}
    if conflicts:
        with pytest.raises(MergeConflict) as caught:
            merge(trees, base=base, **sides, decisions=Decisions())
        assert list(caught.value.paths) == conflicts
    else:
        merge(trees, base=base, **sides, decisions=Decisions())
    for strategy in (MergeStrategy.SOURCE_WINS, MergeStrategy.DEST_WINS):
        wins = strategy == MergeStrategy.SOURCE_WINS
        made = merge(trees, base=base, **sides, decisions=Decisions(strategy))
        changes = {each.path: each.right for each in found if wins or each.path not in conflicts}
        expected = changed(contents(trees, left), changes)
        assert contents(trees, made) == expected
        assert made in {left, right, build(new_trees(), expected)}


@given(models(300), st.lists(edits(300), min_size=2, max_size=3), edits(300), edits(300))
def test_only_what_the_bases_have_differently_is_merged_otherwise(
    model: Model, steps: list[Changes], left: Changes, right: Changes
) -> None:
    trees = new_trees()
    before = model | {key(at): value(at % 4) for at in range(80, 260)}
    bases = [changed(before, step) for step in steps]
    everything: Changes = {path: each for step in steps for path, each in step.items()}
    joined = changed(before, everything)
    sides = changed(joined, left), changed(joined, right)
    base = crossed([build(trees, each) for each in bases], build(trees, before))
    ours, theirs = (build(trees, each) for each in sides)
    found = list(compare(trees, base=base, left=ours, right=theirs))
    assert found == expected_of(bases, before, *sides)
    start, stop = key(90), key(170)
    part = compare(trees, base=base, left=ours, right=theirs, start=start, stop=stop)
    assert list(part) == [each for each in found if start <= each.path < stop]
    check(trees, base, ours, theirs)


@given(st.lists(models(60), min_size=5, max_size=5), st.integers(0, 31))
def test_trees_that_are_cut_otherwise(five: list[Model], foreign: int) -> None:
    trees = new_trees()
    tail = large_model(100)
    five = [tail | each for each in five]
    before, one, other, ours, theirs = (
        put_foreign(trees.store, model, size=7 + at) if foreign >> at & 1 else build(trees, model)
        for at, model in enumerate(five)
    )
    base = crossed([one, other], before)
    found = list(compare(trees, base=base, left=ours, right=theirs))
    assert found == expected_of(five[1:3], five[0], *five[3:])
    check(trees, base, ours, theirs)


def test_more_ancestors_than_are_merged_make_every_difference_a_conflict() -> None:
    trees = new_trees()
    left, right = ({b"a": A, b"l": A}, {b"a": A, b"l": B, b"r": C})
    base = MergeBase((Ancestors((), {}),))
    ours, theirs = build(trees, left), build(trees, right)
    found = list(compare(trees, base=base, left=ours, right=theirs))
    assert [(each.type, each.path) for each in found] == [
        (ChangeType.CONFLICT, b"l"),
        (ChangeType.CONFLICT, b"r"),
    ]
    check(trees, base, ours, theirs)


def test_a_missing_tree_below_the_bases_decides_nothing() -> None:
    """Garbage collection deletes the trees of expired commits."""
    trees = new_trees()
    before = large_model(200)
    one, other = changed(before, {key(1): D}), changed(before, {key(150): D})
    joined = changed(one, {key(150): D})
    ours = build(trees, changed(joined, {key(1): B}))
    theirs = build(trees, changed(joined, {key(2): C, key(150): B}))
    gone = build(trees, before)
    base = crossed([build(trees, one), build(trees, other)], gone)
    whole = list(compare(trees, base=base, left=ours, right=theirs))
    assert [each.type for each in whole] == [ChangeType.CHANGED, ChangeType.CHANGED]
    trees.store.delete([f"_lakefs/{gone}"])
    found = list(compare(reopened(trees), base=base, left=ours, right=theirs))
    # Where the bases agree, nobody asks what was before.
    assert [(each.type, each.path) for each in found] == [
        (ChangeType.CONFLICT, key(1)),
        (ChangeType.CHANGED, key(2)),
        (ChangeType.CONFLICT, key(150)),
    ]
    trees.store.delete([f"_lakefs/{base.trees[1]}"])
    with pytest.raises(MissingTable):
        list(compare(reopened(trees), base=base, left=ours, right=theirs))


@pytest.mark.parametrize("sizes", [(10, 10, 15), (15, 10, 10), (10, 15, 10), (10, 10, 7)])
def test_ranges_that_reach_beyond_those_of_the_sides(sizes: tuple[int, int, int]) -> None:
    """Such a range has the base's content, and more that is not of this part of the trees."""
    trees = new_trees()
    before = large_model(60)
    bases = [changed(before, {key(55): D}), changed(before, {key(3): D})]
    joined = changed(bases[0], {key(3): D})
    sides = changed(joined, {key(4): D}), changed(joined, {key(5): D, key(33): D})
    old, one, other = (
        put_foreign(trees.store, model, size=size)
        for model, size in zip([before, *bases], sizes, strict=True)
    )
    ours, theirs = (put_foreign(trees.store, model, size=10) for model in sides)
    base = crossed([one, other], old)
    found = list(compare(trees, base=base, left=ours, right=theirs))
    assert found == expected_of(bases, before, *sides)
    check(trees, base, ours, theirs)
