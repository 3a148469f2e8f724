"""Metaranges: RangeData is encoded as protobuf encodes it, and ID fields accept only IDs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.model import MetarangeId, RangeId
from lakecli.committed.metaranges import (
    Metarange,
    RangeRecord,
    decode_range_record,
    decode_tree_property,
    encode_range_record,
    encode_tree_property,
)
from lakecli.committed.values import MalformedValue, decode_value, encode_value
from tests.proto import oracle

ID = RangeId("0123456789abcdef" * 4)

records = st.builds(
    RangeRecord,
    id=st.just(ID),
    min_key=st.binary(max_size=200),
    max_key=st.binary(max_size=200),
    size=st.integers(0, 2**63 - 1),
    count=st.integers(0, 2**63 - 1),
)


@given(records)
def test_records_round_trip(record: RangeRecord) -> None:
    assert decode_range_record(encode_range_record(record)) == record


def test_a_record_is_the_bytes_that_lakefs_writes() -> None:
    value = encode_range_record(RangeRecord(ID, b"a", b"c", 300, 2))
    assert decode_value(value) == (ID.encode(), b"\x0a\x01a\x12\x01c\x18\xac\x02\x20\x02")


@pytest.mark.parametrize(
    "name",
    [
        b"",
        b"../../../../etc/passwd",
        b"/" + ID.encode()[1:],
        ID.encode().upper(),
        ID.encode() + b"\n",
        bytes(32),
    ],
)
def test_a_malformed_id_never_becomes_a_key(name: bytes) -> None:
    with pytest.raises(MalformedValue, match="a range without an ID"):
        decode_range_record(encode_value(name, b""))


@given(records)
def test_a_record_is_encoded_as_protobuf_encodes_it(record: RangeRecord) -> None:
    message = {
        "min_key": record.min_key,
        "max_key": record.max_key,
        "estimated_size": record.size,
        "count": record.count,
    }
    value = encode_value(ID.encode(), oracle.encode("RangeData", message))
    assert encode_range_record(record) == value


@pytest.mark.parametrize("data", [b"\x0a\x05a", b"\xff", b"\x0f"])
def test_a_malformed_record_is_one_clear_error(data: bytes) -> None:
    with pytest.raises(MalformedValue, match="damaged record: no range"):
        decode_range_record(encode_value(ID.encode(), data))


def test_the_tree_property() -> None:
    assert encode_tree_property(8192) == b"1;n=8192"
    assert decode_tree_property(b"1;n=8192") == 8192


@pytest.mark.parametrize(
    "value", [None, b"", b"2;n=8192", b"1;n=", b"1;n=8192;x=1", b"1;n=-16", b"1;n=" + b"9" * 30]
)
def test_an_unknown_tree_property_is_a_foreign_tree(value: bytes | None) -> None:
    assert decode_tree_property(value) is None


def test_lookup() -> None:
    found = [RangeRecord(ID, b"a", b"c", 10, 2), RangeRecord(ID, b"e", b"g", 20, 3)]
    tree = Metarange(
        MetarangeId(ID),
        [record.max_key for record in found],
        [encode_range_record(record) for record in found],
        range_entries=16,
    )
    assert list(tree.records()) == found
    assert [tree.find(key) for key in (b"", b"c", b"d", b"g", b"h")] == [0, 0, 1, 1, 2]
    assert [tree.value_of(ID, key) for key in (b"c", b"g")] == tree.values
    assert tree.value_of(ID, b"h") is None
    assert tree.value_of(RangeId("f" * 64), b"c") is None
