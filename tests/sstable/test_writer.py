"""What the writer promises about blocks, properties and misuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import google_crc32c
import pytest

from lakecli.proto.varint import decode_canonical_varint
from lakecli.sstable.block import payload_of, payload_size
from lakecli.sstable.format import RECORD_TRAILER
from lakecli.sstable.writer import TableWriter, separator
from tests.sstable.tables import build, many_records, open_bytes
from tests.support.blocks import encode_pairs

if TYPE_CHECKING:
    from lakecli.sstable.reader import SSTable

SHORT = b"\x11" + b"\xff" * 7
WHOLE = b"\x01" + bytes(7)


def number(value: bytes) -> int:
    decoded, end = decode_canonical_varint(value, 0)
    assert end == len(value)
    return decoded


def entries_size(table: SSTable, at: int) -> int:
    payload = payload_of(table.stored_block(at))
    block = table.block(at)
    restarts = int.from_bytes(payload[-4:], "little")
    assert restarts == -(-len(block.keys) // 16)
    return len(payload) - 4 * restarts - 4


def test_blocks_end_where_the_keys_say() -> None:
    table = open_bytes(build(many_records(3000)))
    for at in range(table.block_count - 1):
        block = table.block(at)
        assert entries_size(table, at) >= 2048
        if entries_size(table, at) < 8192:
            assert google_crc32c.value(block.keys[-1]) & 7 == 0


def test_blocks_end_at_8_kib_where_no_key_says_so() -> None:
    rows = [row for row in many_records(1000) if google_crc32c.value(row[0]) & 7]
    table = open_bytes(build(rows))
    for at in range(table.block_count - 1):
        block = table.block(at)
        last_size = len(block.values[-1]) + len(block.keys[-1]) + 12
        assert entries_size(table, at) >= 8192 > entries_size(table, at) - last_size


def test_blocks_are_compressed_only_where_it_saves_an_eighth() -> None:
    from random import Random

    noise = Random(1)
    packed = open_bytes(build([(b"%04d" % at, b"text " * 40) for at in range(200)]))
    plain = open_bytes(build([(b"%04d" % at, noise.randbytes(200)) for at in range(200)]))
    assert {packed.stored_block(at)[-5] for at in range(packed.block_count)} == {1}
    assert {plain.stored_block(at)[-5] for at in range(plain.block_count)} == {0}
    for table in (packed, plain):
        stored = table.stored_block(0)
        assert payload_size(stored) == len(payload_of(stored))


def test_properties_describe_the_table() -> None:
    rows = many_records(4000)
    data = build(rows, type=b"ranges", writer=b"lakecli")
    table = open_bytes(data)
    found = table.properties
    assert found["type"] == b"ranges"
    assert found["writer"] == b"lakecli"
    assert found["count"] == b"4000"
    assert (found["min_key"], found["max_key"]) == (rows[0][0], rows[-1][0])
    assert 0.9 * len(data) < int(found["estimated_size_bytes"]) < 1.1 * len(data)
    assert number(found["rocksdb.num.entries"]) == 4000
    assert number(found["rocksdb.num.data.blocks"]) == table.block_count
    assert number(found["rocksdb.raw.key.size"]) == sum(len(key) + 8 for key, _ in rows)
    assert number(found["rocksdb.raw.value.size"]) == sum(len(value) for _, value in rows)
    blocks = [table.stored_block(at) for at in range(table.block_count)]
    assert number(found["rocksdb.data.size"]) == sum(map(len, blocks))
    assert found["rocksdb.comparator"] == b"leveldb.BytewiseComparator"
    assert data.startswith(b"".join(blocks))


def test_copied_blocks_keep_their_bytes_and_count() -> None:
    rows = many_records(1000)
    table = open_bytes(build(rows))
    writer = TableWriter(properties={})
    run = table.read_all()
    first = run.starts[1]
    writer.add_many(run.keys[:first], [b"changed"] * first)
    assert writer._keys  # too short by now to end where it ended before
    writer = TableWriter(properties={})
    writer.add_many([b""], [b"x" * 9000])
    assert not writer._keys
    writer.copy_run(run, first, len(run.keys))
    # The last block ends where nothing says so: it is encoded again, and not finished yet.
    stored = [table.stored_block(at) for at in range(1, table.block_count - 1)]
    assert bytes(writer._blocks[1]) == b"".join(stored)
    assert len(writer._blocks) == 2
    copy = open_bytes(writer.finish())
    assert list(copy.records()) == [(b"", b"x" * 9000), *rows[first:]]
    for at in range(1, table.block_count):
        assert copy.stored_block(at) == table.stored_block(at)


def test_records_are_encoded_up_to_where_a_block_of_both_tables_ends() -> None:
    rows = many_records(100)
    run = open_bytes(build(rows)).read_all()
    writer = TableWriter(properties={})
    writer.add_many([b""], [b""])
    assert writer._keys
    writer.copy_run(run, 0, len(run.keys))
    assert writer.finish() == build([(b"", b""), *rows])


def test_keys_that_do_not_ascend_are_refused_and_nothing_added() -> None:
    writer = TableWriter(properties={})
    writer.add_many([b"b", b"d"], [b"1", b"2"])
    run = open_bytes(build([(b"c", b"")])).read_all()
    refusals = [
        ([b"d"], [b""]),
        ([b""], [b""]),
        ([b"e", b"e"], [b"", b""]),
        ([b"f", b"e"], [b"", b""]),
    ]
    for keys, values in refusals:
        with pytest.raises(ValueError, match="ascending"):
            writer.add_many(keys, values)
    for key in (b"d", b""):
        with pytest.raises(ValueError, match="ascending"):
            writer.add_many([key], [b""])
    with pytest.raises(ValueError, match="2 keys and 1 values"):
        writer.add_many([b"x", b"y"], [b""])
    with pytest.raises(ValueError, match="ascending"):
        writer.copy_run(run, 0, len(run.keys))
    writer.add_many([], [])
    assert (writer.count, writer.min_key, writer.max_key) == (2, b"b", b"d")
    assert list(open_bytes(writer.finish()).records()) == [(b"b", b"1"), (b"d", b"2")]


def test_the_first_key_may_be_empty_but_not_twice() -> None:
    writer = TableWriter(properties={})
    writer.add_many([b""], [b"1"])
    with pytest.raises(ValueError, match="ascending"):
        writer.add_many([b""], [b"2"])
    assert open_bytes(writer.finish()).get(b"") == b"1"


@pytest.mark.parametrize("name", ["rocksdb.num.entries", "count", "min_key", "max_key"])
def test_properties_of_the_format_are_not_the_callers(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        TableWriter(properties={name: b""})


@pytest.mark.parametrize(
    ("last", "following", "expected"),
    [
        (b"abc", b"abz", b"abd" + SHORT),
        (b"abc", b"abd", b"abc" + WHOLE),
        (b"abcx", b"abd", b"abcy" + SHORT),
        (b"abc\xff\xff", b"abd", b"abc\xff\xff" + WHOLE),
        (b"abc\xff\x01", b"abd", b"abc\xff\x02" + SHORT),
        (b"abc", b"abcd", b"abc" + WHOLE),
        (b"a", b"c", b"b" + SHORT),
        (b"a", b"b", b"a" + WHOLE),
        (b"ax", b"bx", b"b" + SHORT),
        (b"", b"a", WHOLE),
        (b"a/b/c", None, b"b" + SHORT),
        (b"\xff\xffa", None, b"\xff\xffb" + SHORT),
        (b"\xff\xff", None, b"\xff\xff" + WHOLE),
        (b"", None, WHOLE),
    ],
)
def test_index_keys_are_as_short_as_they_can_be(
    last: bytes, following: bytes | None, expected: bytes
) -> None:
    assert separator(last, following) == expected


def test_a_record_larger_than_any_block_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(b"a", bytes(10_000))]
    size = len(payload_of(open_bytes(build(rows)).stored_block(0)))
    monkeypatch.setattr("lakecli.sstable.format.MAX_BLOCK_SIZE", size)
    assert build(rows)
    monkeypatch.setattr("lakecli.sstable.format.MAX_BLOCK_SIZE", size - 1)
    with pytest.raises(ValueError, match="more than a block can hold"):
        build(rows)


def rows_of(size: int, *, is_cut: bool) -> list[tuple[bytes, bytes]]:
    """Return records of so many bytes, of whose keys at most the last one says to end a block."""
    keys = [key for key, _ in many_records(2000) if google_crc32c.value(key) & 7]
    last = next(
        b"z%d" % at for at in range(99) if (not google_crc32c.value(b"z%d" % at) & 7) == is_cut
    )
    rows = [(key, b"v" * 40) for key in keys[: size // 130]] + [(last, b"v" * 20)]
    table = open_bytes(build(rows))
    missing = size - sum(entries_size(table, at) for at in range(table.block_count))
    at, each = divmod(missing, len(rows) - 1)
    assert 0 <= at < 80
    longer = [
        (key, value + b"v" * (at + (number < each))) for number, (key, value) in enumerate(rows)
    ]
    return [*longer[:-1], rows[-1]]


@pytest.mark.parametrize(
    ("size", "is_cut", "ends"),
    [
        *((2_040, True, False), (2_046, True, False), (2_047, True, False)),
        *((2_048, True, True), (2_048, False, False), (2_049, True, True)),
        *((8_191, False, False), (8_192, False, True)),
    ],
)
def test_where_a_block_ends_to_the_byte(size: int, *, is_cut: bool, ends: bool) -> None:
    rows = rows_of(size, is_cut=is_cut)
    table = open_bytes(build(rows))
    assert (table.block_count, table.count, entries_size(table, 0)) == (1, len(rows), size)
    run = table.read_all()
    writer, copy = TableWriter(properties={}), TableWriter(properties={})
    writer.add_many(run.keys, run.values)
    copy.copy_run(run, 0, len(run.keys))
    for each in (writer, copy):
        assert (not each._keys) == ends
    assert [isinstance(each, memoryview) for each in copy._blocks] == [True] * ends


def test_keys_share_what_they_begin_with_whatever_their_lengths() -> None:
    keys = [b"a", b"a/b", b"a/b/c/d", b"a/b/e", b"a/f", b"aa", b"b/long/path/1", b"b/long/path/2"]
    keys += [b"b/m", b"b/mm/2", b"b/n", b"c", b"c/%s/a" % (b"d" * 200), b"c/%s/b" % (b"d" * 200)]
    keys += [b"e%d" % number for number in range(10, 30)]
    table = open_bytes(build([(key, b"") for key in keys]))
    pairs = [(key + RECORD_TRAILER, b"") for key in keys]
    assert payload_of(table.stored_block(0)) == encode_pairs(pairs, restart_interval=16)
