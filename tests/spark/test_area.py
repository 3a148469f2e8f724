"""Whole ranges as columns: by the compiled core and without it, as `decode_batch` has them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecli import native
from lakecli.committed.encode import encode_entry
from lakecli.committed.metaranges import RangeRecord
from lakecli.committed.ranges import Mismatch
from lakecli.committed.values import MalformedValue, encode_value
from lakecli.model import Entry, RangeId
from lakecli.spark import area, decode
from lakecli.sstable.format import CorruptTable
from lakecli.sstable.reader import BytesSource, Table
from lakecli.sstable.writer import TableWriter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakecli.native import Core

pytestmark = pytest.mark.usefixtures("either_core")

MOMENT = datetime(2026, 3, 1, tzinfo=UTC)
USUAL = Entry("data/x", 300, "c" * 64, MOMENT, "text/plain")
WANTED = [
    *(decode.PATH, decode.ADDRESS, decode.SIZE, decode.CHECKSUM),
    *(decode.MTIME, decode.CONTENT_TYPE, decode.METADATA),
]
RECORDS = st.dictionaries(
    st.binary(min_size=1, max_size=60),
    st.builds(
        Entry,
        physical_address=st.text(st.characters(exclude_categories=["Cs"]), max_size=150),
        size=st.sampled_from([0, 1, 300, 1 << 40, (1 << 63) - 1]),
        checksum=st.sampled_from(["", "c" * 64, "ä"]),
        modified_at=st.sampled_from([MOMENT, datetime(1960, 1, 1, tzinfo=UTC)]),
        content_type=st.sampled_from(["", "text/plain"]),
        metadata=st.sampled_from([{}, {}, {}, {"k": "ä"}]),
    ).map(encode_entry),
    min_size=1,
    max_size=80,
)


def _range(records: Mapping[bytes, bytes]) -> tuple[Table, RangeRecord]:
    """Return a range, and its record in a metarange."""
    writer = TableWriter(properties={})
    keys = sorted(records)
    writer.add_many(keys, [records[key] for key in keys])
    body = writer.finish()
    record = RangeRecord(RangeId("a" * 64), min(records), max(records), len(body), len(records))
    return Table(BytesSource("range", body)), record


def _rows(table: Table, record: RangeRecord) -> tuple[list[int], dict[str, list[Any]]]:
    """Return the sizes of the batches, and all values of each column."""
    found: dict[str, list[Any]] = {name: [] for name in WANTED}
    counts = []
    for count, columns in area.read_whole([(table, record)], WANTED, area.Area()):
        counts.append(count)
        for name, column in columns.items():
            assert len(column) == count
            column.validate(full=name != decode.PATH)
            is_path = name == decode.PATH  # which need not be UTF-8
            found[name] += (column.view("binary") if is_path else column).to_pylist()
    return counts, found


def _expected(records: Mapping[bytes, bytes]) -> dict[str, list[Any]]:
    keys = sorted(records)
    columns = decode.decode_batch(keys, [records[key] for key in keys], WANTED)
    columns[decode.PATH] = columns[decode.PATH].view("binary")
    return {name: column.to_pylist() for name, column in columns.items()}


@settings(deadline=None)
@given(RECORDS)
def test_all_entries_of_a_range(records: dict[bytes, bytes]) -> None:
    counts, found = _rows(*_range(records))
    assert sum(counts) == len(records)
    assert found == _expected(records)


def test_columns_stay_when_the_area_is_used_again() -> None:
    """Also those of a single entry, whose numbers are next to each other without a copy."""
    used = area.Area()
    taken = []
    for size in (1, 2):
        table, record = _range({b"k%d" % size: encode_entry(USUAL._replace(size=size))})
        taken += [columns for _, columns in area.read_whole([(table, record)], WANTED, used)]
    assert [columns[decode.SIZE].to_pylist() for columns in taken] == [[1], [2]]
    assert [columns[decode.PATH].to_pylist() for columns in taken] == [["k1"], ["k2"]]


def test_ranges_share_batches_in_their_order() -> None:
    """The rows of small ranges come together, each with the ID of its own range."""
    ranges = []
    for number, sizes in enumerate(((1, 2), (3,), (4, 5))):
        table, record = _range({b"k%d" % at: encode_entry(USUAL._replace(size=at)) for at in sizes})
        ranges.append((table, record._replace(id=RangeId(f"{number}" * 64))))
    wanted = [decode.SIZE, decode.RANGE_ID]
    batches = [columns for _, columns in area.read_whole(ranges, wanted, area.Area())]
    rows = [
        row
        for columns in batches
        for row in zip(*(columns[name].to_pylist() for name in wanted), strict=True)
    ]
    assert rows == [(1, "0" * 64), (2, "0" * 64), (3, "1" * 64), (4, "2" * 64), (5, "2" * 64)]
    assert len(batches) == (3 if native.core() is None else 1)
    table, record = ranges[1]
    ranges[1] = table, record._replace(min_key=b"k")
    with pytest.raises(Mismatch):
        list(area.read_whole(ranges, wanted, area.Area()))


@pytest.mark.parametrize("count", [area.ROWS // 2 - 1, area.ROWS // 2])
def test_memory_is_used_again_when_no_column_holds_it(core: Core, count: int) -> None:
    """Texts of many entries are not copied out of it, so it may not change while they live."""
    used = area.Area()
    used._core = core
    is_lent = 2 * count >= area.ROWS

    def taken(letter: str) -> dict[str, Any]:
        value = encode_entry(USUAL._replace(checksum=letter))
        table, record = _range({b"%05d" % at: value for at in range(count)})
        [(_, columns)] = area.read_whole([(table, record)], [decode.CHECKSUM], used)
        return columns

    first, second = taken("a"), taken("b")
    assert first[decode.CHECKSUM].unique().to_pylist() == ["a"]
    assert second[decode.CHECKSUM].unique().to_pylist() == ["b"]
    assert len(used._lent) == 2 * is_lent
    addresses = {memory.ctypes.data for memory, _ in used._lent}
    del first
    third = taken("c")
    assert second[decode.CHECKSUM].unique().to_pylist() == ["b"]
    assert third[decode.CHECKSUM].unique().to_pylist() == ["c"]
    assert {memory.ctypes.data for memory, _ in used._lent} == addresses


def test_blocks_with_unusual_entries_among_others() -> None:
    records = {b"%05d" % at: encode_entry(USUAL) for at in range(600)}
    records[b"00300"] = encode_entry(USUAL._replace(metadata={"k": "v"}))
    records[b"00301"] = encode_value(b"i" * 32, b"\x18\x05\x0a\x01x")  # a size before the address
    counts, found = _rows(*_range(records))
    assert sum(counts) == 600
    assert found == _expected(records)
    assert found[decode.METADATA][300] == [("k", "v")]


def test_texts_that_fill_an_area() -> None:
    long = "x" * (area.ROOM // 3 - 100)
    records = {b"%d" % at: encode_entry(USUAL._replace(checksum=long)) for at in range(7)}
    counts, found = _rows(*_range(records))
    assert sum(counts) == 7
    assert found[decode.CHECKSUM] == [long] * 7
    alone = {b"k": encode_entry(USUAL._replace(checksum="x" * (area.ROOM + 1)))}
    assert _rows(*_range(alone))[1] == _expected(alone)


@pytest.mark.parametrize("what", ["text", "time"])
def test_damaged_entries_are_refused(what: str) -> None:
    value = {
        "text": encode_entry(USUAL).replace(b"text/plain", b"text/plai\x80"),
        "time": encode_value(b"i" * 32, b"\x12\x07\x08\xff\xff\xff\xff\xff\x7f"),
    }[what]
    with pytest.raises(MalformedValue):
        _rows(*_range({b"a": encode_entry(USUAL), b"b": value}))


def test_a_range_that_is_not_the_described_one_is_refused() -> None:
    records = {b"%05d" % at: encode_entry(USUAL) for at in range(100)}
    table, record = _range(records)
    for wrong in (
        record._replace(min_key=b"00000a"),
        record._replace(max_key=b"00098"),
        record._replace(max_key=b"01"),
        record._replace(count=99),
    ):
        with pytest.raises(Mismatch):
            _rows(table, wrong)


def test_keys_outside_the_bounds_of_the_index_are_refused() -> None:
    table, record = _range({b"%05d" % at: encode_entry(USUAL) for at in range(600)})
    assert table.block_count > 3
    separators = list(table.separators)
    for number, key in ((1, b"00000"), (0, b"00000"), (0, b"00599")):
        table.separators = [*separators]
        table.separators[number] = key
        with pytest.raises(CorruptTable, match="outside the bounds"):
            _rows(table, record)


def test_usual_entries_are_not_left_to_the_twin(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "core", lambda: core)
    monkeypatch.setattr(area, "decode_batch", None)
    table, record = _range({b"%05d" % at: encode_entry(USUAL) for at in range(600)})
    assert _rows(table, record)[0] == [600]
