"""What tests of a namespace have shown, as its object says it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.layout import SHARING
from lakecli.base.retry import CLAIMS, Retries
from lakecli.doctor.evidence import (
    MOST_RESULTS,
    Result,
    SharingEvidence,
    place_of,
    read_evidence,
    record,
)
from lakecli.errors import IntegrityError, Refused, Unreachable
from lakecli.stores.contract import ANY, ConditionFailed, Version
from tests.support.faulty import NOW
from tests.support.memory_store import MemoryBucket, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.stores.contract import ObjectStore

HERE: Final = "host s3://lake/ns"
AT_ONCE: Final = Retries(CLAIMS, sleep=lambda _: None)


def passed(races: int = 66, place: str = HERE, *, again: bool = False) -> Result:
    return Result(place, "", races, NOW, "ada" if again else "", again)


def failure(reason: str = "two won", *, again: bool = False) -> Result:
    return Result(HERE, reason, 0, NOW, again=again)


def recording(result: Result) -> Callable[[ObjectStore], SharingEvidence]:
    return lambda store: record(store, result, AT_ONCE)


def valid(**fields: Any) -> dict[str, Any]:
    result = {"place": HERE, "reason": "", "races": 66, "at": "2026-11-28T12:00:00Z",
              "by": "ada", "again": False, **fields}  # fmt: skip
    return {"format": 1, "results": [result]}


HOSTILE: Final = [
    pytest.param(body if isinstance(body, bytes) else json.dumps(body).encode(), id=name)
    for name, body in {
        "empty": b"",
        "no JSON": b"passed",
        "a list": [],
        "no results": {"format": 1},
        "no format": {"results": []},
        "format 0": {"format": 0, "results": []},
        "deep": b'{"format": 1, "results": ' + b"[" * 1000 + b"]" * 1000 + b"}",
        "large": b'{"format": 1, "results": []}' + b" " * (1 << 20),
        "many": {"format": 1, "results": valid()["results"] * (MOST_RESULTS + 1)},
        "no place": valid(place=""),
        "a long place": valid(place="x" * 5000),
        "a long reason": valid(reason="x" * 1001),
        "a NUL": valid(by="a\0b"),
        "negative races": valid(races=-1),
        "too many races": valid(races=10**6 + 1),
        "races that are a truth": valid(races=True),
        "a text that is a truth": valid(again="yes"),
        "no time": valid(at="yesterday"),
        "a time without an offset": valid(at="2026-11-28T12:00:00"),
        "a time after all calendars": valid(at="9999-12-31T23:59:59Z"),
        "a twin": b'{"format": 1, "results": [], "results": []}',
    }.items()
]


@pytest.mark.parametrize("body", HOSTILE)
def test_an_object_that_is_not_valid_is_refused(body: bytes) -> None:
    store = MemoryStore()
    store.put(SHARING, body, ANY)
    for use in (read_evidence, recording(failure())):
        with pytest.raises(IntegrityError, match=r"sharing\.json does not hold results of tests"):
            use(store)
    assert store.get(SHARING) == body
    # Only somebody's word replaces it.
    assert record(store, passed(again=True), AT_ONCE).results == (passed(again=True),)
    assert read_evidence(store).races(HERE) == 66


def test_a_newer_format_is_refused_with_advice() -> None:
    store = MemoryStore()
    store.put(SHARING, b'{"format": 2, "results": {}}', ANY)
    for use in (read_evidence, recording(passed(again=True))):
        with pytest.raises(Refused, match="format 2") as caught:
            use(store)
        assert caught.value.hint == "upgrade lakecli"


def test_a_field_of_a_later_version_is_no_problem() -> None:
    store = MemoryStore()
    store.put(SHARING, json.dumps({**valid(later=1), "more": []}).encode(), ANY)
    assert read_evidence(store).races(HERE) == 66


def test_a_namespace_without_results_has_no_evidence() -> None:
    found = read_evidence(MemoryStore())
    assert found == SharingEvidence()
    assert found.failure is None
    assert found.races(HERE) == 0


def test_a_test_without_races_is_not_recorded() -> None:
    store = MemoryStore()
    assert record(store, passed(0), AT_ONCE) == SharingEvidence()
    assert list(store.list()) == []


def test_races_add_up_for_each_place() -> None:
    found = SharingEvidence((passed(3), passed(5, "elsewhere"), passed(4)))
    assert (found.races(HERE), found.races("elsewhere"), found.races("other")) == (7, 5, 0)


results = st.builds(
    lambda place, reason, races, again: Result(place, reason, 0 if reason else races, NOW, "ada",
                                               again),
    st.sampled_from([HERE, "elsewhere"]),
    st.sampled_from(["", "", "two won"]),
    st.integers(0, 99),
    st.booleans(),
)  # fmt: skip


@given(st.lists(results, max_size=60))
def test_one_failure_outweighs_every_pass_that_nobody_asked_for(written: list[Result]) -> None:
    """The law by which every clone decides, whatever was written before."""
    store = MemoryStore()
    failed, counted = False, {HERE: 0, "elsewhere": 0}
    for result in written:
        found = record(store, result, AT_ONCE)
        if result.reason:
            failed, counted = True, {HERE: 0, "elsewhere": 0}
        elif result.again or not failed:
            failed = False
            counted[result.place] += result.races
        assert (found.failure is not None) == failed
        assert found == read_evidence(store)
        if not failed and len(written) <= MOST_RESULTS:
            assert {place: found.races(place) for place in counted} == counted


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


@given(texts, texts.filter(lambda text: text.replace("\0", "")), st.integers(1, 10**6),
       st.datetimes(datetime(1971, 1, 1), datetime(9000, 1, 1)))  # fmt: skip
def test_what_is_written_is_read(by: str, place: str, races: int, at: datetime) -> None:
    store = MemoryStore()
    at = at.replace(microsecond=0, tzinfo=UTC)
    written = Result(place.replace("\0", ""), "", races, at, by.replace("\0", ""))
    record(store, written, AT_ONCE)
    assert read_evidence(store).results == (written,)


def test_long_and_odd_texts_are_cut() -> None:
    store = MemoryStore()
    record(store, Result("p" * 9000, "é" * 900 + "\0", 0, NOW, "\udcff" * 2000), AT_ONCE)
    (found,) = read_evidence(store).results
    assert (len(found.place), len(found.reason.encode("utf-8", "surrogateescape"))) == (4096, 1000)
    assert len(found.by) == 1000


class Contended(MemoryStore):
    """Another clone writes before each conditional write, a given number of times."""

    def __init__(self, bucket: MemoryBucket, others: list[Result]) -> None:
        super().__init__(bucket)
        self.others = others

    def put(self, *arguments: Any, **options: Any) -> Version:
        if self.others:
            record(MemoryStore(self._bucket), self.others.pop(0), AT_ONCE)
        return super().put(*arguments, **options)


def test_results_of_clones_that_test_at_once_are_all_kept() -> None:
    bucket = MemoryBucket()
    others = [passed(number, "elsewhere") for number in (1, 2, 3)]
    record(Contended(bucket, others), passed(), AT_ONCE)
    found = read_evidence(MemoryStore(bucket))
    assert (found.races(HERE), found.races("elsewhere")) == (66, 6)


def test_a_failure_meanwhile_is_not_written_over_by_a_pass() -> None:
    bucket = MemoryBucket()
    found = record(Contended(bucket, [failure()]), passed(), AT_ONCE)
    assert found.failure == failure()
    assert read_evidence(MemoryStore(bucket)).failure == failure()


def test_a_store_that_never_takes_it_is_unreachable() -> None:
    class Busy(MemoryStore):
        def put(self, *arguments: Any, **options: Any) -> Version:
            raise ConditionFailed("somebody else was first")

    with pytest.raises(Unreachable, match="written all the time"):
        record(Busy(), passed(), AT_ONCE)


def test_a_place_is_server_and_namespace() -> None:
    assert place_of(MemoryStore(MemoryBucket(), "ns/")) == "memory://ns"


def test_a_result_says_when_and_who() -> None:
    assert passed().described == "2026-03-01 12:00 UTC"
    shown = passed(again=True)._replace(at=NOW + timedelta(days=1))
    assert shown.described == "2026-03-02 12:00 UTC by ada"
