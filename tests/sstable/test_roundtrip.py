"""What is written reads back, whatever the keys and values and however they were added."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecli.committed.tree_store import PathSource
from lakecli.proto.varint import Malformed
from lakecli.sstable.block import entries_end, payload_of, payload_size, seal
from lakecli.sstable.directory import Directory
from lakecli.sstable.reader import BytesSource, SSTable
from lakecli.sstable.writer import TableWriter
from tests.sstable.tables import batches, build, keys, many_records, open_bytes, records

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sstable.tables import Record

pytestmark = pytest.mark.usefixtures("either_core")


@given(rows=records(), others=st.lists(keys(), max_size=10))
def test_every_record_reads_back(rows: list[Record], others: list[bytes]) -> None:
    table = open_bytes(build(rows, type=b"ranges"))
    assert list(table.records()) == rows
    assert table.count == len(rows)
    held = dict(rows)
    for key in [*held, *others]:
        assert table.get(key) == held.get(key)


@pytest.mark.parametrize("size", [100, 128, 16_383, 16_384, 20_000])
@pytest.mark.parametrize("shared", [127, 128, 129, 300])
def test_long_shared_prefixes_and_values_of_every_width_read_back(shared: int, size: int) -> None:
    prefix = b"d" * shared
    rows = [(prefix + b"%03d" % number, b"\x01" * size) for number in range(40)]
    table = open_bytes(build(rows, type=b"ranges"))
    assert list(table.records()) == rows
    assert [table.get(key) for key, _ in rows] == [value for _, value in rows]


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("payload", [b"a" * 10_000, bytes(range(256)), b"a" * 127, b"a" * 128])
def test_the_size_of_a_payload_is_known_before_it_is_decoded(
    payload: bytes, *, compress: bool
) -> None:
    stored = seal(payload, compress=compress)
    assert payload_size(stored) == len(payload) == len(payload_of(stored))


@pytest.mark.parametrize(("size", "count"), [(11, 2), (12, 3), (10, 2), (12, 0), (8, 1 << 31)])
def test_restart_points_that_do_not_fit_are_refused(size: int, count: int) -> None:
    with pytest.raises(Malformed, match="restart points"):
        entries_end(bytes(size - 4) + count.to_bytes(4, "little"))


@settings(max_examples=15, deadline=None)
@given(data=st.data(), seed=st.integers(0, 5), short=st.booleans())
def test_every_way_to_add_gives_the_same_bytes(
    data: st.DataObject, seed: int, *, short: bool
) -> None:
    rows = many_records(400, seed=seed)
    if short:
        rows = [(key, value[:20]) for key, value in rows]
    expected = build(rows, type=b"ranges")
    table = open_bytes(expected)

    one_by_one = TableWriter(properties={"type": b"ranges"})
    for key, value in rows:
        one_by_one.add_many([key], [value])
    assert one_by_one.finish() == expected

    in_batches = TableWriter(properties={"type": b"ranges"})
    for batch in batches(rows, lambda most: data.draw(st.integers(1, min(most, 150)))):
        if data.draw(st.booleans()):
            in_batches.add_many([key for key, _ in batch], [value for _, value in batch])
        else:
            for key, value in batch:
                in_batches.add_many([key], [value])
    assert in_batches.finish() == expected

    copied = TableWriter(properties={"type": b"ranges"})
    run = table.read_all()
    stops = data.draw(st.sets(st.integers(1, 399) | st.sampled_from(run.starts[1:])))
    for start, stop in pairwise(sorted({0, 400} | stops)):
        if data.draw(st.booleans()):
            copied.copy_run(run, start, stop)
        else:
            copied.add_many(run.keys[start:stop], run.values[start:stop])
    assert copied.finish() == expected
    assert (copied.count, copied.min_key, copied.max_key) == (400, rows[0][0], rows[-1][0])


@given(data=st.data())
def test_a_changed_record_leaves_the_blocks_after_it_alone(data: st.DataObject) -> None:
    rows = many_records(600)
    before = open_bytes(build(rows))
    place = data.draw(st.integers(0, len(rows) - 1))
    if data.draw(st.booleans()):
        changed = rows[:place] + rows[place + 1 :]
    else:
        changed = [*rows[:place], (rows[place][0], b"new"), *rows[place + 1 :]]
    after = open_bytes(build(changed))
    old = {before.stored_block(number) for number in range(before.block_count)}
    new = [after.stored_block(number) for number in range(after.block_count)]
    assert sum(stored not in old for stored in new) <= 4


def test_a_large_table_has_a_two_level_index() -> None:
    rows = many_records(5000)
    data = build(rows, type=b"ranges", writer=b"lakecli")
    table = open_bytes(data)
    assert table.properties["rocksdb.block.based.table.index.type"] == b"\2\0\0\0"
    assert table.properties["rocksdb.index.partitions"][0] > 2
    assert table.block_count > 200
    assert list(table.records()) == rows
    for key, value in rows[::50]:
        assert table.get(key) == value
        assert table.get(key + b"\0") is None
        assert table.get(key[:-1]) is None


def test_an_empty_table_reads_back_empty() -> None:
    table = open_bytes(build([], type=b"ranges"))
    assert list(table.records()) == []
    assert (table.count, table.block_count) == (0, 1)
    assert table.get(b"") is None
    assert table.get(b"a") is None
    assert table.block(0).keys == []
    assert table.properties["min_key"] == table.properties["max_key"] == b""


def test_equal_blocks_of_two_tables_are_counted() -> None:
    """Until the first that differs, from any block of one table and of the other on."""
    rows = many_records(3000)
    changed = [(key, value[:-1] if at == 2000 else value) for at, (key, value) in enumerate(rows)]
    table, other = open_bytes(build(rows)), open_bytes(build(changed))

    def expected(number: int, at: int) -> int:
        count = 0
        while max(number, at) + count < min(table.block_count, other.block_count) and (
            table.stored_block(number + count) == other.stored_block(at + count)
        ):
            count += 1
        return count

    for number in range(table.block_count):
        assert table.count_equal_blocks(number, other, number) == expected(number, number)
        assert table.count_equal_blocks(number, table, number) == table.block_count - number
    assert table.count_equal_blocks(1, other, 2) == 0
    assert 10 < table.count_equal_blocks(0, other, 0) < table.block_count - 10


def test_what_is_between_blocks_is_no_block() -> None:
    """Of two tables with the same bytes, one of which has its second block further on."""
    tables = []
    for offsets in ([0, 4], [0, 8]):
        table = object.__new__(SSTable)
        table.block_count = 2
        table.offsets, table._sizes = offsets, [4, 4]
        table._read = BytesSource("", b"111122223333").read
        tables.append(table)
    one, other = tables
    assert one.count_equal_blocks(0, other, 0) == other.count_equal_blocks(0, one, 0) == 1


def test_a_file_reads_like_its_bytes(tmp_path: Path) -> None:
    rows = many_records(1500)
    data = build(rows)
    path = tmp_path / "range"
    path.write_bytes(data)
    source = PathSource("range", str(path))
    table = SSTable(source)
    assert list(table.records()) == rows
    assert table.size == len(data)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        table.get(rows[0][0])


class CountingSource(BytesSource):
    """Remembers what was read."""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(name, data)
        self.reads: list[int] = []

    def read(self, offset: int, length: int) -> bytes:
        self.reads.append(length)
        return super().read(offset, length)

    def read_tail(self, length: int) -> tuple[bytes, int]:
        self.reads.append(length)
        return super().read_tail(length)


@pytest.mark.parametrize(("tail_size", "reads"), [(64 << 10, 1), (4 << 10, 2)])
def test_a_whole_index_takes_one_or_two_reads(tail_size: int, reads: int) -> None:
    source = CountingSource("range", build(many_records(5000)))
    directory = Directory(source, tail_size=tail_size)
    assert len(source.reads) == 1
    directory.tail.hold(directory.data_size)
    assert len(directory.index().keys) == directory.block_count
    assert len(source.reads) == reads
    assert sum(source.reads) <= max(tail_size, 30 << 10)
    table = SSTable(source)
    source.reads.clear()
    assert table.get(many_records(5000)[1234][0]) is not None
    assert len(source.reads) == 2  # the partition of the index, and the block
    assert sum(source.reads) < 20_000


def test_blocks_that_are_read_at_once_are_one_read_of_their_bytes() -> None:
    source = CountingSource("range", build(many_records(5000)))
    table = SSTable(source)
    single = [table.block(number) for number in range(3, 7)]
    sizes, source.reads = source.reads[-4:], []
    assert [each.keys for each in table.blocks([3, 6])] == [single[0].keys, single[3].keys]
    assert source.reads == [sum(sizes)]


def test_find_block_leads_to_the_first_key_not_less() -> None:
    rows = many_records(500)
    table = open_bytes(build(rows))
    blocks = [table.block(number) for number in range(table.block_count)]
    assert [key for block in blocks for key in block.keys] == [key for key, _ in rows]
    for number, block in enumerate(blocks):
        assert {table.find_block(key) for key in block.keys} == {number}
    assert table.find_block(b"") == 0
    assert table.find_block(b"\xff") == table.block_count


def test_many_records_are_as_large_as_they_say() -> None:
    rows = many_records(1000)
    assert sum(len(key) for key, _ in rows) / len(rows) == pytest.approx(90, abs=5)
    assert sum(len(value) for _, value in rows) / len(rows) == pytest.approx(150, abs=5)
