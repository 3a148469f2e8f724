"""Commits of a part of what is staged: what lands, what stays, and what undo makes of it."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.errors import NothingToDo, UsageError
from lakecli.kv import operations as log
from lakecli.kv.bucket import LocalMove
from lakecli.kv.local_store import Table
from lakecli.repository.commit import StagedConflict, commit
from lakecli.repository.handle import housekeeping
from lakecli.repository.reading.view import branch_at
from lakecli.repository.staged import partial_commit
from lakecli.repository.undo.undo import redo, undo
from tests.repository.staged.test_staged_conflicts import others_push
from tests.support.clones import Clones, synced
from tests.support.lakes import (
    Ticking,
    checksums,
    let_pass,
    make_repository,
    open_lake,
    read,
    stage,
    through,
)

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.base.model import Commit
    from lakecli.repository.contract import Repository

FIRST = {b"a/1": b"1", b"a/2": b"1", b"b": b"1", b"ab": b"1"}
STAGED = {b"a/1": b"2", b"a/2": None, b"b": b"2", b"new": b"2"}
ALL = {b"a/1": b"2", b"b": b"2", b"ab": b"1", b"new": b"2"}


Part = tuple[tuple[bytes, ...], tuple[bytes, ...]]
"""Paths and prefixes."""


def part(*paths: bytes, prefixes: tuple[bytes, ...] = ()) -> Part:
    return paths, prefixes


def commit_part(repository: Repository, only: Part | None, *, allow_empty: bool = False) -> Commit:
    paths, prefixes = only or ((), ())
    return commit(
        repository,
        "main",
        message="part",
        committer="Ada",
        paths=paths,
        prefixes=prefixes,
        allow_empty=allow_empty,
    )


def committed(repository: Repository) -> dict[bytes, str]:
    return read(repository, "main@")


@pytest.fixture
def staged(repository: Repository) -> Repository:
    stage(repository, "main", dict(FIRST))
    commit_part(repository, None)
    stage(repository, "main", STAGED)
    return repository


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (part(b"a"), {b"a/1": b"2", b"b": b"1", b"ab": b"1"}),
        (part(b"a/"), {b"a/1": b"2", b"b": b"1", b"ab": b"1"}),
        (part(b"b", b"new"), {**FIRST, b"b": b"2", b"new": b"2"}),
        (part(prefixes=(b"a",)), {b"a/1": b"2", b"b": b"1", b"ab": b"1"}),
        (part(b"new", prefixes=(b"a/2",)), {b"a/1": b"1", b"b": b"1", b"ab": b"1", b"new": b"2"}),
        (part(b"a", b"b", b"new"), ALL),
    ],
)
def test_a_part_lands_and_the_rest_stays_staged(
    staged: Repository, only: Part, expected: dict[bytes, bytes]
) -> None:
    before = committed(staged)
    commit_part(staged, only)
    assert committed(staged) == checksums(expected)
    assert read(staged, "main") == checksums(ALL)
    undo(staged)
    assert (committed(staged), read(staged, "main")) == (before, checksums(ALL))
    redo(staged)
    assert (committed(staged), read(staged, "main")) == (checksums(expected), checksums(ALL))
    with suppress(NothingToDo):
        commit_part(staged, None)
    assert committed(staged) == checksums(ALL)


def test_a_message_that_is_refused_leaves_no_copies(staged: Repository) -> None:
    with staged.lake.kv.read() as txn:
        before = set(txn.scan_keys(Table.TOKENS))
    with pytest.raises(UsageError, match="has to be UTF-8"):
        commit(staged, "main", message="\udcff", committer="Ada", paths=[b"a"])
    with staged.lake.kv.read() as txn:
        made = set(txn.scan_keys(Table.TOKENS)) - before
        assert made == {branch_at(staged, txn, "main").staging_token}


def test_everything_can_be_undone_in_turn(staged: Repository) -> None:
    commit_part(staged, part(b"a"))
    stage(staged, "main", {b"b": b"3", b"late": b"3"})
    commit_part(staged, part(b"b"))
    assert read(staged, "main@")[b"b"] == checksums({b"b": b"3"})[b"b"]
    for _ in range(3):
        undo(staged)
    assert read(staged, "main") == checksums(ALL)
    undo(staged)
    assert read(staged, "main") == committed(staged) == checksums(FIRST)


def test_no_change_in_the_part_leaves_all_as_it_was(staged: Repository) -> None:
    head = committed(staged)
    for only in (part(b"nope"), part(b"ab"), part(prefixes=(b"z",))):
        with pytest.raises(NothingToDo, match="at these paths"):
            commit_part(staged, only)
    assert (committed(staged), read(staged, "main")) == (head, checksums(ALL))
    stage(staged, "main", {b"same": b"1"})
    assert commit_part(staged, part(b"nope"), allow_empty=True).parents
    assert committed(staged) == head
    commit_part(staged, None)
    assert committed(staged) == checksums({**ALL, b"same": b"1"})


def test_what_is_staged_while_it_runs_stays(tmp_path: Path) -> None:
    armed: list[str] = []

    def on_step(step: str) -> None:
        if armed and step == armed[0]:
            armed.clear()
            stage(repository, "main", {b"a/1": b"late", b"x": b"late"})

    with open_lake(tmp_path, on_step=on_step) as lake:
        repository = make_repository(lake, tmp_path)
        for step in ("seal", "build", "leave", "move", "tidy"):
            stage(repository, "main", {b"a/1": b"1", b"b": step.encode()})
            armed.append(step)
            commit_part(repository, part(b"a/1"), allow_empty=True)
            assert not armed
            expected = {b"a/1": b"late", b"b": step.encode(), b"x": b"late"}
            assert read(repository, "main") == checksums(expected), step
            commit_part(repository, None, allow_empty=True)
            assert committed(repository) == checksums(expected)


@pytest.mark.parametrize("other", [None, part(b"b"), part(b"a")])
def test_two_commits_at_once_lose_nothing(tmp_path: Path, other: Part | None) -> None:
    armed: list[str] = []

    def on_step(step: str) -> None:
        if armed and step == armed[0]:
            armed.clear()
            commit_part(repository, other)

    with open_lake(tmp_path, on_step=on_step) as lake:
        repository = make_repository(lake, tmp_path)
        for number, step in enumerate(("seal", "build", "leave", "move")):
            contents = dict.fromkeys((b"a/1", b"b", b"c"), b"%d" % number)
            stage(repository, "main", dict(contents))
            armed.append(step)
            with suppress(Exception):
                commit_part(repository, part(b"a"))
            assert not armed
            assert read(repository, "main") == checksums(contents), step
            with suppress(NothingToDo):
                commit_part(repository, None)
            assert committed(repository) == checksums(contents)


@pytest.mark.parametrize("step", ["seal", "build", "leave", "move", "tidy"])
def test_a_crash_at_any_step_loses_nothing(tmp_path: Path, step: str) -> None:
    class Crash(Exception):
        pass

    armed = False

    def on_step(name: str) -> None:
        if armed and name == step:
            raise Crash

    with open_lake(tmp_path, on_step=on_step) as lake:
        repository = make_repository(lake, tmp_path)
        stage(repository, "main", dict(FIRST))
        commit_part(repository, None)
        stage(repository, "main", STAGED)
        armed = True
        with pytest.raises(Crash):
            commit_part(repository, part(b"a"))
        armed = False
        again = through(repository)
        assert read(again, "main") == checksums(ALL)
        with suppress(NothingToDo):
            commit_part(again, part(b"a"))
        assert committed(again) == checksums({b"a/1": b"2", b"b": b"1", b"ab": b"1"})
        assert read(again, "main") == checksums(ALL)


def unowned(repository: Repository) -> set[bytes]:
    """Return the staging tokens, with records or without, of no branch and no operation."""
    with repository.lake.kv.read() as txn:
        branch = branch_at(repository, txn, "main")
        owned: set[bytes] = {branch.staging_token, *branch.sealed_tokens}
        for operation in log.iter_operations(txn, repository.key):
            owned.update(operation.sealed)
        tables = (Table.STAGING, Table.TOKENS)
        return {bytes(key[:16]) for table in tables for key in txn.scan_keys(table)} - owned


def test_copies_that_a_crash_has_left_are_deleted_after_a_day(tmp_path: Path) -> None:
    clock = Ticking()
    armed = True

    def on_step(name: str) -> None:
        if armed and name == "move":
            raise KeyboardInterrupt

    with open_lake(tmp_path, clock=clock, on_step=on_step) as lake:
        repository = make_repository(lake, tmp_path)
        stage(repository, "main", STAGED)
        with pytest.raises(KeyboardInterrupt):
            commit_part(repository, part(b"a"))
        armed = False
        assert len(unowned(repository)) == 1
        commit_part(repository, part(b"b"))
        assert len(unowned(repository)) == 1  # the process may be alive
        let_pass(repository, clock, timedelta(days=2))
        housekeeping.tidy(repository)
        assert unowned(repository) == set()
        assert read(repository, "main") == checksums({b"a/1": b"2", b"b": b"2", b"new": b"2"})
        with lake.kv.read() as txn:
            assert list(txn.scan(Table.META, prefix=b"copy/")) == []


def test_a_commit_whose_copies_were_taken_for_abandoned_is_built_again(tmp_path: Path) -> None:
    """A machine that slept for days, or whose clock was wrong."""
    clock = Ticking()
    swept: list[int] = []

    def on_step(name: str) -> None:
        if name == "move" and not swept:
            swept.append(1)
            let_pass(repository, clock, timedelta(days=2))
            housekeeping.tidy(repository)

    with open_lake(tmp_path, clock=clock, on_step=on_step) as lake:
        repository = make_repository(lake, tmp_path)
        stage(repository, "main", dict(FIRST))
        commit_part(repository, None)
        swept.clear()
        stage(repository, "main", STAGED)
        commit_part(repository, part(b"a"))
        assert swept
        assert committed(repository) == checksums({b"a/1": b"2", b"b": b"1", b"ab": b"1"})
        assert read(repository, "main") == checksums(ALL)


def test_copies_of_a_commit_that_lost_are_deleted(tmp_path: Path) -> None:
    lost = 0

    def on_step(step: str) -> None:
        nonlocal lost
        if step == "move" and lost < 3:
            lost += 1
            stage(repository, "main", {b"c": b"%d" % lost})
            armed.append(1)
            if len(armed) == 1:
                commit(repository, "main", message="other", committer="Eve")

    armed: list[int] = []
    with open_lake(tmp_path, on_step=on_step) as lake:
        repository = make_repository(lake, tmp_path)
        stage(repository, "main", {b"a": b"1", b"b": b"1"})
        with suppress(Exception):
            commit_part(repository, part(b"a"))
        assert unowned(repository) == set()


def test_conflicts_elsewhere_do_not_matter(repository: Repository) -> None:
    stage(repository, "main", {b"a": b"mine", b"b": b"mine", b"c": b"mine"})
    others_push(repository, {b"a": b"theirs"})
    with pytest.raises(StagedConflict) as caught:
        commit_part(repository, part(b"a", b"b"))
    assert caught.value.paths == (b"a",)
    commit_part(repository, part(b"b"))
    assert committed(repository) == checksums({b"a": b"theirs", b"b": b"mine"})
    with pytest.raises(StagedConflict) as caught:
        commit_part(repository, None)
    assert caught.value.paths == (b"a",)
    undo(repository)
    with pytest.raises(StagedConflict):
        commit_part(repository, part(b"a"))


def test_automatic_sync_sends_the_part_and_keeps_the_rest(tmp_path: Path) -> None:
    with Clones.make(tmp_path, "ada", "bob") as clones:
        ada, bob = clones.repositories
        stage(ada, "main", {b"a": b"ada", b"b": b"ada"})
        handle = synced(ada, "ada")
        commit_part(handle.repository, part(b"a"))
        handle.finish()
        synced(bob, "bob").catch_up()
        assert read(bob, "main") == checksums({b"a": b"ada"})
        assert read(ada, "main") == checksums({b"a": b"ada", b"b": b"ada"})
        # Bob was faster with another path: the part is built again on top, the rest stays.
        stage(bob, "main", {b"c": b"bob"})
        theirs = synced(bob, "bob")
        commit_part(theirs.repository, None)
        theirs.finish()
        stage(ada, "main", {b"d": b"ada"})
        handle = synced(ada, "ada")
        commit_part(handle.repository, part(b"d"))
        handle.finish()
        expected = {b"a": b"ada", b"c": b"bob", b"d": b"ada"}
        assert committed(ada) == checksums(expected)
        assert read(ada, "main") == checksums({**expected, b"b": b"ada"})


def test_what_a_commit_leaves_is_kept_though_it_was_copied_for_days(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial_commit, "BATCH", 1)
    with Clones.make(tmp_path, "ada") as clones:
        (ada,) = clones.repositories
        clock = Ticking()
        passed: list[str] = []
        steps: list[str] = []

        def on_step(name: str) -> None:
            steps.append(name)
            if name == "leave" and steps.count(name) == 2:  # the copy is noted by now
                clock.present += timedelta(days=2)
            if name == "pack" and not passed:
                passed.append(name)
                let_pass(ada, clock, timedelta())
                housekeeping.tidy(ada)

        staged = {b"a": b"1", b"b": b"1", b"c": b"1"}
        stage(ada, "main", staged)
        ada.lake.runtime = ada.lake.runtime._replace(clock=clock, on_step=on_step)
        handle = synced(ada, "ada")
        commit_part(handle.repository, part(b"a"))
        handle.finish()
        assert passed
        assert read(ada, "main") == checksums(staged)


def test_an_intent_keeps_what_is_left() -> None:
    from lakecli.base.model import StagingToken

    tokens = [StagingToken(bytes([number]) * 16) for number in range(3)]
    landing = LocalMove("commit", (tokens[0],), from_staging=True, left=(tokens[1], tokens[2]))
    assert LocalMove.from_fields(landing.to_fields()) == landing
