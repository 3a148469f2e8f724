"""Moves that were begun: they are read as they were recorded, until their outcome is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.base.ids import PackId, WriteId
from lakecli.base.layout import MAX_SEQUENCE
from lakecli.base.model import CommitId, RefKind, StagingToken
from lakecli.errors import IntegrityError
from lakecli.kv.bucket import IntentStore, LocalMove
from lakecli.kv.operations import iter_operations, remove
from lakecli.remote.refs import Intent, MoveOutcome, MoveResult
from lakecli.repository import branch
from lakecli.repository.journal import intents
from lakecli.repository.journal.intents import Begun
from lakecli.repository.undo.undo import undo
from tests.support.clones import make_commit

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository

AT = datetime(2026, 3, 1, tzinfo=UTC)
FIRST, SECOND = CommitId("1" * 64), CommitId("2" * 64)
LANDING = LocalMove("commit", (StagingToken(bytes(16)),), from_staging=False)


def begin(
    digit: str,
    *,
    kind: RefKind = RefKind.BRANCH,
    name: str = "b",
    landing: LocalMove | None = None,
    sent: datetime | None = None,
) -> Begun:
    write_id = WriteId(digit * 32)
    return Begun(
        Intent(kind, name, write_id, FIRST, SECOND, "me", AT, "push", "", 0), landing, sent
    )


def rows(repository: Repository) -> set[Begun]:
    with repository.lake.kv.read() as txn:
        return set(intents.iter_begun(txn, repository))


@pytest.mark.parametrize(
    "begun",
    [
        begin("1"),
        begin("1", landing=LANDING, sent=AT + timedelta(minutes=1)),
        Begun(begin("1").intent._replace(before=None, pack=PackId("a" * 64)), None),
        Begun(begin("1").intent._replace(after=None, since=MAX_SEQUENCE), None),
        Begun(begin("1").intent._replace(name="n" * 239, why="", who=""), None),
    ],
)
def test_moves_are_read_as_they_were_recorded(repository: Repository, begun: Begun) -> None:
    with repository.lake.kv.write() as txn:
        intents.write_down(txn, repository, begun)
    assert rows(repository) == {begun}
    with repository.lake.kv.write() as txn:
        IntentStore(txn, repository.key).delete(begun.id)
    assert rows(repository) == set()


def test_a_new_move_replaces_those_of_its_ref_that_were_not_sent(repository: Repository) -> None:
    kept = {begin("2", sent=AT), begin("3", name="other"), begin("4", kind=RefKind.TAG)}
    replaced = begin("5", landing=LANDING)
    with repository.lake.kv.write() as txn:
        for each in (replaced, *kept):
            intents._put(txn, repository, each)
        intents.write_down(txn, repository, begin("1"))
    assert rows(repository) == {begin("1"), *kept}


def test_only_a_move_that_is_still_recorded_is_marked_as_sent(repository: Repository) -> None:
    made = make_commit(repository, b"a")
    begun = begin("1", name="main")
    begun = begun._replace(intent=begun.intent._replace(before=None, after=made.id))
    assert not intents._mark_sent(repository, begun)
    assert rows(repository) == set()
    with repository.lake.kv.write() as txn:
        intents.write_down(txn, repository, begun)
    assert intents._mark_sent(repository, begun)
    (row,) = rows(repository)
    assert row.sent is not None
    assert row == begun._replace(sent=row.sent)


def test_no_local_command_waits_for_a_deletion_in_the_bucket(repository: Repository) -> None:
    begun = Begun(begin("1").intent._replace(after=None), None)
    with repository.lake.kv.write() as txn:
        intents.write_down(txn, repository, begun)
    assert not intents._mark_sent(repository, begun)
    assert rows(repository) == {begun}


def test_a_move_that_was_sent_long_ago_hides_no_other(repository: Repository) -> None:
    present = begin("2", landing=LANDING, sent=repository.lake.runtime.now())
    others = [begin("0", name="other", sent=AT), begin("1", landing=LANDING, sent=AT)]
    with repository.lake.kv.write() as txn:
        for each in (*others, present):
            intents._put(txn, repository, each)
        with pytest.raises(intents.CommitUnderWay):
            intents.check_none_sent(txn, repository, "b", ignores_stale=True)


@pytest.mark.parametrize("landing", [LANDING, None], ids=["commit", "push"])
def test_what_was_sent_long_ago_is_given_up_only_after_the_bucket_was_asked(
    repository: Repository, landing: LocalMove | None
) -> None:
    begun = begin("1", landing=landing, sent=AT)
    with repository.lake.kv.write() as txn:
        intents._put(txn, repository, begun)
        if landing is not None:
            with pytest.raises(intents.CommitUnderWay):
                intents.check_none_sent(txn, repository, "b")
        else:
            with pytest.raises(intents.CommitUnderWay):
                intents.check_none_taken_back(txn, repository, RefKind.BRANCH, "b", to=None)
    assert rows(repository) == {begun}


@pytest.mark.parametrize("change", [{"at": "1"}, {"sent": "1"}, {"before": "1"}, {"write_id": "1"}])
def test_a_row_that_is_not_valid_is_refused(
    repository: Repository, change: dict[str, object]
) -> None:
    with repository.lake.kv.write() as txn:
        intents.write_down(txn, repository, begin("1"))
        store = IntentStore(txn, repository.key)
        ((id_, fields),) = store.iter()
        store.put(id_, {**fields, **change})
    with pytest.raises(IntegrityError, match="an unfinished move of branch") as raised:
        rows(repository)
    assert raised.value.hint


def test_what_another_process_dropped_lands_once(repository: Repository) -> None:
    """The outcome of a move is recorded after another process has deleted its row."""
    first = branch.show(repository, "main").commit_id
    made = make_commit(repository, b"a")
    undo(repository)
    begun = begin("1", name="main", landing=LocalMove("commit", (), from_staging=False))
    intent = begun.intent._replace(before=first, after=made.id)
    applied = MoveResult(MoveOutcome.APPLIED, None)

    def record(digit: str) -> CommitId:
        each = begun._replace(intent=intent._replace(write_id=WriteId(digit * 32)))
        with repository.lake.kv.write() as txn:
            intents.record_outcome(txn, repository, each, applied)
        return branch.show(repository, "main").commit_id

    # An operation of the log has moved the branch there, and was undone since.
    assert record("1") == first
    with repository.lake.kv.write() as txn:
        *moves, created = iter_operations(txn, repository.key)
        assert created.kind == "repo create"
        for operation in moves:
            remove(txn, operation)
    assert record("2") == made.id
