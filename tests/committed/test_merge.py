"""Three-way merge: the specification's table row by row, its laws, and upstream's known flaws."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.model import EMPTY_TREE, Entry, MergeStrategy, MetarangeId
from lakecli.committed.merge import (
    MAX_CONFLICTS_LISTED,
    Candidate,
    Conflicts,
    MergeConflict,
    have_unlike_checksums,
    may_be_none,
)
from lakecli.committed.tree_store import TreeStore
from lakecli.committed.values import encode_entry
from tests.committed.trees import (
    Changes,
    Model,
    build,
    changed,
    contents,
    edits,
    key,
    large_model,
    merge,
    models,
    new_trees,
    put_foreign,
    value,
)

FAIL, SOURCE, DEST = MergeStrategy.FAIL, MergeStrategy.SOURCE_WINS, MergeStrategy.DEST_WINS
A, B, C, X = value(1), value(2), value(3), None
CONFLICT = "conflict"

TABLE = [
    # base, source, destination, result
    (A, A, A, A),
    (A, B, B, B),
    (A, B, C, CONFLICT),
    (A, A, B, B),
    (A, B, A, B),
    (A, X, X, X),
    (A, B, X, CONFLICT),
    (A, X, B, CONFLICT),
    (A, A, X, X),
    (A, X, A, X),
    # added since the base
    (X, B, X, B),
    (X, X, B, B),
    (X, B, B, B),
    (X, B, C, CONFLICT),
    (X, X, X, X),
]

NEIGHBOURS = {
    "alone": Model(),
    "among others": {b"a": value(7), b"z": value(8)},
    "among equal identities": {b"a": A, b"l": B, b"n": B, b"z": C},
    "in many ranges": large_model(300),
}


def with_path(model: Model, each: bytes | None) -> Model:
    return changed(model, {b"m": each})


@pytest.mark.parametrize("strategy", MergeStrategy)
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("row", TABLE)
def test_the_table(
    row: tuple[bytes | None, bytes | None, bytes | None, bytes | str | None],
    neighbours: str,
    strategy: MergeStrategy,
) -> None:
    base, source, destination, result = row
    trees = new_trees()
    others = NEIGHBOURS[neighbours]
    # The sides differ elsewhere too, so that no shortcut decides.
    sides = {
        "base": build(trees, with_path(others, base)),
        "source": build(trees, with_path(others, source) | {b"by source": value(20)}),
        "destination": build(trees, with_path(others, destination) | {b"y": value(21)}),
    }
    if result == CONFLICT and strategy == FAIL:
        with pytest.raises(MergeConflict, match="1 path was changed differently") as caught:
            merge(trees, **sides, strategy=strategy)
        assert caught.value.paths == (b"m",)
        return
    if result == CONFLICT:
        expected = source if strategy == SOURCE else destination
    else:
        assert not isinstance(result, str)
        expected = result
    merged = merge(trees, **sides, strategy=strategy)
    model = with_path(others, expected) | {b"by source": value(20), b"y": value(21)}
    assert contents(trees, merged) == model
    assert merged == build(new_trees(), model)


def merged_models(base: Model, source: Model, destination: Model) -> tuple[Model, list[bytes]]:
    """Return the merge of models, conflicts left to the destination, and the conflicts."""
    result, conflicts = Model(), []
    for path in sorted(base.keys() | source.keys() | destination.keys()):
        before, theirs, ours = base.get(path), source.get(path), destination.get(path)
        chosen = theirs if ours == before else ours
        if theirs not in (before, ours) and ours != before:
            conflicts.append(path)
        if chosen is not None:
            result[path] = chosen
    return result, conflicts


def check_merge(base: Model, source: Model, destination: Model) -> None:
    trees = new_trees()
    sides = {
        "base": build(trees, base),
        "source": build(trees, source),
        "destination": build(trees, destination),
    }
    expected, conflicts = merged_models(base, source, destination)
    check_result(trees, sides, destination, expected, DEST)
    theirs = {path: source.get(path) for path in conflicts}
    check_result(trees, sides, destination, changed(expected, theirs), SOURCE)
    if conflicts:
        before = list(trees.store.list())
        with pytest.raises(MergeConflict) as caught:
            merge(trees, **sides, strategy=FAIL)
        assert list(caught.value.paths) == conflicts
        assert caught.value.count == len(conflicts)
        assert list(trees.store.list()) == before
    else:
        check_result(trees, sides, destination, expected, FAIL)


def check_result(
    trees: TreeStore,
    sides: dict[str, MetarangeId],
    destination: Model,
    expected: Model,
    strategy: MergeStrategy,
) -> None:
    merged = merge(trees, **sides, strategy=strategy)
    assert contents(trees, merged) == expected
    assert merged == build(new_trees(), expected)
    assert (merged == sides["destination"]) == (expected == destination)


@given(models(300), edits(300), edits(300))
def test_merge_is_the_models_merge(model: Model, left: Changes, right: Changes) -> None:
    base = model | {key(at): value(at % 4) for at in range(80, 260)}
    check_merge(base, changed(base, left), changed(base, right))


@given(models(40), models(40), models(40))
def test_merge_of_unrelated_trees_with_many_equal_identities(
    base: Model, source: Model, destination: Model
) -> None:
    check_merge(base, source, destination)


@given(models(300), edits(300))
def test_an_unchanged_side_gives_the_other_one(model: Model, step: Changes) -> None:
    trees = new_trees()
    base, other = build(trees, model), build(trees, changed(model, step))
    for strategy in MergeStrategy:
        forward = merge(trees, base=base, source=other, destination=base, strategy=strategy)
        assert forward == other
        backward = merge(trees, base=base, source=base, destination=other, strategy=strategy)
        assert backward == other
        both = merge(trees, base=base, source=other, destination=other, strategy=strategy)
        assert both == other


@given(models(300), edits(300), edits(300), st.booleans())
def test_it_does_not_matter_who_is_merged_into_whom(
    model: Model,
    left: Changes,
    right: Changes,
    disjoint: bool,  # noqa: FBT001
) -> None:
    if disjoint:
        right = {path + b"!": each for path, each in right.items()}
    trees = new_trees()
    base, a, b = (
        build(trees, each) for each in (model, changed(model, left), changed(model, right))
    )
    _, conflicts = merged_models(model, changed(model, left), changed(model, right))
    outcomes: set[MetarangeId | tuple[bytes, ...]] = set()
    for source, destination in ((a, b), (b, a)):
        try:
            merged = merge(trees, base=base, source=source, destination=destination, strategy=FAIL)
            outcomes.add(merged)
        except MergeConflict as conflict:
            outcomes.add(conflict.paths)
    assert len(outcomes) == 1
    assert bool(conflicts) == isinstance(outcomes.pop(), tuple)


def test_an_add_on_both_sides_is_not_compared_with_the_next_record_of_the_base() -> None:
    """The base's next path has the identity that one side added: still a conflict."""
    trees = new_trees()
    base = build(trees, {b"c": B})
    source = build(trees, {b"b": B, b"c": B})
    destination = build(trees, {b"b": C, b"c": B})
    with pytest.raises(MergeConflict) as caught:
        merge(trees, base=base, source=source, destination=destination, strategy=FAIL)
    assert caught.value.paths == (b"b",)


def test_an_added_record_survives_a_neighbour_of_the_same_identity() -> None:
    trees = new_trees()
    base = build(trees, {b"a": A, b"c": B})
    source = build(trees, {b"a": A, b"b": B, b"c": B})
    destination = build(trees, {b"a": A})
    merged = merge(trees, base=base, source=source, destination=destination, strategy=FAIL)
    assert contents(trees, merged) == {b"a": A, b"b": B}


def test_where_both_sides_are_equal_the_destinations_record_stays() -> None:
    trees = new_trees()
    base = build(trees, {b"a": A})
    source = build(trees, {b"a": A, b"c": value(2, b"source's"), b"s": C})
    destination = build(trees, {b"a": A, b"c": value(2, b"destination's"), b"d": C})
    assert len(trees.metarange(source)) == len(trees.metarange(destination)) == 1
    merged = merge(trees, base=base, source=source, destination=destination, strategy=SOURCE)
    assert contents(trees, merged)[b"c"] == value(2, b"destination's")


def test_source_wins_takes_the_sources_deletion() -> None:
    trees = new_trees()
    base, source, destination = (
        build(trees, model) for model in ({b"a": A, b"b": A}, {b"b": A}, {b"a": B, b"b": A})
    )
    merged = merge(trees, base=base, source=source, destination=destination, strategy=SOURCE)
    assert contents(trees, merged) == {b"b": A}


def test_of_a_foreign_destination_nothing_is_written_if_nothing_changes() -> None:
    """Both made the same change, one in a tree that is cut otherwise."""
    trees = new_trees()
    model = large_model(100)
    after = changed(model, {key(3): A})
    base, source = build(trees, model), build(trees, after)
    destination = put_foreign(trees.store, after, size=30)
    before = list(trees.store.list())
    merged = merge(trees, base=base, source=source, destination=destination, strategy=FAIL)
    assert merged == destination
    written = list(trees.store.list())
    assert [each for each in written if each not in before] == []


def test_merging_into_nothing_and_to_nothing() -> None:
    trees = new_trees()
    tree = build(trees, large_model(100))
    merged = merge(trees, base=EMPTY_TREE, source=tree, destination=EMPTY_TREE, strategy=FAIL)
    assert merged == tree
    merged = merge(trees, base=tree, source=EMPTY_TREE, destination=tree, strategy=FAIL)
    assert merged == EMPTY_TREE


def test_a_conflict_says_how_many_paths_it_has_and_how_many_may_be_none() -> None:
    def conflict(count: int, unlikes: int = 0) -> MergeConflict:
        conflicts = Conflicts()
        for number in range(count):
            conflicts.add(b"%05d" % number, unlike_checksums=number < unlikes)
        return MergeConflict(conflicts)

    for count, what in ((1, "1 path was"), (2, "2 paths were"), (1_500, "1,500 paths were")):
        error = conflict(count)
        assert error.message == f"merge conflict: {what} changed differently on both sides"
        assert "`strategy=source-wins`" in (error.hint or "")
        assert (error.count, len(error.paths)) == (count, min(count, MAX_CONFLICTS_LISTED))
        assert error.unlike_checksums == ()
    for count, unlikes, those in (
        (1, 1, "it"),
        (2, 1, "1 of them"),
        (2_000, 1_500, "1,500 of them"),
    ):
        error = conflict(count, unlikes)
        assert f"both sides; {those} may be no conflict: " in error.message
        assert len(error.unlike_checksums) == min(unlikes, MAX_CONFLICTS_LISTED)


MD5, OTHER_MD5, BLAKE3 = "a" * 32, "b" * 32, "c" * 64
AT = datetime(2026, 1, 1, tzinfo=UTC)


def entry(checksum: str, size: int = 5) -> bytes:
    return encode_entry(Entry("data/x", size, checksum, AT))


@pytest.mark.parametrize(
    ("left", "right", "unlike"),
    [
        (entry(MD5), entry(BLAKE3), True),
        (entry(MD5), entry(BLAKE3, 6), False),
        (entry(MD5), entry(OTHER_MD5), False),
        (entry(BLAKE3), entry("d" * 64), False),
        (entry(MD5), entry("e" * 40), False),
        (entry("e" * 40), entry(BLAKE3), False),
        (entry(MD5), None, False),
        (entry(MD5), b"", False),
        (entry(MD5), b"no entry", False),
        (None, None, False),
    ],
)
def test_checksums_are_unlike_if_only_bytes_can_tell(
    left: bytes | None, right: bytes | None, *, unlike: bool
) -> None:
    assert have_unlike_checksums(left, right) == unlike
    assert have_unlike_checksums(right, left) == unlike


@pytest.mark.parametrize("bases", [0, 1, 2])
@pytest.mark.parametrize("place", [0, 1, 2, None])
def test_a_conflict_may_be_none_if_two_of_its_sides_have_unlike_checksums(
    place: int | None, bases: int
) -> None:
    values = [entry(MD5, 1), entry(MD5, 2), entry(MD5, 3)]
    pairs = [(0, 1), (0, 2), (1, 2)]
    if place is not None:
        left, right = pairs[place]
        values[left] = entry(BLAKE3, right + 1)
    conflict = Candidate(b"p", [*[None] * (bases - 1), *values[2:]][:bases], *values[:2])
    is_among = place is not None and (place == 0 or bases > 0)
    assert may_be_none(conflict) == is_among


def test_conflicts_are_collected_with_those_that_may_be_none() -> None:
    conflicts = Conflicts()
    conflicts.check()
    for path, unlike in ((b"a", True), (b"b", False), (b"c", True)):
        conflicts.add(path, unlike_checksums=unlike)
    with pytest.raises(MergeConflict, match="2 of them may be no conflict") as caught:
        conflicts.check()
    assert caught.value.paths == (b"a", b"b", b"c")
    assert (caught.value.count, caught.value.unlike_checksums) == (3, (b"a", b"c"))


def test_of_many_conflicts_the_first_ones_are_listed_and_all_are_counted() -> None:
    trees = new_trees(range_entries=256)
    count = MAX_CONFLICTS_LISTED + 500
    base, source, destination = (
        build(trees, large_model(count, seed=seed)) for seed in (0, 10_000, 20_000)
    )
    with pytest.raises(MergeConflict, match="1,500 paths were changed differently") as caught:
        merge(trees, base=base, source=source, destination=destination, strategy=FAIL)
    assert list(caught.value.paths) == sorted(large_model(count))[:MAX_CONFLICTS_LISTED]
    assert caught.value.count == count


@given(models(300), edits(300), edits(300), st.permutations([16, 32, 64]))
def test_trees_cut_by_another_rule_merge_into_one_cut_by_ours(
    model: Model, left: Changes, right: Changes, numbers: list[int]
) -> None:
    trees = new_trees()
    by_number = [TreeStore(trees.store, cache=None, range_entries=number) for number in numbers]
    versions = [model, changed(model, left), changed(model, right)]
    base, source, destination = (
        build(store, version) for store, version in zip(by_number, versions, strict=True)
    )
    merged = merge(trees, base=base, source=source, destination=destination, strategy=DEST)
    expected, _ = merged_models(*versions)
    assert contents(trees, merged) == expected
    if merged not in {source, destination}:
        assert merged == build(new_trees(), expected)
