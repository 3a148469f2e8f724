from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest

from lakecli.kv import operations as log
from lakecli.kv.local_store import Table
from lakecli.refs.ref_store import RefStore
from lakecli.repository import branch, repo, tag, workspace
from lakecli.repository.commit import commit
from lakecli.repository.handle import housekeeping
from lakecli.repository.handle.housekeeping import KEPT_FOR
from lakecli.repository.journal import operation_log
from lakecli.repository.log import rev_parse
from lakecli.repository.undo.log import iter_log
from lakecli.repository.undo.undo import undo
from lakecli.staging import area
from tests.support.lakes import (
    START,
    Ticking,
    entry_of,
    let_pass,
    make_repository,
    open_lake,
    read,
    stage,
    stage_entries,
)
from tests.support.stores import get_branch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository

LATER = KEPT_FOR + timedelta(days=2)


def records(repository: Repository) -> int:
    """Return how many records there are for undo."""
    with repository.lake.kv.read() as txn:
        tables = (Table.IMAGES, Table.STAGING, Table.OPERATIONS, Table.TOKENS)
        return sum(1 for table in tables for _ in txn.scan_keys(table))


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


def test_a_forgotten_repository_leaves_no_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale_down(monkeypatch)
    clock = Ticking()
    with open_lake(tmp_path, clock=clock) as lake:
        deleted = make_repository(lake, tmp_path)
        stage(deleted, workspace.begin(deleted, "main"), {b"%d" % i: b"1" for i in range(50)})
        repo.delete(lake, deleted.name)
        other = repo.create(lake, "other", str(tmp_path / "other"))
        let_pass(other, clock, LATER)
        housekeeping.drain(lake)
        assert not list(lake.repositories())[1:]
        with lake.kv.read() as txn:
            assert not list(lake.forgotten(txn))
            tokens = {json.loads(row)["repository"] for _, row in txn.scan(Table.TOKENS)}
            assert tokens == {other.record.uuid}
            assert not list(txn.scan_keys(Table.STAGING))


def scale_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a transaction delete 40 records, and a call 100 if no more was written."""
    monkeypatch.setattr(housekeeping, "BATCH", 40)
    monkeypatch.setattr(housekeeping, "LEAST", 100)


def test_a_large_operation_is_deleted_by_the_next_ones_whatever_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operation of 1,000 entries leaves 2,000 records; each of the next ones deletes 100."""
    scale_down(monkeypatch)
    dropped: list[int | None] = []
    drop, remove = area.drop, log.remove

    def note(call: Callable[..., int], *given: object, limit: int | None = None) -> int:
        dropped.append(limit)
        return call(*given, limit=limit)

    monkeypatch.setattr(area, "drop", partial(note, drop))
    monkeypatch.setattr(log, "remove", partial(note, remove))
    clock = Ticking()
    with open_lake(tmp_path, clock=clock) as lake:
        repository = make_repository(lake, tmp_path, range_entries=1024)
        stage(repository, "main", {b"%05d" % number: b"x" for number in range(1_000)})
        commit(repository, "main", message="large", committer="me")
        dropped.clear()
        let_pass(repository, clock, LATER)
        for number in range(25):
            before = records(repository)
            tag.create(repository, f"v{number}", "main")
            assert before - records(repository) <= 100
        assert all(limit is not None and 0 < limit <= 40 for limit in dropped)
        with lake.kv.read() as txn:
            assert next(txn.scan(Table.IMAGES), None) is None
            assert next(txn.scan(Table.STAGING), None) is None
        assert set(kinds(repository)) == {"tag create"}


@pytest.mark.parametrize("commits", [True, False], ids=["with commits", "without"])
def test_the_store_stops_growing_after_a_month(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, commits: bool
) -> None:
    """A hundred days, each with more than a call deletes if nothing was written."""
    monkeypatch.setattr(housekeeping, "BATCH", 20)
    monkeypatch.setattr(housekeeping, "LEAST", 20)
    clock, seen = Ticking(), []
    with open_lake(tmp_path, clock=clock) as lake:
        repository = make_repository(lake, tmp_path, range_entries=1_024)
        for day in range(100):
            clock.present = START + timedelta(days=day)
            first = 50 * day if commits else 0
            entries = {b"%05d" % (first + number): entry_of(b"%d" % day) for number in range(50)}
            stage_entries(repository, "main", entries)
            if commits:
                commit(repository, "main", message=f"day {day}", committer="me")
            seen.append((records(repository), lake.kv.usage()[0]))
    (least, space), (most, last_space) = seen[40], seen[-1]
    assert least > 50 * 30  # what is not expired can be undone
    assert most <= 1.05 * least
    assert last_space <= 1.2 * space


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
