"""Moving a ref: the answers that a store may give, and the outcome of the move."""

from __future__ import annotations

import errno
import os
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import count, product
from threading import Lock
from typing import TYPE_CHECKING

import pytest

from lakecli.base.layout import ref_key
from lakecli.base.model import RefKind
from lakecli.base.retry import REF_MOVES, Retries, RetryPolicy
from lakecli.errors import LakeError, OutcomeUnknown, PermissionDenied, Unreachable
from lakecli.remote.ref_records import MAX_MOVES, NotOurs
from lakecli.remote.refs import MoveOutcome, find_ref, look_up_move
from lakecli.stores.contract import ANY, BucketNotFound
from lakecli.stores.local.store import DirectoryStore
from tests.remote.chains import PATIENT, advance, checked_moves, commit, intent, move_ref, write_id
from tests.remote.trouble import AMBIGUOUS, Fault, TroubledStore, Wire
from tests.support.counting import CountingStore
from tests.support.disk import Disk
from tests.support.memory_store import MemoryBucket, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.remote.refs import Intent
    from lakecli.stores.contract import Version


class Bucket:
    """A bucket, through a store without faults and through one with the faults of a test."""

    def __init__(self) -> None:
        self.bucket = MemoryBucket()
        self.wire = Wire()
        self.store = MemoryStore(self.bucket, "ns/")

    def troubled(self, *faults: tuple[str, Fault | None]) -> TroubledStore:
        """Return a store whose requests fail as given, one after the other, and then no more."""
        left = list(faults)

        def plan(kind: str) -> Fault | None:
            for number, (wanted, fault) in enumerate(left):
                if wanted == kind:
                    del left[number]
                    return fault
            return None

        return TroubledStore(self.bucket, self.wire, plan)


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


def test_a_ref_is_created_moved_deleted_and_made_again(bucket: Bucket) -> None:
    store = bucket.store
    steps = [(None, commit(1)), (commit(1), commit(2)), (commit(2), None), (None, commit(1))]
    for number, (before, after) in enumerate(steps, 1):
        result = move_ref(store, intent(f"w{number}", before, after), retries=PATIENT)
        assert result.outcome is MoveOutcome.APPLIED
        assert result.ref == find_ref(store, RefKind.BRANCH, "main")
        assert result.ref is not None
        assert (result.ref.commit_id, result.ref.sequence) == (after, number)
    assert [(move.before, move.after) for move in checked_moves(store)] == steps


def test_a_move_costs_one_get_and_one_put() -> None:
    store = CountingStore()
    advance(store, 3)
    assert (store.counts["get"], store.counts["put"], store.counts.total()) == (3, 3, 6)


def test_who_does_not_start_where_the_ref_stands_has_lost(bucket: Bucket) -> None:
    advance(bucket.store, 2)
    for before in (None, commit(1), commit(9)):
        result = move_ref(bucket.store, intent("w", before, commit(3)), retries=PATIENT)
        assert result.outcome is MoveOutcome.LOST
        assert result.ref is not None
        assert result.ref.commit_id == commit(2)
    absent = intent("w", commit(1), commit(3))._replace(name="other")
    assert move_ref(bucket.store, absent, retries=PATIENT) == (MoveOutcome.LOST, None)
    assert len(checked_moves(bucket.store)) == 2


def test_repeating_a_move_changes_nothing(bucket: Bucket) -> None:
    advance(bucket.store, 1)
    wanted = intent("w", commit(1), commit(2))
    for _ in range(3):
        assert move_ref(bucket.store, wanted, retries=PATIENT).outcome is MoveOutcome.APPLIED
    # Not even when the ref came back to where the move had started.
    back = intent("back", commit(2), commit(1))
    assert move_ref(bucket.store, back, retries=PATIENT).outcome is MoveOutcome.APPLIED
    assert move_ref(bucket.store, wanted, retries=PATIENT).outcome is MoveOutcome.APPLIED
    assert len(checked_moves(bucket.store)) == 3


def test_a_move_that_left_the_ref_object_is_found_in_the_reflog(bucket: Bucket) -> None:
    store = bucket.store
    wanted = intent("w", None, commit(1))
    move_ref(store, wanted, retries=PATIENT)
    here, there = commit(1), commit(2)
    for number in range(60):
        move_ref(store, intent(f"x{number}", here, there, since=number), retries=PATIENT)
        here, there = there, here
    ref = find_ref(store, RefKind.BRANCH, "main")
    assert ref is not None
    assert write_id("w") not in {move.write_id for move in ref.moves}
    assert move_ref(store, wanted, retries=PATIENT).outcome is MoveOutcome.APPLIED
    found = look_up_move(store, wanted)
    assert found is not None
    assert found.outcome is MoveOutcome.APPLIED
    assert len(checked_moves(store)) == 61


@pytest.mark.parametrize("is_oldest", [False, True])
def test_since_spares_reading_the_reflog(*, is_oldest: bool) -> None:
    store = CountingStore()
    advance(store, 100)
    ref = find_ref(store, RefKind.BRANCH, "main")
    assert ref is not None
    assert len(ref.moves) < 100
    store.reset()
    since = ref.moves[-1].sequence if is_oldest else 100
    wanted = intent("w", commit(100), commit(101), since=since)
    assert move_ref(store, wanted, retries=PATIENT).outcome is MoveOutcome.APPLIED
    assert store.counts == {"get": 1, "put": 1}


@pytest.mark.parametrize("moves", [0, 1, 32])
@pytest.mark.parametrize(("answer", "effect"), [*product(AMBIGUOUS, ("no", "done"))])
def test_every_answer_is_read_back(bucket: Bucket, moves: int, answer: str, effect: str) -> None:
    advance(bucket.store, moves)
    before = commit(moves) if moves else None
    fault = Fault(answer, effect)
    # With 32 moves the first PUT is the one that writes a chunk of the reflog.
    store = bucket.troubled(*([("put", None)] if moves == 32 else []), ("put", fault))
    steps: list[str] = []
    result = move_ref(store, intent("w", before, commit(99)), retries=PATIENT, on_step=steps.append)
    assert result.outcome is MoveOutcome.APPLIED
    assert checked_moves(bucket.store)[-1].write_id == write_id("w")
    assert steps.count("put") == (1 if effect == "done" else 2)
    assert result.ref == find_ref(bucket.store, RefKind.BRANCH, "main")


@pytest.mark.parametrize("answer", ["500", "timeout"])
def test_a_request_that_arrives_late_moves_once(bucket: Bucket, answer: str) -> None:
    advance(bucket.store, 1)
    store = bucket.troubled(("put", Fault(answer, "later")))
    wanted = intent("w", commit(1), commit(2))
    assert move_ref(store, wanted, retries=PATIENT).outcome is MoveOutcome.APPLIED
    bucket.wire.deliver()
    assert [move.write_id for move in checked_moves(bucket.store)] == [
        write_id("old-1"),
        write_id("w"),
    ]


@pytest.mark.parametrize("answer", AMBIGUOUS)
def test_ours_though_others_moved_on(bucket: Bucket, answer: str) -> None:
    advance(bucket.store, 1)
    store = bucket.troubled(("put", Fault(answer, "done")))

    def interfere(step: str) -> None:
        if step == "read" and len(checked_moves(bucket.store)) == 2:
            move_ref(bucket.store, intent("other", commit(2), commit(3)), retries=PATIENT)

    wanted = intent("w", commit(1), commit(2))
    result = move_ref(store, wanted, retries=PATIENT, on_step=interfere)
    assert result.outcome is MoveOutcome.APPLIED
    assert result.ref is not None
    assert result.ref.commit_id == commit(3)


@pytest.mark.parametrize("answer", AMBIGUOUS)
def test_ours_though_others_moved_what_we_had_created(bucket: Bucket, answer: str) -> None:
    store = bucket.troubled(("put", Fault(answer, "done")))

    def interfere(step: str) -> None:
        if step == "read" and find_ref(bucket.store, RefKind.BRANCH, "main") is not None:
            move_ref(bucket.store, intent("other", commit(1), commit(2)), retries=PATIENT)

    result = move_ref(store, intent("w", None, commit(1)), retries=PATIENT, on_step=interfere)
    assert result.outcome is MoveOutcome.APPLIED
    assert result.ref is not None
    assert result.ref.commit_id == commit(2)


@pytest.mark.parametrize(("moves", "spills"), [(MAX_MOVES - 1, 0), (MAX_MOVES, 1)])
def test_a_full_ref_object_spills_its_oldest_moves(bucket: Bucket, moves: int, spills: int) -> None:
    advance(bucket.store, moves)
    steps: list[str] = []
    wanted = intent("w", commit(moves), commit(moves + 1))
    move_ref(bucket.store, wanted, retries=PATIENT, on_step=steps.append)
    assert steps.count("spill") == spills
    assert len(checked_moves(bucket.store)) == moves + 1


def test_failed_reads_are_repeated_after_growing_pauses(bucket: Bucket) -> None:
    lost = ("get", Fault("timeout", "no"))
    store = bucket.troubled(("get", None), ("put", Fault("timeout", "no")), lost, lost, lost)
    slept: list[float] = []
    policy = RetryPolicy(attempts=3, first_delay=1)
    retries = Retries(policy, sleep=slept.append, random=lambda: 1.0)
    result = move_ref(store, intent("w", None, commit(1)), retries=retries)
    assert result.outcome is MoveOutcome.APPLIED
    assert slept == [1, 2, 4, 1]  # three reads that fail, then the second PUT


def test_the_race_is_lost_even_without_an_answer(bucket: Bucket) -> None:
    advance(bucket.store, 1)
    store = bucket.troubled(("put", Fault("timeout", "later")))

    def interfere(step: str) -> None:
        if step == "put":
            move_ref(bucket.store, intent("other", commit(1), commit(7)), retries=PATIENT)

    wanted = intent("w", commit(1), commit(2))
    assert move_ref(store, wanted, retries=PATIENT, on_step=interfere).outcome is MoveOutcome.LOST
    bucket.wire.deliver()
    assert [move.write_id for move in checked_moves(bucket.store)] == [
        write_id("old-1"),
        write_id("other"),
    ]


@pytest.mark.parametrize("effect", ["no", "done", "later"])
def test_the_outcome_is_unknown_if_no_read_succeeds(bucket: Bucket, effect: str) -> None:
    advance(bucket.store, 1)
    faults = [("put", Fault("timeout", effect)), *[("get", Fault("timeout"))] * 100]
    store = bucket.troubled(("get", None), *faults)
    wanted = intent("w", commit(1), commit(2))
    with pytest.raises(
        OutcomeUnknown, match=r"it is unknown whether branch main moved .*: no answer"
    ):
        move_ref(store, wanted, retries=PATIENT)
    bucket.wire.deliver()
    found = look_up_move(bucket.store, wanted)
    assert (found is None) == (effect == "no")
    assert move_ref(bucket.store, wanted, retries=PATIENT).outcome is MoveOutcome.APPLIED
    assert len(checked_moves(bucket.store)) == 2


def test_a_refused_read_after_a_put_is_unknown_too(bucket: Bucket) -> None:
    advance(bucket.store, 1)
    store = bucket.troubled(("get", None), ("put", Fault("412", "done")), ("get", Fault("403")))
    with pytest.raises(OutcomeUnknown, match="403"):
        move_ref(store, intent("w", commit(1), commit(2)), retries=PATIENT)


def test_a_request_that_was_never_sent_is_not_of_unknown_outcome(bucket: Bucket) -> None:
    advance(bucket.store, 32)
    wanted = intent("w", commit(32), commit(33))
    for fault, error in (
        (("get", Fault("timeout")), Unreachable),
        (("put", Fault("timeout")), Unreachable),  # of the reflog's chunk
        (("get", Fault("403")), PermissionDenied),
    ):
        with pytest.raises(error):
            move_ref(bucket.troubled(fault), wanted, retries=PATIENT)
    assert look_up_move(bucket.store, wanted) is None
    with pytest.raises(BucketNotFound):
        move_ref(MemoryStore(missing=True), wanted, retries=PATIENT)


@pytest.mark.parametrize("number", [1, 2])
def test_what_is_given_up_before_a_request_is_unknown_only_if_another_one_was_sent(
    bucket: Bucket, number: int
) -> None:
    advance(bucket.store, 1)
    asked = count(1)
    store = bucket.troubled(("put", Fault("timeout", "no")))
    wanted = intent("w", commit(1), commit(2))
    with nullcontext() if number == 1 else pytest.raises(OutcomeUnknown):
        result = move_ref(store, wanted, retries=PATIENT, may_send=lambda: next(asked) < number)
        assert result == (MoveOutcome.LOST, find_ref(bucket.store, RefKind.BRANCH, "main"))
    assert next(asked) == number + 1
    assert len(checked_moves(bucket.store)) == 1


@pytest.mark.parametrize("at", range(1, 12))
def test_a_move_in_a_directory_is_applied_only_once_it_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """One sync fails, as kernels report it: once. What the retry finds is synced by it."""
    store = DirectoryStore(str(tmp_path))
    disk = Disk(tmp_path, monkeypatch)
    sync, calls = os.fsync, count(1)

    def fail_once(descriptor: int) -> None:
        if next(calls) == at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_once)
    for name, before, after in (("one", None, commit(1)), ("two", commit(1), commit(2))):
        result = move_ref(store, intent(name, before, after), retries=PATIENT)
        assert result.outcome is MoveOutcome.APPLIED
        disk.check(name)


def test_a_refusal_is_final(bucket: Bucket) -> None:
    advance(bucket.store, 1)
    wanted = intent("w", commit(1), commit(2))
    with pytest.raises(PermissionDenied):
        move_ref(bucket.troubled(("put", Fault("403"))), wanted, retries=PATIENT)
    # Unless an earlier request may still arrive.
    store = bucket.troubled(("put", Fault("timeout")), ("put", Fault("403")))
    with pytest.raises(OutcomeUnknown):
        move_ref(store, wanted, retries=PATIENT)
    assert len(checked_moves(bucket.store)) == 1


@pytest.mark.parametrize(
    ("answer", "error"), [("412", Unreachable), ("409", Unreachable), ("500", OutcomeUnknown)]
)
def test_attempts_end(bucket: Bucket, answer: str, error: type[LakeError]) -> None:
    advance(bucket.store, 1)
    slept: list[float] = []
    retries = Retries(REF_MOVES, random=lambda: 0.5, sleep=slept.append)
    store = bucket.troubled(*[("put", Fault(answer))] * 1000)
    steps: list[str] = []
    with pytest.raises(error):
        move_ref(store, intent("w", commit(1), commit(2)), retries=retries, on_step=steps.append)
    assert steps.count("put") == 64
    assert slept[:8] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0]
    assert set(slept[8:]) == {10.0}
    assert len(slept) == steps.count("pause") == 63


def test_a_store_that_is_too_slow_is_not_asked_64_times(bucket: Bucket) -> None:
    advance(bucket.store, 1)
    wanted = intent("w", commit(1), commit(2))
    steps: list[str] = []
    once, twice = ["read", "put", "read"], ["read", "put", "read", "pause", "read", "put", "read"]
    for faults, asked in (
        ([("put", Fault("slow"))] * 9, twice),
        ([("put", Fault("slow")), ("get", None), ("get", Fault("slow"))], once),
    ):
        steps.clear()
        with pytest.raises(OutcomeUnknown, match="did not answer in time"):
            move_ref(bucket.troubled(*faults), wanted, retries=PATIENT, on_step=steps.append)
        assert steps == asked
    # The request may have had effect, which a read tells.
    late = bucket.troubled(("put", Fault("slow", "done")))
    assert move_ref(late, wanted, retries=PATIENT).outcome is MoveOutcome.APPLIED


def test_a_read_that_is_behind_is_not_believed(bucket: Bucket) -> None:
    class Behind(TroubledStore):
        def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
            found = super().get_versioned(key, length=length)
            return old if next(lag) else found

    advance(bucket.store, 1)
    old = bucket.store.get_versioned(ref_key(RefKind.BRANCH, "main"))
    move_ref(bucket.store, intent("x", commit(1), commit(2)), retries=PATIENT)
    lag: Iterator[bool] = iter([False, True, True, False])
    left = [Fault("timeout", "done")]
    store = Behind(
        bucket.bucket, bucket.wire, lambda kind: left.pop() if kind == "put" and left else None
    )
    result = move_ref(store, intent("w", commit(2), commit(3)), retries=PATIENT)
    assert result.outcome is MoveOutcome.APPLIED
    assert len(checked_moves(bucket.store)) == 3


def test_unknown_fields_survive_a_move(bucket: Bucket) -> None:
    advance(bucket.store, 1)
    key = ref_key(RefKind.BRANCH, "main")
    body = bucket.store.get(key)
    body = body.replace(b'{"format"', b'{"protected":{"by":[1]},"format"')
    body = body.replace(b'{"sequence"', b'{"signed":"x","sequence"')
    bucket.store.put(key, body, ANY)
    for number in range(1, 40):
        wanted = intent(f"w{number}", commit(number), commit(number + 1), since=number)
        assert move_ref(bucket.store, wanted, retries=PATIENT).outcome is MoveOutcome.APPLIED
    ref = find_ref(bucket.store, RefKind.BRANCH, "main")
    assert ref is not None
    assert ref.extra == {"protected": {"by": [1]}}
    assert checked_moves(bucket.store)[0].extra == '{"signed":"x"}'


def test_foreign_objects_are_not_overwritten(bucket: Bucket) -> None:
    key = ref_key(RefKind.BRANCH, "main")
    bucket.store.put(key, b"not ours", ANY)
    with pytest.raises(NotOurs):
        move_ref(bucket.store, intent("w", None, commit(1)), retries=PATIENT)
    assert bucket.store.get(key) == b"not ours"


@pytest.mark.parametrize("trouble", [0.0, 0.3])
def test_threads_race_and_nothing_is_lost(bucket: Bucket, trouble: float) -> None:
    applied: list[str] = []
    lock = Lock()

    def write(me: int) -> None:
        chance = random.Random(me)

        def plan(kind: str) -> Fault | None:
            if chance.random() >= trouble:
                return None
            answer = chance.choice(AMBIGUOUS if kind == "put" else ("500", "timeout"))
            return Fault(answer, chance.choice(("no", "done")) if kind == "put" else "no")

        store = TroubledStore(bucket.bucket, Wire(), plan)
        for number in range(20):
            wanted = _next(bucket.store, f"{me}-{number}")
            try:
                result = move_ref(store, wanted, retries=PATIENT)
            except LakeError:
                found = look_up_move(bucket.store, wanted)
                if found is None or found.outcome is MoveOutcome.LOST:
                    continue
                result = found
            if result.outcome is MoveOutcome.APPLIED:
                with lock:
                    applied.append(wanted.write_id)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert sorted(applied) == sorted(move.write_id for move in checked_moves(bucket.store))
    assert applied


def _next(store: MemoryStore, name: str) -> Intent:
    ref = find_ref(store, RefKind.BRANCH, "main")
    if ref is None:
        return intent(name, None, commit(1))
    return intent(name, ref.commit_id, commit(ref.sequence + 1), since=ref.sequence)
