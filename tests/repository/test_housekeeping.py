from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from lakecli.kv import operations as log
from lakecli.kv.env import Table
from lakecli.refs.store import RefStore
from lakecli.repository import branch, housekeeping, tokens
from lakecli.repository.commit import commit
from lakecli.repository.housekeeping import BATCH, KEPT_FOR
from lakecli.staging import area
from tests.support.lakes import Ticking, make_repository, open_lake, read, stage

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.lake import Repository

LATER = KEPT_FOR + timedelta(days=2)


def kinds(repository: Repository) -> list[str]:
    with repository.lake.kv.read() as txn:
        return [each.kind for each in log.iter_operations(txn, repository.key)]


def test_expired_operations_go_with_what_only_they_need(tmp_path: Path) -> None:
    clock = Ticking()
    with open_lake(tmp_path, clock=clock) as lake:
        repository = make_repository(lake, tmp_path)
        stage(repository, "main", {b"a": b"1"})
        old = branch.show(repository, "main").staging_token
        commit(repository, "main", message="old", committer="me")
        assert kinds(repository) == ["commit", "test", "repo create"]

        clock.present += LATER
        stage(repository, "main", {b"b": b"2"})
        young = branch.show(repository, "main").staging_token
        commit(repository, "main", message="young", committer="me")

        assert kinds(repository) == ["commit", "test"]
        with lake.kv.read() as txn:
            assert area.is_empty(txn, old)
            assert tokens.started_on(txn, old) is None
            assert not area.is_empty(txn, young)
        assert len(read(repository, "main")) == 2


def test_a_token_that_is_in_use_again_stays(tmp_path: Path) -> None:
    clock = Ticking()
    with open_lake(tmp_path, clock=clock) as lake:
        repository = make_repository(lake, tmp_path)
        stage(repository, "main", {b"a": b"1"})
        token = branch.show(repository, "main").staging_token
        commit(repository, "main", message="old", committer="me")
        with lake.kv.write() as txn:  # as undoing the commit does
            refs = RefStore(txn, repository.key)
            refs.put_branch(replace(refs.get_branch("main"), sealed_tokens=(token,)))
        clock.present += LATER
        assert housekeeping.tidy(repository) > 0
        with lake.kv.read() as txn:
            assert not area.is_empty(txn, token)

        stage(repository, "main", {b"b": b"2"})
        commit(repository, "main", message="sealed again", committer="me", allow_empty=True)
        clock.present += timedelta(days=1)
        housekeeping.tidy(repository)
        with lake.kv.read() as txn:
            assert not area.is_empty(txn, token)


def test_a_large_operation_goes_in_batches(tmp_path: Path) -> None:
    clock = Ticking()
    with open_lake(tmp_path, clock=clock) as lake:
        repository = make_repository(lake, tmp_path, range_entries=1024)
        stage(repository, "main", {b"%05d" % number: b"x" for number in range(BATCH)})
        commit(repository, "main", message="large", committer="me")
        clock.present += LATER
        deleted = [housekeeping.tidy(repository) for _ in range(4)]
        assert max(deleted) == BATCH
        assert deleted[-1] == 0
        with lake.kv.read() as txn:
            assert next(txn.scan(Table.IMAGES), None) is None
            assert next(txn.scan(Table.STAGING), None) is None
        assert kinds(repository) == []
