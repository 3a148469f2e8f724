from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakecli.errors import LostRace, NotFound, NothingToDo, UsageError
from lakecli.kv import operations as log
from lakecli.repository import branch
from lakecli.repository.commit import commit
from lakecli.repository.log import LogOptions, show_commit
from lakecli.repository.log import log as open_log
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.pull import PullOptions, pull
from lakecli.repository.push import PushOptions, push
from lakecli.repository.staged.stager import stage_entry
from lakecli.repository.undo.undo import undo
from lakecli.stores.contract import ANY
from tests.support.clones import Clones, make_commit
from tests.support.lakes import checksums, entry_of, make_repository, open_lake, read, stage

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.contract import Repository


def test_a_commit_records_the_staged_changes(repository: Repository) -> None:
    before = branch.show(repository, "main").commit_id
    stage(repository, "main", {b"a": b"1", b"b": b"2"})
    made = commit(repository, "main", message="first", committer="me", metadata={"k": "v"})

    assert made.parents == (before,)
    assert made.generation == 2
    assert show_commit(repository, "main") == made
    assert read(repository, "main@") == checksums({b"a": b"1", b"b": b"2"})
    after = branch.show(repository, "main")
    assert (after.commit_id, after.sealed_tokens) == (made.id, ())


def test_an_entry_is_staged_unless_the_branch_has_it(repository: Repository) -> None:
    for contents, is_new in ((b"1", True), (b"1", False), (b"2", True)):
        repository.store.put(entry_of(contents).physical_address, contents, ANY)
        before = branch.show(repository, "main")
        with repository.lake.kv.read() as txn:
            operations = log.last_sequence(txn, repository.key)
        stage_entry(repository, "main", b"a", entry_of(contents))
        assert read(repository, "main") == checksums({b"a": contents})
        with repository.lake.kv.read() as txn:
            assert log.last_sequence(txn, repository.key) == operations + is_new
        assert branch.show(repository, "main") == before


def test_staged_changes_are_read_over_the_head(repository: Repository) -> None:
    stage(repository, "main", {b"a": b"1", b"b": b"2"})
    commit(repository, "main", message="first", committer="me")
    stage(repository, "main", {b"a": None, b"b": b"changed", b"c": b"3"})

    assert read(repository, "main") == checksums({b"b": b"changed", b"c": b"3"})
    assert read(repository, "main@") == checksums({b"a": b"1", b"b": b"2"})


def test_staging_the_same_contents_is_nothing_to_commit(repository: Repository) -> None:
    stage(repository, "main", {b"a": b"1"})
    first = commit(repository, "main", message="first", committer="me")
    stage(repository, "main", {b"a": b"1", b"gone": None})

    with pytest.raises(NothingToDo):
        commit(repository, "main", message="second", committer="me")
    empty = commit(repository, "main", message="second", committer="me", allow_empty=True)
    assert empty.metarange_id == first.metarange_id


@pytest.mark.parametrize(
    ("what", "fields"),
    [
        ("message", {"message": "caf\udce9"}),
        ("committer", {"committer": "Ren\udce9 <rene@example.com>"}),
        ("metadata", {"metadata": {"key": "\udcff"}}),
        ("metadata", {"metadata": {"\udcff": "value"}}),
    ],
)
def test_a_commit_that_could_not_be_pushed_is_refused(
    repository: Repository, what: str, fields: dict[str, Any]
) -> None:
    stage(repository, "main", {b"a": b"1"})
    head = show_commit(repository, "main").id
    given = {"message": "first", "committer": "me"} | fields
    with pytest.raises(UsageError, match=f"the {what} of a commit has to be UTF-8") as raised:
        commit(repository, "main", **given)
    assert raised.value.hint is not None
    assert show_commit(repository, "main").id == head
    commit(repository, "main", message="café", committer="René")
    options = MergeOptions("me", message="caf\udce9", allow_empty=True)
    with pytest.raises(UsageError, match="message"):
        merge(repository, "main", branch.create(repository, "side", source="main~").name, options)


def test_an_unknown_branch_is_not_found(repository: Repository) -> None:
    with pytest.raises(NotFound, match="no branch 'nowhere'"):
        commit(repository, "nowhere", message="m", committer="me")


def test_a_write_during_a_commit_stays_staged(tmp_path: Path) -> None:
    steps: list[str] = []

    def write_while_building(step: str) -> None:
        steps.append(step)
        if step == "move" and steps.count("move") == 1:
            stage(repository, "main", {b"b": b"late"})

    with open_lake(tmp_path, on_step=write_while_building) as lake:
        repository = make_repository(lake, tmp_path)
        stage(repository, "main", {b"a": b"1"})
        commit(repository, "main", message="first", committer="me")

        assert read(repository, "main@") == checksums({b"a": b"1"})
        assert read(repository, "main") == checksums({b"a": b"1", b"b": b"late"})
        commit(repository, "main", message="second", committer="me")
        assert read(repository, "main@") == checksums({b"a": b"1", b"b": b"late"})


def test_a_commit_names_the_one_that_took_its_changes(tmp_path: Path) -> None:
    pending: list[str] = []

    def commit_in_between(step: str) -> None:
        if step == "move" and pending:
            pending.clear()
            stage(repository, "main", {b"b": b"2"})
            commit(repository, "main", message="faster", committer="other")

    with open_lake(tmp_path, on_step=commit_in_between) as lake:
        repository = make_repository(lake, tmp_path)
        stage(repository, "main", {b"a": b"1"})
        pending.append("an interfering commit")
        # The faster commit takes everything that is sealed, including ours, and reports it.
        with pytest.raises(LostRace, match="another commit took the staged changes") as lost:
            commit(repository, "main", message="slower", committer="me")

        head = branch.show(repository, "main").commit_id
        assert head in lost.value.message
        assert read(repository, "main@") == checksums({b"a": b"1", b"b": b"2"})
        with open_log(repository, "main", LogOptions()) as commits:
            assert [each.message for each in commits] == ["faster", "Repository created"]


@pytest.mark.parametrize("sealed", [{}, {b"a": b"1"}], ids=["nothing staged", "equal records"])
def test_a_merge_that_loses_a_race_is_rebuilt_on_the_new_head(
    tmp_path: Path, sealed: dict[bytes, bytes]
) -> None:
    pending: list[str] = []

    def commit_in_between(step: str) -> None:
        if step == "move" and pending:
            pending.clear()
            stage(repository, "main", {b"b": b"2"})
            commit(repository, "main", message="faster", committer="other")

    with open_lake(tmp_path, on_step=commit_in_between) as lake:
        repository = make_repository(lake, tmp_path)
        stage(repository, "main", {b"a": b"1"})
        commit(repository, "main", message="base", committer="me")
        branch.create(repository, "side", source="main")
        stage(repository, "side", {b"c": b"3"})
        commit(repository, "side", message="side", committer="me")
        stage(repository, "main", dict(sealed))
        pending.append("an interfering commit")
        made = merge(repository, "side", "main", MergeOptions("me"))

        assert not pending
        assert read(repository, "main@") == checksums({b"a": b"1", b"b": b"2", b"c": b"3"})
        with open_log(repository, "main", LogOptions(first_parent=True)) as commits:
            messages = [each.message for each in commits]
        assert messages == [made.message, "faster", "base", "Repository created"]


def test_a_commit_that_loses_a_race_is_rebuilt_on_the_new_head(tmp_path: Path) -> None:
    """A pull that moves the branch forward meanwhile leaves the sealed changes on it."""
    with Clones.make(tmp_path, "ada", "bob") as clones:
        ada, bob = clones.repositories
        make_commit(bob, b"b")
        push(bob, "main", options=PushOptions("bob"))
        pending = ["an interfering pull"]

        def pull_in_between(step: str) -> None:
            if step == "move" and pending:
                pending.clear()
                pull(ada, "main", PullOptions("me"))

        stage(ada, "main", {b"a": b"1"})
        ada.lake.runtime = ada.lake.runtime._replace(on_step=pull_in_between)
        commit(ada, "main", message="slower", committer="me")

        assert not pending
        assert read(ada, "main@") == checksums({b"a": b"1", b"b": b"b"})
        with open_log(ada, "main", LogOptions()) as commits:
            messages = [each.message for each in commits]
        assert messages == ["slower", "b", "Repository created"]


@pytest.mark.parametrize("how", ["reset", "undo"])
def test_a_commit_is_rebuilt_without_discarded_changes(tmp_path: Path, how: str) -> None:
    pending = [how]

    def throw_away(step: str) -> None:
        if step == "move" and pending:
            pending.clear()
            if how == "reset":
                branch.reset(repository, "main")
            else:
                undo(repository)

    with open_lake(tmp_path) as lake:
        repository = make_repository(lake, tmp_path)
        stage(repository, "main", {b"a": b"1"})
        lake.runtime = lake.runtime._replace(on_step=throw_away)
        with pytest.raises(NothingToDo):
            commit(repository, "main", message="none", committer="me")
        assert not pending
        assert not read(repository, "main")


def test_every_commit_is_one_operation_that_can_be_undone(repository: Repository) -> None:
    stage(repository, "main", {b"a": b"1"})
    before = branch.show(repository, "main")
    made = commit(repository, "main", message="first", committer="me")

    with repository.lake.kv.read() as txn:
        newest = next(log.iter_operations(txn, repository.key))
    (change,) = newest.refs
    assert (newest.kind, change.kind, change.name) == ("commit", "branch", "main")
    assert change.before is not None
    assert change.after is not None
    assert change.before["commit_id"] == before.commit_id
    assert change.after["commit_id"] == made.id
    assert newest.sealed == (before.staging_token,)
