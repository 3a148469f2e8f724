"""Encoding and decoding of entries, against the same work done by protobuf."""

from __future__ import annotations

from datetime import UTC, datetime
from statistics import median
from time import process_time
from typing import TYPE_CHECKING, TypeVar

from lakecli.committed.encode import Columns, encode_entry, encode_external, identify
from lakecli.committed.values import decode_entry, decode_value, encode_value
from lakecli.layout import data_key
from lakecli.model import CLIENT_MTIME, Entry
from tests.benchmarks.measure import repeat
from tests.proto.oracle import message_class

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_benchmark.fixture import BenchmarkFixture

    from tests.benchmarks.claims import Report

T = TypeVar("T")

ROUNDS = 9
COUNT = 20_000
BULK = 100_000


def uploaded(number: int) -> Entry:
    """Return an entry: alternately as an upload and as an import records it."""
    checksum = f"{number:064x}"
    at = datetime.fromtimestamp(1_700_000_000 + number // 100, UTC)
    if number % 2:
        return Entry(f"s3://bucket/table/part-{number:09}.parquet", number, checksum[:32], at)
    metadata = {CLIENT_MTIME: str(1_700_000_000 + number)}
    return Entry(data_key(checksum), number, checksum, at, "text/plain", metadata)


def protobuf_encoded(entry: Entry) -> bytes:
    """Return what `encode_entry` does, by protobuf."""
    message = message_class("Entry")(
        address=entry.physical_address,
        last_modified={"seconds": int(entry.modified_at.timestamp())},
        size=entry.size,
        e_tag=entry.checksum,
        metadata=[
            {"key": key, "value": entry.metadata[key]}
            for key in sorted(entry.metadata, key=str.encode)
        ],
        address_type=2 if "://" in entry.physical_address else 1,
        content_type=entry.content_type,
    )
    return encode_value(identify(entry), message.SerializeToString())


def protobuf_decoded(value: bytes) -> Entry:
    """Return what `decode_entry` does, by protobuf."""
    message = message_class("Entry").FromString(decode_value(value)[1])
    return Entry(
        message.address,
        message.size,
        message.e_tag,
        datetime.fromtimestamp(message.last_modified.seconds, UTC),
        message.content_type,
        {pair.key: pair.value for pair in message.metadata},
    )


def seconds(function: Callable[[T], object], items: Sequence[T]) -> float:
    """Return the processor time of calling a function with each item."""
    start = process_time()
    for item in items:
        function(item)
    return process_time() - start


def compare(
    ours: Callable[[T], object], protobufs: Callable[[T], object], items: Sequence[T]
) -> tuple[float, float]:
    """Return the median ratio of the two, taken in turns, and our calls a second."""
    taken = [(seconds(ours, items), seconds(protobufs, items)) for _ in range(ROUNDS)]
    ratio = median(one / other for one, other in taken)
    return ratio, len(items) / median(one for one, _ in taken)


def test_encoding_and_decoding_of_entries(benchmark: BenchmarkFixture, report: Report) -> None:
    entries = [uploaded(number) for number in range(COUNT)]
    values = [encode_entry(entry) for entry in entries]
    assert values == list(map(protobuf_encoded, entries))
    assert entries == list(map(protobuf_decoded, values)) == list(map(decode_entry, values))

    encoding = compare(encode_entry, protobuf_encoded, entries)
    decoding = compare(decode_entry, protobuf_decoded, values)
    repeat(benchmark, lambda: list(map(decode_entry, values)), rounds=1)
    for name, (ratio, rate) in (("encode_entry", encoding), ("decode_entry", decoding)):
        report.check(name, ratio, f"{rate:,.0f}/s of processor time")
        report.check(f"{name}, rate", rate, "processor time")


def test_columns_to_values(benchmark: BenchmarkFixture, report: Report) -> None:
    numbers = range(BULK)
    columns = Columns(
        [b"s3://source-bucket/raw/part-%08d.snappy.parquet" % number for number in numbers],
        [number * 7_919 % 100_000_000 + 1 for number in numbers],
        [b"%032x" % number for number in numbers],
        [1_700_000_000 + number * 31 % 1_000_000 for number in numbers],
    )
    taken = [seconds(encode_external, [columns]) for _ in range(ROUNDS)]
    repeat(benchmark, lambda: encode_external(columns), rounds=1)
    rate = BULK / median(taken)
    report.check("columns to values", rate, "processor time; a time of its own for each")
