"""The codec against protobuf: the same bytes, the same values, the same refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakecli.proto import messages
from lakecli.proto.varint import Malformed
from tests.proto import oracle
from tests.support import forge

if TYPE_CHECKING:
    from lakecli.proto.messages import Message

MESSAGES: dict[str, Message] = {
    "Timestamp": messages.TIMESTAMP,
    "Pair": messages.PAIR,
    "Entry": messages.ENTRY,
    "RangeData": messages.RANGE_DATA,
    "CommitData": messages.COMMIT_DATA,
}

INT32 = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([0, 1, -1])
INT64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 127, 128, -1])
UINT64 = st.integers(0, 2**64 - 1)
TEXT = st.text(max_size=200)
BYTES = st.binary(max_size=200)
TIMESTAMP = st.fixed_dictionaries({"seconds": INT64, "nanos": INT32})
PAIR = st.fixed_dictionaries({"key": TEXT, "value": TEXT})
PAIRS = st.lists(PAIR, max_size=3)
VALUES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "Timestamp": TIMESTAMP,
    "Pair": PAIR,
    "Entry": st.fixed_dictionaries(
        {
            "address": TEXT,
            "last_modified": st.none() | TIMESTAMP,
            "size": INT64,
            "e_tag": TEXT,
            "metadata": PAIRS,
            "address_type": INT32,
            "content_type": TEXT,
        }
    ),
    "RangeData": st.fixed_dictionaries(
        {"min_key": BYTES, "max_key": BYTES, "estimated_size": UINT64, "count": INT64}
    ),
    "CommitData": st.fixed_dictionaries(
        {
            "id": TEXT,
            "committer": TEXT,
            "message": TEXT,
            "creation_date": st.none() | TIMESTAMP,
            "meta_range_id": TEXT,
            "metadata": PAIRS,
            "parents": st.lists(TEXT, max_size=3),
            "version": INT32,
            "generation": INT32,
        }
    ),
}
KINDS = st.sampled_from(sorted(MESSAGES))


def padded(number: int, size: int) -> bytes:
    """Encode a number as a varint of `size` bytes."""
    parts = [number >> 7 * place & 0x7F | 0x80 for place in range(size)]
    return bytes([*parts[:-1], parts[-1] & 0x7F])


def nested(depth: int, number: int = 99) -> bytes:
    """Return groups inside each other."""
    return forge.varint(number << 3 | 3) * depth + forge.varint(number << 3 | 4) * depth


numbers = st.integers(0, 2**70) | st.integers(0, 300)
varints = st.builds(padded, numbers, st.integers(1, 11))
# Of known and unknown numbers, of all wire types, those that do not exist included.
tags = st.builds(lambda number, wire: number << 3 | wire, st.integers(0, 20), st.integers(0, 7))
fields: st.SearchStrategy[bytes] = st.deferred(
    lambda: st.one_of(
        st.builds(lambda tag, data: padded(tag, 1 + (tag > 127)) + data, tags, varints),
        st.builds(
            lambda number, data: forge.varint(number << 3 | 2) + forge.varint(len(data)) + data,
            st.integers(1, 10),
            st.binary(max_size=12) | streams | TEXT.map(str.encode),
        ),
        st.builds(
            lambda number, data: (
                forge.varint(number << 3 | 3) + data + forge.varint(number << 3 | 4)
            ),
            st.integers(1, 20),
            streams,
        ),
        st.builds(forge.varint, tags),
        st.builds(padded, tags, st.integers(1, 7)),
        st.builds(
            lambda number, size: forge.varint(number << 3 | 2) + padded(1, size) + b"x",
            st.integers(1, 10),
            st.integers(1, 7),
        ),
        st.binary(max_size=10),
    )
)
streams: st.SearchStrategy[bytes] = st.lists(fields, max_size=4).map(b"".join)


@st.composite
def messages_and_values(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    kind = draw(KINDS)
    return kind, draw(VALUES[kind])


@given(messages_and_values())
def test_encoding_gives_protobufs_bytes(case: tuple[str, dict[str, Any]]) -> None:
    kind, values = case
    data = MESSAGES[kind].encode(values)
    assert data == oracle.encode(kind, values)
    assert MESSAGES[kind].decode(data) == values


@given(messages_and_values(), streams, st.integers(0, 1 << 30))
def test_unknown_fields_are_skipped_wherever_they_are(
    case: tuple[str, dict[str, Any]], unknown: bytes, number: int
) -> None:
    kind, values = case
    number = 16 + number % (2**29 - 16)
    tag = forge.varint(number << 3 | 2)
    skipped = tag + forge.varint(len(unknown)) + unknown
    data = MESSAGES[kind].encode(values)
    for whole in (skipped + data, data + skipped):
        assert oracle.decode(kind, whole) == values
        assert MESSAGES[kind].decode(whole) == values


@given(KINDS, streams | st.binary(max_size=60))
@example("Entry", b"\x12\x02\x08\x05\x12\x02\x10\x07")  # a message in two parts is merged
@example("Entry", b"\x12\x01\x08\x12\x01\x05")  # each part is whole
@example("Entry", b"\x12\x00")
@example("Entry", b"\x0a\x01a\x0a\x01b")
@example("Entry", b"\x0a\x01\xff\x0a\x01b")  # not UTF-8, though replaced
@example("Entry", b"\x0a\x03\xed\xa0\x80")  # a surrogate
@example("Entry", b"\x2a\x04\x0a\x02\xc0\x80")  # a padded NUL
@example("Entry", b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f")
@example("Timestamp", b"\x10\xff\xff\xff\xff\x0f")
@example("Timestamp", b"\x10\x80\x80\x80\x80\x10")  # more than 32 bits
@example("CommitData", b"\x3a\x00\x3a\x00")
def test_decoding_gives_what_protobuf_reads(kind: str, data: bytes) -> None:
    try:
        expected = oracle.decode(kind, data)
    except oracle.DecodeError:
        with pytest.raises(Malformed):
            MESSAGES[kind].decode(data)
    else:
        assert MESSAGES[kind].decode(data) == expected


@given(messages_and_values(), st.data())
def test_a_damaged_message_is_malformed_or_what_protobuf_reads(
    case: tuple[str, dict[str, Any]], choice: st.DataObject
) -> None:
    kind, values = case
    data = MESSAGES[kind].encode(values)
    at = choice.draw(st.integers(0, len(data)))
    damaged = choice.draw(
        st.sampled_from(
            [data[:at], data[:at] + b"\xff" + data[at + 1 :], data[:at] + data[at + 1 :]]
        )
    )
    try:
        expected = oracle.decode(kind, damaged)
    except oracle.DecodeError:
        with pytest.raises(Malformed):
            MESSAGES[kind].decode(damaged)
    else:
        assert MESSAGES[kind].decode(damaged) == expected


@pytest.mark.parametrize("depth", [1, 98, 99, 100, 101, 5_000])
@pytest.mark.parametrize("kind", ["Timestamp", "Entry"])
@pytest.mark.parametrize("is_inside", [False, True])
def test_groups_nest_as_deep_as_protobuf_allows(kind: str, depth: int, *, is_inside: bool) -> None:
    data = nested(depth)
    if is_inside:
        data = b"\x12" + forge.varint(len(data)) + data
    try:
        expected = oracle.decode(kind, data)
    except oracle.DecodeError:
        with pytest.raises(Malformed):
            MESSAGES[kind].decode(data)
    else:
        assert MESSAGES[kind].decode(data) == expected


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("Entry", {"size": 2**63}),
        ("Entry", {"size": -(2**63) - 1}),
        ("RangeData", {"estimated_size": -1}),
        ("RangeData", {"estimated_size": 2**64}),
        ("CommitData", {"generation": 2**31}),
    ],
)
def test_a_number_that_does_not_fit_is_refused(kind: str, values: dict[str, int]) -> None:
    with pytest.raises(OverflowError):
        MESSAGES[kind].encode(values)
    with pytest.raises(ValueError, match="out of range"):
        oracle.encode(kind, values)


def test_a_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        messages.ENTRY.encode({"address": "\udcff"})
