"""Metaranges: RangeData is encoded as protobuf encodes it, and ID fields accept only IDs."""

from __future__ import annotations

import pytest
from hypothesis import example, given
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
from lakecli.proto.messages import RANGE_DATA
from lakecli.proto.varint import Malformed
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


_CHUNKS = (
    *(b"\x0a\x01a", b"\x0a\x05a", b"\x0a\x81\x00b", b"\x0a\x00"),
    *(b"\x12\x01c", b"\x12\x09c", b"\x12\x02cd", b"\x18\x07", b"\x18", b"\x20\x03", b"\x20"),
    *(b"\x20\xac\x02", b"\x28\x01", b"\x1a\x01x", b"\x18" + b"\xff" * 9 + b"\x01", b"\xff"),
    b"\x20" + b"\xff" * 9 + b"\x01",
)


@given(st.lists(st.sampled_from(_CHUNKS), max_size=6).map(b"".join))
@example(b"\x0a\x01a\x12\x01c\x18\x07\x20\x03")
@example(b"\x0a\x01a\x12\x01c\x18\x07\x20\x03\x28\x01")
@example(b"\x0a\x01a\x12\x01c\x18\x07" + _CHUNKS[-1])
def test_fields_in_any_form_are_decoded_as_by_the_codec(data: bytes) -> None:
    value = encode_value(ID.encode(), data)
    try:
        message = RANGE_DATA.decode(data)
    except Malformed:
        with pytest.raises(MalformedValue, match="damaged record: no range"):
            decode_range_record(value)
        return
    assert decode_range_record(value) == (ID, *message.values())


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
