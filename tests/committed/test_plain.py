"""The short way of reading messages: it understands what lakecli writes, and is never wrong."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.committed import metaranges, values
from lakecli.committed.metaranges import RangeRecord, decode_range_record, encode_range_record
from lakecli.committed.values import MalformedValue, encode_entry, encode_value
from lakecli.model import CLIENT_MTIME, Entry, RangeId

ENTRY = Entry(
    physical_address="data/5b/1c",
    size=20_000_000_000,
    checksum="5b1c" * 16,
    modified_at=datetime(2026, 3, 1, 12, tzinfo=UTC),
    content_type="text/plain",
    metadata={CLIENT_MTIME: "1772366400", "empty": "", "größe": "\0"},
)
RANGE = RangeRecord(RangeId("0123456789abcdef" * 4), b"a" * 200, b"\xff\0", 1_200_000, 8_192)

ENTRY_FIELDS = [
    b"\x0a\x03a/b",
    b"\x0a\x01\xff",  # an address that is not UTF-8
    b"\x12\x06\x08\x80\xe2\xcf\xaa\x06",
    b"\x12\x04\x08\x05\x10\x07",  # with nanoseconds
    b"\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # before 1970
    b"\x18\x05",
    b"\x18\x85\x00",  # padded
    b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # negative
    b"\x22\x01c",
    b"\x2a\x06\x0a\x01k\x12\x01v",
    b"\x2a\x06\x12\x01v\x0a\x01k",  # the value before the key
    b"\x2a\x00",
    b"\x2a\x03\x0a\x05k",  # a key that runs past its pair
    b"\x30\x01",
    b"\x3a\x04text",
    b"\x40\x05",  # unknown
    b"\x0d1234",  # of fixed width, where a text should be
    b"\x82\x01\x01x",  # number 16
    b"\x0a\x05ab",  # runs past the message, or swallows what follows
    b"\x18",
]


def test_what_lakecli_writes_is_read_without_protobuf(monkeypatch: pytest.MonkeyPatch) -> None:
    entry, record = encode_entry(ENTRY), encode_range_record(RANGE)
    monkeypatch.delattr(values, "_read_any_entry")
    monkeypatch.delattr(metaranges, "_decode_any")
    assert values.decode_entry(entry) == ENTRY
    assert decode_range_record(record) == RANGE


@given(st.lists(st.sampled_from(ENTRY_FIELDS), max_size=8).map(b"".join) | st.binary(max_size=40))
def test_an_entry_is_read_as_protobuf_reads_it_or_left_to_it(data: bytes) -> None:
    try:
        expected: Entry | None = values._read_any_entry(data)
    except MalformedValue:
        expected = None
    try:
        found = values._read_plain_entry(data)
    except MalformedValue:
        assert expected is None
    else:
        assert found is None or found == expected


@given(
    st.lists(
        st.sampled_from(
            [b"\x0a\x01a", b"\x12\x01b", b"\x12\x00", b"\x18\xac\x02", b"\x20\x02", b"\x20\x82\x00"]
        ),
        max_size=5,
    ).map(b"".join)
    | st.binary(max_size=20)
)
def test_a_range_is_read_as_protobuf_reads_it(data: bytes) -> None:
    value = encode_value(RANGE.id.encode(), data)
    try:
        expected = metaranges._decode_any(value, data)
    except MalformedValue:
        with pytest.raises(MalformedValue):
            decode_range_record(value)
    else:
        assert decode_range_record(value) == expected
