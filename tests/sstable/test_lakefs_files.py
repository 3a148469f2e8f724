"""The files that lakeFS itself wrote are read completely, and written as lakeFS writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.proto.varint import decode_canonical_varint, encode_varint
from lakecli.sstable.block import decode_records, encode_restarts, payload_of, seal
from lakecli.sstable.reader import BytesSource, SSTable
from lakecli.sstable.writer import TableWriter
from tests.sstable.tables import Record, build, open_bytes
from tests.support.lakefs_files import DIRECTORY

if TYPE_CHECKING:
    from pathlib import Path

FILES = ["range.sst", "metarange.sst", "ok1.sst", "56569996.sst"]
NUMBERS = {
    "range.sst": {
        "rocksdb.num.entries": 2,
        "rocksdb.num.data.blocks": 1,
        "rocksdb.data.size": 288,
        "rocksdb.index.size": 28,
        "rocksdb.raw.key.size": 33,
        "rocksdb.raw.value.size": 242,
    },
    "metarange.sst": {"rocksdb.num.entries": 1, "rocksdb.num.data.blocks": 1},
    "ok1.sst": {"rocksdb.num.entries": 105, "rocksdb.num.data.blocks": 4},
    "56569996.sst": {
        "rocksdb.num.entries": 13868,
        "rocksdb.num.data.blocks": 1306,
        "rocksdb.data.size": 1730479,
        "rocksdb.index.size": 127563,
        "rocksdb.index.partitions": 31,
        "rocksdb.top-level.index.size": 3174,
        "rocksdb.raw.key.size": 1401201,
        "rocksdb.raw.value.size": 4408028,
    },
}
TEXTS = {
    "range.sst": {
        "type": b"ranges",
        "count": b"2",
        "estimated_size_bytes": b"287",
        "min_key": b"a/b/c/no",
        "max_key": b"a/b/c/yes",
    },
    "metarange.sst": {"type": b"metaranges", "count": b"1", "max_key": b"a/b/c/yes"},
    "ok1.sst": {"type": b"ranges", "count": b"105"},  # its min_key is an old bug's
    "56569996.sst": {
        "type": b"ranges",
        "count": b"13868",
        "estimated_size_bytes": b"1735128",
        "min_key": b"common-crawl-hive-analysis/CC-MAIN-2014-23/part-m-01364.gz",
        "max_key": b"phishing-domains/domains.csv",
        "rocksdb.block.based.table.index.type": b"\2\0\0\0",
    },
}


@pytest.fixture(scope="session")
def directory() -> Path:
    return DIRECTORY


def open_file(path: Path) -> SSTable:
    return SSTable(BytesSource(path.name, path.read_bytes()))


def read(path: Path) -> tuple[list[Record], dict[str, bytes]]:
    table = open_file(path)
    return list(table.records()), dict(table.properties)


@pytest.mark.parametrize("name", FILES)
def test_all_records_and_properties_read(directory: Path, name: str) -> None:
    records, properties = read(directory / name)
    assert len(records) == NUMBERS[name]["rocksdb.num.entries"]
    for number, expected in NUMBERS[name].items():
        assert decode_canonical_varint(properties[number], 0)[0] == expected
    for text, value in TEXTS[name].items():
        assert properties[text] == value
    assert records[-1][0] == properties["max_key"]
    table = open_file(directory / name)
    assert table.block_count == NUMBERS[name]["rocksdb.num.data.blocks"]
    for key, value in records[:: len(records) // 500 + 1]:
        assert table.get(key) == value
        assert table.get(key + b"\0") is None


@pytest.mark.parametrize("name", FILES)
def test_the_records_survive_our_writer(directory: Path, name: str) -> None:
    records, properties = read(directory / name)
    table = open_bytes(build(records, type=properties["type"], writer=b"lakecli"))
    assert list(table.records()) == records
    for number in ("num.entries", "raw.key.size", "raw.value.size"):
        assert table.properties[f"rocksdb.{number}"] == properties[f"rocksdb.{number}"]
    fixed = [name for name in properties if properties[name] == table.properties.get(name)]
    assert len(fixed) >= 26  # all but counts of blocks, sizes, and what a bug wrote


@pytest.mark.parametrize("name", ["range.sst", "metarange.sst"])
def test_a_table_of_one_block_is_written_byte_by_byte_as_lakefs_does(
    directory: Path, name: str
) -> None:
    records, properties = read(directory / name)
    assert build(records, type=properties["type"]) == (directory / name).read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_every_block_is_compressed_and_sealed_as_lakefs_does(directory: Path, name: str) -> None:
    """Pebble cuts its blocks elsewhere, so they are compared one by one."""
    table = open_file(directory / name)
    for number in range(table.block_count):
        block, stored = table.block(number), table.stored_block(number)
        assert seal(payload_of(stored), compress=True) == stored
        assert decode_records(encode_block(block.keys, block.values)) == (block.keys, block.values)
        assert encode_block(block.keys, block.values) == payload_of(stored)


def shared_size(left: bytes, right: bytes) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(left), len(right)))


def encode_block(keys: list[bytes], values: list[bytes]) -> bytes:
    """Encode one block plainly, as section 1.2 of the format reads."""
    out = b""
    restarts = []
    last = b""
    for at, (key, value) in enumerate(zip(keys, values, strict=True)):
        shared = 0 if at % 16 == 0 else shared_size(last, key)
        if at % 16 == 0:
            restarts.append(len(out))
        sizes = (shared, len(key) - shared + 8, len(value))
        out += b"".join(map(encode_varint, sizes)) + key[shared:] + b"\1" + bytes(7) + value
        last = key
    return out + encode_restarts(restarts)


def test_lakefs_blocks_can_be_copied_or_taken_apart(directory: Path) -> None:
    table = open_file(directory / "56569996.sst")
    writer = TableWriter(properties={"type": b"ranges"})
    for run in table.runs():
        writer.copy_run(run, 0, len(run.keys))
    assert list(open_bytes(writer.finish()).records()) == list(table.records())
