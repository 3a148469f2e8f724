"""The history of refs, from the moves in the bucket and this clone's operation log."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, cast

import pytest

from lakecli.base.ids import WriteId
from lakecli.base.layout import ref_key
from lakecli.base.model import RefKind
from lakecli.base.retry import REF_MOVES, Retries
from lakecli.errors import NotFound, Unreachable
from lakecli.kv.operations import iter_operations
from lakecli.remote.refs import Intent, find_ref
from lakecli.repository import branch, tag
from lakecli.repository.commit import commit
from lakecli.repository.journal.tracking import track
from lakecli.repository.log import rev_parse
from lakecli.repository.reflog import iter_reflog
from lakecli.repository.undo.log import repository_at
from lakecli.repository.undo.undo import redo, undo
from lakecli.stores.contract import ABSENT
from tests.remote.chains import move_ref
from tests.support.faulty import FaultyStore, unreachable
from tests.support.lakes import START, read, stage, through

if TYPE_CHECKING:
    from datetime import datetime

    from lakecli.base.model import CommitId
    from lakecli.repository.contract import Repository
    from tests.support.lakes import Ticking

RETRIES = Retries(REF_MOVES, random=lambda: 0.0, sleep=lambda _: None)


@pytest.fixture
def clock(repository: Repository) -> Ticking:
    return cast("Ticking", repository.lake.runtime.clock)


def make(repository: Repository, day: int, name: str = "main") -> CommitId:
    """Commit at noon of a day after `START`."""
    cast("Ticking", repository.lake.runtime.clock).present = START + timedelta(days=day)
    stage(repository, name, {b"a": b"%d" % day})
    return commit(repository, name, message=f"day {day}", committer="ada").id


def share(
    repository: Repository,
    after: CommitId | None,
    *,
    at: datetime,
    name: str = "main",
    kind: RefKind = RefKind.BRANCH,
    seen: bool = True,
) -> None:
    """Move a ref in the bucket as somebody else would, and fetch that."""
    before = find_ref(repository.store, kind, name)
    intent = Intent(
        kind=kind,
        name=name,
        write_id=WriteId.of_bytes(repository.lake.runtime.new_id()),
        before=None if before is None else before.commit_id,
        after=after,
        who="bob",
        at=at,
        why="push",
    )
    ref = move_ref(repository.store, intent, retries=RETRIES).ref
    assert ref is not None
    if seen:
        with repository.lake.kv.write() as txn:
            track(txn, repository, ref)


def stood(repository: Repository, text: str) -> CommitId:
    return rev_parse(repository, text).commit.id


def after_days(days: float) -> str:
    return f"{START + timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}"


def test_the_reflog_of_an_unshared_branch(repository: Repository) -> None:
    first = stood(repository, "main")
    ids = [make(repository, day) for day in (1, 2, 3)]
    store = FaultyStore(errors=dict.fromkeys(("get", "head", "list"), unreachable()))
    repository = through(repository, store)
    moves = list(iter_reflog(repository, "main"))
    assert [move.after for move in moves] == [*ids[::-1], first]
    assert [move.before for move in moves] == [*ids[1::-1], first, None]
    assert [move.why for move in moves] == ["commit"] * 3 + ["repo create"]
    assert [move.who for move in moves] == ["ada"] * 3 + [""]
    assert not any(move.shared for move in moves)
    assert stood(repository, f"main@{{{after_days(2.5)}}}") == ids[1]
    assert stood(repository, "main@{1}") == ids[1]
    assert stood(repository, "main@{3}") == first
    assert stood(repository, "main@{yesterday}") == ids[1]
    with pytest.raises(NotFound, match=r"branch main goes back to 2026-03-01T12:00:\d\dZ"):
        stood(repository, f"main@{{{after_days(-1)}}}")
    assert store.calls.total() == 0


def test_the_reflog_of_a_moved_tag(repository: Repository) -> None:
    ids = []
    for day in (1, 2):
        ids.append(make(repository, day))
        tag.create(repository, "v1", "main", force=True)
    assert [move.after for move in iter_reflog(repository, "v1")] == ids[::-1]
    assert stood(repository, "v1@{1}") == ids[0]
    assert stood(repository, f"v1@{{{after_days(1.5)}}}") == ids[0]


def test_who_did_a_commit_again_is_not_known(repository: Repository) -> None:
    make(repository, 1)
    undo(repository)
    redo(repository)
    moves = list(iter_reflog(repository, "main"))
    assert [(move.why, move.who) for move in moves[:3]] == [
        ("redo", ""),
        ("undo", ""),
        ("commit", "ada"),
    ]


def test_staging_is_not_in_the_reflog(repository: Repository) -> None:
    stage(repository, "main", {b"a": b"1"})
    assert len(list(iter_reflog(repository, "main"))) == 1


def test_a_deleted_branch_is_remembered(repository: Repository) -> None:
    branch.create(repository, "dev", source="main")
    made = make(repository, 1, "dev")
    branch.delete(repository, "dev")
    assert [move.after for move in iter_reflog(repository, "dev")][:2] == [None, made]
    with pytest.raises(NotFound, match="no branch or tag 'other'"):
        next(iter_reflog(repository, "other"))


def test_a_dated_ref_works_wherever_a_ref_does(repository: Repository) -> None:
    first = make(repository, 1)
    before = read(repository, "main@")
    make(repository, 2)
    assert read(repository, "main@{1}") == before
    assert branch.create(repository, "past", source="main@{1}").commit_id == first
    assert tag.create(repository, "then", "main@{yesterday}").commit_id == first


def test_shared_moves_come_before_unpushed_ones(repository: Repository) -> None:
    ids = [make(repository, day) for day in (1, 2, 3)]
    share(repository, ids[0], at=START + timedelta(days=1, hours=1))
    share(repository, ids[1], at=START + timedelta(days=2, hours=5))
    moves = list(iter_reflog(repository, "main"))
    assert [(move.after, move.shared) for move in moves[:-1]] == [
        (ids[2], False),
        (ids[1], True),
        (ids[0], True),
    ]
    assert [move.who for move in moves] == ["ada", "bob", "ada", ""]
    assert stood(repository, f"main@{{{after_days(2.1)}}}") == ids[0]  # to everybody else
    assert stood(repository, "main@{upstream}") == ids[1]
    assert stood(repository, "main@{u}~1") == ids[0]
    assert stood(repository, "main@{now}") == ids[2]
    assert stood(repository, f"main@{{{after_days(1.01)}}}") == ids[0]  # nobody else saw that
    assert stood(repository, f"main@{{{after_days(0.5)}}}") == moves[-1].after
    with pytest.raises(NotFound, match="goes back to 2026-03-01T12:00"):
        stood(repository, f"main@{{{after_days(-1)}}}")


@pytest.mark.parametrize("seconds", [-1, 0, 1])
def test_a_pushed_move_is_listed_once(repository: Repository, seconds: int) -> None:
    """A commit and its push are dated a second apart at most, in either order."""
    ids = [make(repository, 1)]
    (latest, *_) = iter_reflog(repository, "main")
    share(repository, ids[0], at=latest.at + timedelta(seconds=seconds))
    moves = list(iter_reflog(repository, "main"))
    assert moves[0].shared
    assert [move.after for move in moves if move.shared] == ids
    stage(repository, "main", {b"a": b"more"})
    cast("Ticking", repository.lake.runtime.clock).present = latest.at - timedelta(seconds=1)
    ids.append(commit(repository, "main", message="again", committer="ada").id)
    if seconds < 1:
        found = [(move.after, move.shared) for move in iter_reflog(repository, "main")]
        assert found[:2] == [(ids[1], False), (ids[0], True)]


def test_the_reflog_of_a_branch_that_only_the_bucket_has(repository: Repository) -> None:
    made = make(repository, 1)
    share(repository, made, at=START + timedelta(days=2), name="theirs")
    assert stood(repository, "theirs@{u}") == made
    cast("Ticking", repository.lake.runtime.clock).present = START + timedelta(days=2)
    assert stood(repository, "theirs@{now}") == made
    assert branch.create(repository, "theirs", source="theirs@{u}").commit_id == made
    share(repository, None, at=START + timedelta(days=3), name="theirs")
    branch.delete(repository, "theirs")
    cast("Ticking", repository.lake.runtime.clock).present = START + timedelta(days=4)
    with pytest.raises(NotFound, match="is not in the bucket"):
        stood(repository, "theirs@{u}")
    with pytest.raises(NotFound, match=r"was not there at .*, deleted at 2026-03-04T12:00:00Z"):
        stood(repository, "theirs@{now}")
    assert stood(repository, f"theirs@{{{after_days(2.5)}}}") == made


def test_older_moves_are_read_from_the_bucket_once(repository: Repository) -> None:
    ids = [make(repository, 1), make(repository, 2)]
    store = FaultyStore()
    repository = through(repository, store)
    count = 70
    for number in range(count):
        at = START + timedelta(days=10 + number)
        share(repository, ids[number % 2], at=at, seen=number == count - 1)
    cast("Ticking", repository.lake.runtime.clock).present = START + timedelta(days=100)
    store.calls.clear()
    assert stood(repository, f"main@{{{after_days(10 + count - 3)}}}") == ids[(count - 3) % 2]
    assert store.calls.total() == 0
    assert stood(repository, f"main@{{{after_days(11)}}}") == ids[1]
    assert 0 < store.calls.total() <= 10
    store.calls.clear()
    assert stood(repository, f"main@{{{after_days(11)}}}") == ids[1]
    assert stood(repository, f"main@{{{count - 1}}}") == ids[0]
    moves = list(iter_reflog(repository, "main"))
    assert [move.shared for move in moves] == [True] * count + [False] * 3
    assert [move.at for move in moves] == sorted((move.at for move in moves), reverse=True)
    assert store.calls.total() == 0


def test_a_gap_between_two_fetches_is_filled(repository: Repository) -> None:
    ids = [make(repository, 1), make(repository, 2)]
    store = FaultyStore()
    repository = through(repository, store)
    for number in range(80):
        seen = number in (3, 79)
        share(repository, ids[number % 2], at=START + timedelta(days=10 + number), seen=seen)
    cast("Ticking", repository.lake.runtime.clock).present = START + timedelta(days=100)
    store.errors["get"] = unreachable()
    with pytest.raises(Unreachable):
        stood(repository, f"main@{{{after_days(15)}}}")
    del store.errors["get"]
    assert stood(repository, f"main@{{{after_days(15)}}}") == ids[1]
    assert sum(move.shared for move in iter_reflog(repository, "main")) == 80


def test_a_new_branch_resolves_nothing_in_its_write_transaction(repository: Repository) -> None:
    """Or everybody on this machine would wait for the bucket."""
    ids = [make(repository, 1), make(repository, 2)]
    store = FaultyStore()
    repository = through(repository, store)
    for number in range(40):
        at = START + timedelta(days=10 + number)
        share(repository, ids[number % 2], at=at, seen=number == 39)

    def another_writer() -> None:
        with repository.lake.kv.write():
            pass

    store.errors["get"] = another_writer
    cast("Ticking", repository.lake.runtime.clock).present = START + timedelta(days=100)
    made = branch.create(repository, "past", source=f"main@{{{after_days(11)}}}~0")
    assert made.commit_id == ids[1]
    assert tag.create(repository, "then", f"main@{{{after_days(10)}}}").commit_id == ids[0]


def test_a_vanished_ref_object_leaves_the_known_moves(repository: Repository) -> None:
    made = make(repository, 1)
    share(repository, made, at=START + timedelta(days=2))
    repository.store.delete([ref_key(RefKind.BRANCH, "main")])
    assert stood(repository, "main@{u}") == made
    repository.store.put("_lakecli/refs/branches/main", b"{}", ABSENT)
    assert stood(repository, "main@{0}") == made


def test_a_ref_is_read_as_of_an_operation(repository: Repository) -> None:
    ids = [make(repository, 1), make(repository, 2)]
    with repository.lake.kv.read() as txn:
        (latest, *_) = iter_operations(txn, repository.key)
    bucket = through(repository, FaultyStore())
    for number in range(50):
        share(bucket, ids[0], at=START + timedelta(days=1.5, hours=number), seen=False)
        share(bucket, ids[1], at=START + timedelta(days=1.6, hours=number), seen=number == 49)
    make(repository, 9)
    then = repository_at(bucket, latest.id.hex())
    moves = list(iter_reflog(then, "main"))
    assert (moves[0].after, moves[0].shared) == (ids[1], False)
    assert all(move.at <= latest.at for move in moves)
    assert any(move.shared for move in moves)
    assert stood(then, "main@{0}") == ids[1]


def test_the_past_is_read_across_more_operations_than_python_nests(repository: Repository) -> None:
    stage(repository, "main", {b"a": b"old"})
    with repository.lake.kv.read() as txn:
        (latest, *_) = iter_operations(txn, repository.key)
    before = read(repository, "main")
    for number in range(1_100):
        stage(repository, "main", {b"a": b"%d" % number, b"b%04d" % number: b""})
    assert read(repository_at(repository, latest.id.hex()), "main") == before


class TestFirstPush:
    """What led to the first move in the bucket is that move."""

    def test_a_move_is_not_listed_twice(self, repository: Repository, clock: Ticking) -> None:
        first = branch.show(repository, "main").commit_id
        second, third = make(repository, 1), make(repository, 2)
        share(repository, third, at=clock.present + timedelta(seconds=1))
        assert [move.after for move in iter_reflog(repository, "main")] == [third, second, first]
        assert stood(repository, "main@{1}") == second
        assert stood(repository, "main@{2}") == first
        fourth = make(repository, 3)
        assert [move.after for move in iter_reflog(repository, "main")][:2] == [fourth, third]

    @pytest.mark.parametrize("year", [1972, 2100])
    def test_the_reflog_order_ignores_the_clock(
        self, year: int, repository: Repository, clock: Ticking
    ) -> None:
        first = branch.show(repository, "main").commit_id
        second, third = make(repository, 1), make(repository, 2)
        share(repository, third, at=START.replace(year=year))
        assert [move.after for move in iter_reflog(repository, "main")] == [third, second, first]

    def test_the_reflog_of_a_tag(self, repository: Repository, clock: Ticking) -> None:
        made = tag.create(repository, "v1", "main").commit_id
        share(repository, made, at=clock.present, name="v1", kind=RefKind.TAG)
        assert [move.after for move in iter_reflog(repository, "v1")] == [made]


def test_commits_at_a_wrong_time_hide_nothing(repository: Repository, clock: Ticking) -> None:
    second = make(repository, 1)
    share(repository, second, at=clock.present)
    wrong = make(repository, -365 * 50)
    assert [move.after for move in iter_reflog(repository, "main")][:2] == [wrong, second]
    right = make(repository, 2)
    moves = [move.after for move in iter_reflog(repository, "main")]
    assert moves[:3] == [right, wrong, second]
    assert stood(repository, "main@{1}") == wrong
