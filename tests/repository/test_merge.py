from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import ChangeType, MergeStrategy
from lakecli.committed.decisions import Decisions
from lakecli.committed.merge import MergeConflict
from lakecli.errors import DirtyBranch, NotFound, NothingToDo, Refused, UsageError
from lakecli.repository import branch
from lakecli.repository.cherry_pick import cherry_pick
from lakecli.repository.commit import commit
from lakecli.repository.diff import diff_refs
from lakecli.repository.log import show_commit
from lakecli.repository.merge import MergeOptions, merge, preview
from lakecli.repository.reading.merge_points import find_merge_base
from lakecli.repository.revert import revert
from tests.support.lakes import checksums, read, stage

if TYPE_CHECKING:
    from collections.abc import Mapping

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
