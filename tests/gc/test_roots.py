"""Each kind of root alone protects from collection, whatever the clocks say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key, sstable_key
from lakecli.base.model import RefKind
from lakecli.gc.policy import Rules, put_rules
from lakecli.gc.run import Action
from lakecli.remote.gc_protocol import write_keep
from lakecli.remote.refs import find_ref
from lakecli.repository import branch, tag
from lakecli.repository import push as pushing
from lakecli.repository.commit import commit
from lakecli.repository.pull import PullOptions, pull
from lakecli.repository.push import PushLease, PushOptions, push_deletion
from lakecli.repository.sharing.fetch import fetch
from lakecli.stores.contract import ANY
from tests.gc.shared import GRACE, LONG, Shared, make_commit, push, upload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository

DAY = timedelta(days=1)
NO_OFFSET = timedelta()


class Killed(BaseException):
    """The process was killed."""


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    with Shared(tmp_path, "ada", "ben", "cleo") as made:
        yield made


def key_of(contents: bytes) -> str:
    return data_key(blake3_of(contents).hex())


def set_clock(shared: Shared, repository: Repository, offset: timedelta = NO_OFFSET) -> None:
    """Set the clock of one machine wrong by an amount from now on."""
    lake = repository.lake
    lake.runtime = lake.runtime._replace(clock=lambda: shared.time() + offset)


def sweep_now(shared: Shared, collector: Repository, **options: Any) -> None:
    """Condemn garbage, wait, and sweep."""
    if shared.collect(collector, **options).action is Action.CONDEMNED:
        grace = options.get("grace", GRACE)
        assert isinstance(grace, timedelta)
        shared.time.pass_by(grace + timedelta(hours=4))
        assert shared.collect(collector, **options).action is Action.SWEPT


def insist(repository: Repository, name: str = "main") -> None:
    """Force a branch in the bucket to its local commit."""
    fetch(repository)
    ref = find_ref(repository.store, RefKind.BRANCH, name)
    assert ref is not None
    options = PushOptions(who="me", lease=PushLease(ref.commit_id))
    pushing.push(repository, name, options=options)


def kill_at(repository: Repository, step: str) -> None:
    def on_step(name: str) -> None:
        if name == step:
            raise Killed

    repository.lake.runtime = repository.lake.runtime._replace(on_step=on_step)


def force_main_back(shared: Shared, offset: timedelta) -> None:
    """Push ``old`` to main; ten days later a machine whose clock is wrong forces main back."""
    ada, ben, _ = shared.clones
    make_commit(ada, {b"base": b"base"})
    push(ada)
    pull(ben, "main", options=PullOptions(committer="me"))
    make_commit(ada, {b"old": b"old"})
    push(ada)
    shared.time.pass_by(10 * DAY)
    set_clock(shared, ben, offset)
    insist(ben)
    ref = find_ref(shared.store, RefKind.BRANCH, "main")
    assert ref is not None
    assert abs(ref.moves[0].at - shared.time.now - offset) < timedelta(minutes=1)


@pytest.mark.parametrize("days", [-20_000, -365, -60, 0, 60, 400])
def test_positions_of_refs_count_by_the_dates_of_the_bucket(shared: Shared, days: int) -> None:
    cleo = shared.clones[2]
    force_main_back(shared, days * DAY)
    shared.time.pass_by(3 * DAY)
    sweep_now(shared, cleo)
    shared.time.pass_by(20 * DAY)
    sweep_now(shared, cleo)
    assert key_of(b"old") in shared.data
    # The ref has not moved for 31 days, so by the bucket's dates all of its moves are older.
    shared.time.pass_by(10 * DAY)
    sweep_now(shared, cleo)
    assert key_of(b"old") not in shared.data
    assert key_of(b"base") in shared.data


def test_what_a_move_left_counts_though_the_move_there_is_too_old(shared: Shared) -> None:
    ada, ben, cleo = shared.clones
    make_commit(ada, {b"base": b"base"})
    push(ada)
    pull(ben, "main", options=PullOptions(committer="me"))
    make_commit(ada, {b"old": b"old"})
    push(ada)
    shared.collect(cleo)  # sees how far main has come
    shared.time.pass_by(40 * DAY)
    insist(ben)
    shared.time.pass_by(3 * DAY)
    sweep_now(shared, cleo)
    assert key_of(b"old") in shared.data


@pytest.mark.parametrize("observed", [False, True])
def test_what_was_left_long_ago_goes_though_the_ref_still_moves(
    shared: Shared, *, observed: bool
) -> None:
    _, ben, cleo = shared.clones
    force_main_back(shared, NO_OFFSET)
    if observed:
        shared.collect(cleo)
    shared.time.pass_by(35 * DAY)
    make_commit(ben, {b"new": b"new"})
    push(ben)
    sweep_now(shared, cleo)
    # Without a look from back then only the mover's own date says that it was long ago.
    assert (key_of(b"old") in shared.data) is not observed
    assert key_of(b"new") in shared.data
    shared.time.pass_by(35 * DAY)
    sweep_now(shared, cleo)
    assert key_of(b"old") not in shared.data


def test_a_look_from_before_a_restored_bucket_is_not_believed(shared: Shared) -> None:
    ada, ben, cleo = shared.clones
    make_commit(ada, {b"base": b"base"})
    push(ada)
    pull(ben, "main", options=PullOptions(committer="me"))
    backup = shared.store.get("_lakecli/refs/branches/main")
    for number in range(3):
        make_commit(ada, {b"lost": b"%d" % number})
        push(ada)
    shared.collect(cleo)
    # The numbers of the moves are given out again, 40 days later, by a machine with a wrong clock.
    shared.store.put("_lakecli/refs/branches/main", backup, ANY)
    shared.time.pass_by(40 * DAY)
    set_clock(shared, ada, -60 * DAY)
    insist(ada)
    set_clock(shared, ben, -60 * DAY)
    insist(ben)
    shared.time.pass_by(3 * DAY)
    sweep_now(shared, cleo, accept_restored=True)
    assert key_of(b"2") in shared.data


def test_rules_decide_about_what_a_ref_still_reaches(shared: Shared) -> None:
    ada, _, cleo = shared.clones
    put_rules(ada.store, Rules(21, {}))
    for number in range(3):
        make_commit(ada, {b"a": b"%d" % number})
        push(ada)
        shared.time.pass_by(20 * DAY)
    # Day 60: 2 is the head; 1 was the head until day 40, 0 until day 20.
    sweep_now(shared, cleo)
    assert shared.data == {key_of(b"1"), key_of(b"2")}


def test_rules_do_not_let_go_what_a_wrong_clock_forced_away(shared: Shared) -> None:
    put_rules(shared.store, Rules(7, {}))
    force_main_back(shared, -60 * DAY)
    shared.time.pass_by(3 * DAY)
    sweep_now(shared, shared.clones[2])
    assert key_of(b"old") in shared.data


def test_moves_that_left_the_ref_object(shared: Shared) -> None:
    _, ben, cleo = shared.clones
    force_main_back(shared, -60 * DAY)
    for number in range(40):
        make_commit(ben, {b"n": b"%d" % number})
        push(ben)
    ref = find_ref(shared.store, RefKind.BRANCH, "main")
    assert ref is not None
    assert min(move.sequence for move in ref.moves) > 5
    shared.time.pass_by(3 * DAY)
    sweep_now(shared, cleo)
    assert key_of(b"old") in shared.data


def test_a_grace_period_above_the_window_of_the_reflog(shared: Shared) -> None:
    force_main_back(shared, NO_OFFSET)
    grace = 60 * DAY
    shared.time.pass_by(55 * DAY)
    assert shared.collect(shared.clones[2], grace=grace).action is Action.FOUND_NOTHING
    assert shared.collect(shared.clones[2]).action is Action.CONDEMNED


def test_what_is_two_hours_short_of_being_garbage(shared: Shared) -> None:
    ada, ben, _ = shared.clones
    upload(ada, b"a", b"a")
    shared.time.pass_by(GRACE + timedelta(minutes=119))
    assert shared.collect(ben).action is Action.FOUND_NOTHING
    shared.time.pass_by(timedelta(minutes=2))
    assert shared.collect(ben).action is Action.CONDEMNED


@pytest.mark.parametrize("saved", ["trees", "ranges"])
def test_a_keep_of_a_table_saves_what_it_refers_to(shared: Shared, saved: str) -> None:
    ada, ben, _ = shared.clones
    made = make_commit(ada, {b"a": b"a"})
    tree = sstable_key(made.metarange_id)
    before = shared.tables
    shared.time.pass_by(LONG)
    assert shared.collect(ben).action is Action.CONDEMNED
    shared.time.pass_by(LONG)
    kept = {tree} if saved == "trees" else before - {tree}
    write_keep(shared.store, 1, "5" * 32, kept)
    assert shared.collect(ben).action is Action.SWEPT
    assert shared.data == {key_of(b"a")}
    assert shared.tables == (before if saved == "trees" else kept)


@pytest.mark.parametrize("kind", ["data", "table", "incoming"])
def test_an_object_that_was_sent_again_before_the_sweep(shared: Shared, kind: str) -> None:
    ada, ben, _ = shared.clones
    if kind == "incoming":
        key = "_lakecli/incoming/" + "0f" * 16
        shared.store.put(key, b"x", ANY)
    else:
        make_commit(ada, {b"a": b"a"})
        key = min(shared.tables) if kind == "table" else key_of(b"a")
    shared.time.pass_by(LONG)
    assert shared.collect(ben).action is Action.CONDEMNED
    shared.time.pass_by(LONG - timedelta(hours=1))
    # As somebody does who knows nothing of keeps: a copy of a backup, a writer that is late.
    shared.store.put(key, shared.store.get(key), ANY)
    shared.time.pass_by(timedelta(hours=1))
    report = shared.collect(ben)
    assert report.action is Action.SWEPT
    assert key in {info.key for info in shared.store.list()}


def test_trees_are_deleted_before_what_they_refer_to(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, ben, _ = shared.clones
    for number in range(3):
        make_commit(ada, {b"a": b"%d" % number})
    ranges: set[str] = set()
    trees: set[str] = set()
    for each in shared.tables:
        body = shared.store.get(each)
        (trees if b"metaranges" in body else ranges).add(each)
    assert len(ranges) == len(trees) == 3
    shared.time.pass_by(LONG)
    assert shared.collect(ben).action is Action.CONDEMNED
    shared.time.pass_by(LONG)
    order: list[str] = []
    real = type(shared.store).delete_matching

    def delete_matching(store: object, objects: Iterable[tuple[str, str]]) -> object:
        objects = list(objects)
        order.extend(key for key, _ in objects)
        return real(store, objects)  # type: ignore[arg-type]

    monkeypatch.setattr(type(shared.store), "delete_matching", delete_matching)
    assert shared.collect(ben).action is Action.SWEPT
    kinds = ["tree" if key in trees else "range" if key in ranges else "data" for key in order]
    assert set(kinds) == {"tree", "range", "data"}
    assert kinds == sorted(kinds, key=["tree", "range", "data"].index)


def test_what_a_commit_had_sealed_when_it_was_killed(shared: Shared) -> None:
    ada = shared.clones[0]
    upload(ada, b"sealed", b"sealed")
    kill_at(ada, "build")
    with pytest.raises(Killed):
        commit(ada, "main", message="m", committer="me")
    kill_at(ada, "")
    # The operation that staged it is too old to be taken back; the branch still has it.
    shared.time.pass_by(40 * DAY)
    sweep_now(shared, ada)
    assert key_of(b"sealed") in shared.data
    made = commit(ada, "main", message="m", committer="me")
    assert made.metarange_id


def test_what_a_commit_sealed_stays_as_long_as_it_can_be_undone(shared: Shared) -> None:
    """A path that was staged and replaced: only the sealed tokens of operations have the first."""
    ada = shared.clones[0]
    upload(ada, b"a", b"first")
    kill_at(ada, "build")
    with pytest.raises(Killed):
        commit(ada, "main", message="m", committer="me")
    kill_at(ada, "")
    upload(ada, b"a", b"second")
    shared.time.pass_by(20 * DAY)
    commit(ada, "main", message="m", committer="me")
    push(ada)
    # The upload was 35 days ago, the commit that could be undone 15.
    shared.time.pass_by(15 * DAY)
    sweep_now(shared, ada)
    assert key_of(b"first") in shared.data


@pytest.mark.parametrize("step", ["intent", "put", "track"])
def test_a_push_that_was_begun_and_never_settled(shared: Shared, step: str) -> None:
    ada = shared.clones[0]
    branch.create(ada, "side", source="main")
    made = make_commit(ada, {b"side": b"side"}, "side")
    kill_at(ada, step)
    with pytest.raises(Killed):
        push(ada, "side")
    kill_at(ada, "")
    branch.delete(ada, "side")
    # Neither a ref here nor the operation log reaches it any more. The move may still happen.
    shared.time.pass_by(40 * DAY)
    sweep_now(shared, ada)
    assert (key_of(b"side") in shared.data) is (step != "intent")
    assert made.metarange_id


@pytest.mark.parametrize("year", [1972, 2072])
def test_one_command_at_a_wrong_time(shared: Shared, year: int) -> None:
    ada = shared.clones[0]
    upload(ada, b"reset", b"reset")
    branch.reset_object(ada, "main", b"reset")
    set_clock(shared, ada, datetime(year, 1, 1, tzinfo=UTC) - shared.time.now)
    upload(ada, b"wrong", b"wrong")
    branch.reset_object(ada, "main", b"wrong")
    tag.create(ada, "t", "main")
    set_clock(shared, ada)
    shared.time.pass_by(LONG)
    sweep_now(shared, ada)
    assert {key_of(b"reset"), key_of(b"wrong")} <= shared.data


@pytest.mark.parametrize("years", [-50, 50])
def test_a_collection_at_a_wrong_time(shared: Shared, years: int) -> None:
    ada = shared.clones[0]
    upload(ada, b"reset", b"reset")
    branch.reset_object(ada, "main", b"reset")
    shared.time.pass_by(LONG)
    set_clock(shared, ada, years * 365 * DAY)
    sweep_now(shared, ada)
    assert key_of(b"reset") in shared.data


def test_a_machine_whose_clock_was_always_behind(shared: Shared) -> None:
    ada = shared.clones[0]
    set_clock(shared, ada, -60 * DAY)
    upload(ada, b"reset", b"reset")
    branch.reset_object(ada, "main", b"reset")
    shared.time.pass_by(LONG)
    sweep_now(shared, ada)
    assert key_of(b"reset") in shared.data


def test_a_deleted_branch_by_a_wrong_clock(shared: Shared) -> None:
    ada, ben, cleo = shared.clones
    branch.create(ada, "side", source="main")
    make_commit(ada, {b"side": b"side"}, "side")
    push(ada, "side")
    shared.time.pass_by(LONG)
    fetch(ben)
    set_clock(shared, ben, -60 * DAY)
    push_deletion(ben, "side", options=PushOptions(who="me"))
    shared.time.pass_by(20 * DAY)
    sweep_now(shared, cleo)
    assert key_of(b"side") in shared.data
    shared.time.pass_by(20 * DAY)
    sweep_now(shared, cleo)
    assert key_of(b"side") not in shared.data
