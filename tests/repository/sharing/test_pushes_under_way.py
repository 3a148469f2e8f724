"""Commands of another process while `push` sends a ref to the bucket."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.model import RefKind
from lakecli.errors import LostRace, NotFound, OutcomeUnknown, Refused, Unreachable
from lakecli.kv.bucket import IntentStore
from lakecli.remote.refs import find_ref
from lakecli.repository import branch, tag
from lakecli.repository.commit import commit
from lakecli.repository.handle.lake import LocalRepository
from lakecli.repository.journal.intents import STALE_AFTER, CommitUnderWay
from lakecli.repository.push import Pushing, PushLease, PushOptions, push
from lakecli.repository.undo.log import iter_log
from lakecli.repository.undo.undo import redo, restore, undo
from tests.support.clones import Clones
from tests.support.lakes import stage
from tests.support.waits import skip_waits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.stores.contract import ObjectStore, Version

ME = PushOptions("ada <ada@example.com>")


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """A repository whose main is in the bucket, and has one commit more here."""
    with Clones.make(tmp_path, "ada") as made:
        (repository,) = made.repositories
        change(repository, b"1")
        push(repository, "main", options=ME)
        change(repository, b"2")
        yield repository


def change(repository: Repository, content: bytes) -> None:
    stage(repository, "main", {b"a": content})
    commit(repository, "main", message="m", committer="me")


def push_with(
    repository: Repository,
    step: str,
    act: Callable[[Repository], object],
    *,
    name: str = "main",
    options: PushOptions = ME,
) -> Pushing:
    """Push a ref, and do something in another process of the machine before a step.

    Raises:
        LookupError: the push has no such step.
    """
    other = LocalRepository(repository.lake, repository.record)
    pending = [step]

    def on_step(passed: str) -> None:
        if passed in pending:
            pending.clear()
            act(other)

    calm = repository.lake.runtime
    repository.lake.runtime = calm._replace(on_step=on_step)
    try:
        state = push(repository, name, options=options).state
    finally:
        repository.lake.runtime = calm
    if pending:
        raise LookupError(step)
    return state


def in_bucket(
    repository: Repository, kind: RefKind = RefKind.BRANCH, name: str = "main"
) -> str | None:
    ref = find_ref(repository.store, kind, name)
    return None if ref is None else ref.commit_id


def head(repository: Repository) -> str:
    return branch.show(repository, "main").commit_id


def restore_first(repository: Repository) -> None:
    *_, first = (each for each in iter_log(repository) if each.operation.kind == "push")
    restore(repository, first.operation.id.hex())


BACK: dict[str, Callable[[Repository], object]] = {"undo": undo, "op restore": restore_first}


@pytest.mark.parametrize("how", BACK)
def test_what_is_being_pushed_is_not_undone(repository: Repository, how: str) -> None:
    pushed = head(repository)

    def take_back(other: Repository) -> None:
        with pytest.raises(CommitUnderWay) as raised:
            BACK[how](other)
        text = f"a push of branch main is on its way to the bucket: {pushed}"
        assert raised.value.message == text
        assert head(other) == pushed

    assert push_with(repository, "send", take_back) is Pushing.UPDATED
    assert in_bucket(repository) == head(repository) == pushed
    with pytest.raises(Refused, match="this was pushed: branch main"):
        BACK[how](repository)


@pytest.mark.parametrize("how", BACK)
def test_once_the_bucket_has_it_undo_says_so(repository: Repository, how: str) -> None:
    def take_back(other: Repository) -> None:
        with pytest.raises((LostRace, Refused), match="this was pushed"):
            BACK[how](other)

    assert push_with(repository, "track", take_back) is Pushing.UPDATED
    assert in_bucket(repository) == head(repository)


@pytest.mark.parametrize("options", [ME, PushOptions(ME.who, lease=PushLease())])
@pytest.mark.parametrize("step", ["pack", "intent", "move", "read", "put"])
@pytest.mark.parametrize("how", BACK)
def test_what_was_undone_before_it_is_sent_is_not_pushed(
    repository: Repository, how: str, step: str, options: PushOptions
) -> None:
    before = in_bucket(repository)
    assert push_with(repository, step, BACK[how], options=options) is Pushing.UP_TO_DATE
    assert in_bucket(repository) == head(repository) == before


@pytest.mark.parametrize("how", BACK)
def test_a_move_back_that_was_undone_before_it_is_sent_is_not_pushed(
    repository: Repository, how: str
) -> None:
    push(repository, "main", options=ME)
    before = in_bucket(repository)
    branch.reset(repository, "main", to="main~1")
    options = PushOptions(ME.who, lease=PushLease())

    def take_back(other: Repository) -> None:
        if how == "undo":
            undo(other)
        else:
            newest, second, *_ = iter_log(other)
            assert newest.operation.kind == "branch reset"
            restore(other, second.operation.id.hex())

    assert push_with(repository, "put", take_back, options=options) is Pushing.UP_TO_DATE
    assert in_bucket(repository) == head(repository) == before


def test_a_move_back_that_is_being_pushed_is_not_undone(repository: Repository) -> None:
    push(repository, "main", options=ME)
    moved = branch.reset(repository, "main", to="main~1").commit_id

    def take_back(other: Repository) -> None:
        with pytest.raises(CommitUnderWay, match=moved):
            undo(other)

    options = PushOptions(ME.who, lease=PushLease())
    assert push_with(repository, "send", take_back, options=options) is Pushing.FORCED
    assert in_bucket(repository) == head(repository) == moved


def test_a_commit_on_top_of_what_is_pushed_neither_stops_the_push_nor_joins_it(
    repository: Repository,
) -> None:
    pushed = head(repository)
    assert push_with(repository, "put", lambda other: change(other, b"3")) is Pushing.UPDATED
    assert in_bucket(repository) == pushed != head(repository)


def test_what_came_after_the_pushed_commit_can_be_undone_and_redone(repository: Repository) -> None:
    pushed = head(repository)

    def act(other: Repository) -> None:
        change(other, b"3")
        undo(other)
        assert head(other) == pushed
        redo(other)

    assert push_with(repository, "send", act) is Pushing.UPDATED
    assert in_bucket(repository) == pushed != head(repository)


def test_a_tag_that_is_being_pushed_is_not_undone(repository: Repository) -> None:
    made = tag.create(repository, "v1", "main").commit_id

    def take_back(other: Repository) -> None:
        with pytest.raises(CommitUnderWay, match="a push of tag v1"):
            undo(other)

    push_with(repository, "send", take_back, name="v1")
    assert in_bucket(repository, RefKind.TAG, "v1") == made


def test_a_tag_that_was_undone_is_not_pushed(repository: Repository) -> None:
    tag.create(repository, "v1", "main")
    with pytest.raises(NotFound):
        push_with(repository, "put", undo, name="v1")
    assert in_bucket(repository, RefKind.TAG, "v1") is None


class KilledError(BaseException):
    """The process was killed."""


def kill(_other: Repository) -> None:
    raise KilledError


def test_a_push_killed_on_its_way_stops_undo_for_minutes_only(repository: Repository) -> None:
    with pytest.raises(KilledError):
        push_with(repository, "send", kill)
    with pytest.raises(CommitUnderWay):
        undo(repository)
    calm = repository.lake.runtime
    repository.lake.runtime = calm._replace(clock=lambda: calm.clock() + 2 * STALE_AFTER)
    undo(repository)
    assert head(repository) == in_bucket(repository)
    with repository.lake.kv.read() as txn:
        assert not list(IntentStore(txn, repository.key).iter())


def test_a_push_that_was_given_up_sends_nothing(repository: Repository) -> None:
    """A process that slept between two requests finds no row, and what was undone stays so."""

    def give_up(other: Repository) -> None:
        calm = other.lake.runtime
        other.lake.runtime = calm._replace(clock=lambda: calm.clock() + 2 * STALE_AFTER)
        with other.lake.kv.write() as txn:
            rows = IntentStore(txn, other.key)
            ((id_, fields),) = rows.iter()
            rows.put(id_, {**fields, "sent": fields["at"]})  # a first request had been sent
        undo(other)
        other.lake.runtime = calm

    before = in_bucket(repository)
    assert push_with(repository, "put", give_up) is Pushing.UP_TO_DATE
    assert in_bucket(repository) == head(repository) == before


def test_a_second_push_keeps_the_first_one_in_sight(repository: Repository) -> None:
    """The first request may arrive as long as the second one has not."""
    pushed = head(repository)

    def push_more(other: Repository) -> None:
        change(other, b"3")
        with pytest.raises(KilledError):
            push_with(other, "put", kill)
        undo(other)  # the commit
        undo(other)  # what it had staged
        with pytest.raises(CommitUnderWay, match=pushed):
            undo(other)

    assert push_with(repository, "send", push_more) is Pushing.UPDATED
    assert in_bucket(repository) == head(repository) == pushed


def test_a_push_killed_on_its_way_is_finished_by_the_same_command(repository: Repository) -> None:
    with pytest.raises(KilledError):
        push_with(repository, "send", kill)
    assert push(repository, "main", options=ME).state is Pushing.UPDATED
    assert in_bucket(repository) == head(repository)


class Lost:
    """The first write of a branch, which arrives late, after it was reported as failed."""

    def __init__(self, repository: Repository, patch: pytest.MonkeyPatch) -> None:
        store = type(repository.store)
        self._put = store.put
        self._late: list[Callable[[], object]] = []

        def lose(store: ObjectStore, key: str, *args: Any) -> Version:
            put: Callable[[], Version] = partial(self._put, store, key, *args)
            if key.startswith("_lakecli/refs/branches/") and not self._late:
                self._late.append(put)
                raise Unreachable("no reply", hint="wait")
            return put()

        patch.setattr(store, "put", lose)

    def arrive(self) -> None:
        """Let the request take effect."""
        (request,) = self._late
        request()


@pytest.mark.parametrize("arrives", [True, False])
def test_a_lost_reply_and_a_branch_that_is_deleted_before_the_request_is_repeated(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, *, arrives: bool
) -> None:
    skip_waits(monkeypatch)
    branch.create(repository, "dev", source="main")
    lost = Lost(repository, monkeypatch)
    with pytest.raises(OutcomeUnknown, match="unknown whether branch dev moved in the bucket"):
        push_with(repository, "pause", lambda other: branch.delete(other, "dev"), name="dev")
    assert in_bucket(repository, name="dev") is None
    if arrives:
        lost.arrive()
        assert in_bucket(repository, name="dev") is not None
    what = "reached the bucket" if arrives else "did not reach the bucket"
    with pytest.raises(NotFound, match=f"an interrupted push of branch dev {what}") as raised:
        push(repository, "dev", options=ME)
    assert ("push --delete" in str(raised.value.hint)) == arrives
