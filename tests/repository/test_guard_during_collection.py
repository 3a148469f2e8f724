"""Taking objects into use while garbage is collected: what it costs, and what it does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.errors import PermissionDenied
from lakecli.remote.gc_protocol import (
    STALE_AFTER,
    GcState,
    ObservedState,
    Phase,
    SweepRunning,
    iter_keeps,
    look,
    move,
)
from lakecli.repository.guard import GcGuard, Swept
from lakecli.repository.transfer.ingest import Ingest
from lakecli.repository.transfer.walk import FileOpener, LinkPolicy
from lakecli.stores.contract import ANY, NotAllowed
from lakecli.stores.local.store import DirectoryStore
from tests.support.collection import make_state
from tests.support.counting import CountingStore
from tests.support.memory_store import MemoryBucket

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

GRACE = timedelta(days=2)
KEY, OTHER = "data/aa/1", "data/aa/2"


class Place:
    """A store, its clock, and a guard of it."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)
        self.store = CountingStore(MemoryBucket(clock=lambda: self.now))
        self.slept: list[float] = []
        self.guard = GcGuard(self.store, monotonic=self.seconds, sleep=self.sleep)

    def seconds(self) -> float:
        return self.now.timestamp()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += timedelta(seconds=seconds)

    def set_state(self, phase: Phase, epoch: int = 1) -> None:
        seen = look(self.store)
        after = make_state(phase, epoch, grace=GRACE, salt=f"{self.now}")
        move(self.store, seen, after)
        self.store.reset()

    def put(self, key: str, *, days: float = 0) -> None:
        self.now -= timedelta(days=days)
        self.store.put(key, b"x", ANY)
        self.now += timedelta(days=days)

    def age(self, key: str) -> timedelta:
        return self.now - self.store.head(key).modified_at


@pytest.fixture
def place() -> Place:
    return Place()


def test_a_guard_costs_one_get_without_garbage_collection(place: Place) -> None:
    place.put(KEY, days=100)
    place.store.reset()
    for _ in range(10):
        place.guard.begin()
        place.guard.settle(found=[KEY], written=[OTHER])
    assert place.store.counts == {"get": 1}
    assert not place.guard.begin()


def test_a_read_state_is_trusted_for_an_hour(place: Place) -> None:
    place.guard.begin()
    place.now += STALE_AFTER + timedelta(seconds=1)
    place.store.reset()
    place.guard.settle(found=[], written=[OTHER])
    assert place.store.counts == {"get": 1}


def test_a_command_that_begins_after_an_hour_reads_the_state_again(place: Place) -> None:
    place.set_state(Phase.IDLE)
    place.guard.begin()
    place.guard.begin()
    assert place.store.counts == {"get": 1}
    place.now += STALE_AFTER + timedelta(seconds=1)
    place.guard.begin()
    assert place.store.counts == {"get": 2}


def test_old_objects_are_renewed_while_the_collection_is_idle(place: Place) -> None:
    place.put(KEY, days=1.1)
    place.put(OTHER, days=0.9)  # less than half of the grace period
    place.set_state(Phase.IDLE)
    place.guard.begin()
    place.guard.settle(found=[KEY, OTHER], written=[])
    assert place.age(KEY) < timedelta(minutes=1)
    assert place.age(OTHER) == timedelta(days=0.9)
    assert place.store.get(KEY) == b"x"
    assert not list(place.store.list("_lakecli/gc/refresh/"))


def test_an_object_that_may_not_be_replaced_keeps_its_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The protocol holds without: nothing is deleted before a whole grace period from now."""
    place.put(KEY, days=1.1)
    place.set_state(Phase.CONDEMNED)
    copied = place.store.copy

    def copy(source: str, key: str) -> None:
        if key == KEY:
            raise NotAllowed("a policy of the bucket")
        copied(source, key)

    monkeypatch.setattr(place.store, "copy", copy)
    assert place.guard.claim([KEY]) == {KEY: 1}
    assert place.age(KEY) > timedelta(days=1)
    assert len(list(place.store.list("_lakecli/gc/keep/"))) == 1


def test_a_guard_that_never_began_reads_the_state_before_it_settles(place: Place) -> None:
    place.put(KEY, days=1.1)
    place.set_state(Phase.IDLE)
    place.guard.settle(found=[KEY], written=[])
    assert place.age(KEY) < timedelta(minutes=1)


def test_condemned_objects_are_kept(place: Place) -> None:
    place.put(KEY, days=9)
    place.put(OTHER, days=0.1)
    place.set_state(Phase.CONDEMNED, 3)
    place.guard.begin()
    place.guard.settle(found=[KEY, OTHER], written=["data/aa/3"])
    assert sorted(iter_keeps(place.store)) == [KEY, OTHER]
    assert place.age(KEY) < timedelta(minutes=1)
    puts = [key for kind, key in place.store.keys if kind == "put"]
    gets = [number for number, call in enumerate(place.store.keys) if call[0] == "get"]
    kept = place.store.keys.index(("put", next(key for key in puts if "/keep/" in key)))
    assert gets[-1] > kept  # the state is read again, after the keep


def test_old_condemned_objects_are_kept_too(place: Place) -> None:
    place.guard.begin()
    place.put(OTHER)
    place.now += timedelta(days=4)
    place.set_state(Phase.CONDEMNED)
    place.guard.settle(found=[], written=[OTHER])
    assert list(iter_keeps(place.store)) == [OTHER]


def test_a_guard_waits_for_a_sweep(place: Place) -> None:
    place.set_state(Phase.SWEEPING)
    sleep = place.sleep

    def until(seconds: float) -> None:
        sleep(seconds)
        if len(place.slept) == 3:
            place.set_state(Phase.IDLE)

    guard = GcGuard(place.store, monotonic=place.seconds, sleep=until)
    place.put(KEY)
    guard.begin()
    assert len(place.slept) == 3
    guard.settle(found=[KEY], written=[], whole=True)  # no sweep has run since


def test_a_sweep_that_does_not_end_is_an_error(place: Place) -> None:
    place.set_state(Phase.SWEEPING)
    with pytest.raises(SweepRunning) as raised:
        place.guard.begin()
    assert "`gc run REPOSITORY`" in str(raised.value.hint)
    assert sum(place.slept) == pytest.approx(600, abs=10)


def test_objects_are_not_used_while_a_sweep_runs_that_began_meanwhile(place: Place) -> None:
    place.put(KEY)
    place.set_state(Phase.CONDEMNED, 3)
    place.guard.begin()
    place.set_state(Phase.SWEEPING, 3)
    with pytest.raises(SweepRunning):
        place.guard.settle(found=[KEY], written=[])


@pytest.mark.parametrize("is_there", [False, True])
def test_a_sweep_that_ended_meanwhile_is_noticed(place: Place, *, is_there: bool) -> None:
    place.set_state(Phase.CONDEMNED)
    place.guard.begin()
    place.set_state(Phase.IDLE)
    if is_there:
        place.put(KEY)
        place.guard.settle(found=[], written=[KEY])
        guard = GcGuard(place.store, monotonic=place.seconds, sleep=place.sleep)
        place.set_state(Phase.CONDEMNED, 2)
        guard.begin()
        guard.settle(found=[KEY], written=[])
        place.set_state(Phase.IDLE, 2)
        with pytest.raises(
            Swept, match="garbage collection ran in memory:"
        ):  # what its contents refer to is not looked for
            guard.settle(found=[KEY], written=[], whole=True)
    else:
        with pytest.raises(Swept):
            place.guard.settle(found=[], written=[KEY])


def denied(*_: object, **__: object) -> Any:
    raise PermissionDenied("no")


def test_a_forbidden_and_missing_state_means_no_collection(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some stores refuse what is absent, instead of saying so."""
    place.put("_lakecli/gc/state-of-another-kind")
    monkeypatch.setattr(place.store, "get", denied)
    place.guard.begin()
    place.guard.settle(found=[KEY], written=[])
    assert not place.guard.begin()


@pytest.mark.parametrize("may_list", [False, True])
def test_a_state_that_is_hidden_stops_writers(
    place: Place, monkeypatch: pytest.MonkeyPatch, *, may_list: bool
) -> None:
    if may_list:
        place.set_state(Phase.CONDEMNED)
    else:
        monkeypatch.setattr(place.store, "list", denied)
    monkeypatch.setattr(place.store, "get", denied)
    # Where not even a listing is allowed, the store's own words say best what is missing.
    with pytest.raises(PermissionDenied, match="_lakecli/gc/state" if may_list else "no") as raised:
        place.guard.begin()
    assert ("`doctor" in str(raised.value.hint)) == may_list
    with pytest.raises(PermissionDenied):
        place.guard.claim([KEY])


def test_a_file_gets_a_new_time_without_being_copied(tmp_path: Path) -> None:
    import os

    store: ObjectStore = DirectoryStore(str(tmp_path))
    store.put(KEY, b"x", ANY)
    path = store.local_path(KEY)
    assert path is not None
    inode = Path(path).stat().st_ino
    os.utime(path, (1, 1))
    move(store, ObservedState(GcState(), None, None), make_state(Phase.IDLE, grace=GRACE))
    guard = GcGuard(store)
    guard.begin()
    guard.settle(found=[KEY], written=[])
    assert Path(path).stat().st_mtime > 1_000_000
    assert Path(path).stat().st_ino == inode


def test_an_object_is_kept_that_the_first_collection_condemns_during_an_upload(
    tmp_path: Path,
) -> None:
    import os

    clock = [0.0]
    (tmp_path / "namespace").mkdir()
    store: ObjectStore = DirectoryStore(str(tmp_path / "namespace"))
    guard = GcGuard(store, monotonic=lambda: clock[0])
    ingest = Ingest(store, guard)

    def upload(text: bytes) -> str:
        (tmp_path / "file").write_bytes(text)
        with FileOpener(None, LinkPolicy.FAIL).open(os.fsencode(tmp_path / "file")) as file:
            ingest.flush([ingest.file(file)])
        return data_key(blake3_of(text).hex())

    old = data_key(blake3_of(b"old").hex())
    store.put(old, b"old", ANY)
    path = store.local_path(old)
    assert path is not None
    os.utime(path, (1, 1))
    move(store, ObservedState(GcState(), None, None), make_state(Phase.CONDEMNED, grace=GRACE))
    clock[0] += STALE_AFTER.total_seconds() + 1
    upload(b"new")
    assert upload(b"old") == old
    assert old in set(iter_keeps(store))
    assert Path(path).stat().st_mtime > 1_000_000


def test_a_sweep_while_a_keep_is_written_is_noticed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.set_state(Phase.IDLE)
    place.guard.begin()
    place.put(KEY)
    place.now += GRACE * 2
    place.set_state(Phase.CONDEMNED, 2)
    put = place.store.put

    def put_late(key: str, *rest: Any) -> object:
        monkeypatch.undo()
        place.set_state(Phase.SWEEPING, 2)
        place.store.delete([KEY])
        place.set_state(Phase.IDLE, 2)
        return put(key, *rest)

    monkeypatch.setattr(place.store, "put", put_late)
    with pytest.raises(Swept):
        place.guard.settle(found=(), written=[KEY])


def test_two_writers_renew_one_object(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that comes second finds the copy of the first gone, if both use one name."""
    place.put(KEY, days=1.5)
    place.set_state(Phase.IDLE)
    other = GcGuard(place.store, monotonic=place.seconds, sleep=place.sleep)
    copied = place.store.copy

    def copy(source: str, key: str) -> None:
        copied(source, key)
        if source == KEY:  # aside: the other one does all of its work now
            monkeypatch.undo()
            assert other.claim([KEY]) == {KEY: 1}

    monkeypatch.setattr(place.store, "copy", copy)
    assert place.guard.claim([KEY]) == {KEY: 1}
    assert place.age(KEY) < timedelta(minutes=1)
    assert not list(place.store.list("_lakecli/gc/refresh/"))


def test_a_claim_reports_existing_objects(place: Place) -> None:
    young = "data/aa/3"
    place.put(KEY, days=1.1)
    place.put(young, days=0.9)  # less than half of the grace period
    assert place.guard.claim([KEY, OTHER]) is None
    place.set_state(Phase.IDLE)
    guard = GcGuard(place.store, monotonic=place.seconds, sleep=place.sleep)
    assert guard.claim([]) == {}
    assert guard.claim([KEY, OTHER, young]) == {KEY: 1, young: 1}
    assert guard.claim([OTHER]) == {}
    assert place.age(KEY) < timedelta(minutes=1)
    assert place.age(young) == timedelta(days=0.9)


def test_a_guard_that_lives_for_long_knows_how_old_objects_are(place: Place) -> None:
    place.put(KEY, days=0.9)
    place.set_state(Phase.IDLE)
    assert place.guard.claim([KEY]) == {KEY: 1}
    assert place.age(KEY) == timedelta(days=0.9)
    place.now += timedelta(days=0.5)
    assert place.guard.claim([KEY]) == {KEY: 1}
    assert place.age(KEY) < timedelta(minutes=1)


def test_many_objects_are_looked_at_in_parallel(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.put(KEY)
    place.put(OTHER)
    place.set_state(Phase.IDLE)
    barrier = Barrier(2, timeout=30)
    head = place.store.head

    def meet(key: str) -> object:
        if key in {KEY, OTHER}:
            barrier.wait()
        return head(key)

    monkeypatch.setattr(place.store, "head", meet)
    assert place.guard.claim([KEY, OTHER]) == {KEY: 1, OTHER: 1}


def test_a_claim_reads_the_state_again_after_an_hour(place: Place) -> None:
    place.put(KEY, days=9)
    assert place.guard.claim([KEY]) is None
    place.now += STALE_AFTER + timedelta(seconds=1)
    place.set_state(Phase.CONDEMNED, 3)
    assert place.guard.claim([KEY]) == {KEY: 1}
    assert list(iter_keeps(place.store)) == [KEY]


def test_a_claim_waits_for_a_sweep_that_began_while_it_was_kept(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.put(KEY, days=9)
    place.set_state(Phase.CONDEMNED, 3)
    put = place.store.put

    def put_late(key: str, *rest: Any) -> object:
        monkeypatch.undo()
        place.set_state(Phase.SWEEPING, 3)
        return put(key, *rest)

    def sleep(seconds: float) -> None:
        place.slept.append(seconds)
        place.store.delete([KEY])
        place.set_state(Phase.IDLE, 4)

    place.guard = GcGuard(place.store, monotonic=place.seconds, sleep=sleep)
    monkeypatch.setattr(place.store, "put", put_late)
    assert place.guard.claim([KEY]) == {}
    assert len(place.slept) == 1


def test_claims_share_one_reading_of_the_state(place: Place) -> None:
    place.put(KEY)
    place.put(OTHER)
    place.set_state(Phase.IDLE)
    place.guard.claim([KEY])
    place.store.reset()
    place.guard.claim([OTHER])
    assert place.store.counts == {"head": 1}


def test_a_claim_is_repeated_when_the_state_moves(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.put(KEY, days=9)
    place.set_state(Phase.CONDEMNED, 3)
    put = place.store.put

    def put_late(key: str, *rest: Any) -> object:
        monkeypatch.undo()
        place.set_state(Phase.SWEEPING, 3)
        place.store.delete([KEY])
        place.set_state(Phase.IDLE, 3)
        return put(key, *rest)

    monkeypatch.setattr(place.store, "put", put_late)
    assert place.guard.claim([KEY]) == {}


def test_eight_threads_share_a_guard(place: Place) -> None:
    """Each claims and settles objects of its own; all are kept, and renewed once."""
    keys = [f"data/aa/{number}" for number in range(40)]
    for key in keys:
        place.put(key, days=9)
    place.set_state(Phase.CONDEMNED, 3)

    def use(number: int) -> None:
        mine = keys[number * 5 : number * 5 + 5]
        place.guard.begin()
        assert place.guard.claim(mine[:4]) == dict.fromkeys(mine[:4], 1)
        place.guard.settle(found=mine[4:], written=())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(8)))
    assert sorted(iter_keeps(place.store)) == sorted(keys)
    assert all(place.age(key) < timedelta(minutes=1) for key in keys)
    assert not list(place.store.list("_lakecli/gc/refresh/"))
