"""The landing that an intent stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.model import CommitId, StagingToken
from lakecli.errors import IntegrityError
from lakecli.kv.bucket import IntentStore, LocalMove
from lakecli.repository import branch
from lakecli.repository.commit import commit
from lakecli.repository.journal import operation_log
from lakecli.repository.journal.intents import finish_pending
from tests.support.clones import Clones, synced
from tests.support.lakes import stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository

TOKEN = StagingToken(bytes(range(16)))


class KilledError(BaseException):
    """The process was killed."""


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """Return a repository whose commit reached the bucket before the process was killed."""
    with Clones.make(tmp_path, "ada") as made:
        (ada,) = made.repositories
        stage(ada, "main", {b"a": b"1"})
        calm = ada.lake.runtime
        steps: list[str] = []

        def kill(step: str) -> None:
            steps.append(step)
            if step == "track" and "put" in steps:
                raise KilledError

        shared = synced(ada, "somebody")
        shared.catch_up()
        ada.lake.runtime = calm._replace(on_step=kill)
        with pytest.raises(KilledError):
            commit(shared.repository, "main", message="mine", committer="me")
        ada.lake.runtime = calm
        yield ada


def change_row(repository: Repository, change: dict[str, Any], *removed: str) -> None:
    """Change the row of the only intent."""
    with repository.lake.kv.write() as txn:
        rows = IntentStore(txn, repository.key)
        ((id_, fields),) = rows.iter()
        kept = {name: value for name, value in fields.items() if name not in removed}
        rows.put(id_, {**kept, **change})


@pytest.mark.parametrize("from_staging", [True, False])
def test_a_landing_is_read_as_it_was_written(*, from_staging: bool) -> None:
    landing = LocalMove("merge", (TOKEN, StagingToken(bytes(16))), from_staging)
    assert LocalMove.from_fields(landing.to_fields()) == landing


@pytest.mark.parametrize(
    ("since", "moves"), [(None, True), (CommitId("a" * 64), True), (CommitId("b" * 64), False)]
)
def test_a_staging_token_moves_on_from_where_it_was_started(
    repository: Repository, since: CommitId | None, *, moves: bool
) -> None:
    first, last = CommitId("a" * 64), CommitId("c" * 64)
    with repository.lake.kv.write() as txn:
        token = operation_log.start_token(txn, repository, "main", first)
        operation_log.move_token_on(txn, token, last, since=since)
        assert operation_log.started_on(txn, token) == (last if moves else first)
        operation_log.move_token_on(txn, StagingToken(bytes(16)), last)
        assert operation_log.started_on(txn, StagingToken(bytes(16))) is None


@pytest.mark.parametrize(
    "change",
    [
        {"local": {}},
        {"local": {"operation": "commit", "sealed": ["not a token"], "from_staging": True}},
        {"after": "zz"},
        {"at": "yesterday"},
        {"kind": "remote"},
    ],
)
def test_an_intent_that_makes_no_sense_is_refused_by_name(
    repository: Repository, change: dict[str, Any]
) -> None:
    head = branch.show(repository, "main").commit_id
    change_row(repository, change)
    with pytest.raises(IntegrityError, match="main in the local store cannot be read") as caught:
        finish_pending(repository)
    assert caught.value.hint
    assert branch.show(repository, "main").commit_id == head
