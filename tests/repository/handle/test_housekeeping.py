from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.kv import operations as log
from lakecli.kv.local_store import Table
from lakecli.refs.ref_store import RefStore
from lakecli.repository import branch
from lakecli.repository.commit import commit
from lakecli.repository.handle import housekeeping
from lakecli.repository.handle.housekeeping import BATCH, KEPT_FOR
from lakecli.repository.journal import operation_log
from lakecli.repository.log import rev_parse
from lakecli.repository.undo.log import iter_log
from lakecli.repository.undo.undo import undo
from lakecli.staging import area
from tests.support.lakes import (
    START,
    Ticking,
    let_pass,
    make_repository,
    open_lake,
    read,
    stage,
)
from tests.support.stores import get_branch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository

LATER = KEPT_FOR + timedelta(days=2)


def kinds(repository: Repository) -> list[str]:
    with repository.lake.kv.read() as txn:
        return [each.kind for each in log.iter_operations(txn, repository.key)]


def test_expired_operations_are_deleted_with_their_tokens(tmp_path: Path) -> None:
    clock = Ticking()
    with open_lake(tmp_path, clock=clock) as lake:
        repository = make_repository(lake, tmp_path)
        stage(repository, "main", {b"a": b"1"})
        old = branch.show(repository, "main").staging_token
        commit(repository, "main", message="old", committer="me")
        assert kinds(repository) == ["commit", "test", "repo create"]

        let_pass(repository, clock, LATER)
        stage(repository, "main", {b"b": b"2"})
        young = branch.show(repository, "main").staging_token
        commit(repository, "main", message="young", committer="me")

        assert kinds(repository) == ["commit", "test"]
        with lake.kv.read() as txn:
            assert area.is_empty(txn, old)
            assert operation_log.started_on(txn, old) is None
            assert not area.is_empty(txn, young)
        assert len(read(repository, "main")) == 2


def test_a_token_in_use_again_stays(tmp_path: Path) -> None:
    clock = Ticking()
    with open_lake(tmp_path, clock=clock) as lake:
        repository = make_repository(lake, tmp_path)
        stage(repository, "main", {b"a": b"1"})
        token = branch.show(repository, "main").staging_token
        commit(repository, "main", message="old", committer="me")
        with lake.kv.write() as txn:  # as undo of the commit does
            refs = RefStore(txn, repository.key)
            refs.put_branch(get_branch(refs, "main")._replace(sealed_tokens=(token,)))
        let_pass(repository, clock, LATER)
        assert housekeeping.tidy(repository) > 0
        with lake.kv.read() as txn:
            assert not area.is_empty(txn, token)

        stage(repository, "main", {b"b": b"2"})
        commit(repository, "main", message="sealed again", committer="me", allow_empty=True)
        clock.present += timedelta(days=1)
        housekeeping.tidy(repository)
        with lake.kv.read() as txn:
            assert not area.is_empty(txn, token)


def test_a_large_operation_is_deleted_in_batches(tmp_path: Path) -> None:
    clock = Ticking()
    with open_lake(tmp_path, clock=clock) as lake:
        repository = make_repository(lake, tmp_path, range_entries=1024)
        stage(repository, "main", {b"%05d" % number: b"x" for number in range(BATCH)})
        commit(repository, "main", message="large", committer="me")
        let_pass(repository, clock, LATER)
        deleted = [housekeeping.tidy(repository) for _ in range(4)]
        assert max(deleted) == BATCH
        assert deleted[-1] == 0
        with lake.kv.read() as txn:
            assert next(txn.scan(Table.IMAGES), None) is None
            assert next(txn.scan(Table.STAGING), None) is None
        assert kinds(repository) == []


class TestWrongClocks:
    """One command at a wrong time neither hides the log nor deletes it."""

    @pytest.fixture
    def clock(self) -> Ticking:
        return Ticking()

    @pytest.fixture
    def repository(self, tmp_path: Path, clock: Ticking) -> Iterator[Repository]:
        with open_lake(tmp_path, clock=clock) as lake:
            made = make_repository(lake, tmp_path)
            make_commits(made, "one", "two")
            yield made

    @pytest.mark.parametrize("year", [1972, 2025, 2100])
    def test_one_commit_at_a_wrong_time_expires_nothing(
        self, year: int, repository: Repository, clock: Ticking
    ) -> None:
        clock.present = START.replace(year=year)
        make_commits(repository, "wrong")
        clock.present = START + timedelta(hours=1)
        make_commits(repository, "right")
        assert len(list(iter_log(repository))) == len(kinds(repository)) == 9
        for expected in ("right", "wrong", "two", "one"):
            assert rev_parse(repository, "main").commit.message == expected
            undo(repository)
            undo(repository)  # undo of the staging

    @pytest.mark.parametrize("year", [1972, 2025])
    def test_nothing_expires_while_the_clock_is_behind(
        self, year: int, repository: Repository, clock: Ticking
    ) -> None:
        clock.present = START.replace(year=year)
        make_commits(repository, "wrong")
        assert undo(repository).operation.kind == "commit"
        assert len(list(iter_log(repository))) == 8

    def test_nothing_expires_at_boot_with_a_reset_clock(
        self, tmp_path: Path, clock: Ticking
    ) -> None:
        clock.present = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
        with open_lake(tmp_path, clock=clock) as lake:
            repository = make_repository(lake, tmp_path)
            make_commits(repository, "early")
            clock.present = START
            make_commits(repository, "one")
            assert len(kinds(repository)) == len(list(iter_log(repository))) == 5
            let_pass(repository, clock, LATER)
            while housekeeping.tidy(repository):
                pass
            assert kinds(repository) == []  # they expire in the end

    def test_one_command_in_the_future_deletes_nothing(
        self, repository: Repository, clock: Ticking
    ) -> None:
        for day in range(4):
            clock.present = START + timedelta(days=day)
            make_commits(repository, f"day {day}")
        clock.present = START.replace(year=2100)
        make_commits(repository, "wrong")
        for day in (4, 5, 6):
            clock.present = START + timedelta(days=day)
            make_commits(repository, f"day {day}")
        assert len(kinds(repository)) == 5 + 2 * 8
        assert len(list(iter_log(repository))) == 5 + 2 * 8

    def test_operations_expire_once_the_clock_is_right(
        self, repository: Repository, clock: Ticking
    ) -> None:
        clock.present = START.replace(year=2100)
        make_commits(repository, "wrong")
        clock.present = START.replace(year=1972)
        make_commits(repository, "wrong too")
        clock.present = START
        let_pass(repository, clock, LATER)
        make_commits(repository, "young")
        assert kinds(repository)[:2] == ["commit", "test"]
        assert len(kinds(repository)) < 9
        let_pass(repository, clock, LATER)
        while housekeeping.tidy(repository):
            pass
        assert kinds(repository) == []


def make_commits(repository: Repository, *messages: str) -> None:
    for message in messages:
        stage(repository, "main", {message.encode(): message.encode()})
        commit(repository, "main", message=message, committer="me")
