"""The lists of condemned objects: they are read as written, within their bounds, or refused."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from lakecli.gc import state as lists
from lakecli.gc.report import Doomed
from lakecli.gc.state import LostMarks, Marks
from lakecli.stores.contract import ANY
from tests.support.lakes import START
from tests.support.memory_store import MemoryBucket, MemoryStore

NAME = "3-" + "5f" * 16
PREFIX = f"_lakecli/gc/marks/{NAME}/"
DOOMED = [
    Doomed("_lakefs/" + "a" * 64, 0, "range"),
    Doomed("_lakefs/" + "b" * 64, 5, "metarange"),
    Doomed("_lakecli/incoming/x", 1 << 49, "incoming"),
]


def record(first: int, size: int = 1) -> bytes:
    return bytes([first]) * 32 + size.to_bytes(8)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(MemoryBucket(), "ns/")


@pytest.fixture
def marks(store: MemoryStore) -> Marks:
    return Marks(store, NAME)


def test_lists_are_read_as_they_were_written(store: MemoryStore, marks: Marks) -> None:
    marks.put_others(DOOMED)
    assert marks.others() == DOOMED
    for part in ("00", "ff", "all", "lakefs-gf0q1"):
        body = record(int(part, 16)) if len(part) == 2 else record(1) + record(2)
        marks.put_data(part, body)
        assert marks.data(part) == body
    assert marks.data_parts() == ["00", "all", "ff", "lakefs-gf0q1"]
    marks.delete()
    assert not [*store.list()]


def test_lists_that_are_missing_are_named(marks: Marks) -> None:
    for read in (
        marks.others,
        lambda: marks.check_age(START, timedelta(0)),
        lambda: marks.data("00"),
    ):
        with pytest.raises(LostMarks, match=PREFIX) as raised:
            read()
        assert "gc undo" in str(raised.value.hint)
    assert marks.data_parts() == []


def test_the_newest_list_tells_their_age() -> None:
    now = START
    marks = Marks(MemoryStore(MemoryBucket(clock=lambda: now), "ns/"), NAME)
    marks.put_data("00", b"")
    now += timedelta(days=1)
    marks.put_data("01", b"")
    marks.put_data("02", b"")
    now += timedelta(days=1)
    assert marks.newest() == START + timedelta(days=1)
    marks.check_age(now, timedelta(hours=23))
    with pytest.raises(LostMarks, match="1 days ago, less than the grace period"):
        marks.check_age(now, timedelta(hours=24))


@pytest.mark.parametrize("part", ["0", "000", "g0", "FF", "everything", "lakefs-", "../00", "00/x"])
def test_other_objects_beside_the_lists_are_no_parts(
    store: MemoryStore, marks: Marks, part: str
) -> None:
    store.put(f"{PREFIX}data-{part}", b"", ANY)
    store.put(f"{PREFIX}data-0a", b"", ANY)
    assert marks.data_parts() == ["0a"]


@pytest.mark.parametrize(
    ("part", "records"),
    [
        ("all", record(2) + record(1)),
        ("all", record(1) + record(1)),
        ("all", record(1) + record(2)[:-1]),
        ("all", record(1)[:-1]),
        ("02", record(1)),
        ("01", record(1) + record(2)),
    ],
)
def test_records_out_of_order_are_refused(marks: Marks, part: str, records: bytes) -> None:
    marks.put_data(part, records)
    with pytest.raises(LostMarks, match=f"{PREFIX}data-{part}: its records are out of order"):
        marks.data(part)


@pytest.mark.parametrize(
    ("fields", "is_valid"),
    [
        ({"size": 0}, True),
        ({"size": (1 << 50) - 1}, True),
        ({"size": 1 << 50}, False),
        ({"size": -1}, False),
        ({"size": 1.0}, False),
        ({"size": True}, False),
        ({"size": "1"}, False),
        ({"key": None}, False),
        ({"key": "_lakecli/incoming/x"}, False),
        ({"kind": "incoming"}, False),
        ({"kind": "ref"}, False),
        ({"key": "_lakefs/" + "x" * (14 << 10)}, True),
        ({"key": "_lakefs/" + "x" * (17 << 10)}, False),
    ],
)
def test_a_line_names_a_key_of_its_kind_and_a_size(
    store: MemoryStore, marks: Marks, fields: dict[str, object], *, is_valid: bool
) -> None:
    good = {"key": "_lakefs/x", "size": 1, "kind": "range"}
    body = "\n".join(map(json.dumps, (good, {**good, **fields})))
    store.put(f"{PREFIX}others", body.encode(), ANY)
    if is_valid:
        assert len(marks.others()) == 2
    else:
        with pytest.raises(LostMarks, match=f"{PREFIX}others: line 2"):
            marks.others()


def test_the_next_collection_condemns_what_does_not_fit_into_a_list(
    store: MemoryStore, marks: Marks, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    for count in (2, 3):
        marks.put_others(DOOMED[:count])
        (info,) = store.list(PREFIX)
        sizes.append(info.size)
    two, three = sizes
    for limit, fitting in ((two, 2), (three - 1, 2), (three, 3)):
        monkeypatch.setattr(lists, "MAX_OTHERS_SIZE", limit)
        marks.put_others(DOOMED)
        assert marks.others() == DOOMED[:fitting]
    monkeypatch.setattr(lists, "MAX_OTHERS_SIZE", three - 1)
    with pytest.raises(LostMarks, match=f"{PREFIX}others: more than {three - 1} bytes"):
        marks.others()


def test_a_part_that_is_too_large_is_refused(marks: Marks, monkeypatch: pytest.MonkeyPatch) -> None:
    marks.put_data("all", record(1) + record(2))
    monkeypatch.setattr(lists, "MAX_PART_SIZE", 80)
    assert len(marks.data("all")) == 80
    monkeypatch.setattr(lists, "MAX_PART_SIZE", 79)
    with pytest.raises(LostMarks, match=f"{PREFIX}data-all: more than 79 bytes"):
        marks.data("all")
