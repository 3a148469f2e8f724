"""Commands of another process while a commit or a ref is on its way to the bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.model import RefKind
from lakecli.errors import NothingToDo, Refused, Unreachable
from lakecli.kv.bucket import IntentStore
from lakecli.remote.refs import find_ref
from lakecli.repository import branch
from lakecli.repository.commit import commit
from lakecli.repository.commit_attempts import seal
from lakecli.repository.handle.lake import LocalRepository
from lakecli.repository.journal.intents import STALE_AFTER, CommitUnderWay
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.reading.view import view_of_branch
from lakecli.repository.staged import changes
from lakecli.repository.staged.changes import unstage_unchanged
from lakecli.repository.undo.log import iter_log
from lakecli.repository.undo.undo import restore, undo
from tests.support.clones import Clones, synced
from tests.support.lakes import checksums, read, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository

BASE = {b"a": b"1"}
CHANGED = {b"a": b"1", b"b": b"2"}


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with Clones.make(tmp_path, "ada") as made:
        (repository,) = made.repositories
        stage(repository, "main", dict(BASE))
        share(repository, lambda shared: commit(shared, "main", message="base", committer="me"))
        yield repository


def share(repository: Repository, act: Callable[[Repository], object]) -> None:
    """Do something as a command under ``sync = auto``."""
    sharing = synced(repository, "somebody")
    sharing.catch_up()
    act(sharing.repository)
    sharing.finish()


def commit_with(
    repository: Repository, step: str, act: Callable[[Repository], object], *, allow_empty: bool
) -> None:
    """Commit main, sharing, and do something in another process of the machine before a step.

    Raises:
        LookupError: the commit has no such step.
    """
    other = LocalRepository(repository.lake, repository.record)
    has_begun = False
    pending = [step]

    def on_step(name: str) -> None:
        nonlocal has_begun
        has_begun = has_begun or name == "seal"
        if has_begun and name == step and pending:
            pending.clear()
            act(other)

    calm = repository.lake.runtime
    repository.lake.runtime = calm._replace(on_step=on_step)
    try:
        share(
            repository,
            lambda shared: commit(
                shared, "main", message="c", committer="me", allow_empty=allow_empty
            ),
        )
    finally:
        repository.lake.runtime = calm
    if pending:
        raise LookupError(step)


def bucket_head(repository: Repository) -> str | None:
    ref = find_ref(repository.store, RefKind.BRANCH, "main")
    assert ref is not None
    return ref.commit_id


def reset(repository: Repository) -> None:
    branch.reset(repository, "main")


def reset_path(repository: Repository) -> None:
    assert branch.reset_object(repository, "main", b"b") == 1


TAKING_AWAY: dict[str, Callable[[Repository], object]] = {
    "reset": reset,
    "reset --object": reset_path,
    "undo": undo,
}
BEFORE_IT_IS_SENT = ["build", "pack", "intent", "move", "read", "put"]


@pytest.mark.parametrize("step", BEFORE_IT_IS_SENT)
@pytest.mark.parametrize("how", TAKING_AWAY)
def test_changes_discarded_before_a_commit_is_pushed_are_not_in_it(
    repository: Repository, how: str, step: str
) -> None:
    head = branch.show(repository, "main").commit_id
    stage(repository, "main", {b"b": b"2"})
    with pytest.raises(NothingToDo):
        commit_with(repository, step, TAKING_AWAY[how], allow_empty=False)
    assert branch.show(repository, "main").commit_id == bucket_head(repository) == head
    assert read(repository, "main") == read(repository, "main@") == checksums(BASE)


@pytest.mark.parametrize("how", TAKING_AWAY)
def test_the_other_changes_are_committed(repository: Repository, how: str) -> None:
    stage(repository, "main", {b"c": b"3"})
    stage(repository, "main", {b"b": b"2"})
    if how == "reset":
        commit_with(repository, "put", reset, allow_empty=True)
        expected = BASE
    else:
        commit_with(repository, "put", TAKING_AWAY[how], allow_empty=False)
        expected = {**BASE, b"c": b"3"}
    assert read(repository, "main") == read(repository, "main@") == checksums(expected)
    assert branch.show(repository, "main").commit_id == bucket_head(repository)


def _newest(repository: Repository) -> str:
    return next(iter_log(repository)).operation.id.hex()


@pytest.mark.parametrize("how", [*TAKING_AWAY, "commit", "op restore"])
def test_a_change_to_a_commit_that_is_being_pushed_is_refused(
    repository: Repository, how: str
) -> None:
    before_staging = _newest(repository)
    acts: dict[str, Callable[[Repository], object]] = {
        **TAKING_AWAY,
        "commit": lambda other: commit(other, "main", message="other", committer="me"),
        "op restore": lambda other: restore(other, before_staging),
    }
    stage(repository, "main", {b"b": b"2"})
    messages: list[str] = []

    def act(other: Repository) -> None:
        before = branch.show(other, "main")
        with pytest.raises(CommitUnderWay) as raised:
            acts[how](other)
        assert "after 5 minutes" in str(raised.value.hint)
        messages.append(raised.value.message)
        assert branch.show(other, "main") == before

    commit_with(repository, "send", act, allow_empty=False)
    assert read(repository, "main") == read(repository, "main@") == checksums(CHANGED)
    made = branch.show(repository, "main").commit_id
    assert bucket_head(repository) == made
    assert messages == [f"a commit of branch main is on its way to the bucket: {made}"]


def test_the_branch_of_a_commit_that_is_being_pushed_is_not_deleted(repository: Repository) -> None:
    share(repository, lambda shared: branch.create(shared, "side", source="main"))
    stage(repository, "side", {b"b": b"2"})
    other = LocalRepository(repository.lake, repository.record)
    calm = repository.lake.runtime

    def on_step(name: str) -> None:
        if name == "send":
            with pytest.raises(CommitUnderWay):
                branch.delete(other, "side")

    repository.lake.runtime = calm._replace(on_step=on_step)
    share(repository, lambda shared: commit(shared, "side", message="c", committer="me"))
    assert read(repository, "side@") == checksums(CHANGED)


def test_a_merge_that_is_being_pushed_is_not_undone(repository: Repository) -> None:
    branch.create(repository, "side", source="main")
    stage(repository, "side", {b"b": b"2"})
    commit(repository, "side", message="side", committer="me")
    other = LocalRepository(repository.lake, repository.record)
    calm = repository.lake.runtime
    stage(repository, "main", {b"x": b"1"})
    commit(repository, "main", message="local", committer="me")
    tried: list[str] = []

    def on_step(name: str) -> None:
        if name == "send":
            tried.append(name)
            with pytest.raises(CommitUnderWay):
                undo(other)

    shared = synced(repository, "somebody").repository
    repository.lake.runtime = calm._replace(on_step=on_step)
    merge(shared, "side", "main", MergeOptions("me"))
    repository.lake.runtime = calm
    assert tried
    assert read(repository, "main") == checksums({**CHANGED, b"x": b"1"})
    assert branch.show(repository, "main").commit_id == bucket_head(repository)


def test_a_branch_does_not_follow_while_its_commit_is_pushed(repository: Repository) -> None:
    branch.create(repository, "side", source="main")
    stage(repository, "side", {b"a": b"9"})
    incoming = commit(repository, "side", message="side", committer="me").id
    stage(repository, "main", {**BASE, b"b": b"2"})

    def follow(other: Repository) -> None:
        before = branch.show(other, "main")
        with pytest.raises(CommitUnderWay):
            unstage_unchanged(other, "main", incoming)
        assert branch.show(other, "main") == before

    commit_with(repository, "send", follow, allow_empty=False)
    assert read(repository, "main") == read(repository, "main@") == checksums(CHANGED)


def test_what_equals_the_head_is_unstaged_in_batches(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_BATCH", 1)
    stage(repository, "main", {b"b": b"2", b"c": b"3"})
    commit(repository, "main", message="two", committer="me")
    branch.create(repository, "side", source="main")
    stage(repository, "side", {b"a": b"9", b"b": b"9", b"c": b"9"})
    incoming = commit(repository, "side", message="side", committer="me").id
    stage(repository, "main", {b"a": b"1", b"b": b"mine", b"c": b"3"})
    unstage_unchanged(repository, "main", incoming)
    with repository.lake.kv.read() as txn:
        assert [path for path, _ in view_of_branch(repository, txn, "main").staged()] == [b"b"]


def test_a_batch_without_records_does_not_end_the_unstaging(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reset_first(step: str) -> None:
        if step == "unstage":
            repository.lake.runtime = calm
            branch.reset_object(repository, "main", b"a")

    monkeypatch.setattr(changes, "_BATCH", 1)
    stage(repository, "main", {b"b": b"2"})
    commit(repository, "main", message="two", committer="me")
    branch.create(repository, "side", source="main")
    stage(repository, "side", {b"a": b"9", b"b": b"9"})
    incoming = commit(repository, "side", message="side", committer="me").id
    stage(repository, "main", dict(CHANGED))
    calm = repository.lake.runtime
    repository.lake.runtime = calm._replace(on_step=reset_first)
    unstage_unchanged(repository, "main", incoming)
    with repository.lake.kv.read() as txn:
        assert not list(view_of_branch(repository, txn, "main").staged())


def test_nothing_is_unstaged_from_a_head_that_moved_meanwhile(repository: Repository) -> None:
    def move_once(step: str) -> None:
        if step == "unstage":
            repository.lake.runtime = calm
            merge(repository, "side", "main", MergeOptions("me"))
            stage(repository, "main", dict(BASE))  # what it was before is a change now

    branch.create(repository, "side", source="main")
    stage(repository, "side", {b"a": b"9"})
    incoming = commit(repository, "side", message="side", committer="me").id
    stage(repository, "main", dict(BASE))
    calm = repository.lake.runtime
    repository.lake.runtime = calm._replace(on_step=move_once)
    unstage_unchanged(repository, "main", incoming)
    assert read(repository, "main@") == checksums({b"a": b"9"})
    assert read(repository, "main") == checksums(BASE)


@pytest.mark.parametrize("sealed", [False, True])
def test_a_commit_that_was_built_from_what_is_unstaged_is_outdated(
    repository: Repository, *, sealed: bool
) -> None:
    branch.create(repository, "side", source="main")
    stage(repository, "side", {b"a": b"9"})
    incoming = commit(repository, "side", message="side", committer="me").id
    stage(repository, "main", dict(BASE))
    before = seal(repository, "main") if sealed else branch.show(repository, "main")
    unstage_unchanged(repository, "main", incoming)
    after = branch.show(repository, "main")
    assert len(after.sealed_tokens) == 2 * len(before.sealed_tokens) == (2 if sealed else 0)


class KilledError(BaseException):
    """The process was killed."""


def kill(repository: Repository, step: str) -> None:
    """Commit main under ``sync = auto``, killed before a step."""

    def act(_other: Repository) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        commit_with(repository, step, act, allow_empty=False)


@pytest.mark.parametrize("step", [*BEFORE_IT_IS_SENT, "track"])
@pytest.mark.parametrize("how", TAKING_AWAY)
def test_after_a_kill_a_change_is_discarded_or_committed_never_both(
    repository: Repository, how: str, step: str
) -> None:
    stage(repository, "main", {b"b": b"2"})
    kill(repository, step)
    if step != "track":
        TAKING_AWAY[how](repository)
        expected = BASE
    elif how == "undo":
        with pytest.raises(Refused, match="this was pushed"):
            undo(repository)
        expected = CHANGED
    else:  # it had arrived, which is noticed first, so nothing is left to discard
        branch.reset(repository, "main")
        expected = CHANGED
    share(repository, lambda _: None)
    assert read(repository, "main") == read(repository, "main@") == checksums(expected)
    assert branch.show(repository, "main").commit_id == bucket_head(repository)


def test_a_commit_killed_while_pushing_is_given_up_later(repository: Repository) -> None:
    stage(repository, "main", {b"b": b"2"})
    kill(repository, "send")
    for take_away in TAKING_AWAY.values():
        with pytest.raises(CommitUnderWay):
            take_away(repository)
    calm = repository.lake.runtime
    repository.lake.runtime = calm._replace(clock=lambda: calm.clock() + 2 * STALE_AFTER)
    branch.reset(repository, "main")
    with repository.lake.kv.read() as txn:
        assert not list(IntentStore(txn, repository.key).iter())
    share(repository, lambda _: None)
    assert read(repository, "main") == checksums(BASE)
    undo(repository)
    share(repository, lambda shared: commit(shared, "main", message="again", committer="me"))
    assert read(repository, "main@") == checksums(CHANGED)


def test_a_commit_that_arrived_long_ago_is_noticed_before_it_is_given_up(
    repository: Repository,
) -> None:
    stage(repository, "main", {b"b": b"2"})
    kill(repository, "track")
    calm = repository.lake.runtime
    repository.lake.runtime = calm._replace(clock=lambda: calm.clock() + 2 * STALE_AFTER)
    branch.reset(repository, "main")
    assert read(repository, "main") == checksums(CHANGED)
    assert branch.show(repository, "main").commit_id == bucket_head(repository)


def test_a_local_commit_passes_one_that_was_killed_long_ago(repository: Repository) -> None:
    stage(repository, "main", {b"b": b"2"})
    kill(repository, "send")
    with pytest.raises(CommitUnderWay):
        commit(repository, "main", message="too early", committer="me")
    calm = repository.lake.runtime
    repository.lake.runtime = calm._replace(clock=lambda: calm.clock() + 2 * STALE_AFTER)
    made = commit(repository, "main", message="local", committer="me")
    assert branch.show(repository, "main").commit_id == made.id
    assert read(repository, "main@") == checksums(CHANGED)


def test_a_commit_killed_while_pushing_is_finished_by_the_same_command(
    repository: Repository,
) -> None:
    stage(repository, "main", {b"b": b"2"})
    kill(repository, "send")
    share(repository, lambda shared: commit(shared, "main", message="again", committer="me"))
    assert read(repository, "main@") == checksums(CHANGED)
    share(repository, lambda _: None)
    branch.reset(repository, "main")
    assert branch.show(repository, "main").commit_id == bucket_head(repository)


def test_a_commit_that_was_given_up_pushes_nothing(repository: Repository) -> None:
    """A process that slept between storing its intent and pushing again finds no row."""
    stage(repository, "main", {b"b": b"2"})

    def give_up(other: Repository) -> None:
        calm = other.lake.runtime
        other.lake.runtime = calm._replace(clock=lambda: calm.clock() + 2 * STALE_AFTER)
        with other.lake.kv.write() as txn:
            rows = IntentStore(txn, other.key)
            ((id_, fields),) = rows.iter()
            rows.put(id_, {**fields, "sent": fields["at"]})  # a first request had been sent
        branch.reset(other, "main")
        other.lake.runtime = calm

    with pytest.raises(NothingToDo):
        commit_with(repository, "put", give_up, allow_empty=False)
    assert bucket_head(repository) == branch.show(repository, "main").commit_id
    assert read(repository, "main") == checksums(BASE)


def test_a_second_commit_keeps_the_intent_of_the_first(repository: Repository) -> None:
    stage(repository, "main", {b"b": b"2"})

    def commit_too(other: Repository) -> None:
        with pytest.raises(KilledError):
            commit_with(other, "put", _killed, allow_empty=False)
        with pytest.raises(CommitUnderWay):
            branch.reset(other, "main")

    commit_with(repository, "send", commit_too, allow_empty=False)
    assert read(repository, "main") == read(repository, "main@") == checksums(CHANGED)


def _killed(_other: Repository) -> None:
    raise KilledError


def test_an_unreachable_bucket_changes_nothing(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(repository, "main", {b"b": b"2"})
    kill(repository, "send")

    def unreachable(_repository: Repository) -> None:
        raise Unreachable("down")

    monkeypatch.setattr("lakecli.repository.journal.intents.finish_pending", unreachable)
    before = branch.show(repository, "main")
    with pytest.raises(CommitUnderWay):
        branch.reset(repository, "main")
    assert branch.show(repository, "main") == before
