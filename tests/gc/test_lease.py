"""A sweep that stalls, is slow or fails deletes nothing in use and blocks no writer."""

from __future__ import annotations

import os
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import DATA, GC_STATE, SSTABLES, data_key, sstable_key
from lakecli.base.model import MetarangeId
from lakecli.errors import PermissionDenied, Refused, Unreachable
from lakecli.gc.lease import LONGEST_DELETE, RENEW_AFTER, SweepLease, SweepTooSlow
from lakecli.gc.live_set import DigestSet, PartGarbage
from lakecli.gc.report import REPORTS
from lakecli.gc.run import Action, status, undo
from lakecli.gc.state import add_expired
from lakecli.remote.gc_protocol import (
    LEASE,
    GcState,
    ObservedState,
    Phase,
    StateMoved,
    SweepRunning,
    iter_expired,
    iter_keeps,
    look,
    move,
    read_state,
    write_keep,
)
from lakecli.repository import branch
from lakecli.repository.push import PushOptions, push_deletion
from lakecli.repository.runtime import Runtime
from lakecli.stores.contract import ANY
from tests.gc.shared import LONG, Shared, make_commit, push, upload
from tests.support.lakes import START, through
from tests.support.memory_store import MemoryBucket, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.stores.contract import ObjectInfo, Version

MINUTE = timedelta(minutes=1)
MONTHS = timedelta(days=70)
LEFT = data_key(blake3_of(b"left").hex())


class Watched(MemoryStore):
    """A store that tells before each request that deletes data, when it has left its machine."""

    def __init__(self, bucket: MemoryBucket) -> None:
        super().__init__(bucket, "ns/")
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None

    def delete(self, keys: Iterable[str]) -> None:
        wanted = list(keys)
        watched = any(not key.startswith("_lakecli/gc/") for key in wanted)
        if watched:
            self.before()
        super().delete(wanted)
        if watched:
            self.after()

    def delete_matching(self, objects: Iterable[tuple[str, Version]]) -> Collection[str]:
        self.before()
        kept = super().delete_matching(objects)
        self.after()
        return kept


class Unconditional(Watched):
    """A store that deletes without conditions, as S3 does."""

    delete_matching = None  # type: ignore[assignment]


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    with Shared(tmp_path, "ada", "ben", "cleo") as made:
        make_commit(made.clones[0], {b"used": b"used"})
        push(made.clones[0])
        upload(made.clones[1], b"left", b"left")
        made.time.pass_by(LONG)
        assert made.collect(made.clones[2]).action is Action.CONDEMNED
        made.time.pass_by(LONG)
        yield made


def give(shared: Shared, repository: Repository, kind: type[Watched]) -> tuple[Repository, Watched]:
    """Return a handle to a machine's repository with a separate store, and that store."""
    store = kind(shared.bucket)
    return through(repository, store), store


def once(action: Callable[[], None]) -> Callable[[], None]:
    pending = [action]

    def act() -> None:
        if pending:
            pending.pop()()

    return act


def test_a_request_that_was_on_its_way_for_long(shared: Shared) -> None:
    """Where the store compares versions, not even the lease is needed."""
    ada, ben, cleo = shared.clones
    ada, store = give(shared, ada, Watched)

    def stall() -> None:
        shared.time.pass_by(LEASE + MINUTE)
        assert shared.collect(cleo).action is Action.SWEPT
        assert LEFT not in shared.data
        upload(ben, b"again", b"left")

    store.before = once(stall)
    with pytest.raises((StateMoved, SweepTooSlow)):
        shared.collect(ada)
    assert LEFT in shared.data
    assert read_state(shared.store).phase is Phase.IDLE


@pytest.mark.parametrize("kind", [Watched, Unconditional])
@pytest.mark.parametrize("taken_over", [False, True])
def test_a_machine_that_sleeps_before_it_deletes(
    shared: Shared, kind: type[Watched], *, taken_over: bool
) -> None:
    ada, ben, cleo = shared.clones
    ada, _ = give(shared, ada, kind)

    def sleep(step: str) -> None:
        if step == "gc:delete" and not slept:
            slept.append(step)
            shared.time.pass_by(LEASE + MINUTE)
            if taken_over:
                assert shared.collect(cleo).action is Action.SWEPT
                upload(ben, b"again", b"left")

    slept: list[str] = []
    ada.lake.runtime = ada.lake.runtime._replace(on_step=sleep)
    if taken_over:
        with pytest.raises(StateMoved):
            shared.collect(ada)
    else:
        # Nobody has taken it over, and everybody still waits for its end.
        report = shared.collect(ada)
        assert (report.action, report.spared) == (Action.SWEPT, 0)
    assert slept
    assert (LEFT in shared.data) is taken_over


def test_a_sweep_is_not_taken_over_while_its_lease_runs(shared: Shared) -> None:
    ada, _, cleo = shared.clones
    ada, store = give(shared, ada, Unconditional)
    seen = []

    def look() -> None:
        report = shared.collect(cleo)
        seen.append(report.action)
        assert report.status.resume_at is not None
        assert report.status.resume_at - shared.time.now > LEASE - MINUTE
        with pytest.raises(Refused, match="may be running"):
            undo(cleo, force=True)
        shared.time.pass_by(LONGEST_DELETE - MINUTE)
        assert shared.collect(cleo).action is Action.WAITS

    store.before = look
    assert shared.collect(ada).action is Action.SWEPT
    assert set(seen) == {Action.WAITS}


def test_a_long_sweep_renews_its_lease(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakecli.gc import run

    ada, ben, cleo = shared.clones
    for number in range(12):
        upload(ben, b"left", b"left %d" % number)
    shared.time.pass_by(LONG)
    assert undo(ada).phase is Phase.IDLE
    shared.time.pass_by(LONG)
    assert shared.collect(ada).action is Action.CONDEMNED
    shared.time.pass_by(LONG)
    monkeypatch.setattr(run, "BATCH", 1)
    monkeypatch.setattr(run, "_PARALLELISM", 1)
    ada, store = give(shared, ada, Unconditional)
    actions: list[Action] = []

    def pass_by() -> None:
        shared.time.pass_by(RENEW_AFTER)
        actions.append(shared.collect(cleo).action)

    store.before = pass_by
    begun = shared.time.now
    assert shared.collect(ada).action is Action.SWEPT
    assert shared.time.now - begun > 2 * LEASE
    assert actions == [Action.WAITS] * 13


def test_a_deletion_that_takes_too_long_ends_the_sweep_but_not_the_lease(shared: Shared) -> None:
    ada, ben, cleo = shared.clones
    ada, store = give(shared, ada, Unconditional)
    store.after = once(lambda: shared.time.pass_by(LONGEST_DELETE + MINUTE))
    with pytest.raises(SweepTooSlow) as raised:
        shared.collect(ada)
    assert "took longer than 10 minutes" in str(raised.value)
    assert "in 30 minutes" in str(raised.value.hint)
    # Nobody knows what is still on its way, so nobody may use those objects again yet.
    assert read_state(shared.store).phase is Phase.SWEEPING
    with pytest.raises(SweepRunning):
        upload(ben, b"again", b"left")
    assert shared.collect(cleo).action is Action.WAITS
    shared.time.pass_by(LEASE)
    assert shared.collect(cleo).action is Action.SWEPT
    upload(ben, b"again", b"left")


def test_a_deletion_with_an_unknown_end(shared: Shared) -> None:
    ada, ben, cleo = shared.clones

    def fail() -> None:
        raise Unreachable("no answer", hint="wait")

    ada, store = give(shared, ada, Unconditional)
    store.after = once(fail)
    with pytest.raises(Unreachable, match="no answer"):
        shared.collect(ada)
    assert read_state(shared.store).phase is Phase.SWEEPING
    with pytest.raises(Refused, match="may be running"):
        undo(cleo, force=True)
    assert status(cleo).resume_at is not None
    shared.time.pass_by(LEASE)
    assert undo(cleo, force=True).phase is Phase.IDLE
    upload(ben, b"again", b"left")


def test_a_deletion_that_is_not_permitted_ends_the_sweep(shared: Shared) -> None:
    ada = shared.clones[0]

    def fail() -> None:
        raise PermissionDenied("no permission to delete", hint="ask for it")

    ada, store = give(shared, ada, Unconditional)
    store.before = fail
    with pytest.raises(PermissionDenied):
        shared.collect(ada)
    assert read_state(shared.store).phase is Phase.IDLE
    assert LEFT in shared.data


def test_a_keep_that_goes_while_keeps_are_read_hides_no_other() -> None:
    class Vanishing(MemoryStore):
        def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
            found = [*super().list(prefix, after=after)]
            self.delete([found[0].key])
            return iter(found)

    store = Vanishing(MemoryBucket(), "ns/")
    write_keep(store, 1, "1" * 32, ["data/gone"])
    write_keep(store, 2, "2" * 32, ["data/a", "data/b"])
    write_keep(store, 2, "3" * 32, ["data/c"])
    assert list(iter_keeps(store)) == ["data/a", "data/b", "data/c"]


def test_expired_trees_that_one_list_cannot_hold_go_into_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lakecli.remote.gc_protocol.MAX_EXPIRED_SIZE", 64)
    store = MemoryStore(MemoryBucket(), "ns/")
    a, b, c, d, e = (digit * 64 for digit in "abcde")
    for trees in ([a], [a, b], [c, d], [c, e], [d]):  # the later ones by sweeps that go on
        add_expired(store, 1, trees)
    assert sorted(iter_expired(store)) == [a, b, c, d, e]
    lists = sorted((info.key.rpartition("/")[2], info.size) for info in store.list())
    assert lists == [("1", 64), (f"1-{c}", 64), (f"1-{e}", 32)]
    for trees in ([a, b, c, d, e], [a, b, c, d, e]):  # more at once than a list can hold
        add_expired(store, 2, trees)
    assert sorted(iter_expired(store)) == sorted([a, b, c, d, e] * 2)


def test_a_sweep_that_goes_on_forgets_no_expired_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakecli.gc import run

    monkeypatch.setattr(run, "BATCH", 1)
    monkeypatch.setattr(run, "_PARALLELISM", 1)
    with Shared(tmp_path, "ada", "ben", "cleo") as shared:
        ada, ben, cleo = shared.clones
        branch.create(ben, "side", source="main")
        for number in range(3):
            make_commit(ben, {b"side": b"%d" % number}, "side")
        push(ben, "side")
        push_deletion(ben, "side", options=PushOptions(who="me"))
        trees = {each.rpartition("/")[2] for each in shared.tables}
        shared.time.pass_by(MONTHS)
        assert shared.collect(cleo).action is Action.CONDEMNED
        shared.time.pass_by(LONG)
        ada, store = give(shared, ada, Unconditional)
        deleted = 0

        def fail() -> None:
            nonlocal deleted
            deleted += 1
            if deleted == 2:
                raise Unreachable("no answer", hint="wait")

        store.after = fail
        with pytest.raises(Unreachable):
            shared.collect(ada)
        expired = set(iter_expired(shared.store))
        assert len(expired) == 3
        shared.time.pass_by(LEASE)
        assert shared.collect(cleo).action is Action.SWEPT
        assert set(iter_expired(shared.store)) == expired
        assert expired < trees
        assert not shared.tables


def test_requests_that_are_under_way_end_before_the_lease() -> None:
    """S3 and Azure accept a signed request for 15 minutes."""
    assert RENEW_AFTER + LONGEST_DELETE + 15 * MINUTE <= LEASE


def take_lease(store: MemoryStore, elapsed: Callable[[], float]) -> SweepLease:
    """Return the lease of a sweep in a new namespace."""
    runtime = Runtime(lambda: START, lambda: os.urandom(16), elapsed=elapsed)
    lake = SimpleNamespace(runtime=runtime)
    repository = SimpleNamespace(store=store, uri="lakefs://demo", lake=lake)
    condemned = GcState(Phase.CONDEMNED, 1, "1-" + "5f" * 16)
    return SweepLease(cast("Repository", repository), ObservedState(condemned, None, None), START)


def put_data(store: MemoryStore) -> list[tuple[str, Version]]:
    """Write two objects, and return their keys and versions."""
    return [(key, store.put(key, b"", ANY)) for key in (data_key("a" * 64), data_key("b" * 64))]


def test_no_deletion_begins_if_renewing_the_lease_takes_too_long() -> None:
    now = delay = 0.0

    class Slow(MemoryStore):
        def put(self, *args: Any, **options: Any) -> Version:
            nonlocal now
            now += delay
            return super().put(*args, **options)

    store = Slow(MemoryBucket(), "ns/")
    first, second = put_data(store)
    lease = take_lease(store, lambda: now)
    taken = lease.state
    assert lease.delete([first]) == 0
    delay = RENEW_AFTER.total_seconds() + 1
    now += delay
    with pytest.raises(SweepTooSlow, match="takes too long to answer"):
        lease.delete([second])
    assert [info.key for info in store.list(DATA)] == [second[0]]
    # The lease was renewed and no deletion is under way, so a failure ends the sweep.
    assert read_state(store) == lease.state != taken
    with pytest.raises(SweepTooSlow), lease:
        raise SweepTooSlow("the store takes too long to answer")
    assert read_state(store).phase is Phase.IDLE


def test_a_state_that_another_machine_has_written_stops_even_a_young_lease() -> None:
    store = MemoryStore(MemoryBucket(), "ns/")
    first, second = put_data(store)
    lease = take_lease(store, lambda: 0.0)
    assert lease.delete([first]) == 0
    move(store, look(store), lease.state._replace(write_id="2f" * 16))
    with pytest.raises(StateMoved):
        lease.delete([second])
    assert [info.key for info in store.list(DATA)] == [second[0]]


class Writing(Unconditional):
    """A store that tells before each object that it writes."""

    def __init__(self, bucket: MemoryBucket) -> None:
        super().__init__(bucket)
        self.before_put: Callable[[str], None] = lambda _key: None

    def put(self, key: str, *args: Any, **options: Any) -> Version:
        self.before_put(key)
        return super().put(key, *args, **options)


def test_the_lease_begins_before_the_request_that_takes_it(shared: Shared) -> None:
    """So if the store took long to write the state, it is renewed before the first deletion."""
    store = Writing(shared.bucket)
    written: list[int] = []

    def put(key: str) -> None:
        if key == GC_STATE:
            if not written:
                shared.time.pass_by(RENEW_AFTER + MINUTE)
            written.append(len(shared.data))

    store.before_put = put
    assert shared.collect(through(shared.clones[0], store)).action is Action.SWEPT
    before, after = written[0], len(shared.data)
    assert before > after
    assert written == [before, before, after]  # taken, renewed, ended


def test_the_lease_is_renewed_while_nothing_is_garbage(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = DigestSet.iter_garbage

    def slowly(*args: Any) -> Iterator[PartGarbage]:
        for each in find(*args):
            shared.time.pass_by(RENEW_AFTER + MINUTE)
            yield each

    make_commit(shared.clones[0], {b"again": b"left"})
    push(shared.clones[0])
    monkeypatch.setattr(DigestSet, "iter_garbage", slowly)
    store = Writing(shared.bucket)
    written: list[str] = []
    store.before_put = written.append
    assert not shared.collect(through(shared.clones[0], store)).garbage
    assert LEFT in shared.data
    assert written.count(GC_STATE) == 3  # taken, renewed, ended


def test_the_end_of_a_sweep_that_was_taken_over_leaves_the_state_alone(shared: Shared) -> None:
    store = Writing(shared.bucket)
    taken: list[GcState] = []

    def put(key: str) -> None:
        if key.startswith(REPORTS) and not taken:  # behind the last deletion
            shared.time.pass_by(LEASE + MINUTE)
            seen = look(shared.store)
            taken.append(seen.state._replace(write_id="3f" * 16))
            move(shared.store, seen, taken[0])

    store.before_put = put
    with pytest.raises(StateMoved):
        shared.collect(through(shared.clones[0], store))
    assert [read_state(shared.store)] == taken
    assert taken[0].phase is Phase.SWEEPING


def test_trees_are_deleted_before_what_they_refer_to(tmp_path: Path) -> None:
    """So what is left of an interrupted sweep is no tree whose objects are missing."""

    class Recording(Unconditional):
        def delete(self, keys: Iterable[str]) -> None:
            wanted = list(keys)
            deleted.extend(wanted)
            super().delete(wanted)

    deleted: list[str] = []
    with Shared(tmp_path, "ada", "ben") as shared:
        ada, ben = shared.clones
        branch.create(ben, "side", source="main")
        make_commit(ben, {b"side/%d" % number: b"%d" % number for number in range(3)}, "side")
        push(ben, "side")
        push_deletion(ben, "side", options=PushOptions(who="me"))
        shared.time.pass_by(MONTHS)
        assert shared.collect(ada).action is Action.CONDEMNED
        shared.time.pass_by(LONG)
        assert shared.collect(through(ada, Recording(shared.bucket))).action is Action.SWEPT
        trees = {sstable_key(MetarangeId(each)) for each in iter_expired(shared.store)}
    of_trees = [number for number, key in enumerate(deleted) if key in trees]
    others = [
        number
        for number, key in enumerate(deleted)
        if key not in trees and key.startswith((DATA, SSTABLES))
    ]
    assert len(of_trees) == len(trees) == 1
    assert len(others) > 3
    assert max(of_trees) < min(others)
