from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakecli.base.model import Entry
from lakecli.committed.values import MalformedValue, encode_entry, encode_value
from lakecli.spark import record_columns

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
ENTRIES = st.builds(
    Entry,
    physical_address=TEXTS,
    size=st.integers(0, 2**62),
    checksum=TEXTS,
    modified_at=st.datetimes(
        datetime(1901, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)
    ).map(lambda moment: moment.replace(microsecond=0)),
    content_type=TEXTS,
    metadata=st.dictionaries(TEXTS, TEXTS, max_size=3),
)
COLUMNS = [
    "physical_address",
    "size",
    "checksum",
    "mtime",
    "content_type",
]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _lists(columns: dict[str, Any]) -> dict[str, list[Any]]:
    return {name: column.to_pylist() for name, column in columns.items()}


@settings(deadline=None)
@given(st.lists(ENTRIES, max_size=5))
@example([Entry("", 0, "", EPOCH)])
@example([Entry("data/x", 1, "y", EPOCH, "text/plain", {"": "", "k": "ä"})] * 3)
def test_batches_decode_to_the_same_columns_as_single_entries(entries: list[Entry]) -> None:
    values = [encode_entry(entry) for entry in entries]
    found = record_columns.decode_batch([b"k"] * len(values), values, [*COLUMNS, "metadata"])
    assert _lists(found) == _lists(record_columns._one_by_one(values, [*COLUMNS, "metadata"]))
    assert found["size"].to_pylist() == [entry.size for entry in entries]
    maps = [dict(pairs) for pairs in found["metadata"].to_pylist()]
    assert maps == [dict(entry.metadata) for entry in entries]


@settings(deadline=None)
@given(st.lists(ENTRIES, min_size=1, max_size=3), st.data())
def test_damaged_values_raise_or_decode_as_by_protobuf(entries: list[Entry], data: Any) -> None:
    values = [bytearray(encode_entry(entry)) for entry in entries]
    which = values[data.draw(st.integers(0, len(values) - 1))]
    which[data.draw(st.integers(0, len(which) - 1))] ^= data.draw(st.integers(1, 255))
    damaged = [bytes(value) for value in values]
    wanted = [*COLUMNS, "metadata"]
    try:
        expected = _lists(record_columns._one_by_one(damaged, wanted))
    except MalformedValue:
        with pytest.raises(MalformedValue):
            record_columns.decode_batch([], damaged, wanted)
        return
    found = _lists(record_columns.decode_batch([], damaged, wanted))
    for pairs in (found["metadata"], expected["metadata"]):
        pairs[:] = [dict(each) for each in pairs]
    assert found == expected


def test_metadata_that_is_longer_than_its_entry_is_refused() -> None:
    value = encode_entry(Entry("data/x", 300, "c" * 64, EPOCH, "text/plain", {"key": "value"}))
    at = value.index(b"key") - 3  # the length of the pair
    damaged = value[:at] + b"\x7f" + value[at + 1 :]
    with pytest.raises(MalformedValue):
        record_columns.decode_batch([], [damaged], [*COLUMNS, "metadata"])


def test_usual_entries_are_decoded_in_step() -> None:
    entry = Entry("data/x", 300, "c" * 64, EPOCH, "text/plain", {"a": "b", "c": ""})
    values = [encode_entry(entry), encode_entry(Entry("s3://b/k", 0, "etag", EPOCH))]
    assert record_columns._in_step(values, COLUMNS) is not None
    odd = encode_value(b"i" * 32, b"\x18\x05\x0a\x01x")  # a size before the address
    assert record_columns._in_step([*values, odd], COLUMNS) is None
    assert record_columns.decode_batch([], [*values, odd], ["size"])["size"].to_pylist() == [
        300,
        0,
        5,
    ]


def test_paths_that_are_too_long_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_columns, "_MAX_OFFSET", 5)
    assert record_columns.decode_batch([b"abc", b"de"], [], ["path"])["path"].to_pylist() == [
        "abc",
        "de",
    ]
    with pytest.raises(MalformedValue, match="2 paths with 6 bytes"):
        record_columns.decode_batch([b"abc", b"def"], [], ["path"])


def test_paths_pass_through_as_bytes() -> None:
    found = record_columns.decode_batch(
        [b"a\xff"], [encode_entry(Entry("x", 0, "", EPOCH))], ["path"]
    )
    assert found["path"].view("binary").to_pylist() == [b"a\xff"]


def test_batches_decode_without_pandas() -> None:
    program = (
        "import sys\n"
        "from pyspark.sql.worker import plan_data_source_read\n"
        "from pyspark.sql.types import StringType, StructField, StructType\n"
        "from datetime import datetime, UTC\n"
        "now = datetime.now(UTC)\n"
        "from lakecli.committed.values import encode_entry\n"
        "from lakecli.base.model import Entry\n"
        "from lakecli.spark import entries, record_columns, schemas\n"
        "value = encode_entry(Entry('data/x', 3, 'c', now, 't', {'k': 'v'}))\n"
        "schema = schemas.arrow_schema(StructType([StructField('path', StringType())]))\n"
        "record_columns.decode_batch([b'k'], [value], record_columns.COLUMNS['entries'])\n"
        "entries._batch(schema, 1, {'path': record_columns._paths([b'k'])}, 'x')\n"
        "sys.exit('pandas' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_values_that_are_too_long_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [encode_entry(Entry("data/x", 300, "c", EPOCH))] * 2
    size = len(values[0]) * 2
    monkeypatch.setattr(record_columns, "_MAX_OFFSET", size)
    assert record_columns.decode_batch([b"a", b"b"], values, ["size"])["size"].to_pylist() == [
        300,
        300,
    ]
    monkeypatch.setattr(record_columns, "_MAX_OFFSET", size - 1)
    with pytest.raises(MalformedValue, match=f"2 values with {size} bytes"):
        record_columns.decode_batch([b"a", b"b"], values, ["size"])


def test_records_wait_until_they_are_many_or_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_columns, "BATCH", 3)
    monkeypatch.setattr(record_columns, "BATCH_SIZE", 10)

    def sizes(*blocks: tuple[list[bytes], list[bytes]]) -> list[int]:
        return [len(keys) for keys, _ in record_columns.batched(blocks)]

    one = ([b"a"], [b"b"])
    assert sizes() == []
    assert sizes(one, one, one, one) == [3, 1]
    assert sizes(one, ([b"a" * 4], [b"b" * 4]), one) == [2, 1]
    assert sizes(one, ([b"c"] * 9, [b"d"] * 9), one) == [10, 1]
