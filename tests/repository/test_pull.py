"""Bringing a branch to its position in the bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import MergeStrategy
from lakecli.committed.decisions import Decisions
from lakecli.committed.merge import TABLE_LOGS, MergeConflict
from lakecli.errors import AlreadyExists, ConflictError, DirtyBranch, NotFound
from lakecli.kv import operations as log
from lakecli.refs.ref_store import RefStore
from lakecli.repository import branch, tag
from lakecli.repository.commit import commit
from lakecli.repository.journal import operation_log
from lakecli.repository.pull import IncomingConflict, Pulling, PullOptions, pull
from lakecli.repository.push import PushOptions, push, push_deletion
from lakecli.repository.sharing.publish import NonFastForward
from lakecli.repository.undo.undo import undo
from tests.support.clones import Clones, make_commit
from tests.support.lakes import checksums, read, stage
from tests.support.stores import get_branch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.base.model import Commit
    from lakecli.repository.contract import Repository

ME = PushOptions(who="Me <me@example.com>")
PULL = PullOptions(committer="Me <me@example.com>")
DRY = PULL._replace(dry_run=True)


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[tuple[Repository, ...]]:
    with Clones.make(tmp_path, "one", "two") as made:
        yield made.repositories


def share(repository: Repository, path: bytes, name: str = "main") -> Commit:
    made = make_commit(repository, path, name)
    push(repository, name, options=ME)
    return made


def head(repository: Repository, name: str = "main") -> str:
    return branch.show(repository, name).commit_id


def test_a_branch_without_commits_of_its_own_moves_forward(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    before = head(two)
    share(one, b"a")
    made = share(one, b"b")
    dry = pull(two, "main", DRY)
    assert (dry.state, dry.before, dry.after) == (Pulling.FAST_FORWARD, before, made.id)
    assert head(two) == before
    report = pull(two, "main", PULL)
    assert (report.state, report.before, report.after) == (Pulling.FAST_FORWARD, before, made.id)
    assert head(two) == made.id
    assert read(two, "main") == checksums({b"a": b"a", b"b": b"b"})
    assert pull(two, "main", PULL).state is Pulling.UP_TO_DATE


def test_a_pull_is_one_operation_that_can_be_undone(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    before = branch.show(two, "main")
    made = share(one, b"a")
    pull(two, "main", PULL)
    with two.lake.kv.read() as txn:
        newest = next(log.iter_operations(txn, two.key))
    assert newest.kind == "pull"
    (change,) = newest.refs
    assert change.before is not None
    assert change.after is not None
    assert change.before["commit_id"] == before.commit_id
    assert change.after["commit_id"] == made.id


def test_staged_changes_of_other_paths_stay(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    stage(two, "main", {b"mine": b"mine"})
    made = share(one, b"a")
    pull(two, "main", PULL)
    assert read(two, "main") == checksums({b"a": b"a", b"mine": b"mine"})
    with two.lake.kv.read() as txn:
        token = get_branch(RefStore(txn, two.key), "main").staging_token
        assert operation_log.started_on(txn, token) == made.id
    mine = commit(two, "main", message="mine", committer="me")
    assert mine.parents == (made.id,)
    assert read(two, "main@") == checksums({b"a": b"a", b"mine": b"mine"})


def test_what_is_staged_after_an_undone_pull_is_on_top_of_the_old_head(
    clones: tuple[Repository, ...],
) -> None:
    one, two = clones
    before = head(two)
    stage(two, "main", {b"mine": b"mine"})
    share(one, b"a")
    pull(two, "main", PULL)
    undo(two)
    with two.lake.kv.read() as txn:
        token = get_branch(RefStore(txn, two.key), "main").staging_token
        assert operation_log.started_on(txn, token) == before
    stage(two, "main", {b"a": b"mine"})
    mine = commit(two, "main", message="mine", committer="me")  # the undone change is no conflict
    assert mine.parents == (before,)


@pytest.mark.parametrize("options", [PULL, DRY])
def test_pull_refuses_and_lists_staged_paths_that_it_would_change(
    clones: tuple[Repository, ...], options: PullOptions
) -> None:
    one, two = clones
    share(one, b"z")
    pull(two, "main", PULL)
    before = branch.show(two, "main")
    stage(one, "main", {b"a": b"theirs", b"b": b"same", b"z": None})
    commit(one, "main", message="several", committer="me")
    push(one, "main", options=ME)
    stage(two, "main", {b"a": b"mine", b"b": b"same", b"c": b"mine", b"z": b"mine"})
    with pytest.raises(IncomingConflict) as raised:
        pull(two, "main", options)
    assert raised.value.paths == (b"a", b"z")  # equal contents are no conflict
    assert branch.show(two, "main") == before


def test_changes_staged_during_a_pull_are_checked(
    clones: tuple[Repository, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = clones
    share(one, b"a")

    def on_step(name: str) -> None:
        if name == "move":
            stage(two, "main", {b"a": b"mine"})

    monkeypatch.setattr(two.lake, "runtime", two.lake.runtime._replace(on_step=on_step))
    with pytest.raises(IncomingConflict):
        pull(two, "main", PULL)


def test_a_branch_with_commits_of_its_own_is_merged(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    theirs = share(one, b"a")
    mine = make_commit(two, b"b")
    assert pull(two, "main", DRY).state is Pulling.MERGED
    assert head(two) == mine.id
    report = pull(two, "main", PULL)
    assert (report.state, report.before) == (Pulling.MERGED, mine.id)
    with two.lake.kv.read() as txn:
        made = RefStore(txn, two.key).get_commit(report.after)
    assert made.parents == (mine.id, theirs.id)
    assert made.message == "Merge remote main"
    assert read(two, "main") == checksums({b"a": b"a", b"b": b"b"})
    push(two, "main", options=ME)
    assert pull(one, "main", PULL).state is Pulling.FAST_FORWARD
    assert head(one) == made.id


def test_the_same_tree_on_both_sides_is_merged(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    theirs = share(one, b"a")
    make_commit(two, b"b")
    stage(two, "main", {b"a": b"a", b"b": None})
    mine = commit(two, "main", message="as theirs", committer="me")
    assert mine.metarange_id == theirs.metarange_id
    assert pull(two, "main", PULL).state is Pulling.MERGED
    push(two, "main", options=ME)


def test_a_merge_needs_a_clean_branch(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    share(one, b"a")
    mine = make_commit(two, b"b")
    stage(two, "main", {b"c": b"c"})
    for options in (PULL, DRY):
        with pytest.raises(DirtyBranch):
            pull(two, "main", options)
    assert head(two) == mine.id


def conflicting(one: Repository, two: Repository) -> str:
    stage(one, "main", {b"a": b"theirs"})
    commit(one, "main", message="theirs", committer="me")
    push(one, "main", options=ME)
    stage(two, "main", {b"a": b"mine"})
    return commit(two, "main", message="mine", committer="me").id


def test_conflicts_are_listed_and_nothing_moves(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    before = conflicting(one, two)
    for options in (PULL, DRY):
        with pytest.raises(MergeConflict) as raised:
            pull(two, "main", options)
        assert raised.value.paths == (b"a",)
        assert "`pull lakefs://demo/main --strategy source-wins" in str(raised.value.hint)
    assert head(two) == before


@pytest.mark.parametrize(
    ("strategy", "wins"),
    [(MergeStrategy.SOURCE_WINS, b"theirs"), (MergeStrategy.DEST_WINS, b"mine")],
)
def test_a_strategy_decides_conflicts(
    clones: tuple[Repository, ...], strategy: MergeStrategy, wins: bytes
) -> None:
    one, two = clones
    conflicting(one, two)
    pull(two, "main", PULL._replace(decisions=Decisions(strategy)))
    assert read(two, "main") == checksums({b"a": wins})


def test_patterns_decide_conflicts(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    conflicting(one, two)
    pull(two, "main", PULL._replace(decisions=Decisions(take=["source:a"])))
    assert read(two, "main") == checksums({b"a": b"theirs"})


@pytest.mark.parametrize("options", [PULL, DRY])
def test_a_log_of_a_table_is_not_decided_by_a_strategy(
    clones: tuple[Repository, ...], options: PullOptions
) -> None:
    one, two = clones
    path = b"t/_delta_log/1.json"
    for repository, rows in zip(clones, (b"one", b"two"), strict=True):
        stage(repository, "main", {path: rows})
        commit(repository, "main", message="rows", committer="me")
    push(one, "main", options=ME)
    with pytest.raises(MergeConflict, match="in the log of a table") as refused:
        pull(two, "main", options._replace(decisions=Decisions(MergeStrategy.DEST_WINS)))
    assert refused.value.hint == TABLE_LOGS


def test_ff_only_refuses_a_diverged_branch(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    share(one, b"a")
    make_commit(two, b"b")
    with pytest.raises(NonFastForward, match="have diverged"):
        pull(two, "main", PULL._replace(ff_only=True))


def test_pulling_a_branch_that_is_ahead_is_nothing_to_do(clones: tuple[Repository, ...]) -> None:
    one = clones[0]
    share(one, b"a")
    made = make_commit(one, b"b")
    report = pull(one, "main", PULL)
    assert (report.state, report.after) == (Pulling.AHEAD, made.id)


def test_pull_creates_a_branch_that_only_the_bucket_has(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    branch.create(one, "side", source="main")
    made = share(one, b"a", "side")
    assert pull(two, "side", DRY).state is Pulling.CREATED
    report = pull(two, "side", PULL)
    assert (report.state, report.before) == (Pulling.CREATED, None)
    assert head(two, "side") == made.id
    tag.create(two, "taken", "main")
    branch.create(one, "taken", source="main")
    push(one, "taken", options=ME)
    with pytest.raises(AlreadyExists, match="a tag has the name taken"):
        pull(two, "taken", PULL)


def test_pull_fetches_tags(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    made = make_commit(one, b"a")
    tag.create(one, "v1", "main")
    push(one, "v1", options=ME)
    report = pull(two, "v1", PULL)
    assert (report.state, report.after) == (Pulling.TAG, made.id)
    assert tag.show(two, "v1").commit_id == made.id
    tag.create(two, "v1", "main", force=True)
    with pytest.raises(ConflictError, match="tag v1 stands on") as raised:
        pull(two, "v1", PULL)
    assert made.id in str(raised.value.hint)
    tag.delete(two, "v1")
    report = pull(two, "v1", DRY)
    assert (report.state, report.before, report.after) == (Pulling.CREATED, None, made.id)
    with pytest.raises(NotFound):
        tag.show(two, "v1")
    assert pull(two, "v1", PULL).state is Pulling.CREATED
    assert tag.show(two, "v1").commit_id == made.id


def test_pull_of_a_missing_branch_is_not_found(clones: tuple[Repository, ...]) -> None:
    one, two = clones
    with pytest.raises(NotFound, match="no branch or tag 'main' in the bucket") as raised:
        pull(one, "main", PULL)
    assert raised.value.hint == "bring it there: `push lakefs://demo/main`"
    with pytest.raises(NotFound) as raised:
        pull(one, "nowhere", PULL)
    assert raised.value.hint == "see what there is: `status lakefs://demo`"
    branch.create(one, "side", source="main")
    share(one, b"a", "side")
    pull(two, "side", PULL)
    push_deletion(one, "side", options=ME)
    with pytest.raises(NotFound, match="side was deleted in the bucket") as raised:
        pull(two, "side", PULL)
    assert "`push lakefs://demo/side" in str(raised.value.hint)


def test_a_branch_that_moves_during_a_pull_is_planned_again(
    clones: tuple[Repository, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = clones
    share(one, b"a")
    interrupt: list[Callable[[], object]] = [lambda: make_commit(two, b"b")]

    def on_step(name: str) -> None:
        if name == "move" and interrupt:
            interrupt.pop()()

    monkeypatch.setattr(two.lake, "runtime", two.lake.runtime._replace(on_step=on_step))
    assert pull(two, "main", PULL).state is Pulling.MERGED
    assert read(two, "main") == checksums({b"a": b"a", b"b": b"b"})
