from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import ChangeType, MergeStrategy
from lakecli.cli.out.records import to_json
from lakecli.committed.decisions import Decisions, OutdatedPlan
from lakecli.committed.merge import MergeConflict
from lakecli.errors import DirtyBranch, NotFound, NothingToDo, Refused, UsageError
from lakecli.repository import branch
from lakecli.repository.cherry_pick import cherry_pick
from lakecli.repository.commit import commit
from lakecli.repository.diff import diff_refs
from lakecli.repository.log import show_commit
from lakecli.repository.merge import MergeOptions, conflicts_of, merge, preview
from lakecli.repository.reading.merge_points import find_merge_base
from lakecli.repository.revert import revert
from tests.support.lakes import checksums, read, stage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lakecli.base.model import Commit
    from lakecli.repository.contract import Repository

ME = MergeOptions("me")


def put(
    repository: Repository, name: str, contents: Mapping[bytes, bytes | None], message: str = "m"
) -> Commit:
    stage(repository, name, contents)
    return commit(repository, name, message=message, committer="author", metadata={"k": "v"})


@pytest.fixture
def forked(repository: Repository) -> Repository:
    """Branches ``side`` and ``main`` with one common commit and one of each."""
    put(repository, "main", {b"both": b"0", b"kept": b"0", b"main": b"0", b"side": b"0"})
    branch.create(repository, "side", source="main")
    put(repository, "main", {b"main": b"1", b"both": b"main"})
    return repository


def test_a_merge_has_both_parents_and_both_changes(forked: Repository) -> None:
    theirs = put(forked, "side", {b"side": b"1", b"new": b"1"})
    ours = show_commit(forked, "main")
    made = merge(forked, "side", "main", MergeOptions("me", metadata={"ticket": "7"}))

    assert made.parents == (ours.id, theirs.id)
    assert made.message == "Merge 'side' into 'main'"
    assert made.metadata == {".lakefs.merge.strategy": "default", "ticket": "7"}
    assert made.generation == 1 + max(ours.generation, theirs.generation)
    assert read(forked, "main") == checksums(
        {b"both": b"main", b"kept": b"0", b"main": b"1", b"side": b"1", b"new": b"1"}
    )


def test_a_squash_has_one_parent_and_a_generation_above_the_source(forked: Repository) -> None:
    put(forked, "side", {b"new": b"1"})
    put(forked, "side", {b"new": b"2"})
    source, head = show_commit(forked, "side"), show_commit(forked, "main")
    made = merge(forked, "side", "main", MergeOptions("me", squash=True, message="all of it"))
    assert made.parents == (head.id,)
    assert made.generation == source.generation + 1
    assert made.message == "all of it"


def test_conflicts_are_listed_and_nothing_moves(forked: Repository) -> None:
    put(forked, "side", {b"both": b"side", b"main": None})
    before = branch.show(forked, "main")
    with pytest.raises(MergeConflict) as conflict:
        merge(forked, "side", "main", ME)
    assert conflict.value.paths == (b"both", b"main")
    assert branch.show(forked, "main") == before

    with preview(forked, "side", "main", ME) as differences:
        assert [(each.type, each.path) for each in differences] == [
            (ChangeType.CONFLICT, b"both"),
            (ChangeType.CONFLICT, b"main"),
        ]


@pytest.mark.parametrize(
    ("strategy", "both", "main"),
    [(MergeStrategy.SOURCE_WINS, b"side", None), (MergeStrategy.DEST_WINS, b"main", b"1")],
)
def test_a_strategy_decides_conflicts(
    forked: Repository, strategy: MergeStrategy, both: bytes, main: bytes | None
) -> None:
    put(forked, "side", {b"both": b"side", b"main": None, b"new": b"1"})
    options = MergeOptions("me", decisions=Decisions(strategy))
    with preview(forked, "side", "main", options) as differences:
        previewed = {each.path: each.type for each in differences}
    decided = {b"both": ChangeType.CHANGED, b"main": ChangeType.REMOVED}
    assert previewed == {b"new": ChangeType.ADDED, **(decided if main is None else {})}
    made = merge(forked, "side", "main", options)
    assert made.metadata == {".lakefs.merge.strategy": str(strategy)}
    expected = {b"both": both, b"kept": b"0", b"side": b"0", b"new": b"1"}
    assert read(forked, "main") == checksums(expected | ({b"main": main} if main else {}))


def decided(*take: str, plan: Path | None = None) -> MergeOptions:
    return MergeOptions("me", decisions=Decisions(take=take, plan=plan))


def plan_of(repository: Repository, file: Path, side: str, options: MergeOptions = ME) -> Path:
    """Write the plan of a merge of ``side`` into ``main``, with one side for each open conflict."""
    with conflicts_of(repository, "side", "main", options) as found:
        lines = [json.loads(to_json(each)) for each in found]
    for line in lines:
        line["take"] = line["take"] or side
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_patterns_decide_conflicts_path_by_path(forked: Repository) -> None:
    put(forked, "side", {b"both": b"side", b"main": None, b"new": b"1"})
    before = branch.show(forked, "main")
    with pytest.raises(MergeConflict) as open_:
        merge(forked, "side", "main", decided("source:both"))
    assert open_.value.paths == (b"main",)
    assert "`merge --conflicts FILE " in (open_.value.hint or "")
    assert branch.show(forked, "main") == before
    options = decided("dest:**", "source:main")
    with preview(forked, "side", "main", options) as differences:
        assert [(each.type, each.path) for each in differences] == [
            (ChangeType.REMOVED, b"main"),
            (ChangeType.ADDED, b"new"),
        ]
    merge(forked, "side", "main", options)
    assert read(forked, "main") == checksums(
        {b"both": b"main", b"kept": b"0", b"side": b"0", b"new": b"1"}
    )


def test_conflicts_tell_each_side_and_who_changed_it_last(forked: Repository) -> None:
    ours = show_commit(forked, "main")
    base = show_commit(forked, "main~1")
    put(forked, "side", {b"both": b"early"})
    changes = put(forked, "side", {b"both": b"side", b"added": b"side"})
    deletes = put(forked, "side", {b"main": None})
    late = put(forked, "main", {b"added": b"main"})
    with conflicts_of(forked, "side", "main", decided("source:main")) as found:
        added, both, main = found
    assert [each.path for each in (added, both, main)] == [b"added", b"both", b"main"]
    assert [each.take for each in (added, both, main)] == ["", "", "source"]
    assert (added.base, added.base_change) == (None, None)
    assert added.dest_change is not None
    assert added.dest_change.commit_id == late.id
    sides = (both.source, both.dest, both.base)
    assert [each and each.checksum for each in sides] == list(
        checksums({b"1": b"side", b"2": b"main", b"3": b"0"}).values()
    )
    told = (both.source_change, both.dest_change, both.base_change)
    assert [each and each.commit_id for each in told] == [changes.id, ours.id, base.id]
    assert main.source is None
    assert main.source_change == (deletes.id, "author", deletes.created_at)


def test_many_deletions_are_told_with_who_made_them(repository: Repository) -> None:
    """Ranges that only one side of a commit has are looked into, too."""
    paths = [b"p/%04d" % number for number in range(300)]
    put(repository, "main", dict.fromkeys(paths, b"0"))
    branch.create(repository, "side", source="main")
    first = put(repository, "main", dict.fromkeys(paths[:120], None))
    second = put(repository, "main", dict.fromkeys(paths[120:], None))
    put(repository, "main", {b"z": b"1"})
    put(repository, "side", dict.fromkeys(paths[::2], b"1"))
    with conflicts_of(repository, "side", "main", ME) as found:
        told = {each.path: each.dest_change and each.dest_change.commit_id for each in found}
    expected = {path: first.id if path < paths[120] else second.id for path in paths[::2]}
    assert told == expected


def test_a_plan_decides_while_the_objects_are_those_it_names(
    forked: Repository, tmp_path: Path
) -> None:
    put(forked, "side", {b"both": b"side", b"main": None})
    plan = plan_of(forked, tmp_path / "plan", "source")
    put(forked, "main", {b"other": b"1"})  # no conflict, so the plan holds
    put(forked, "main", {b"both": b"later"})
    with pytest.raises(OutdatedPlan, match="'both': the destination has another object") as told:
        merge(forked, "side", "main", decided(plan=plan))
    assert told.value.paths == (b"both",)
    with (
        pytest.raises(OutdatedPlan),
        preview(forked, "side", "main", decided(plan=plan)) as differences,
    ):
        list(differences)
    again = plan_of(forked, tmp_path / "again", "dest", decided(plan=plan))
    made = merge(forked, "side", "main", decided(plan=again))
    assert made.metadata == {".lakefs.merge.strategy": "default"}
    assert read(forked, "main") == checksums(
        {b"both": b"later", b"kept": b"0", b"side": b"0", b"other": b"1"}
    )


def test_after_a_crossing_a_plan_decides_what_has_several_bases(
    repository: Repository, tmp_path: Path
) -> None:
    put(repository, "main", {b"a": b"0", b"b": b"0"})
    branch.create(repository, "side", source="main")
    put(repository, "main", {b"a": b"main", b"b": b"main"})
    put(repository, "side", {b"a": b"side", b"b": b"side"})
    cross(repository, MergeOptions("me", decisions=Decisions(MergeStrategy.DEST_WINS)))
    with conflicts_of(repository, "side", "main", ME) as found:
        assert [(each.path, each.base, each.base_change) for each in found] == [
            (b"a", None, None),
            (b"b", None, None),
        ]
    plan = plan_of(repository, tmp_path / "plan", "source", decided("dest:a"))
    merge(repository, "side", "main", decided(plan=plan))
    assert read(repository, "main") == checksums({b"a": b"main", b"b": b"side"})


@pytest.mark.parametrize("changes", [{b"other": b"1"}, {b"both": b"faster"}])
def test_a_merge_that_loses_a_race_checks_its_plan_again(
    forked: Repository, tmp_path: Path, changes: dict[bytes, bytes | None]
) -> None:
    put(forked, "side", {b"both": b"side"})
    plan = plan_of(forked, tmp_path / "plan", "source")
    pending = [changes]

    def commit_in_between(step: str) -> None:
        if step == "move" and pending:
            put(forked, "main", pending.pop())

    forked.lake.runtime = forked.lake.runtime._replace(on_step=commit_in_between)
    if b"both" in changes:
        with pytest.raises(OutdatedPlan):
            merge(forked, "side", "main", decided(plan=plan))
        assert read(forked, "main")[b"both"] == checksums({b"both": b"faster"})[b"both"]
    else:
        merge(forked, "side", "main", decided(plan=plan))
        expected = {b"both": b"side", b"kept": b"0", b"side": b"0", b"main": b"1", b"other": b"1"}
        assert read(forked, "main") == checksums(expected)
    assert not pending


def test_cherry_pick_and_revert_take_sides(forked: Repository) -> None:
    picked = put(forked, "side", {b"both": b"side", b"main": b"side"})
    with pytest.raises(MergeConflict) as open_:
        cherry_pick(forked, "side", "main", committer="me", decisions=Decisions(take=["dest:main"]))
    assert open_.value.paths == (b"both",)
    both = Decisions(take=["source:*", "dest:main"])
    cherry_pick(forked, picked.id, "main", committer="me", decisions=both)
    present = {b"both": b"side", b"kept": b"0", b"side": b"0", b"main": b"1"}
    assert read(forked, "main") == checksums(present)
    put(forked, "main", {b"both": b"later"})
    with pytest.raises(MergeConflict):
        revert(forked, "main", "main~1", committer="me")
    revert(forked, "main", "main~1", committer="me", decisions=Decisions(take=["source:both"]))
    assert read(forked, "main") == checksums(present | {b"both": b"main"})


def test_a_merge_needs_only_a_clean_destination(forked: Repository) -> None:
    put(forked, "side", {b"new": b"1"})
    stage(forked, "side", {b"not": b"committed"})
    stage(forked, "main", {b"kept": b"0"})  # equal to the commit: no change
    merge(forked, "side", "main", ME)
    assert b"not" not in read(forked, "main")

    put(forked, "side", {b"newer": b"1"})
    stage(forked, "main", {b"kept": b"staged"})
    with pytest.raises(DirtyBranch) as dirty:
        merge(forked, "side", "main", ME)
    assert dirty.value.paths == (b"kept",)
    with pytest.raises(DirtyBranch), preview(forked, "side", "main", ME):
        pass


def test_a_merge_without_changes_is_nothing_to_do(forked: Repository) -> None:
    with pytest.raises(NothingToDo):
        merge(forked, "side", "main", ME)
    made = merge(forked, "side", "main", MergeOptions("me", allow_empty=True))
    assert len(made.parents) == 2
    with pytest.raises(NothingToDo):
        merge(forked, "main", "main", MergeOptions("me", allow_empty=True))
    branch.create(forked, "same", source="main")
    with pytest.raises(NothingToDo):
        merge(forked, "same", "main", MergeOptions("me", allow_empty=True, squash=True))
    with pytest.raises(NotFound):
        merge(forked, "nowhere", "main", ME)
    with pytest.raises(UsageError):
        merge(forked, "side$", "main", ME)


def test_a_fast_forward_merge_makes_a_merge_commit(repository: Repository) -> None:
    branch.create(repository, "side", source="main")
    theirs = put(repository, "side", {b"a": b"1"})
    made = merge(repository, "side", "main", ME)
    assert made.metarange_id == theirs.metarange_id
    assert len(made.parents) == 2


def test_revert_undoes_one_commit(forked: Repository) -> None:
    put(forked, "main", {b"later": b"1"})
    made = revert(forked, "main", "main~1", committer="me")
    reverted = show_commit(forked, "main~2")
    assert made.message == f'Revert "{reverted.message}" ({reverted.id[:12]})'
    assert made.metadata == {}
    expected = {b"both": b"0", b"kept": b"0", b"main": b"0", b"side": b"0", b"later": b"1"}
    assert read(forked, "main") == checksums(expected)
    with pytest.raises(NothingToDo):
        revert(forked, "main", "main~2", committer="me")

    put(forked, "main", {b"later": b"2"})
    with pytest.raises(MergeConflict):
        revert(forked, "main", "main~2", committer="me")


def test_reverting_the_first_change_empties_the_tree(repository: Repository) -> None:
    first = put(repository, "main", {b"a": b"1"})
    assert revert(repository, "main", first.id, committer="me").metarange_id == ""
    with pytest.raises(NothingToDo):
        revert(repository, "main", "main~2", committer="me")


def test_reverting_a_merge_needs_a_parent_number(forked: Repository) -> None:
    put(forked, "side", {b"new": b"1"})
    before = read(forked, "main")
    merge(forked, "side", "main", ME)
    with pytest.raises(Refused, match="several parents"):
        revert(forked, "main", "main", committer="me")
    with pytest.raises(NotFound, match="no parent 3 of a commit with 2 parents: "):
        revert(forked, "main", "main", committer="me", parent_number=3)
    with pytest.raises(UsageError):
        revert(forked, "main", "main", committer="me", parent_number=0)
    revert(forked, "main", "main", committer="me", parent_number=1)
    assert read(forked, "main") == before


def test_cherry_pick_repeats_one_commit(forked: Repository) -> None:
    put(forked, "side", {b"first": b"1"})
    picked = put(forked, "side", {b"second": b"1"}, message="the second")
    made = cherry_pick(forked, "side", "main", committer="me")
    assert made.message == "the second"
    assert made.metadata == {
        "k": "v",
        "cherry-pick-origin": picked.id,
        "cherry-pick-committer": "author",
    }
    assert len(made.parents) == 1
    present = read(forked, "main")
    assert b"second" in present
    assert b"first" not in present

    with pytest.raises(NothingToDo):
        cherry_pick(forked, "side", "main", committer="me")
    with pytest.raises(NotFound, match="no parent 1 of a commit with 0 parents: "):
        cherry_pick(forked, "main~3", "side", committer="me")
    with pytest.raises(NotFound, match="no parent 2 of a commit with 1 parent: "):
        cherry_pick(forked, "main", "side", committer="me", parent_number=2)
    put(forked, "side", {b"both": b"side"})
    with pytest.raises(MergeConflict):
        cherry_pick(forked, "side", "main", committer="me")


def test_unrelated_histories_cannot_be_merged(forked: Repository) -> None:
    from lakecli.base.model import Branch
    from lakecli.refs.ref_store import RefStore
    from lakecli.repository.commit_attempts import initial_commit
    from lakecli.repository.journal import operation_log
    from tests.support.lakes import START

    with forked.lake.kv.write() as txn:
        refs, other = RefStore(txn, forked.key), initial_commit(START)
        refs.put_commit(other)
        token = operation_log.start_token(txn, forked, "island", other.id)
        refs.put_branch(Branch("island", other.id, token))
    with pytest.raises(Refused, match="no common ancestor"):
        merge(forked, "island", "main", ME)


@pytest.fixture
def crossed(repository: Repository) -> Repository:
    """``side`` and ``main``, merged into each other from where each stood before."""
    put(repository, "main", {b"kept": b"0", b"old": b"0"})
    branch.create(repository, "side", source="main")
    put(repository, "main", {b"main": b"1", b"old": b"1"})
    put(repository, "side", {b"side": b"1"})
    cross(repository)
    return repository


def cross(repository: Repository, options: MergeOptions = ME) -> None:
    """Merge the heads of ``side`` and ``main`` into each other."""
    before = show_commit(repository, "main").id
    merge(repository, "side", "main", options)
    merge(repository, before, "side", options)


def test_what_was_deleted_after_a_crossing_stays_deleted(crossed: Repository) -> None:
    put(crossed, "main", {b"main": None, b"old": b"0"})
    put(crossed, "side", {b"side": b"2"})
    found = find_merge_base(crossed, "side", "main")
    assert {each.message for each in found.bases} == {"m"}
    assert len(found.bases) == 2
    with preview(crossed, "side", "main", ME) as changes:
        assert [(each.type, each.path) for each in changes] == [(ChangeType.CHANGED, b"side")]
    with diff_refs(crossed, "main", "side") as changes:
        assert [each.path for each in changes] == [b"side"]
    with diff_refs(crossed, "side", "main") as changes:
        assert [(each.type, each.path) for each in changes] == [
            (ChangeType.REMOVED, b"main"),
            (ChangeType.CHANGED, b"old"),
        ]
    merge(crossed, "side", "main", ME)
    assert read(crossed, "main") == checksums({b"kept": b"0", b"old": b"0", b"side": b"2"})
    merge(crossed, "main", "side", ME)
    assert read(crossed, "side") == read(crossed, "main")


@pytest.mark.parametrize("strategy", MergeStrategy)
def test_what_both_sides_resolved_differently_is_a_conflict(
    repository: Repository, strategy: MergeStrategy
) -> None:
    put(repository, "main", {b"a": b"0", b"b": b"0"})
    branch.create(repository, "side", source="main")
    put(repository, "main", {b"a": b"main", b"b": b"main"})
    put(repository, "side", {b"a": b"side", b"b": b"side"})
    cross(repository, MergeOptions("me", decisions=Decisions(MergeStrategy.DEST_WINS)))
    put(repository, "main", {b"b": b"agreed"})
    put(repository, "side", {b"b": b"agreed"})
    options = MergeOptions("me", decisions=Decisions(strategy))
    with preview(repository, "side", "main", options) as changes:
        found = [(each.type, each.path) for each in changes]
    if strategy == MergeStrategy.FAIL:
        assert found == [(ChangeType.CONFLICT, b"a")]
        with pytest.raises(MergeConflict) as caught:
            merge(repository, "side", "main", options)
        assert caught.value.paths == (b"a",)
        return
    wins = strategy == MergeStrategy.SOURCE_WINS
    assert found == [(ChangeType.CHANGED, b"a")] * wins
    merge(repository, "side", "main", options)
    expected = b"side" if wins else b"main"
    assert read(repository, "main") == checksums({b"a": expected, b"b": b"agreed"})


def test_a_side_that_only_has_what_the_bases_merge_to_brings_nothing(crossed: Repository) -> None:
    head = show_commit(crossed, "main").id
    for source, destination in (("side", "main"), ("main", "side")):
        with pytest.raises(NothingToDo, match="brings nothing new"):
            merge(crossed, source, destination, ME)
        with pytest.raises(NothingToDo), preview(crossed, source, destination, ME):
            pass
    assert show_commit(crossed, "main").id == head
    put(crossed, "main", {b"old": None})
    with pytest.raises(NothingToDo):
        merge(crossed, "side", "main", ME)
    made = merge(crossed, "side", "main", MergeOptions("me", allow_empty=True))
    assert len(made.parents) == 2
    assert read(crossed, "main") == checksums({b"kept": b"0", b"main": b"1", b"side": b"1"})


def test_crossings_one_after_the_other(crossed: Repository) -> None:
    """The bases of each have the ones before as theirs."""
    for number in range(3):
        put(crossed, "main", {b"main": b"%d" % number})
        put(crossed, "side", {b"side": b"%d" % number})
        cross(crossed)
    put(crossed, "main", {b"side": None})
    put(crossed, "side", {b"kept": b"1"})
    made = merge(crossed, "side", "main", MergeOptions("me", squash=True))
    assert len(made.parents) == 1
    assert read(crossed, "main") == checksums({b"kept": b"1", b"main": b"2", b"old": b"1"})
