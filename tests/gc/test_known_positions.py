"""Which positions of refs count, as read from the bucket, and what a collection records."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.base.layout import MAX_REF_SIZE, ref_key, reflog_key
from lakecli.base.model import MetarangeId, RefKind
from lakecli.gc.known_refs import (
    SEEN,
    KnownRefs,
    list_reflog,
    observe,
    read_known_refs,
    read_positions,
)
from lakecli.gc.roots import Known, reached_by_heads
from lakecli.remote.ref_records import NotOurs
from lakecli.remote.refs import MoveOutcome, find_ref
from lakecli.stores.contract import ANY
from tests.remote.chains import PATIENT, advance, commit, intent, move_ref, write_id
from tests.support.lakes import START
from tests.support.memory_store import MemoryBucket, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.gc.known_refs import Positions
    from lakecli.stores.contract import ObjectInfo

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
LONG_AGO = START - 1000 * DAY
"""The date of moves, by a clock that is wrong."""


def positions_of(store: MemoryStore, cutoff: datetime) -> list[Positions]:
    refs, _ = read_known_refs(store, KnownRefs("lakefs://demo"))
    recent, _ = list_reflog(store, cutoff)
    return list(read_positions(store, refs, recent, cutoff))


class Bucket:
    """A namespace, and the time by its store's clock."""

    def __init__(self) -> None:
        self.now = START
        self.store = MemoryStore(MemoryBucket(clock=lambda: self.now), "ns/")

    def observe(self, name: str, *, days: int = 31) -> None:
        refs, _ = read_known_refs(self.store, KnownRefs("lakefs://demo"))
        cutoff = self.now - days * DAY
        observe(self.store, name, refs, now=self.now, cutoff=cutoff)

    def observations(self) -> dict[str, str]:
        listed = self.store.list(SEEN)
        return {info.key.removeprefix(SEEN): self.store.get(info.key).decode() for info in listed}

    def move(self, *numbers: int, at: datetime = LONG_AGO, name: str = "main") -> None:
        """Move a branch to these commits."""
        for number in numbers:
            before = number - 1 or None
            wanted = intent(f"m{number}", before and commit(before), commit(number))
            wanted = wanted._replace(at=at, name=name)
            assert move_ref(self.store, wanted, retries=PATIENT).outcome is MoveOutcome.APPLIED

    def counted(self, *, days: int = 31, name: str = "main") -> tuple[set[int], set[int]]:
        """Return the numbers of the commits where a branch was recently, or may have been."""
        (found,) = [
            each for each in positions_of(self.store, self.now - days * DAY) if each.branch == name
        ]
        return tuple({int(each, 16) for each in some} for some in (found.recent, found.doubtful))  # type: ignore[return-value]


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


def test_each_ref_is_observed_about_once_a_day(bucket: Bucket) -> None:
    bucket.observe("0")
    assert bucket.observations() == {}
    bucket.move(1, 2)
    tag = intent("t", None, commit(1))._replace(kind=RefKind.TAG, name="v1")
    move_ref(bucket.store, tag, retries=PATIENT)
    bucket.observe("a")
    first = (
        f"2 {write_id('m2')} _lakecli/refs/branches/main {commit(2)}\n"
        f"1 {write_id('t')} _lakecli/refs/tags/v1 {commit(1)}\n"
    )
    assert bucket.observations() == {"a": first}
    bucket.move(3)
    bucket.now += 23 * HOUR
    bucket.observe("b")
    assert bucket.observations() == {"a": first}
    bucket.now += 2 * HOUR
    bucket.observe("c")
    assert bucket.observations() == {
        "a": first,
        "c": first.replace("2", "3", 1)
        .replace(write_id("m2"), write_id("m3"))
        .replace(commit(2), commit(3)),
    }
    bucket.now += 2 * HOUR
    bucket.observe("d")  # the newest observation counts, not the oldest
    assert sorted(bucket.observations()) == ["a", "c"]


def test_of_the_observations_that_are_old_enough_the_newest_is_kept(bucket: Bucket) -> None:
    bucket.move(1)
    left = []
    for name in "abcdef":
        bucket.observe(name, days=5)
        left.append("".join(bucket.observations()))
        bucket.now += 2 * DAY
    # On day 6 only a is older than 5 days, on day 8 also b, which replaces it.
    assert left == ["a", "ab", "abc", "abcd", "bcde", "cdef"]


def test_a_move_that_an_old_observation_has_seen_counts_no_more(bucket: Bucket) -> None:
    bucket.move(1, 2)
    bucket.observe("b")
    bucket.now += DAY + HOUR
    bucket.move(3)
    bucket.observe("a")
    bucket.now += 10 * DAY
    bucket.move(4)
    # The dates of the moves prove nothing. If no observation is older than the cutoff, all count.
    assert bucket.counted(days=12) == (set(), {1, 2, 3, 4})
    assert bucket.counted(days=11) == (set(), {2, 3, 4})
    assert bucket.counted(days=9) == (set(), {3, 4})


def test_what_a_move_left_and_where_it_went_are_recent_by_its_own_date(bucket: Bucket) -> None:
    bucket.move(1, 2)
    bucket.move(3, at=START)
    assert bucket.counted() == ({2, 3}, {1})


@pytest.mark.parametrize(
    "lines", ["gone", "nonsense", "2 {m2}", "2 {m2} {key}", "2 {m2} {key} x", "x 2 {m2} {key} -"]
)
def test_an_observation_that_cannot_be_read_proves_nothing(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, lines: str
) -> None:
    key = ref_key(RefKind.BRANCH, "main")
    bucket.move(1, 2)
    body = lines.format(m2=write_id("m2"), key=key) + "\n"
    bucket.store.put(f"{SEEN}a", body.encode(), ANY)
    bucket.now += 10 * DAY
    bucket.move(3)
    if lines == "gone":
        vanish(monkeypatch, f"{SEEN}a")
    assert bucket.counted(days=9) == (set(), {1, 2, 3})


def test_lines_that_cannot_be_read_do_not_hide_others(bucket: Bucket) -> None:
    key = ref_key(RefKind.BRANCH, "main")
    bucket.move(1, 2)
    bucket.store.put(f"{SEEN}a", f"\xff\n2 {write_id('m2')} {key} -\nx\n".encode("latin-1"), ANY)
    bucket.now += 10 * DAY
    bucket.move(3)
    assert bucket.counted(days=9) == (set(), {2, 3})


def vanish(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """Let an object vanish between the listing that has it and the request that reads it."""
    real = MemoryStore.list

    def list_(store: MemoryStore, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        found = [*real(store, prefix, after=after)]
        if any(info.key == key for info in found):
            store.delete([key])
        return iter(found)

    monkeypatch.setattr(MemoryStore, "list", list_)


def test_moves_that_left_the_ref_object_count_by_the_date_of_theirs(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.move(*range(1, 34))
    ref = find_ref(bucket.store, RefKind.BRANCH, "main")
    assert ref is not None
    oldest = ref.moves[-1].sequence
    chunk = reflog_key(RefKind.BRANCH, "main", oldest - 1)
    assert chunk in {info.key for info in bucket.store.list("_lakecli/reflog/")}
    assert bucket.counted() == (set(), set(range(1, 34)))
    bucket.now += 10 * DAY
    bucket.move(34)
    assert bucket.counted(days=9) == (set(), set(range(oldest - 1, 35)))
    vanish(monkeypatch, chunk)  # another collection deletes it
    assert bucket.counted(days=11) == (set(), set(range(oldest - 1, 35)))


def test_a_ref_whose_object_is_old_has_no_recent_moves(bucket: Bucket) -> None:
    bucket.move(1, 2)
    bucket.move(1, name="other")
    bucket.now += 10 * DAY
    bucket.move(2, name="other")
    assert bucket.counted(days=9) == (set(), set())
    assert bucket.counted(days=11) == (set(), {1, 2})
    assert bucket.counted(days=9, name="other") == (set(), {1, 2})


def test_a_ref_that_is_missing_in_the_second_listing_counts(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.move(1)
    bucket.now += 10 * DAY
    real = MemoryStore.list
    listings = []

    def list_(store: MemoryStore, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        if prefix == "_lakecli/refs/":
            listings.append(prefix)
            if len(listings) == 2:
                return iter(())
        return real(store, prefix, after=after)

    monkeypatch.setattr(MemoryStore, "list", list_)
    assert bucket.counted(days=9) == (set(), {1})
    assert len(listings) == 2


@pytest.mark.parametrize("size", [MAX_REF_SIZE, MAX_REF_SIZE + 1])
def test_an_object_of_the_reflog_that_is_too_large_is_not_fetched(
    bucket: Bucket, size: int
) -> None:
    bucket.move(1)
    key = reflog_key(RefKind.BRANCH, "main", 1)
    bucket.store.put(key, b"x" * size, ANY)
    with pytest.raises(NotOurs) as raised:
        bucket.counted()
    assert (f"has {size} bytes" in str(raised.value)) is (size > MAX_REF_SIZE)


def test_heads_and_kinds_of_refs(bucket: Bucket) -> None:
    store = bucket.store
    advance(store, 2)
    for each in (
        intent("t", None, commit(7))._replace(kind=RefKind.TAG, name="v1"),
        intent("d", commit(2), None),
    ):
        assert move_ref(store, each, retries=PATIENT).outcome is MoveOutcome.APPLIED
    found = [(each.branch, each.head) for each in positions_of(store, START - DAY)]
    assert found == [("main", None), ("", commit(7))]


def test_refs_reach_the_known_commits_below_their_heads(bucket: Bucket) -> None:
    bucket.move(1, 2)
    bucket.move(*range(1, 6), name="ahead")
    move_ref(bucket.store, intent("d", commit(2), None), retries=PATIENT)
    positions = positions_of(bucket.store, START - DAY)
    # 5 is the head of ahead, 9 was merged; 8 is not known, 2 is the head of no ref.
    parents = {
        commit(child): Known(tuple(commit(each) for each in above), MetarangeId(""), 0)
        for child, above in {5: (4, 9), 4: (3,), 3: (), 9: (3, 8), 2: (1,), 1: ()}.items()
    }
    assert reached_by_heads(parents, [each.head for each in positions]) == {
        commit(each) for each in (3, 4, 5, 9)
    }
