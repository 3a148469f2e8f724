"""The checks before a ref moves in the bucket, and the state after a failure."""

from __future__ import annotations

import json
from datetime import timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base import layout
from lakecli.base.model import EMPTY_TREE, RefKind
from lakecli.committed.values import encode_entry
from lakecli.errors import ErrorKind, OutcomeUnknown, PermissionDenied, Unreachable
from lakecli.kv import operations as log
from lakecli.kv.bucket import IntentStore, LocalMove
from lakecli.refs.ref_store import RefStore
from lakecli.remote import gc_protocol, refs
from lakecli.remote.gc_protocol import Phase
from lakecli.remote.packs import LEVEL_FACTOR, list_packs, read_pack, write_pack
from lakecli.remote.refs import MoveOutcome, find_ref
from lakecli.repository import branch, repo
from lakecli.repository.clone import clone
from lakecli.repository.commit import commit
from lakecli.repository.commit_attempts import describe_commit
from lakecli.repository.handle.lake import LocalRepository
from lakecli.repository.handle.namespace import (
    NewerRepository,
    OtherRepository,
    check_readable,
    check_writable,
)
from lakecli.repository.journal import bucket_state
from lakecli.repository.journal.intents import WantedMove, finish_pending
from lakecli.repository.push import Pushing, PushOptions, push
from lakecli.repository.reading.view import view_of_branch
from lakecli.repository.sharing import publish as publishing
from lakecli.repository.sharing import references
from lakecli.repository.sharing.fetch import fetch, take_new_packs
from lakecli.repository.sharing.references import SAMPLE, NotInBucket
from lakecli.repository.staged.changes import check_clean
from lakecli.repository.staged.stager import Stager
from lakecli.stores.contract import ANY
from lakecli.stores.responses import ServerDate
from tests.remote import chains
from tests.remote.chains import move_ref
from tests.support.clones import machine, make_commit, position
from tests.support.collection import make_state
from tests.support.faulty import denied, unreachable
from tests.support.lakes import START, entry_of, unclaimed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.base.model import CommitId
    from lakecli.repository.contract import Repository
    from tests.support.faulty import FaultyStore

ME = PushOptions(who="Me <me@example.com>")
NAMESPACE = "s3://bucket/ns"
LONG_AGO = START - timedelta(days=100)


class KilledError(Exception):
    """The process was killed."""


@pytest.fixture
def repository(
    tmp_path: Path, bucket: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Repository]:
    assert bucket is not None
    with machine(tmp_path, "one") as lake:
        lake.runtime = lake.runtime._replace(sleep=lambda _seconds: None)
        yield repo.create(lake, "demo", NAMESPACE, range_entries=16)


def kill_at(repository: Repository, monkeypatch: pytest.MonkeyPatch, *steps: str) -> None:
    """Kill the next command once, at the first of these steps."""
    left = list(steps)

    def on_step(name: str) -> None:
        if left and name == left[0]:
            left.pop(0)
            raise KilledError(name)

    runtime = repository.lake.runtime._replace(on_step=on_step)
    monkeypatch.setattr(repository.lake, "runtime", runtime)


def intents(repository: Repository) -> int:
    with repository.lake.kv.read() as txn:
        return sum(1 for _ in IntentStore(txn, repository.key).iter())


def there(repository: Repository) -> tuple[CommitId | None, int]:
    """Return the commit of main in the bucket, and its number of moves."""
    ref = find_ref(repository.store, RefKind.BRANCH, "main")
    return (None, 0) if ref is None else (ref.commit_id, ref.sequence)


def pushes(repository: Repository) -> int:
    with repository.lake.kv.read() as txn:
        return sum(each.kind == "push" for each in log.iter_operations(txn, repository.key))


@pytest.mark.parametrize("step", ["pack", "intent", "move", "read", "put", "track"])
def test_an_interrupted_push_succeeds_when_repeated(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    made = make_commit(repository, b"a")
    kill_at(repository, monkeypatch, step)
    with pytest.raises(KilledError):
        push(repository, "main", options=ME)
    pushed = push(repository, "main", options=ME)
    assert pushed.after == made.id
    assert pushed.state is (Pushing.UP_TO_DATE if step == "track" else Pushing.CREATED)
    assert there(repository) == (made.id, 1)
    assert (position(repository), intents(repository), pushes(repository)) == (made.id, 0, 1)


def test_the_cost_of_a_move_does_not_grow_with_the_history(
    repository: Repository, bucket: FaultyStore
) -> None:
    before, costs = None, []
    for number in range(60):
        made = make_commit(repository, b"%d" % number)
        bucket.calls.clear()
        wanted = WantedMove(RefKind.BRANCH, "main", before, made.id, "me", "commit")
        assert publishing.publish(repository, wanted).outcome is MoveOutcome.APPLIED
        before = made.id
        costs.append(bucket.calls["get"])
    assert there(repository) == (before, 60)
    assert costs[-1] == min(costs)


def test_a_move_keeps_its_write_id(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    make_commit(repository, b"a")
    kill_at(repository, monkeypatch, "put")
    with pytest.raises(KilledError):
        push(repository, "main", options=ME)
    (finished,) = finish_pending(repository)
    push(repository, "main", options=ME)
    ref = find_ref(repository.store, RefKind.BRANCH, "main")
    assert ref is not None
    assert ref.write_id == finished.intent.write_id


def test_the_next_command_finishes_an_interrupted_push(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_commit(repository, b"a")
    kill_at(repository, monkeypatch, "put", "track")
    with pytest.raises(KilledError):
        push(repository, "main", options=ME)
    (finished,) = finish_pending(repository)
    assert (finished.state, finished.intent.after) == (MoveOutcome.OPEN, made.id)
    assert there(repository) == (None, 0)  # only a push sends anything
    with pytest.raises(KilledError):
        push(repository, "main", options=ME)
    (finished,) = finish_pending(repository)
    assert finished.state is MoveOutcome.APPLIED
    assert (position(repository), intents(repository), pushes(repository)) == (made.id, 0, 1)
    assert finish_pending(repository) == []


def test_an_interrupted_push_that_others_overtook_is_reported(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_commit(repository, b"a")
    with machine(tmp_path, "two") as lake:
        other = clone(lake, NAMESPACE, "demo")
        theirs = make_commit(other, b"b")
        kill_at(repository, monkeypatch, "put")
        with pytest.raises(KilledError):
            push(repository, "main", options=ME)
        push(other, "main", options=ME)
    (finished,) = finish_pending(repository)
    assert finished.state is MoveOutcome.LOST
    assert (intents(repository), pushes(repository)) == (0, 0)
    fetch(repository)
    assert position(repository) == theirs.id


def test_another_push_of_the_ref_replaces_the_interrupted_one(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_commit(repository, b"a")
    kill_at(repository, monkeypatch, "put")
    with pytest.raises(KilledError):
        push(repository, "main", options=ME)
    second = make_commit(repository, b"b")
    push(repository, "main", options=ME)
    assert (there(repository), intents(repository)) == ((second.id, 1), 0)


def test_the_next_command_finishes_the_local_part(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = branch.show(repository, "main")
    with repository.lake.kv.write() as txn:
        refs = RefStore(txn, repository.key)
        made = describe_commit(
            parents=[refs.get_commit(before.commit_id)],
            metarange_id=refs.get_commit(before.commit_id).metarange_id,
            message="made",
            committer="me",
            created_at=START,
            metadata={},
        )
        refs.put_commit(made)
    kill_at(repository, monkeypatch, "track")
    landing = LocalMove("commit", (), from_staging=True)
    wanted = WantedMove(RefKind.BRANCH, "main", None, made.id, "me", "commit", landing)
    with pytest.raises(KilledError):
        publishing.publish(repository, wanted)
    assert branch.show(repository, "main") == before
    (finished,) = finish_pending(repository)
    assert finished.state is MoveOutcome.APPLIED
    assert branch.show(repository, "main").commit_id == made.id
    assert pushes(repository) == 0
    with repository.lake.kv.read() as txn:
        assert next(log.iter_operations(txn, repository.key)).kind == "commit"
        check_clean(view_of_branch(repository, txn, "main"))


def test_an_unknown_outcome_is_reported(
    repository: Repository, bucket: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_commit(repository, b"a")
    push(repository, "main", options=ME)
    second = make_commit(repository, b"b")
    put = bucket.put

    def reply_lost(key: str, *args: Any, **kwargs: Any) -> Any:
        version = put(key, *args, **kwargs)
        if key.startswith(layout.REFS):
            bucket.errors["get"] = unreachable()
            raise unreachable()
        return version

    monkeypatch.setattr(bucket, "put", reply_lost)
    with pytest.raises(OutcomeUnknown) as raised:
        push(repository, "main", options=ME)
    assert raised.value.kind == ErrorKind.OUTCOME_UNKNOWN
    assert intents(repository) == 1
    with pytest.raises(Unreachable):
        finish_pending(repository)
    bucket.errors.clear()
    monkeypatch.setattr(bucket, "put", put)
    assert push(repository, "main", options=ME).state is Pushing.UP_TO_DATE
    assert (there(repository), intents(repository)) == ((second.id, 2), 0)


def test_a_move_that_an_earlier_command_sent_is_not_forgotten_if_the_store_fails(
    repository: Repository, bucket: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_commit(repository, b"a")

    def move() -> object:
        return publishing.publish(
            repository, WantedMove(RefKind.BRANCH, "main", None, made.id, "me", "push")
        )

    def fail(step: str) -> None:
        if step == "read":
            bucket.errors["get"] = unreachable()

    kill_at(repository, monkeypatch, "track")
    with pytest.raises(KilledError):
        move()
    repository.lake.runtime = repository.lake.runtime._replace(on_step=fail)
    with pytest.raises(Unreachable):
        move()
    bucket.errors.clear()
    assert intents(repository) == 1
    (finished,) = finish_pending(repository)
    assert (finished.state, pushes(repository)) == (MoveOutcome.APPLIED, 1)


def test_the_first_move_of_a_ref_is_found_though_others_have_moved_it_on(
    repository: Repository, bucket: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_commit(repository, b"a")
    put = bucket.put

    def reply_lost(key: str, *args: Any, **kwargs: Any) -> Any:
        version = put(key, *args, **kwargs)
        if key.startswith(layout.REFS):
            monkeypatch.undo()
            other = chains.intent("other", made.id, chains.commit(9), since=1)
            move_ref(bucket, other, retries=chains.PATIENT)
            raise unreachable()
        return version

    monkeypatch.setattr(bucket, "put", reply_lost)
    result = publishing.publish(
        repository, WantedMove(RefKind.BRANCH, "main", None, made.id, "me", "push")
    )
    assert result.outcome is MoveOutcome.APPLIED


@pytest.mark.parametrize(("failing", "begun"), [("read", 0), ("spill", 1)])
def test_a_move_that_was_never_sent_is_forgotten(
    repository: Repository,
    bucket: FaultyStore,
    monkeypatch: pytest.MonkeyPatch,
    failing: str,
    begun: int,
) -> None:
    monkeypatch.setattr(refs, "MAX_MOVES", 1)  # a second move fills the ref's object
    monkeypatch.setattr(refs, "KEPT_MOVES", 1)
    make_commit(repository, b"a")
    push(repository, "main", options=ME)  # a ref that never existed is not read
    make_commit(repository, b"b")

    def fail(step: str) -> None:
        if step == failing:
            assert intents(repository) == begun
            bucket.errors |= {"get": unreachable(), "put": unreachable()}

    repository.lake.runtime = repository.lake.runtime._replace(on_step=fail)
    with pytest.raises(Unreachable):
        push(repository, "main", options=ME)
    bucket.errors.clear()
    assert (intents(repository), there(repository)[1]) == (0, 1)


@pytest.mark.parametrize("error", [denied("put"), unreachable()])
def test_a_read_only_store_is_reported(
    repository: Repository, bucket: FaultyStore, error: Any
) -> None:
    make_commit(repository, b"a")
    push(repository, "main", options=ME)
    make_commit(repository, b"b")
    bucket.errors["put"] = error
    with pytest.raises((PermissionDenied, Unreachable)) as raised:
        push(repository, "main", options=ME)
    assert raised.value.hint
    assert (intents(repository), there(repository)[1]) == (0, 1)


def test_a_store_without_compare_and_set_is_not_shared(
    repository: Repository, bucket: FaultyStore
) -> None:
    make_commit(repository, b"a")
    bucket.ignores = frozenset({"Match"})
    with pytest.raises(Exception, match="cannot be shared") as raised:
        push(repository, "main", options=ME)
    assert getattr(raised.value, "kind", None) == ErrorKind.REFUSED
    assert there(repository) == (None, 0)


def test_a_namespace_that_another_repository_took_is_refused(
    repository: Repository, bucket: FaultyStore
) -> None:
    made = bucket.get(layout.REPOSITORY).replace(repository.record.uuid.encode(), b"ab" * 16)
    bucket.put(layout.REPOSITORY, made, ANY)
    make_commit(repository, b"a")
    for verb in (fetch, lambda each: push(each, "main", options=ME)):
        with pytest.raises(OtherRepository, match="abababab"):
            verb(repository)


@pytest.mark.parametrize("need", ["needs_read", "needs_write"])
def test_a_namespace_that_needs_a_newer_version_is_refused(
    repository: Repository, bucket: FaultyStore, need: str
) -> None:
    fields = {**json.loads(bucket.get(layout.REPOSITORY)), need: ["telepathy"]}
    bucket.put(layout.REPOSITORY, json.dumps(fields).encode(), ANY)
    if need == "needs_read":
        with pytest.raises(NewerRepository, match="telepathy"):
            check_readable(repository)
    else:
        check_readable(repository)
    with pytest.raises(NewerRepository, match="telepathy"):
        check_writable(repository)


# -- data objects ------------------------------------------------------------------------------


def add(repository: Repository, path: bytes, *, days_old: float = 0) -> None:
    """Commit an entry of some age, without its data."""
    entry = entry_of(path, at=repository.lake.runtime.now() - timedelta(days=days_old))
    Stager(repository, "main").write(unclaimed([(path, encode_entry(entry))]), kind="test")
    commit(repository, "main", message=path.decode(), committer="me")


def put_data(bucket: FaultyStore, path: bytes, body: bytes | None = None) -> None:
    bucket.put(entry_of(path).physical_address, path if body is None else body, ANY)


def test_push_refuses_old_data_that_is_gone(repository: Repository, bucket: FaultyStore) -> None:
    add(repository, b"young", days_old=1)
    for number in range(SAMPLE):
        path = b"younger-%d" % number
        add(repository, path)
        put_data(bucket, path)
    push(repository, "main", options=ME)  # it cannot have been collected
    for path in (b"old-1", b"old-2", b"other-size"):
        add(repository, path, days_old=8)
    put_data(bucket, b"old-2")
    put_data(bucket, b"other-size", b"x")
    before = there(repository)
    with pytest.raises(NotInBucket) as raised:
        push(repository, "main", options=ME)
    assert raised.value.paths == (b"old-1", b"other-size")
    assert (there(repository), intents(repository)) == (before, 0)
    put_data(bucket, b"old-1")
    put_data(bucket, b"other-size")
    assert push(repository, "main", options=ME).state is Pushing.UPDATED


@pytest.mark.parametrize(
    ("hours_old", "is_refused"),
    [(5 * 24, False), (7 * 24 - 1.5, False), (7 * 24 - 0.5, True), (13 * 24, True)],
)
def test_data_is_trusted_for_half_of_the_grace_period_less_an_hour(
    repository: Repository, bucket: FaultyStore, hours_old: float, *, is_refused: bool
) -> None:
    add(repository, b"gone", days_old=hours_old / 24)
    for number in range(SAMPLE):
        path = b"younger-%d" % number
        add(repository, path)
        put_data(bucket, path)
    if is_refused:
        with pytest.raises(NotInBucket):
            push(repository, "main", options=ME)
    else:
        push(repository, "main", options=ME)


def test_data_is_not_trusted_as_young_by_a_clock_that_is_behind(
    repository: Repository, bucket: FaultyStore
) -> None:
    push(repository, "main", options=ME)
    date = ServerDate(clock=lambda: 0.0)
    date.note(format_datetime(repository.lake.runtime.now() + timedelta(days=30), usegmt=True))
    bucket.server_date = date  # type: ignore[attr-defined]
    add(repository, b"gone", days_old=-20)
    for number in range(SAMPLE):
        path = b"younger-%d" % number
        add(repository, path, days_old=-30)
        put_data(bucket, path)
    with pytest.raises(NotInBucket) as raised:
        push(repository, "main", options=ME)
    assert raised.value.paths == (b"gone",)


def test_young_data_is_not_trusted_once_the_youngest_is_gone(
    repository: Repository, bucket: FaultyStore
) -> None:
    """A backup was restored between upload and commit, which no ref or table shows."""
    add(repository, b"young", days_old=1)
    for number in range(SAMPLE):
        add(repository, b"younger-%02d" % number)
    for number in range(1, SAMPLE):
        put_data(bucket, b"younger-%02d" % number)
    before = there(repository)
    with pytest.raises(NotInBucket) as raised:
        push(repository, "main", options=ME)
    assert raised.value.paths == (b"young", b"younger-00")
    assert there(repository) == before


@pytest.mark.parametrize(("hours_after", "is_refused"), [(-0.5, True), (0.5, True), (1.5, False)])
def test_data_of_the_hour_after_the_bucket_went_back_is_not_trusted(
    repository: Repository, bucket: FaultyStore, hours_after: float, *, is_refused: bool
) -> None:
    with repository.lake.kv.write() as txn:
        bucket_state.accept_rollback(txn, repository, (), packs=())
    add(repository, b"gone", days_old=-hours_after / 24)
    for number in range(SAMPLE):
        path = b"younger-%d" % number
        add(repository, path, days_old=-2 / 24)
        put_data(bucket, path)
    if is_refused:
        with pytest.raises(NotInBucket):
            push(repository, "main", options=ME)
    else:
        push(repository, "main", options=ME)


def collect(bucket: FaultyStore, phase: Phase, epoch: int) -> None:
    seen = gc_protocol.look(bucket)
    gc_protocol.move(bucket, seen, make_state(phase, epoch))


def test_push_checks_all_data_while_garbage_is_condemned(
    repository: Repository, bucket: FaultyStore
) -> None:
    add(repository, b"young", days_old=1)
    collect(bucket, Phase.CONDEMNED, 1)
    with pytest.raises(NotInBucket):
        push(repository, "main", options=ME)
    put_data(bucket, b"young")
    assert push(repository, "main", options=ME).state is Pushing.CREATED


def test_push_keeps_the_trees_of_new_commits_while_they_may_be_condemned(
    repository: Repository, bucket: FaultyStore
) -> None:
    trees = {make_commit(repository, path).metarange_id for path in (b"a", b"b")}
    for path in (b"a", b"b"):
        put_data(bucket, path)
    collect(bucket, Phase.CONDEMNED, 1)
    later = LocalRepository(repository.lake, repository.record)  # has read no state before
    push(later, "main", options=ME)
    assert set(gc_protocol.iter_keeps(bucket)) == set(map(layout.sstable_key, trees))


@pytest.mark.parametrize(("phase", "reads"), [(None, 2), (Phase.IDLE, 3)])
def test_a_push_claims_nothing_where_garbage_was_never_collected(
    repository: Repository,
    bucket: FaultyStore,
    monkeypatch: pytest.MonkeyPatch,
    *,
    phase: Phase | None,
    reads: int,
) -> None:
    if phase is not None:
        collect(bucket, phase, 1)
    after = make_commit(repository, b"a").id
    put_data(bucket, b"a")
    read: list[str] = []
    get = bucket.get

    def count(key: str, *args: Any, **kwargs: Any) -> Any:
        read.append(key)
        return get(key, *args, **kwargs)

    monkeypatch.setattr(bucket, "get", count)
    later = LocalRepository(repository.lake, repository.record)  # has read no state before
    publishing.publish(later, WantedMove(RefKind.BRANCH, "main", None, after, "me", "push"))
    assert read.count(layout.GC_STATE) == reads
    read.clear()
    later = LocalRepository(repository.lake, repository.record)
    publishing.publish(later, WantedMove(RefKind.BRANCH, "main", after, None, "me", "delete"))
    assert read.count(layout.GC_STATE) == 1  # nothing new, so nothing to claim


def test_a_collection_during_a_push_makes_it_check_again(
    repository: Repository, bucket: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_data(bucket, b"a")
    add(repository, b"a", days_old=8)

    def on_step(name: str) -> None:
        if name == "track":
            collect(bucket, Phase.CONDEMNED, 1)
            collect(bucket, Phase.SWEEPING, 1)
            bucket.delete([entry_of(b"a").physical_address])
            collect(bucket, Phase.IDLE, 1)

    runtime = repository.lake.runtime._replace(on_step=on_step)
    monkeypatch.setattr(repository.lake, "runtime", runtime)
    with pytest.raises(NotInBucket, match="was moved in the bucket, but") as raised:
        push(repository, "main", options=ME)
    assert raised.value.paths == (b"a",)


def test_a_sweep_that_runs_when_the_ref_has_moved_is_waited_for(
    repository: Repository, bucket: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_data(bucket, b"a")
    add(repository, b"a", days_old=8)

    def on_step(name: str) -> None:
        if name == "track":
            collect(bucket, Phase.CONDEMNED, 1)
            collect(bucket, Phase.SWEEPING, 1)

    def sleep(_seconds: float) -> None:
        bucket.delete([entry_of(b"a").physical_address])
        collect(bucket, Phase.IDLE, 1)

    runtime = repository.lake.runtime._replace(on_step=on_step, sleep=sleep)
    monkeypatch.setattr(repository.lake, "runtime", runtime)
    with pytest.raises(NotInBucket, match="was moved in the bucket, but") as raised:
        push(repository, "main", options=ME)
    assert raised.value.paths == (b"a",)


def test_a_push_says_that_the_ref_moved_where_the_store_answers_no_more(
    repository: Repository, bucket: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    after = make_commit(repository, b"a").id
    put_data(bucket, b"a")

    def on_step(name: str) -> None:
        if name == "track":
            bucket.errors["get"] = unreachable()

    runtime = repository.lake.runtime._replace(on_step=on_step)
    monkeypatch.setattr(repository.lake, "runtime", runtime)
    with pytest.raises(publishing.Unverified, match="main was moved in the bucket, but") as raised:
        push(repository, "main", options=ME)
    assert raised.value.hint == "when the store answers again: `fsck --data lakefs://demo`"
    bucket.errors.clear()
    ref = find_ref(bucket, RefKind.BRANCH, "main")
    assert ref is not None
    assert ref.commit_id == after


def test_a_lost_move_is_lost_whatever_was_collected_meanwhile(
    repository: Repository, bucket: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_data(bucket, b"a")
    add(repository, b"a", days_old=8)

    def on_step(name: str) -> None:
        if name == "put":
            move_ref(bucket, chains.intent("other", None, chains.commit(9)), retries=chains.PATIENT)
            collect(bucket, Phase.CONDEMNED, 1)
            collect(bucket, Phase.SWEEPING, 1)
            bucket.delete([entry_of(b"a").physical_address])
            collect(bucket, Phase.IDLE, 1)

    runtime = repository.lake.runtime._replace(on_step=on_step)
    monkeypatch.setattr(repository.lake, "runtime", runtime)
    after = branch.show(repository, "main").commit_id
    result = publishing.publish(
        repository, WantedMove(RefKind.BRANCH, "main", None, after, "me", "push")
    )
    assert result.outcome is MoveOutcome.LOST


def test_push_checks_known_data_again_after_a_collection(
    repository: Repository, bucket: FaultyStore
) -> None:
    put_data(bucket, b"a")
    branch.create(repository, "side", source="main")
    entry = entry_of(b"a", at=LONG_AGO)
    Stager(repository, "side").write(unclaimed([(b"a", encode_entry(entry))]), kind="test")
    made = commit(repository, "side", message="a", committer="me")
    push(repository, "side", options=ME)
    fetch(repository)
    # Another clone deletes the branch, and its objects are collected.
    ref = find_ref(bucket, RefKind.BRANCH, "side")
    assert ref is not None
    deletion = chains.intent("other", made.id, None, since=ref.sequence)._replace(name="side")
    move_ref(bucket, deletion, retries=chains.PATIENT)
    collect(bucket, Phase.CONDEMNED, 1)
    collect(bucket, Phase.SWEEPING, 1)
    bucket.delete([entry.physical_address])
    collect(bucket, Phase.IDLE, 1)
    branch.create(repository, "again", source=made.id)
    with pytest.raises(NotInBucket):
        push(repository, "again", options=ME)


@pytest.mark.parametrize("fetches", [True, False])
@pytest.mark.parametrize("collects", [True, False])
def test_push_of_a_new_branch_costs_its_commits(
    repository: Repository, bucket: FaultyStore, *, fetches: bool, collects: bool
) -> None:
    """What is below a ref that stands is known, and after a collection what it stands on."""
    heads = []
    for path in (b"a", b"b"):
        put_data(bucket, path)
        add(repository, path, days_old=8)
        push(repository, "main", options=ME)
        heads.append(branch.show(repository, "main").commit_id)
    if fetches:
        fetch(repository)
    if collects:
        for phase in (Phase.CONDEMNED, Phase.SWEEPING, Phase.IDLE):
            collect(bucket, phase, 1)
    for name, source in zip(("old", "new"), heads, strict=True):
        branch.create(repository, name, source=source)
        bucket.calls.clear()
        push(repository, name, options=ME)
        looked_for = bucket.calls["head"] > 0
        assert looked_for == (collects and name == "old")


def test_push_checks_many_data_objects_by_listing(
    repository: Repository, bucket: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "BATCH", 10)
    monkeypatch.setattr(references, "LISTED_FROM", 2)
    paths = [b"%03d" % number for number in range(100)]
    entries = [(path, entry_of(path, at=LONG_AGO)) for path in paths]
    changes = [(path, encode_entry(entry)) for path, entry in entries]
    Stager(repository, "main").write(unclaimed(changes), kind="test")
    commit(repository, "main", message="many", committer="me")
    for path in paths[1:]:
        put_data(bucket, path)
    bucket.calls.clear()
    with pytest.raises(NotInBucket) as raised:
        push(repository, "main", options=ME)
    assert raised.value.paths == (b"000",)
    assert bucket.calls["head"] < 20
    put_data(bucket, b"000")
    assert push(repository, "main", options=ME).state is Pushing.CREATED


def test_a_push_that_is_already_lost_writes_no_pack(
    repository: Repository, bucket: FaultyStore, tmp_path: Path
) -> None:
    make_commit(repository, b"a")
    push(repository, "main", options=ME)
    with machine(tmp_path, "two") as lake:
        other = clone(lake, NAMESPACE, "demo")
        make_commit(other, b"b")
        push(other, "main", options=ME)
    before = position(repository)
    made = make_commit(repository, b"c")
    packs = list(bucket.list(layout.COMMITS))
    result = publishing.compare_and_publish(
        repository, WantedMove(RefKind.BRANCH, "main", before, made.id, "me", "test")
    )
    assert result.outcome == MoveOutcome.LOST
    assert list(bucket.list(layout.COMMITS)) == packs
    assert intents(repository) == 0


@pytest.mark.parametrize("lies", [False, True])
def test_a_push_deletes_a_replaced_pack_only_if_another_one_has_its_commits(
    repository: Repository,
    bucket: FaultyStore,
    lies: bool,  # noqa: FBT001
) -> None:
    first = make_commit(repository, b"first")
    push(repository, "main", options=ME)
    (replaced,) = list_packs(bucket)
    other = describe_commit(
        parents=[],
        metarange_id=EMPTY_TREE,
        message="other",
        committer="",
        created_at=START,
        metadata={},
    )
    shown = [other] if lies else [*read_pack(bucket, replaced.id).commits, other]
    write_pack(bucket, shown, replaces=[replaced.id])
    take_new_packs(repository)
    bucket.offset += publishing.KEPT_FOR * 2
    for number in range(LEVEL_FACTOR):
        make_commit(repository, b"%d" % number)
        push(repository, "main", options=ME)
    ids = {info.id for info in list_packs(bucket)}
    assert (replaced.id in ids) == lies
    assert any(first in read_pack(bucket, each).commits for each in ids)
