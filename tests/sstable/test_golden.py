"""The format does not drift: files of earlier versions read, and are written as they were.

``data/v1.sst`` was written by the first version and is never written again.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from lakecli.sstable.block import decode_records, payload_of, seal
from lakecli.sstable.format import FOOTER_SIZE
from tests.sstable.tables import Record, build, open_bytes

V1 = Path(__file__).parent / "data" / "v1.sst"


def golden_records() -> list[Record]:
    """Records that reach every form an entry, a block and an index key can take."""
    rows = {
        b"": b"",
        b"a": b"one byte",
        b"a\x00": b"right after it",
        b"a\x01\x00\x00": b"looks like a trailer",
        b"long/" + b"k" * 1019: b"the longest path",
        b"long/" + b"k" * 1018 + b"l": b"and its neighbour",
        b"\xff\xff": b"nothing is greater",
        b"large": b"".join(sha256(b"%d" % at).digest() for at in range(300)),
    }
    for at in range(160):
        path = b"tables/events/day=%02d/part-%04d.parquet" % (at // 20, at)
        rows[path] = sha256(path).digest() * (1 + at % 4)
    return sorted(rows.items())


def test_a_file_of_the_first_version_reads() -> None:
    data = V1.read_bytes()
    table = open_bytes(data)
    assert list(table.records()) == golden_records()
    assert table.count == 168
    assert table.block_count == 8
    assert table.properties["writer"] == b"lakecli"


def test_the_first_version_is_written_byte_by_byte() -> None:
    written = build(golden_records(), type=b"ranges", writer=b"lakecli")
    assert written == V1.read_bytes()
    assert (
        sha256(written).hexdigest()
        == "0b85e4b75854e00f5858d325b083ef79e78ce2f79791315da58feaf0f72abe06"
    )


def test_a_two_level_index_is_written_as_ever() -> None:
    rows = [(b"year=2024/" * 4 + b"%05d" % (at * 7), b"%d" % at * 40) for at in range(3000)]
    written = build(rows, type=b"ranges")
    assert open_bytes(written).properties["rocksdb.index.partitions"] == b"\x03"
    assert (
        sha256(written).hexdigest()
        == "7c063b16d1f3508975f1e24cb8959e585d9517aa17a295cc33059b143a2b8a45"
    )


def test_one_record_byte_by_byte() -> None:
    """A record, its block, its index and the footer, spelled out."""
    written = build([(b"key", b"value")])
    record = b"\x00\x0b\x05" + b"key" + b"\x01\0\0\0\0\0\0\0" + b"value"
    block = record + b"\0\0\0\0" + b"\1\0\0\0"
    assert written.startswith(block + b"\0" + bytes.fromhex("3693565c"))
    index = b"\x00\x09\x02" + b"l" + b"\x11\xff\xff\xff\xff\xff\xff\xff" + b"\x00\x1b"
    assert written[32:].startswith(index + b"\0\0\0\0" + b"\1\0\0\0" + b"\0")
    footer = written[-FOOTER_SIZE:]
    assert footer[0] == 1
    assert footer[4:6] == b"\x20\x16"  # the handle of the index, after that of the metaindex
    assert footer[6:] == bytes(35) + b"\2\0\0\0" + bytes.fromhex("f7cff485b741e288")


def test_keys_may_share_into_the_trailer_before_them() -> None:
    """RocksDB and Pebble compare keys with their trailers; our writer does not, but reads it."""
    trailer = b"\x01\0\0\0\0\0\0\0"
    entries = b"\x00\x09\x01a" + trailer + b"1" + b"\x03\x09\x01b" + trailer + b"2"
    payload = entries + bytes(4) + b"\1\0\0\0"
    keys, values = decode_records(payload)
    assert keys == [b"a", b"a\x01\0b"]
    assert values == [b"1", b"2"]
    assert payload_of(seal(payload, compress=False)) == payload
