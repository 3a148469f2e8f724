"""Values: lakeFS's framing and its Entry message."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli import native
from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.base.model import CLIENT_METADATA_PREFIX, CLIENT_MTIME, Entry
from lakecli.committed import values
from lakecli.committed.values import (
    MalformedValue,
    decode_entry,
    decode_value,
    digests,
    encode_entry,
    encode_value,
    identify,
    identities_of,
    identity_of,
)
from lakecli.errors import UsageError
from lakecli.sstable.format import MAX_COMPONENT_SIZE
from tests.proto import oracle

if TYPE_CHECKING:
    from lakecli.native import Core

pytestmark = pytest.mark.usefixtures("either_core")

CHECKSUM = blake3_of(b"hello").hex()
HELLO = Entry(
    physical_address=data_key(CHECKSUM),
    size=5,
    checksum=CHECKSUM,
    modified_at=datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
    content_type="text/plain",
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
entries = st.builds(
    Entry,
    physical_address=st.sampled_from([data_key(CHECKSUM), "s3://bucket/a b", "", "data/x/y"])
    | texts,
    size=st.integers(0, 2**63 - 1),
    checksum=st.just(CHECKSUM) | texts,
    modified_at=st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)).map(
        lambda at: at.replace(microsecond=0)
    ),
    content_type=texts,
    metadata=st.dictionaries(texts | texts.map(CLIENT_METADATA_PREFIX.__add__), texts, max_size=4),
)


@given(st.binary(max_size=300), st.binary(max_size=300), st.binary(max_size=3))
def test_framing_round_trips_and_ignores_what_follows(
    identity: bytes, data: bytes, rest: bytes
) -> None:
    value = encode_value(identity, data) + rest
    assert decode_value(value) == (identity, data)
    assert identity_of(value) == identity
    assert identities_of([value, value]) == [identity, identity]


def test_lengths_are_gos_signed_varints() -> None:
    assert encode_value(b"i" * 32, b"d" * 64) == b"\x40" + b"i" * 32 + b"\x80\x01" + b"d" * 64
    assert encode_value(b"", b"") == b"\0\0"


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x40",
        b"\x40" + b"i" * 31,
        b"\x40" + b"i" * 32,
        b"\x40" + b"i" * 32 + b"\x04d",
        b"\x41" + b"i" * 32 + b"\x00",
        b"\xff" * 12,
        b"\x80\x80\x80\x80\x80\x01" + b"i" * 32,
    ],
)
def test_a_malformed_frame_is_one_clear_error(value: bytes) -> None:
    with pytest.raises(MalformedValue, match="damaged record") as caught:
        decode_value(value)
    assert caught.value.hint == "see what it affects: `fsck REPOSITORY`"


def test_keys_without_values_have_no_digests() -> None:
    with pytest.raises(ValueError, match="shorter"):
        digests([b"a", b"b"], [encode_entry(HELLO)])


def test_identities_of_reports_an_empty_value() -> None:
    with pytest.raises(MalformedValue):
        identities_of([encode_value(blake3_of(b"a"), b""), b""])


@given(entries)
def test_an_entry_is_encoded_as_protobuf_encodes_it(entry: Entry) -> None:
    identity, data = decode_value(encode_entry(entry))
    assert identity == identify(entry)
    message = {
        "address": entry.physical_address,
        "last_modified": {"seconds": int(entry.modified_at.timestamp())},
        "size": entry.size,
        "e_tag": entry.checksum,
        "metadata": [
            {"key": key, "value": entry.metadata[key]}
            for key in sorted(entry.metadata, key=str.encode)
        ],
        "address_type": 2 if "://" in entry.physical_address else 1,
        "content_type": entry.content_type,
    }
    assert data == oracle.encode("Entry", message)


def test_an_entry_is_the_bytes_that_lakefs_writes() -> None:
    entry = Entry("data/x", 5, "c", HELLO.modified_at, "text/plain", {"k": "v"})
    identity, data = decode_value(encode_entry(entry))
    expected = (
        b"\x0a\x06data/x"  # address
        b"\x12\x06\x08\x80\xe2\xcf\xaa\x06"  # last_modified
        b"\x18\x05"  # size
        b"\x22\x01c"  # e_tag
        b"\x2a\x06\x0a\x01k\x12\x01v"  # metadata
        b"\x30\x01"  # address_type
        b"\x3a\x0atext/plain"  # content_type
    )
    assert data == expected
    assert identity == identify(entry)


@given(entries)
def test_entries_round_trip(entry: Entry) -> None:
    assert decode_entry(encode_entry(entry)) == entry


def test_metadata_is_sorted_by_the_bytes_of_its_keys() -> None:
    keys = ["b", "", "\U0001f40b", "ab", "\uffff", "a"]
    _, data = decode_value(encode_entry(HELLO._replace(metadata=dict.fromkeys(keys, "v"))))
    expected = ["", "a", "ab", "b", "\uffff", "\U0001f40b"]
    assert list(decode_entry(encode_value(b"i", data)).metadata) == expected


@given(entries, st.integers(0, 999_999_999), st.sampled_from([0, 1, 2]), st.binary(max_size=6))
def test_entries_of_other_writers_are_read(
    entry: Entry, nanos: int, address_type: int, tail: bytes
) -> None:
    message = {
        "address": entry.physical_address,
        "last_modified": {"seconds": int(entry.modified_at.timestamp()), "nanos": nanos},
        "size": -entry.size,
        "e_tag": entry.checksum,
        "metadata": [{"key": key, "value": text} for key, text in entry.metadata.items()],
        "address_type": address_type,
    }
    unknown = b"\x40\x05" + b"\x49" + b"12345678" + b"\x55" + b"1234" + b"\x9a\x06\x01x"
    data = oracle.encode("Entry", message) + unknown
    expected = Entry(
        entry.physical_address,
        -entry.size,
        entry.checksum,
        entry.modified_at,
        metadata=entry.metadata,
    )
    assert decode_entry(encode_value(b"any", data) + tail) == expected


FIELDS = [
    b"\x0a\x03a/b",
    b"\x0a\x83\x00a/b",  # a padded length
    b"\x0a\x83\x80\x80\x80\x80\x00a/b",  # padded more than is allowed
    b"\x0a\x80\x01" + b"p" * 128,
    b"\x0a\x01\xff",  # an address that is not UTF-8
    b"\x12\x06\x08\x80\xe2\xcf\xaa\x06",
    b"\x12\x04\x08\x05\x10\x07",  # with nanoseconds
    b"\x12\x04\x10\x07\x08\x05",
    b"\x12\x00",
    b"\x12\x80\x08\x08" + bytes(1023),  # a length of two bytes, and padding that is none
    b"\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # before 1970
    b"\x12\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # of no year
    b"\x18\x05",
    b"\x18\x85\x00",  # padded
    b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # negative
    b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # of more than 64 bits
    b"\x22\x01c",
    b"\x2a\x06\x0a\x01k\x12\x01v",
    b"\x2a\x06\x12\x01v\x0a\x01k",  # the value before the key
    b"\x2a\x06\x0a\x01k\x1a\x01v",  # an unknown field in place of the value
    b"\x2a\x06\x1a\x01k\x12\x01v",  # or of the key
    b"\x2a\x08\x0a\x01k\x12\x01v\x1a\x00",  # with an unknown field
    b"\x2a\x86\x00\x0a\x01k\x12\x01v",
    b"\x2a\x07\x0a\x81\x00k\x12\x01v",
    b"\x2a\x00",
    b"\x2a\x03\x0a\x01k",
    b"\x2a\x03\x0a\x05k",  # a key that runs past its pair
    b"\x2a\x05\x0a\x01k\x12\x01v",  # a value that does
    b"\x30\x01",
    b"\x30\x81\x00",
    b"\x3a\x04text",
    b"\x40\x05",  # unknown
    b"\x0d1234",  # of fixed width, where a text should be
    b"\x82\x01\x01x",  # number 16
    b"\x0b\x0c",  # a group
    b"\x0a\x05ab",  # runs past the message, or swallows what follows
    b"\x18",
    b"\0",
]


def protobuf_entry(data: bytes) -> Entry | None:
    """Return the entry that protobuf reads, if there is one of a year that exists."""
    try:
        message = oracle.decode("Entry", data)
        seconds = (message["last_modified"] or {"seconds": 0})["seconds"]
        modified_at = datetime.fromtimestamp(seconds, UTC)
    except (oracle.DecodeError, ValueError, OverflowError, OSError):
        return None
    return Entry(
        message["address"],
        message["size"],
        message["e_tag"],
        modified_at,
        message["content_type"],
        {pair["key"]: pair["value"] for pair in message["metadata"]},
    )


@given(
    st.lists(st.sampled_from(FIELDS), max_size=8).map(b"".join)
    | st.lists(st.sampled_from(FIELDS), max_size=8).map(sorted).map(b"".join)
    | st.binary(max_size=60),
    st.sampled_from([b"", b"\0", b"\x12\x00"]),
)
def test_an_entry_is_read_as_protobuf_reads_it(data: bytes, tail: bytes) -> None:
    check_read(data, tail)


def test_each_field_is_read_as_protobuf_reads_it() -> None:
    for field in FIELDS:
        check_read(field, b"")


def check_read(data: bytes, tail: bytes) -> None:
    expected = protobuf_entry(data)
    for identity in (blake3_of(b"i"), b"any"):
        value = encode_value(identity, data) + tail
        if expected is None:
            with pytest.raises(MalformedValue):
                decode_entry(value)
        else:
            assert decode_entry(value) == expected
            assert decode_entry(encode_entry(expected)) == expected


@given(entries, st.data())
def test_a_damaged_value_is_an_error_or_what_protobuf_reads(
    entry: Entry, choice: st.DataObject
) -> None:
    value = encode_entry(entry)
    at = choice.draw(st.integers(0, len(value) - 1))
    byte = bytes((choice.draw(st.integers(0, 255)),))
    damaged = choice.draw(
        st.sampled_from(
            [value[:at], value[:at] + byte + value[at + 1 :], value[:at] + value[at + 1 :]]
        )
    )
    try:
        expected = protobuf_entry(decode_value(damaged)[1])
    except MalformedValue:
        expected = None
    if expected is None:
        with pytest.raises(MalformedValue):
            decode_entry(damaged)
    else:
        assert decode_entry(damaged) == expected


def test_the_usual_form_is_decoded_without_the_codec(
    monkeypatch: pytest.MonkeyPatch, core: Core
) -> None:
    monkeypatch.setattr(native, "core", lambda: core)
    monkeypatch.delattr(values, "_decode_any")
    unusual = HELLO._replace(modified_at=datetime(2021, 2, 3, 4, 5, 6, tzinfo=UTC))
    assert decode_entry(encode_entry(unusual)) == unusual
    known = HELLO._replace(metadata={CLIENT_MTIME: "1772366400", "größe": "\0"})
    long = HELLO._replace(physical_address="s3://b/" + "p" * 1000, size=2**40, metadata={})
    for entry in (known, long):
        assert decode_entry(encode_entry(entry)) == entry
    lengths = (0, 1, 127, 128, 129, 300)
    edges = [HELLO._replace(size=size) for size in (0, 1, 127, 128, 16_384, 2**63 - 1)]
    edges += [HELLO._replace(content_type="t" * length) for length in range(131)]
    edges += [HELLO._replace(metadata={"k" * 60: "v" * length}) for length in (1, 62, 63)]
    for metadata in ({}, {"k": "v"}):
        edges += [Entry("p" * length, 0, "", HELLO.modified_at, "", metadata) for length in lengths]
        edges += [Entry("", 0, "c" * length, HELLO.modified_at, "", metadata) for length in lengths]
    for entry in edges:
        assert decode_entry(encode_entry(entry)) == entry
    monkeypatch.delattr(values, "read_component")
    assert identity_of(encode_entry(HELLO)) == identify(HELLO)


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x05ab",  # a field that runs past its message
        b"\x0a\xff",  # a length that does not end
        b"\x0b",  # a group
        b"\x02\x00",  # a field without a number
        b"\x0a\x01\xff",  # an address that is not UTF-8
        b"\x12\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # a year of many digits
    ],
)
def test_a_malformed_entry_is_one_clear_error(data: bytes) -> None:
    with pytest.raises(MalformedValue, match="damaged record: no entry"):
        decode_entry(encode_value(blake3_of(b"i"), data))


def test_a_message_of_negative_length_is_refused() -> None:
    value = bytearray(encode_entry(Entry("p", 1, "", HELLO.modified_at)))
    assert decode_entry(bytes(value)).physical_address == "p"
    assert value[33] < 0x80
    value[33] |= 1  # zigzag: the lowest bit is the sign
    with pytest.raises(MalformedValue):
        decode_entry(bytes(value))


def test_an_absent_time_is_the_epoch() -> None:
    assert decode_entry(encode_value(b"i", b"")).modified_at == datetime(1970, 1, 1, tzinfo=UTC)


def test_the_identity_is_that_of_the_design() -> None:
    expected = "7b080f268b288f85ed5ebc6b3fe9e74776d9a0d34161673ea7775e9ba56e0b41"
    assert identity_of(encode_entry(HELLO)).hex() == expected


@pytest.mark.parametrize(
    "same",
    [
        HELLO._replace(modified_at=datetime(2030, 1, 1, tzinfo=UTC)),
        HELLO._replace(metadata={"::lakefs::client-mtime": "17"}),
    ],
)
def test_fields_that_do_not_change_the_identity(same: Entry) -> None:
    assert identify(same) == identify(HELLO)


@pytest.mark.parametrize(
    "other",
    [
        HELLO._replace(size=6),
        HELLO._replace(checksum=blake3_of(b"other").hex()),
        HELLO._replace(content_type=""),
        HELLO._replace(metadata={"k": "v"}),
        HELLO._replace(physical_address="s3://elsewhere/hello"),
        HELLO._replace(physical_address=data_key(blake3_of(b"other").hex())),
    ],
)
def test_fields_that_change_the_identity(other: Entry) -> None:
    assert identify(other) != identify(HELLO)


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        (HELLO._replace(metadata={"k": "\udcff"}), "metadata"),
        (HELLO._replace(metadata={"\udcff": "v"}), "metadata"),
        (HELLO._replace(content_type="\udcff"), "content type"),
        (HELLO._replace(physical_address="s3://b/\udcff"), "physical address"),
        (HELLO._replace(checksum="\udcff"), "checksum"),
    ],
)
def test_text_that_is_not_utf_8_is_refused(entry: Entry, what: str) -> None:
    with pytest.raises(UsageError, match=f"the {what} is not valid text"):
        encode_entry(entry)


def test_components_have_lakefs_limit() -> None:
    limit = MAX_COMPONENT_SIZE
    assert limit == 41_943_040
    assert decode_value(encode_value(b"", bytes(limit)))[1] == bytes(limit)
    with pytest.raises(MalformedValue):
        decode_value(encode_value(b"", bytes(limit + 1)))
