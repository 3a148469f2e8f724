"""Columns of entries: the same from the compiled core and one by one, for any entries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakecli.base.model import Entry
from lakecli.committed.values import MalformedValue, encode_entry, encode_value
from lakecli.exports import entry_columns
from lakecli.exports.entry_columns import SCHEMA, columns_of, paths_of
from lakecli.proto.varint import encode_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakecli.native import Core

pytestmark = pytest.mark.usefixtures("either_core")

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ENTRIES = st.builds(
    Entry,
    physical_address=TEXTS | TEXTS.map("s3://b/{}".format),
    size=st.integers(0, 2**63 - 1),
    checksum=TEXTS,
    modified_at=st.datetimes(
        datetime(1901, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)
    ).map(lambda moment: moment.replace(microsecond=0)),
    content_type=TEXTS,
    metadata=st.dictionaries(TEXTS, TEXTS, max_size=3),
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def lists(columns: dict[str, Any]) -> dict[str, list[Any]]:
    for name, column in columns.items():
        assert column.type == SCHEMA.field(name).type
        column.validate(full=True)
    found = {name: column.to_pylist() for name, column in columns.items()}
    return found | {"metadata": [dict(each) for each in found["metadata"]]}


def expected(entries: Sequence[Entry], namespace: str = "") -> dict[str, list[Any]]:
    addresses = [each.physical_address for each in entries]
    return {
        "physical_address": [each if "://" in each else namespace + each for each in addresses],
        "size": [each.size for each in entries],
        "checksum": [each.checksum for each in entries],
        "mtime": [each.modified_at for each in entries],
        "content_type": [each.content_type for each in entries],
        "metadata": [dict(each.metadata) for each in entries],
    }


@given(st.lists(ENTRIES, max_size=5), st.sampled_from(["", "local:///é/"]))
@example([Entry("", 0, "", EPOCH)], "s3://b/")
@example([Entry("data/x", 1, "y", EPOCH, "text/plain", {"": "", "k": "ä"})] * 3, "")
def test_columns_have_what_the_entries_have(entries: list[Entry], namespace: str) -> None:
    values = [encode_entry(entry) for entry in entries]
    assert lists(columns_of(values, namespace=namespace)) == expected(entries, namespace)


@given(st.lists(ENTRIES, min_size=1, max_size=3), st.data())
def test_damaged_values_raise_or_decode_as_by_protobuf(entries: list[Entry], data: Any) -> None:
    values = [bytearray(encode_entry(entry)) for entry in entries]
    which = values[data.draw(st.integers(0, len(values) - 1))]
    which[data.draw(st.integers(0, len(which) - 1))] ^= data.draw(st.integers(1, 255))
    damaged = [bytes(value) for value in values]
    try:
        alone = lists(entry_columns._one_by_one(damaged, "n/"))
    except (MalformedValue, OverflowError):
        with pytest.raises((MalformedValue, OverflowError)):
            columns_of(damaged, namespace="n/")
        return
    assert lists(columns_of(damaged, namespace="n/")) == alone


def test_metadata_that_is_longer_than_its_entry_is_refused() -> None:
    value = encode_entry(Entry("data/x", 300, "c" * 64, EPOCH, "text/plain", {"key": "value"}))
    at = value.index(b"key") - 3  # the length of the pair
    with pytest.raises(MalformedValue):
        columns_of([value[:at] + b"\x7f" + value[at + 1 :]])


def test_one_unusual_entry_leaves_all_to_the_twin(core: Core) -> None:
    entry = Entry("data/x", 300, "c" * 64, EPOCH, "text/plain", {"a": "b", "c": ""})
    values = [encode_entry(entry), encode_entry(Entry("s3://b/k", 0, "etag", EPOCH))]
    odd = encode_value(b"i" * 32, b"\x18\x05\x0a\x01x")  # a size before the address
    assert core.entry_columns(values, b"") is not None
    assert core.entry_columns([*values, odd], b"") is None
    assert columns_of([*values, odd])["size"].to_pylist() == [300, 0, 5]
    assert core.entry_columns([*values, "text"], b"") is None  # type: ignore[list-item]
    with pytest.raises(TypeError):
        core.entry_columns(tuple(values), b"")  # type: ignore[arg-type]


def test_an_entry_of_no_year_is_refused() -> None:
    late = Entry("data/x", 1, "c", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
    assert lists(columns_of([encode_entry(late)])) == expected([late])
    seconds = b"\x08" + encode_varint(int(late.modified_at.timestamp()) + 1)
    message = b"\x12" + encode_varint(len(seconds)) + seconds
    with pytest.raises(MalformedValue, match="of no year"):
        columns_of([encode_value(bytes(32), message)])


def test_texts_that_are_too_long_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [encode_entry(Entry("data/x", 300, "c", EPOCH))] * 2
    size = len(values[0]) * 2
    monkeypatch.setattr(entry_columns, "_MAX_OFFSET", size)
    assert columns_of(values)["size"].to_pylist() == [300, 300]
    monkeypatch.setattr(entry_columns, "_MAX_OFFSET", size - 1)
    with pytest.raises(MalformedValue, match=f"2 values with {size} bytes"):
        columns_of(values)
    monkeypatch.setattr(entry_columns, "_MAX_OFFSET", 5)
    assert paths_of([b"abc", b"de"]).to_pylist() == ["abc", "de"]
    with pytest.raises(MalformedValue, match="2 paths with 6 bytes"):
        paths_of([b"abc", b"def"])


def test_paths_pass_through_as_bytes() -> None:
    assert paths_of([b"a\xff", b""]).view("binary").to_pylist() == [b"a\xff", b""]
    assert paths_of([]).to_pylist() == []
