"""Damaged and hostile files end in one clear error, in bounded time and memory."""

from __future__ import annotations

import re
import time
import tracemalloc
from contextlib import contextmanager
from typing import TYPE_CHECKING

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecli.errors import ErrorKind
from lakecli.proto.varint import Malformed, decode_canonical_varint, encode_varint
from lakecli.sstable.block import encode_restarts, find_value, seal
from lakecli.sstable.format import FOOTER_SIZE
from lakecli.sstable.reader import (
    BytesSource,
    CorruptTable,
    SSTable,
    UnknownTableFormat,
    decode_block,
)
from lakecli.sstable.writer import encode_handle, encode_properties
from tests.sstable.tables import build, many_records, open_bytes
from tests.support.blocks import encode_pairs, stored_as

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("either_core")

ROWS = many_records(700)
SINGLE = build(ROWS[:90], type=b"ranges")
DOUBLE = build([(b"deep/" * 30 + key, value) for key, value in ROWS], type=b"ranges")
EMPTY = build([])
FILES = {"single": SINGLE, "double": DOUBLE, "empty": EMPTY}
TRAILER = b"\1" + bytes(7)


def read_all(data: bytes) -> SSTable:
    """Use every way to read a table."""
    table = open_bytes(data, "the file")
    try:
        rows = [row for run in table.runs() for row in zip(run.keys, run.values, strict=True)]
    except CorruptTable as error:
        with pytest.raises(CorruptTable, match=re.escape(error.message)):
            list(table.records())
        raise
    assert list(table.records()) == rows
    for key in (b"", ROWS[40][0], b"deep/" * 30 + ROWS[300][0], b"\xff"):
        table.get(key)
        table.find_block(key)
    for number in range(table.block_count):
        table.stored_block(number)
    return table


@contextmanager
def bounded(*, seconds: float = 15, memory: int = 300 << 20) -> Iterator[None]:
    """Fail if what happens inside takes too long or too much."""
    tracemalloc.start()
    started = time.process_time()
    try:
        yield
    finally:
        elapsed = time.process_time() - started
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert elapsed < seconds
    assert peak < memory


def handles_of(data: bytes) -> dict[str, tuple[int, int]]:
    """Return where the blocks of a file lie, trailers excluded."""
    table = open_bytes(data)
    footer = data[-FOOTER_SIZE:]
    metaindex_at, position = decode_canonical_varint(footer, 1)
    metaindex_size, position = decode_canonical_varint(footer, position)
    index_at, position = decode_canonical_varint(footer, position)
    index_size, position = decode_canonical_varint(footer, position)
    data_size, _ = decode_canonical_varint(table.properties["rocksdb.data.size"], 0)
    properties_at = index_at + index_size + 5
    first = table.stored_block(0)
    handles = {
        "data": (0, len(first) - 5),
        "index": (index_at, index_size),
        "properties": (properties_at, metaindex_at - properties_at - 5),
        "metaindex": (metaindex_at, metaindex_size),
    }
    if data_size < index_at:
        handles["partitions"] = (data_size, index_at - data_size - 5)
    return handles


def replaced(data: bytes, block: str, payload: bytes, *, kind: int = 0) -> bytes:
    """Put a payload where a block of the same size was, with a checksum that fits."""
    at, size = handles_of(data)[block]
    assert len(payload) == size
    stored = stored_as(kind, payload)
    return data[:at] + stored + data[at + len(stored) :]


def assemble(
    data: bytes,
    entries: list[tuple[bytes, bytes]],
    *,
    partitions: bytes = b"",
    numbers: dict[str, int] | None = None,
) -> bytes:
    """Make a whole file of given data blocks and a given index, every checksum right."""
    index = seal(encode_pairs(entries, restart_interval=1), compress=True)
    return finish(data, partitions, index, numbers or {})


def finish(data: bytes, partitions: bytes, index: bytes, numbers: dict[str, int]) -> bytes:
    numbers = {
        "rocksdb.num.entries": 1,
        "rocksdb.num.data.blocks": 1,
        "rocksdb.data.size": len(data),
        **({"rocksdb.index.partitions": 1} if partitions else {}),
        **numbers,
    }
    at = len(data) + len(partitions)
    index_handle = encode_handle(at, len(index) - 5)
    properties = seal(encode_properties({}, numbers), compress=False)
    at += len(index)
    pairs = [(b"rocksdb.properties", encode_handle(at, len(properties) - 5))]
    metaindex = seal(encode_pairs(pairs, restart_interval=1), compress=False)
    at += len(properties)
    handles = b"\1" + encode_handle(at, len(metaindex) - 5) + index_handle
    footer = handles.ljust(41, b"\0") + b"\2\0\0\0" + bytes.fromhex("f7cff485b741e288")
    return data + partitions + index + properties + metaindex + footer


def entry(shared: int, key: bytes, value: bytes) -> bytes:
    sizes = (shared, len(key), len(value))
    return b"".join(map(encode_varint, sizes)) + key + value


GOOD_BLOCK = seal(entry(0, b"k" + TRAILER, b"v") + encode_restarts([0]), compress=False)


def test_data_that_is_larger_than_the_file_is_refused() -> None:
    """Else what its index takes in memory would be counted as less than nothing."""
    data = assemble(
        GOOD_BLOCK,
        [(b"k" + TRAILER, encode_handle(0, len(GOOD_BLOCK) - 5))],
        numbers={"rocksdb.data.size": 1 << 60},
    )
    with pytest.raises(CorruptTable, match=r"a property rocksdb\.data\.size of the wrong size"):
        open_bytes(data)


def test_a_file_made_by_hand_reads() -> None:
    """What the tests below make is sound but for what they break."""
    index = [(b"k" + TRAILER, encode_handle(0, len(GOOD_BLOCK) - 5))]
    assert list(open_bytes(assemble(GOOD_BLOCK, index)).records()) == [(b"k", b"v")]
    level = seal(encode_pairs(index, restart_interval=1), compress=False)
    top = [(b"k" + TRAILER, encode_handle(len(GOOD_BLOCK), len(level) - 5))]
    assert open_bytes(assemble(GOOD_BLOCK, top, partitions=level)).get(b"k") == b"v"


@pytest.mark.parametrize("name", FILES)
def test_any_byte_that_flips_is_noticed(name: str) -> None:
    data = FILES[name]
    for position in range(0, len(data), len(data) // 1200 + 1):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        with pytest.raises(CorruptTable, match="the file") as caught:
            read_all(bytes(damaged))
        assert 0 <= caught.value.offset <= position


@pytest.mark.parametrize("name", FILES)
def test_any_bit_of_the_footer_that_flips_is_noticed(name: str) -> None:
    data = FILES[name]
    for bit in range(FOOTER_SIZE * 8):
        damaged = bytearray(data)
        damaged[len(data) - 1 - bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptTable, match="the file"):
            read_all(bytes(damaged))


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_anywhere_is_noticed(name: str) -> None:
    data = FILES[name]
    for length in [*range(0, len(data), len(data) // 300), len(data) - 1]:
        with pytest.raises(CorruptTable, match="the file"):
            read_all(data[:length])


@pytest.mark.parametrize("name", FILES)
def test_a_zeroed_stretch_is_noticed(name: str) -> None:
    data = FILES[name]
    step = max(1, len(data) // 100)
    for start in range(0, len(data) - 64, step):
        damaged = data[:start] + bytes(64) + data[start + 64 :]
        with pytest.raises(CorruptTable, match="the file"):
            read_all(damaged)


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(sorted(FILES)),
    edits=st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=30)), max_size=5),
    cut=st.floats(0, 1),
    grown=st.binary(max_size=80),
)
def test_random_damage_raises_nothing_else(
    name: str, edits: list[tuple[float, bytes]], cut: float, grown: bytes
) -> None:
    data = bytearray(FILES[name])
    for place, change in edits:
        at = int(place * len(data))
        data[at : at + len(change)] = change
    damaged = bytes(data[: int(cut * 1.2 * len(data))]) + grown
    try:
        read_all(damaged)
    except CorruptTable as error:
        assert error.kind is ErrorKind.INTEGRITY  # noqa: PT017 - reading well is fine too
    else:
        assert damaged == FILES[name]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_lies_with_good_checksums_raise_nothing_else(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(FILES)))
    file = FILES[name]
    handles = handles_of(file)
    block = data.draw(st.sampled_from(sorted(handles)))
    at, size = handles[block]
    payload = bytearray(file[at : at + size])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, size - 1))
        payload[place] = data.draw(
            st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]) | st.integers(0, 255)
        )
    if data.draw(st.booleans()):
        payload[-4:] = data.draw(st.binary(min_size=4, max_size=4))  # the number of restarts
    kind = data.draw(st.sampled_from([0, 1, file[at + size]]))
    lying = replaced(file, block, bytes(payload), kind=kind)
    try:
        read_all(lying)
    except CorruptTable as error:
        assert "the file" in error.message  # noqa: PT017 - reading a harmless lie is fine too


@settings(max_examples=300, deadline=None)
@given(
    payload=st.binary(max_size=200) | st.binary(max_size=60).map(lambda b: b + b"\0\0\0\0\1\0\0\0")
)
def test_any_payload_decodes_or_is_refused(payload: bytes) -> None:
    try:
        block = decode_block(seal(payload, compress=False))
    except Malformed:
        return
    assert block.keys == sorted(set(block.keys))
    for key, value in zip(block.keys, block.values, strict=True):
        assert find_value(payload, key) == value


@settings(max_examples=200, deadline=None)
@given(payload=st.binary(max_size=60), kind=st.sampled_from([0, 1, 1, 1, 255]))
def test_any_stored_block_decodes_or_is_refused(payload: bytes, kind: int) -> None:
    try:
        block = decode_block(stored_as(kind, payload))
    except Malformed:
        return
    assert block.keys == sorted(set(block.keys))  # an empty block may come about


def block_with(*entries: bytes, restarts: list[int] | None = None) -> bytes:
    return seal(b"".join(entries) + encode_restarts(restarts or [0]), compress=False)


@pytest.mark.parametrize(
    ("stored", "what"),
    [
        (block_with(entry(0, b"b" + TRAILER, b""), entry(0, b"a" + TRAILER, b"")), "ascending"),
        (block_with(entry(0, b"b" + TRAILER, b""), entry(0, b"b" + TRAILER, b"")), "ascending"),
        (block_with(entry(0, b"b" + bytes(8), b"")), "plain record"),
        (block_with(entry(0, b"b\2" + bytes(7), b"")), "plain record"),
        (block_with(entry(0, b"short", b"")), "plain record"),
        (block_with(entry(3, b"b" + TRAILER, b"")), "shares more"),
        (block_with(entry(200, b"b" + TRAILER, b"")), "shares more"),
        (block_with(b"\0\x09\xff\xff\xff\x7fb" + TRAILER), "restart points begin"),
        (block_with(b"\0\xff\xff\xff\x7f\0b" + TRAILER), "plain record"),
        (block_with(b"\x80" * 30), "does not end"),
        (block_with(b"\xff" * 9 + b"\x7f\x09\0b" + TRAILER), "does not end"),
        (seal(b"\0\0\0\0\xff\xff\xff\xff", compress=False), "claims 4294967295 restart"),
        (seal(b"\0\0\0\0\0\0\0\0", compress=False), "claims 0 restart"),
        (seal(b"\0\0\0", compress=False), "claims 0 restart"),
        (stored_as(7, b"12345678"), "unknown type 7"),
        (stored_as(1, b"\x08not snappy"), "not Snappy"),
        (stored_as(1, b"\xff\xff\xff\xff\x0f" + b"\0" * 90), "claims 4294967295 bytes"),
        (stored_as(1, encode_varint(1 << 62) + b"\0" * 90), "claims 4611686018427387904"),
        (b"1234", "too short"),
    ],
)
def test_each_lie_in_a_data_block_is_named(stored: bytes, what: str) -> None:
    with bounded(), pytest.raises(Malformed, match=what):
        decode_block(stored)


@pytest.mark.parametrize(
    ("entries", "numbers", "what"),
    [
        ([], {}, "without entries"),
        ([(b"k" + TRAILER, b"")], {}, "not a key and a handle"),
        ([(b"k" + TRAILER, b"\0\x80")], {}, "not a key and a handle"),
        ([(b"k" + TRAILER, b"\0\x16\0")], {}, "not a key and a handle"),
        ([(b"short", encode_handle(0, 22))], {}, "not a key and a handle"),
        ([(b"k" + TRAILER, encode_handle(0, 1 << 40))], {}, "points at offset 0, 1099511627776"),
        ([(b"k" + TRAILER, encode_handle(1 << 40, 1))], {}, "points at offset 1099511627776"),
        (
            [(b"k" + TRAILER, encode_handle(0, 1)), (b"l" + TRAILER, encode_handle(0, 1))],
            {},
            "points at offset 0",
        ),
        (
            [(b"l" + TRAILER, encode_handle(0, 3)), (b"k" + TRAILER, encode_handle(8, 3))],
            {"rocksdb.num.data.blocks": 2},
            "ascending",
        ),
        (
            [(b"k" + TRAILER, encode_handle(0, 19))],
            {"rocksdb.num.data.blocks": 3},
            "1 blocks, not 3",
        ),
        ([(b"k" + TRAILER, encode_handle(0, 19))], {"rocksdb.data.size": 3}, "more than 0"),
    ],
)
def test_each_lie_in_an_index_is_named(
    entries: list[tuple[bytes, bytes]], numbers: dict[str, int], what: str
) -> None:
    with bounded(), pytest.raises(CorruptTable, match=what):
        open_bytes(assemble(GOOD_BLOCK, entries, numbers=numbers))


def test_a_table_that_claims_other_records_is_noticed() -> None:
    index = [(b"k" + TRAILER, encode_handle(0, len(GOOD_BLOCK) - 5))]
    with pytest.raises(CorruptTable, match="1 records, but the properties say 5"):
        list(open_bytes(assemble(GOOD_BLOCK, index, numbers={"rocksdb.num.entries": 5})).records())


@pytest.mark.parametrize("key", [b"j", b"a"])
def test_a_block_in_another_ones_place_is_noticed(key: bytes) -> None:
    index = [(key + TRAILER, encode_handle(0, len(GOOD_BLOCK) - 5))]
    with pytest.raises(CorruptTable, match="outside the bounds of its index entry"):
        list(open_bytes(assemble(GOOD_BLOCK, index)).records())


def test_a_block_that_goes_on_after_the_end_of_its_place_is_noticed() -> None:
    entries = entry(0, b"b" + TRAILER, b"v") + entry(0, b"k" + TRAILER, b"v")
    block = seal(entries + encode_restarts([0]), compress=False)
    index = [(b"j" + TRAILER, encode_handle(0, len(block) - 5))]
    numbers = {"rocksdb.num.entries": 2}
    with pytest.raises(CorruptTable, match="outside the bounds of its index entry"):
        list(open_bytes(assemble(block, index, numbers=numbers)).records())


@pytest.mark.parametrize("first", [b"a", b"b"])
def test_a_block_that_begins_before_the_end_of_the_one_before_is_noticed(first: bytes) -> None:
    """The second of two blocks is to hold what lies after b, up to d."""
    blocks = [
        seal(entry(0, key + TRAILER, b"v") + encode_restarts([0]), compress=False)
        for key in (b"b", first)
    ]
    second = encode_handle(len(blocks[0]), len(blocks[1]) - 5)
    index = [(b"b" + TRAILER, encode_handle(0, len(blocks[0]) - 5)), (b"d" + TRAILER, second)]
    numbers = {"rocksdb.num.entries": 2, "rocksdb.num.data.blocks": 2}
    table = open_bytes(assemble(b"".join(blocks), index, numbers=numbers))
    assert table.block(0).keys == [b"b"]
    with pytest.raises(CorruptTable, match="outside the bounds of its index entry"):
        table.block(1)
    with pytest.raises(CorruptTable, match="outside the bounds of its index entry"):
        list(table.records())


@pytest.mark.parametrize("name", [name for name in FILES if name != "empty"])
def test_a_point_read_of_a_damaged_block_returns_no_value(name: str) -> None:
    """Bits of the record that is asked for, and all bytes of the block's trailer."""
    data = FILES[name]
    table = open_bytes(data)
    at, size = table.offsets[0], table._sizes[0]
    key, value = next(table.records())
    assert table.get(key) == value
    for position in {*range(at, at + min(size, 200)), *range(at + size - 5, at + size)}:
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        with pytest.raises(CorruptTable, match="at offset 0: "):
            open_bytes(bytes(damaged)).get(key)


def test_an_empty_block_of_a_table_with_records_is_noticed() -> None:
    empty = seal(encode_restarts([]), compress=False)
    data = assemble(empty, [(b"k" + TRAILER, encode_handle(0, len(empty) - 5))])
    with pytest.raises(CorruptTable, match="without records"):
        list(open_bytes(data).records())


@pytest.mark.parametrize(
    ("ending", "what"),
    [
        (b"entries", "no property rocksdb.num.entries"),
        (b"data.size", "no property rocksdb.data.size"),
        (b"index.type", "index of unknown type"),
    ],
)
def test_a_missing_property_is_named(ending: bytes, what: str) -> None:
    at, size = handles_of(SINGLE)["properties"]
    payload = SINGLE[at : at + size]
    place = payload.index(ending)
    broken = payload[:place] + b"?" + payload[place + 1 :]
    with pytest.raises(CorruptTable, match=what):
        open_bytes(replaced(SINGLE, "properties", broken))


def test_a_restart_point_outside_its_block_is_noticed() -> None:
    rows = [(b"key%03d" % at, b"") for at in range(40)]
    payload = build(rows)[: handles_of(build(rows))["data"][1]]
    stored = stored_as(build(rows)[len(payload)], payload)
    from lakecli.sstable.block import payload_of

    plain = bytearray(payload_of(stored))
    assert find_value(bytes(plain), b"key039") == b""
    plain[-8:-4] = (1 << 20).to_bytes(4, "little")
    with pytest.raises(Malformed, match="outside"):
        find_value(bytes(plain), b"key039")
    plain[-8:-4] = (30).to_bytes(4, "little")
    with pytest.raises(Malformed, match="not complete"):
        find_value(bytes(plain), b"key039")


def snappy(payload: bytes) -> bytes:
    return stored_as(1, bytes(cramjam.snappy.compress_raw(payload)))


def test_blocks_that_unfold_to_much_are_refused_early() -> None:
    honest = snappy(bytes(129 << 20))
    with bounded(), pytest.raises(Malformed, match="claims 135266304 bytes"):
        decode_block(honest)
    sharing = entry(0, b"k" * 60_000 + TRAILER, b"") + entry(60_000, TRAILER, b"") * 20_000
    sharing += encode_restarts([0])
    hostile = snappy(sharing)
    with bounded(), pytest.raises(Malformed, match="share more than a block can hold"):
        decode_block(hostile)
    with bounded(), pytest.raises(Malformed, match="share more than a block can hold"):
        find_value(sharing, b"kz")
    tiny = entry(0, b"a" + TRAILER, b"") + entry(1, b"b" + TRAILER, b"") * 1_000_000
    hostile = snappy(tiny + encode_restarts([0]))
    with bounded(), pytest.raises(Malformed, match="where the restart points begin"):
        decode_block(hostile)


def test_an_index_of_nothing_is_refused_early() -> None:
    index = snappy(bytes(30 << 20) + encode_restarts([0]))
    with bounded(), pytest.raises(CorruptTable, match="more than"):
        open_bytes(finish(GOOD_BLOCK, b"", index, {}))


def test_many_indexes_in_one_place_are_refused() -> None:
    level = seal(
        encode_pairs([(b"k" + TRAILER, encode_handle(0, 19))], restart_interval=1), compress=False
    )
    handle = encode_handle(len(GOOD_BLOCK), len(level) - 5)
    top = [(b"k%05d" % at + TRAILER, handle) for at in range(10_000)]
    with bounded(), pytest.raises(CorruptTable, match=r"more than|points at offset"):
        open_bytes(assemble(GOOD_BLOCK, top, partitions=level))


@pytest.mark.parametrize(
    ("offset", "change", "what"),
    [
        (-8, bytes.fromhex("57fb808b247547db"), "its last bytes are 57fb808b247547db"),
        (-8, bytes.fromhex("f09faab3f09faab3"), "its last bytes are f09faab3f09faab3"),
        (-12, b"\5\0\0\0", "version 5, not 2"),
        (-53, b"\3", "checksums of type 3, not CRC32C"),
    ],
)
def test_another_format_has_its_own_message(offset: int, change: bytes, what: str) -> None:
    data = bytearray(SINGLE)
    start = len(data) + offset
    data[start : start + len(change)] = change
    with pytest.raises(UnknownTableFormat, match=what) as caught:
        open_bytes(bytes(data), "range")
    assert str(caught.value).startswith("range is not an SSTable that this lakecli reads")
    assert "newer" in (caught.value.hint or "")


@pytest.mark.parametrize("data", [b"", b"x", b"%PDF-1.7", bytes(52)])
def test_a_file_too_short_says_so(data: bytes) -> None:
    with pytest.raises(CorruptTable, match=f"range at offset 0: a file of {len(data)} bytes"):
        open_bytes(data, "range")


def test_a_file_that_shrinks_while_open_is_noticed() -> None:
    source = BytesSource("range", SINGLE)
    table = SSTable(source)
    source._data = SINGLE[:100]
    with pytest.raises(CorruptTable, match="100 bytes, not a block of"):
        table.get(ROWS[3][0])
    with pytest.raises(CorruptTable, match="100 bytes, not a block of"):
        table.stored_block(0)


def test_blocks_that_are_read_at_once_are_checked_one_by_one() -> None:
    table = open_bytes(DOUBLE)
    numbers = [1, 2, 5, table.block_count - 1]
    assert list(table.blocks(numbers)) == [table.block(number) for number in numbers]
    at = DOUBLE.index(table.stored_block(2)) + 20
    broken = open_bytes(DOUBLE[:at] + bytes([DOUBLE[at] ^ 1]) + DOUBLE[at + 1 :], "the file")
    assert list(broken.blocks([1, 3])) == [table.block(1), table.block(3)]
    with pytest.raises(CorruptTable, match="checksum of the block") as caught:
        list(broken.blocks([1, 2, 3]))
    assert caught.value.message.startswith("damaged SSTable the file at offset ")
    assert caught.value.hint == "see what it affects: `fsck REPOSITORY`"
