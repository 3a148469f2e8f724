"""Moving the state of garbage collection, with every answer that a store may give."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base import layout
from lakecli.base.layout import GC_STATE, MAX_STATE_SIZE
from lakecli.base.retry import Retries, RetryPolicy
from lakecli.errors import IntegrityError, OutcomeUnknown, Unreachable
from lakecli.remote import gc_protocol
from lakecli.remote.gc_protocol import (
    NEVER_RAN,
    DamagedState,
    GcState,
    Phase,
    StateMoved,
    SweepRunning,
    iter_keeps,
    look,
    look_at_damage,
    may_have_swept,
    move,
    read_expired,
    read_state,
    store_now,
    wait_for_sweep,
    write_keep,
)
from lakecli.stores.contract import ANY, ConditionFailed, ObjectNotFound
from tests.support.faulty import FaultyStore
from tests.support.lakes import START
from tests.support.memory_store import MemoryBucket, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

IDLE, CONDEMNED, SWEEPING = Phase.IDLE, Phase.CONDEMNED, Phase.SWEEPING

FIRST = NEVER_RAN._replace(epoch=1, write_id="1" * 32)
SECOND = NEVER_RAN._replace(epoch=2, write_id="2" * 32)


def store_with(state: GcState) -> FaultyStore:
    store = FaultyStore()
    move(store, look(store), state)
    return store


def test_a_refused_request_does_not_change_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_with(FIRST)
    seen = look(store)

    def conflict(*_: Any, **__: Any) -> Any:
        raise ConditionFailed("409: a conflicting conditional operation is in progress", hint="-")

    with monkeypatch.context() as patch:
        patch.setattr(store, "put", conflict)
        with pytest.raises(Unreachable, match="nobody else changed it"):
            move(store, seen, SECOND)
    assert look(store) == seen
    move(store, seen, SECOND)
    assert look(store).state == SECOND


def test_a_state_that_another_machine_moved_is_lost() -> None:
    store = store_with(FIRST)
    seen = look(store)
    move(store, seen, SECOND._replace(write_id="3" * 32))
    with pytest.raises(StateMoved):
        move(store, seen, SECOND)


def test_a_version_from_before_the_state_that_was_read_is_lost() -> None:
    store = store_with(FIRST)
    before = look(store)
    move(store, before, SECOND)
    with pytest.raises(StateMoved):
        move(store, look(store)._replace(version=before.version), FIRST)


@pytest.mark.parametrize("error", [ConditionFailed, Unreachable, ObjectNotFound])
def test_a_request_that_failed_after_the_state_was_written_moved_it(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    store = store_with(FIRST)
    seen = look(store)
    real = store.put

    def put(*args: Any, **options: Any) -> Any:
        real(*args, **options)
        raise error("the answer", hint="-")  # type: ignore[call-arg]

    with monkeypatch.context() as patch:
        patch.setattr(store, "put", put)
        move(store, seen, SECOND)
    assert look(store).state == SECOND


def test_a_store_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_with(FIRST)
    seen = look(store)

    def fail(*_: Any, **__: Any) -> Any:
        raise Unreachable("no answer", hint="-")

    with monkeypatch.context() as patch:
        patch.setattr(store, "put", fail)
        with pytest.raises(Unreachable, match="no answer"):
            move(store, seen, SECOND)
        patch.setattr(store, "head", fail)
        with pytest.raises(OutcomeUnknown, match="condemned"):
            move(store, seen, SECOND._replace(phase=CONDEMNED))
    assert look(store) == seen


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((IDLE, 0), (IDLE, 0), False),
        ((IDLE, 1), (CONDEMNED, 2), False),  # the grace period has just begun
        ((CONDEMNED, 2), (CONDEMNED, 2), False),
        ((CONDEMNED, 2), (IDLE, 2), True),
        ((CONDEMNED, 2), (CONDEMNED, 3), True),
        ((IDLE, 1), (IDLE, 2), True),
        ((IDLE, 1), (CONDEMNED, 3), True),
        ((IDLE, 1), (CONDEMNED, 1), True),  # nobody but a forger goes back
        ((IDLE, 2), (CONDEMNED, 1), True),
        ((CONDEMNED, 2), (SWEEPING, 2), True),
        ((SWEEPING, 2), (SWEEPING, 2), True),
        ((SWEEPING, 2), (IDLE, 2), True),
    ],
)
def test_a_sweep_may_have_gone_by_unless_the_states_exclude_it(
    before: tuple[Phase, int], after: tuple[Phase, int], *, expected: bool
) -> None:
    states = [GcState(phase=phase, epoch=epoch) for phase, epoch in (before, after)]
    assert may_have_swept(*states) is expected


def test_a_writer_waits_for_the_end_of_a_sweep() -> None:
    store = store_with(SECOND._replace(phase=SWEEPING, mark="2-" + "5f" * 16))
    after = SECOND._replace(write_id="3" * 32)
    slept: list[float] = []

    def waiting(then: Callable[[], None]) -> Retries:
        def sleep(seconds: float) -> None:
            slept.append(seconds)
            then()

        policy = RetryPolicy(attempts=4, first_delay=1)
        return Retries(policy, sleep=sleep, random=lambda: 1.0)

    with pytest.raises(SweepRunning):
        wait_for_sweep(store, waiting(lambda: None))
    assert len(slept) == 3
    assert wait_for_sweep(store, waiting(lambda: move(store, look(store), after))) == after
    assert len(slept) == 4


def test_a_state_of_any_size_is_read_whole_or_refused() -> None:
    store = store_with(SECOND)
    body = store.get(GC_STATE)
    store.put(GC_STATE, body.ljust(MAX_STATE_SIZE), ANY)
    assert read_state(store) == look(store).state == SECOND
    store.put(GC_STATE, body.ljust(MAX_STATE_SIZE + 1), ANY)
    for read in (read_state, look):
        with pytest.raises(DamagedState):
            read(store)


@pytest.mark.parametrize(
    ("beside", "epoch"),
    [
        ((), 1),
        (("keep/7/0f", "marks/9-0f/others", "expired/12", "reports/10-swept.json"), 13),
        (("expired/3-5f", "seen/5f", "rules.json", f"keep/{10**15}/0f", "keep/x/0f"), 4),
    ],
)
def test_the_state_after_a_damaged_one_has_an_epoch_that_no_writer_has_read(
    beside: tuple[str, ...], epoch: int
) -> None:
    store = FaultyStore()
    store.put(GC_STATE, b"damaged", ANY)
    for name in beside:
        store.put(f"_lakecli/gc/{name}", b"", ANY)
    seen = look_at_damage(store)
    assert (seen.state.phase, seen.state.epoch) == (IDLE, epoch)
    move(store, seen, seen.state._replace(write_id="4" * 32))
    assert read_state(store).epoch == epoch


def test_the_time_of_the_store_is_that_of_an_object_written_now() -> None:
    now = [START]
    store = MemoryStore(MemoryBucket(clock=lambda: now[0]), "ns/")
    assert store_now(store) == START
    now[0] += timedelta(minutes=1)
    assert store_now(store) == START + timedelta(minutes=1)


def test_a_keep_of_many_keys_is_written_in_several_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_protocol, "_KEYS_OF_A_KEEP", 2)
    store = MemoryStore(MemoryBucket(), "ns/")
    keys = [f"data/{digit}" for digit in "edcba"]
    write_keep(store, 3, "5" * 32, keys)
    write_keep(store, 4, "6" * 32, ["data/f"])
    names = [info.key.removeprefix(gc_protocol.KEEPS) for info in store.list(gc_protocol.KEEPS)]
    first = "3/" + "5" * 32
    assert names == [first, f"{first}-1", f"{first}-2", "4/" + "6" * 32]
    assert sorted(iter_keeps(store)) == [*sorted(keys), "data/f"]


def test_a_list_of_keys_to_spare_that_is_too_long_stops_the_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore(MemoryBucket(), "ns/")
    write_keep(store, 3, "5" * 32, ["data/a"])
    monkeypatch.setattr(layout, "MAX_KEEP_SIZE", len(b"data/a\n"))
    assert list(iter_keeps(store)) == ["data/a"]
    write_keep(store, 3, "6" * 32, ["data/bc"])
    with pytest.raises(IntegrityError, match="8 bytes"):
        list(iter_keeps(store))


def test_a_list_of_expired_metaranges_that_is_not_valid_excuses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = FaultyStore()
    a, b = "a" * 64, "b" * 64
    key = f"{gc_protocol.EXPIRED}1"
    monkeypatch.setattr(gc_protocol, "MAX_EXPIRED_SIZE", 64)
    assert read_expired(store, key) == []
    store.put(key, bytes.fromhex(a + b), ANY)
    assert read_expired(store, key) == [a, b]
    for body in (bytes.fromhex(a + b)[:-1], bytes.fromhex(a + b + a)):
        store.put(key, body, ANY)
        assert read_expired(store, key) == []
