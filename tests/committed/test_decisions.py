"""Which side a conflict takes: plans, patterns, strategies, and logs of tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakecli.base.model import MergeStrategy
from lakecli.committed.decisions import MAX_LINE, Decisions, MergeSide, OutdatedPlan, is_table_log
from lakecli.committed.merge import TABLE_LOGS, MergeConflict, iter_conflicts, merge
from lakecli.committed.merge_base import Ancestors, MergeBase
from lakecli.committed.values import identity_of
from lakecli.errors import NotFound, UsageError
from lakecli.repository.transfer.ignore_patterns import Patterns
from tests.committed.test_merge import merged_models
from tests.committed.trees import (
    Changes,
    Model,
    build,
    changed,
    contents,
    edits,
    key,
    models,
    new_trees,
    value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

A, B, C, D = value(1), value(2), value(3), value(4)
FROM, INTO = MergeSide
SOURCE, DEST = MergeStrategy.SOURCE_WINS, MergeStrategy.DEST_WINS


def line(
    path: bytes, take: str, source: bytes | None = B, dest: bytes | None = C, **others: object
) -> dict[str, object]:
    sides: Any = {
        name: None if each is None else {"identity": identity_of(each).hex(), "size": 5}
        for name, each in (("source", source), ("dest", dest))
    }
    return {"take": take, "path": path.decode("utf-8", "surrogateescape"), **sides, **others}


def write_plan(file: Path, lines: Sequence[object]) -> Path:
    file.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return file


def decide(
    decisions: Decisions, *paths: bytes, source: bytes | None = B, dest: bytes | None = C
) -> list[MergeSide | None]:
    with decisions.begin() as choose:
        return [choose(path, source, dest) for path in paths]


@pytest.mark.parametrize(
    "path",
    [
        b"_delta_log/00000000000000000001.json",
        b"t/_delta_log/00000000000000000010.checkpoint.parquet",
        b"t/_delta_log/_last_checkpoint",
        b"t/_delta_log/_sidecars/a.parquet",
        b"metadata/v3.metadata.json",
        b"warehouse/t/metadata/00001-ab.metadata.json",
        b"warehouse/t/metadata/00001-ab.metadata.json.gz",
        b"warehouse/t/metadata/snap-1-ab.avro",
        b"warehouse/t/metadata/version-hint.text",
    ],
)
def test_logs_of_tables(path: bytes) -> None:
    assert is_table_log(path)


@pytest.mark.parametrize(
    "path",
    [
        b"_delta_log",
        b"my_delta_log/1.json",
        b"metadata/readme.json",
        b"metadata/sub/v3.metadata.json",
        b"t/metadata/version-hint.text.bak",
        b"t/metadata.json",
        b"t/data/part-0.parquet",
    ],
)
def test_other_paths_are_in_no_log(path: bytes) -> None:
    assert not is_table_log(path)


@pytest.mark.parametrize(
    "take",
    ["", "raw/**", "source", "source:", "dest:#x", "dest:!raw", "Source:a", "other:a", "dest:a\nb"],
)
def test_a_malformed_take_is_refused_before_anything_is_done(take: str) -> None:
    with pytest.raises(UsageError, match="neither source:PATTERN nor dest:PATTERN") as refused:
        Decisions(take=["source:a", take])
    assert "as in .gitignore" in (refused.value.hint or "")


def test_the_last_pattern_that_matches_counts_then_the_strategy() -> None:
    takes = ["source:raw/", "dest:*.csv", "source:/raw/2026/"]
    paths = [b"raw", b"raw/a", b"raw/a.csv", b"raw/2026/a.csv", b"x/raw/a", b"other"]
    sides = [None, FROM, INTO, FROM, FROM, None]
    assert decide(Decisions(take=takes), *paths) == sides
    by_strategy = [INTO if each is None else each for each in sides]
    assert decide(Decisions(DEST, takes), *paths) == by_strategy


@given(
    st.lists(st.sampled_from([b"a", b"b", b"a.csv", b"", b"ab"]), min_size=1, max_size=4),
    st.lists(
        st.sampled_from(["a", "b/", "*.csv", "/a/**", "a/*", "**/b", "?", "/ab", "**"]), max_size=4
    ),
)
def test_each_pattern_matches_as_in_a_gitignore(names: list[bytes], patterns: list[str]) -> None:
    path = b"/".join(names).strip(b"/") or b"a"
    if b"//" in path:
        return
    takes = [f"{'source' if at % 2 else 'dest'}:{each}" for at, each in enumerate(patterns)]
    matching = [
        take
        for take, each in zip(takes, patterns, strict=True)
        if Patterns([each.encode()]).takes(path)
    ]
    expected = MergeSide(matching[-1].partition(":")[0]) if matching else None
    assert decide(Decisions(take=takes), path) == [expected]


@pytest.mark.parametrize(
    "decisions", [Decisions(), Decisions(SOURCE), Decisions(DEST), Decisions(take=["source:**"])]
)
def test_conflicts_in_logs_of_tables_stay_open(decisions: Decisions) -> None:
    log, other = b"t/_delta_log/1.json", b"t/a.parquet"
    trees = new_trees()
    sides: Any = {
        "base": MergeBase.of(build(trees, {other: A})),
        "source": build(trees, {other: B, log: B}),
        "destination": build(trees, {other: C, log: C}),
    }
    with pytest.raises(MergeConflict, match="in the log of a table: to take the file") as refused:
        merge(trees, **sides, decisions=decisions, hint="the caller's")
    is_decided = decisions != Decisions()
    assert refused.value.paths == ((log,) if is_decided else (other, log)[::-1])
    assert refused.value.hint == (TABLE_LOGS if is_decided else "the caller's")
    if is_decided:
        allowed = Decisions(decisions.strategy, decisions.take, table_logs=True)
        merged = merge(trees, **sides, decisions=allowed)
        assert set(contents(trees, merged).values()) == {C if decisions.strategy == DEST else B}


def test_a_plan_decides_and_leaves_the_rest_to_patterns_and_strategy(tmp_path: Path) -> None:
    lines = [line(b"a", "dest"), line(b"b", ""), line(b"c", "source"), line(b"d\xff", "source")]
    plan = write_plan(tmp_path / "plan", lines)
    decisions = Decisions(take=["source:a", "source:b"], plan=plan)
    expected = [INTO, FROM, FROM, FROM, None]
    assert decide(decisions, b"a", b"b", b"c", b"d\xff", b"e") == expected
    assert decide(Decisions(DEST, plan=plan), b"a", b"b", b"c", b"d\xff")[1] is INTO
    log = write_plan(tmp_path / "log", [line(b"_delta_log/1.json", "dest")])
    assert decide(Decisions(plan=log), b"_delta_log/1.json") == [None]
    both = Decisions(plan=log, table_logs=True)
    assert decide(both, b"_delta_log/1.json") == [INTO]


@pytest.mark.parametrize(
    ("source", "dest", "told"),
    [
        (D, C, "'b': the source has another object now"),
        (B, None, "'b': the destination has no object now"),
        (None, D, "'b': the source has no object now and the destination has another object now"),
    ],
)
def test_a_plan_for_other_objects_does_not_hold(
    tmp_path: Path, source: bytes | None, dest: bytes | None, told: str
) -> None:
    plan = write_plan(tmp_path / "plan", [line(b"b", "dest")])
    with pytest.raises(OutdatedPlan, match=f"for 1 path: {told}") as outdated:
        decide(Decisions(plan=plan), b"b", source=source, dest=dest)
    assert outdated.value.paths == (b"b",)
    with Decisions(DEST, plan=plan).begin(may_be_outdated=True) as choose:
        assert choose(b"a", B, C) is INTO
        assert choose(b"b", source, dest) is INTO
    with Decisions(plan=plan).begin(may_be_outdated=True) as choose:
        assert choose(b"b", source, dest) is None


def test_a_plan_of_an_object_that_was_absent_does_not_hold_with_one(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "plan", [line(b"b", "dest", dest=None)])
    assert decide(Decisions(plan=plan), b"b", dest=None) == [INTO]
    with pytest.raises(OutdatedPlan, match="the destination has an object now"):
        decide(Decisions(plan=plan), b"b")


def test_a_plan_with_what_is_no_conflict_does_not_hold(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "plan", [line(path, "dest") for path in (b"a", b"b", b"c")])
    with pytest.raises(OutdatedPlan, match="for 2 paths: 'a': is in conflict no more") as outdated:
        decide(Decisions(plan=plan), b"b")
    assert outdated.value.paths == (b"a", b"c")
    trees = new_trees()
    tree = build(trees, {b"a": A})
    with pytest.raises(OutdatedPlan):  # nor if one tree says at once that there are no conflicts
        merge(
            trees,
            base=MergeBase.of(tree),
            source=build(trees, {b"a": B}),
            destination=tree,
            decisions=Decisions(plan=plan),
        )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "line 1 "),
        ("[]", "not an object with fields"),
        (json.dumps(line(b"a", "theirs")), "take: none of source, dest"),
        (json.dumps({"take": "dest", "path": "a"}), "no field 'source'"),
        (json.dumps(line(b"", "dest")), "path: a text of 0 bytes"),
        (json.dumps(line(b"a" * 1025, "dest")), "path: a text of 1,025 bytes"),
        (json.dumps(line(b"a", "dest") | {"path": "\ud800"}), "half a character"),
        (json.dumps(line(b"a", "dest") | {"source": {}}), "source: no field 'identity'"),
        (json.dumps(line(b"a", "dest") | {"dest": {"identity": 7}}), "dest: identity: not a text"),
        (json.dumps(line(b"b", "dest")) + "\n\n" + json.dumps(line(b"a", "dest")), "line 3 "),
        (json.dumps(line(b"a", "dest")) + "\n" + json.dumps(line(b"a", "dest")), "not after that"),
        (json.dumps(line(b"a", "dest", note="x" * MAX_LINE)), "more than 1,048,576 bytes"),
        ("[" * 100_000, "line 1 "),
        (json.dumps(line(b"a", "dest"))[:-1] + ', "n": ' + "9" * 5_000 + "}", "line 1 "),
    ],
)
def test_a_malformed_plan_is_refused(tmp_path: Path, text: str, why: str) -> None:
    plan = tmp_path / "plan"
    plan.write_text(text)
    with pytest.raises(UsageError, match=why) as refused:
        decide(Decisions(DEST, plan=plan), b"a", b"b")
    assert "change only what" in (refused.value.hint or "")


def test_what_is_not_utf_8_is_no_plan(tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    plan.write_bytes(b"\xff\n")
    with pytest.raises(UsageError, match="line 1 "):
        decide(Decisions(plan=plan), b"a")
    plan.write_bytes(b"\xef\xbb\xbf" + json.dumps(line(b"a", "dest")).encode() + b"\r\n")
    assert decide(Decisions(plan=plan), b"a") == [INTO]


def test_a_plan_is_a_file(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path, Path("/dev/null")):
        with pytest.raises(NotFound, match="no file"):
            decide(Decisions(plan=path), b"a")


def test_a_plan_edited_between_check_and_merge_merges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees = new_trees()
    plan = write_plan(tmp_path / "plan", [line(b"a", "dest")])
    base, source, destination = (build(trees, {b"a": each}) for each in (A, B, C))

    def edit(_conflicts: object, *, hint: str) -> None:
        write_plan(plan, [line(b"a", "")])

    monkeypatch.setattr("lakecli.committed.merge.Conflicts.check", edit)
    with pytest.raises(MergeConflict):
        merge(
            trees,
            base=MergeBase.of(base),
            source=source,
            destination=destination,
            decisions=Decisions(plan=plan),
        )


PATTERNS = ("*", "/k0000*", "k000[13579]*", "*7", "k00?2?", "none")
takes = st.lists(st.tuples(st.sampled_from(list(MergeSide)), st.sampled_from(PATTERNS)), max_size=4)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    model=models(150),
    bases=st.lists(edits(150), min_size=1, max_size=2),
    left=edits(150),
    right=edits(150),
    takes=takes,
    strategy=st.sampled_from(list(MergeStrategy)),
    planned=st.none()
    | st.dictionaries(st.integers(0, 150).map(key), st.sampled_from(["", FROM, INTO])),
)
def test_decided_conflicts_are_those_sides_in_both_trees(
    *,
    tmp_path: Path,
    model: Model,
    bases: Sequence[Changes],
    left: Changes,
    right: Changes,
    takes: Sequence[tuple[MergeSide, str]],
    strategy: MergeStrategy,
    planned: Mapping[bytes, str] | None,
) -> None:
    """A merge with decisions is the merge of trees that have the chosen side at each conflict."""
    trees = new_trees()
    root = model | {key(at): value(at % 4) for at in range(40, 130)}
    made = [build(trees, changed(root, each)) for each in bases]
    base = MergeBase.of(made[0])
    if len(set(made)) > 1:  # a criss-cross
        base = MergeBase(
            (Ancestors(tuple(made), {(0, 1): 1}), Ancestors((build(trees, root),), {}))
        )
    source, destination = changed(root, left), changed(root, right)
    sides: Any = {
        "base": base,
        "source": build(trees, source),
        "destination": build(trees, destination),
    }
    conflicts = {each.path: each for each in iter_conflicts(trees, **sides)}
    plan = None
    if planned is not None:
        lines = [
            line(path, planned[path], each.source, each.destination)
            for path, each in conflicts.items()
            if path in planned
        ]
        plan = write_plan(tmp_path / "plan", lines)
    decisions = Decisions(strategy, [f"{side}:{pattern}" for side, pattern in takes], plan)

    chosen: dict[bytes, str] = {}
    for path in conflicts:
        by_pattern = [side for side, each in takes if Patterns([each.encode()]).takes(path)]
        by_plan = "" if planned is None else planned.get(path, "")
        by_strategy = str(strategy).removesuffix("-wins").removeprefix("default")
        chosen[path] = by_plan or (by_pattern[-1] if by_pattern else by_strategy)
    if not all(chosen.values()):
        before = list(trees.store.list())
        with pytest.raises(MergeConflict) as refused:
            merge(trees, **sides, decisions=decisions)
        assert list(refused.value.paths) == [path for path, side in chosen.items() if not side]
        assert list(trees.store.list()) == before
        return
    merged = merge(trees, **sides, decisions=decisions)
    winners = {
        path: (source if side == FROM else destination).get(path) for path, side in chosen.items()
    }
    decided: Any = {
        "source": build(trees, changed(source, winners)),
        "destination": build(trees, changed(destination, winners)),
    }
    assert not list(iter_conflicts(trees, base=base, **decided))
    expected = merge(trees, base=base, **decided, decisions=Decisions())
    assert contents(trees, merged) == contents(trees, expected)
    if len(made) == 1:
        plain, found = merged_models(changed(root, bases[0]), source, destination)
        assert found == list(conflicts)
        assert contents(trees, merged) == changed(plain, winners)
