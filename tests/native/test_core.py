"""The compiled core: the answers of its twins in Python, on sound and on damaged input."""

from __future__ import annotations

import random
import sys
import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from blake3 import blake3
from cramjam import snappy
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecli import native
from lakecli.base.layout import data_key
from lakecli.base.model import CLIENT_MTIME, Entry
from lakecli.cli.out.text import quote_path, zones_of
from lakecli.committed.values import (
    Columns,
    MalformedValue,
    _rows,
    decode_entry,
    encode_entry,
    encode_external,
    encode_value,
)
from lakecli.proto.varint import encode_varint
from lakecli.sstable.block import decode_records, find_value
from lakecli.sstable.format import (
    MAX_PROPERTIES,
    PROPERTIES_BLOCK,
    RECORD_TRAILER,
    STORED_RAW,
    STORED_SNAPPY,
)
from lakecli.sstable.writer import encode_index_entries
from tests.native.laws import (
    LAST_SECOND,
    block_of,
    check_columns,
    check_content_object,
    check_crc64,
    check_damaged_entry,
    check_encoding,
    check_entry,
    check_file,
    check_index,
    check_line,
    check_owned,
    check_pairs,
    check_payload,
    check_tail,
    files_of,
    index_of,
    mutated,
    random_columns,
    random_content_object,
    random_entry,
    random_path,
    random_rows,
    table_of,
    with_metaindex,
)
from tests.support.blocks import encode_pairs, stored_as
from tests.support.cores import PROJECT, loaded

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.native import Core

SEEDS = st.integers(0, 1 << 32).map(random.Random)


def test_an_installed_core_is_of_this_source() -> None:
    """After a change of lakecli/native/*.c, run `python .ci/build_core.py`."""
    found, problem = native.load()
    assert problem in ("", native.MISSING)
    if found is not None:
        builder = loaded("build_core", PROJECT / ".ci" / "build_core.py")
        assert builder.digest_of(builder.sources()) == found.SOURCE


@given(SEEDS, st.sampled_from([1, 2, 16]))
def test_a_sound_block_is_never_left_to_the_twin(
    core: Core, rng: random.Random, interval: int
) -> None:
    rows = random_rows(rng)
    assert check_payload(core, block_of(rows, interval=interval), [*rows, b"", b"a" * 9, b"\xff"])


@given(SEEDS)
def test_damaged_blocks(core: Core, rng: random.Random) -> None:
    rows = random_rows(rng)
    payload = block_of(rows)
    for _ in range(10):
        check_payload(core, mutated(rng, payload), [*rows, b"b", b"\0"])


def test_every_cut_and_every_flipped_bit_of_a_block(core: Core) -> None:
    rows = {b"key/%02d" % at: bytes(at) for at in range(20)}
    payload = block_of(rows)
    for size in range(len(payload)):
        check_payload(core, payload[:size], [b"key/00", b"key/18", b"z"])
    for bit in range(8 * len(payload)):
        flipped = bytearray(payload)
        flipped[bit // 8] ^= 1 << bit % 8
        check_payload(core, bytes(flipped), [b"key/00", b"key/18", b"z"])


@given(SEEDS)
def test_blocks_of_usual_records_are_never_left_to_the_twin(core: Core, rng: random.Random) -> None:
    rows = random_rows(rng)
    assert check_encoding(core, rows, [rng.randrange(16) for _ in rows])


@pytest.mark.parametrize("key_size", [0, 4_088, 4_096, 4_097])
@pytest.mark.parametrize("value_size", [0, 127, 128, 8_185, 12_265, 12_266, 1 << 20])
def test_blocks_of_long_records(core: Core, key_size: int, value_size: int) -> None:
    row = {b"k" * key_size: bytes(value_size)}
    is_encoded = check_encoding(core, row, [1])
    assert is_encoded == (key_size <= 4_096 and value_size <= 12_265)
    before = {b"a%03d" % at: bytes(60) for at in range(113)}  # 8,167 bytes: one more fits in
    assert check_encoding(core, before | row, [1] * 114) == is_encoded


def test_records_that_are_no_lists_of_bytes_and_numbers_are_left_to_the_twin(core: Core) -> None:
    keys, values, checksums = [b"a", b"b"], [b"1", b"2"], [1, 2]
    assert core.encode_block(keys, values, checksums, 1) is not None
    for start in (-1, 2):
        assert core.encode_block(keys, values, checksums, start) is None
    for columns in (
        ((b"a", b"b"), values, checksums),
        ([b"a"], values, checksums),
        (keys, [b"1"], checksums),
        (keys, values, [1]),
        (["a", "b"], values, checksums),
        (keys, [None, b"2"], checksums),
        (keys, values, [1.0, 2]),
    ):
        assert core.encode_block(*columns, 0) is None  # type: ignore[call-arg]


def test_index_entries_of_other_types_are_left_to_the_twin(core: Core) -> None:
    assert core.encode_index_entries([b"a"], [9], 3) == encode_index_entries([b"a"], [9], 3)
    for columns in (
        ((b"a",), [9]), ([b"a"], (9,)), ([b"a"], []), (["a"], [9]), ([None], [9]), ([b"a"], [4]),
        ([b"a"], [-9]),
    ):  # fmt: skip
        assert core.encode_index_entries(*columns, 3) is None  # type: ignore[call-arg]
    for sizes in ([None], ["9"], [1 << 80]):
        with pytest.raises((TypeError, OverflowError)):
            core.encode_index_entries([b"a"], sizes, 3)  # type: ignore[arg-type]


def test_a_checksum_of_any_size_is_taken(core: Core) -> None:
    rows = {b"a%03d" % at: bytes(60) for at in range(100)}
    assert check_encoding(core, rows, [(1 << 200) + 8] * 100)
    assert check_encoding(core, rows, [-8] * 100)


HANDLES = st.dictionaries(
    st.binary(max_size=40), st.tuples(st.integers(0, (1 << 56) - 1), st.integers(0, 1 << 27))
)


def has_checksums(core: Core) -> bool:
    """Return whether the core has the processor's instruction for checksums."""
    return check_file(core, files_of(block_of({b"a": b"b"}))[0], [b"a"])


@given(SEEDS)
def test_what_a_sound_file_has_is_never_left_to_the_twin(core: Core, rng: random.Random) -> None:
    rows = random_rows(rng)
    is_able = has_checksums(core)
    for stored in files_of(block_of(rows)):
        assert check_file(core, stored, [*rows, b"", b"a" * 9, b"\xff"]) == is_able


@settings(max_examples=300)
@given(SEEDS)
def test_files_that_are_forged_with_right_checksums(core: Core, rng: random.Random) -> None:
    rows = random_rows(rng)
    payload = block_of(rows)
    packed = bytes(snappy.compress_raw(payload))
    asked = [*rng.sample(sorted(rows), min(3, len(rows))), b"", b"b"]
    index = index_of({b"\xff" * 700: (0, len(payload))})
    for _ in range(10):
        check_file(core, [stored_as(STORED_RAW, mutated(rng, payload))], asked)
        check_file(core, [stored_as(STORED_SNAPPY, mutated(rng, packed))], asked)
        forged = stored_as(STORED_RAW, mutated(rng, index))
        check_file(core, [stored_as(STORED_RAW, payload), forged], asked)


@given(st.binary(max_size=60), st.integers(0, 3))
def test_files_of_any_bytes(core: Core, data: bytes, kind: int) -> None:
    check_file(core, [stored_as(kind, data)], [b"", b"a"])


SNAPPY = {
    "size": b"\x6e",
    "literal": b"\x34\x00\x09\x5ak" + RECORD_TRAILER + b"vv",
    "copies": b"\x1d\x01\xd2\x02\0\x3b\x01\0\0\0\x0d\x02",
    "long literal": b"\xf0\x01vv",
    "longer literal": b"\xf4\x07\0\0\0\0\0\x01\0\0\0",
}
"""A block of one record, in which each element of Snappy occurs."""


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("size", b"\x6e", b"\x6d"),
        ("size", b"\x6e", b"\x6f"),
        ("size", b"\x6e", b"\xff\xff\x07"),
        ("size", b"\x6e", b"\xff\xff\xff\xff\x7f"),
        ("literal", b"\x34", b"\xf0"),
        ("copies", b"\x1d\x01", b"\x1d\x00"),
        ("copies", b"\x1d\x01", b"\x1d\x0f"),
        ("copies", b"\xd2\x02", b"\xd2\x00"),
        ("copies", b"\x3b\x01", b"\x3b\xff"),
        ("longer literal", b"\xf4\x07\0", b"\xf4\x08\0"),
        ("longer literal", b"\xf4\x07\0", b"\xfc\xff\xff\xff\xff"),
    ],
)
def test_each_element_of_snappy_and_its_damages(
    core: Core, name: str, old: bytes, new: bytes
) -> None:
    sound = b"".join(SNAPPY.values())
    payload = bytes(snappy.decompress_raw(sound))
    rows = {b"k": b"v" * 90}
    assert payload == block_of(rows)
    is_able = has_checksums(core)
    assert check_file(core, [stored_as(STORED_SNAPPY, sound)], [b"k", b"a", b"z"]) == is_able
    damaged = b"".join((SNAPPY | {name: SNAPPY[name].replace(old, new, 1)}).values())
    assert not check_file(core, [stored_as(STORED_SNAPPY, damaged)], [b"k"])
    for size in range(len(sound)):
        assert not check_file(core, [stored_as(STORED_SNAPPY, sound[:size])], [b"k"])


@given(HANDLES, st.sampled_from([1, 2, 16]))
def test_a_sound_index_is_never_left_to_the_twin(
    core: Core, rows: dict[bytes, tuple[int, int]], interval: int
) -> None:
    assert check_index(core, index_of(rows, interval=interval), [*rows, b"", b"\xff" * 41])


@given(st.dictionaries(st.binary(max_size=40), st.binary(max_size=300)), SEEDS)
def test_sound_and_damaged_pairs(core: Core, pairs: dict[bytes, bytes], rng: random.Random) -> None:
    payload = encode_pairs(sorted(pairs.items()), restart_interval=rng.choice((1, 1 << 30)))
    assert check_pairs(core, payload)
    for _ in range(10):
        check_pairs(core, mutated(rng, payload))


def test_a_metaindex_is_decoded_whole(core: Core) -> None:
    """The twin refuses a table for any damage of its metaindex, also beyond the properties."""
    table = table_of({b"a": b"b"})
    name = (PROPERTIES_BLOCK, b"\1\1")
    pairs = [(b"%05d" % at, b"") for at in range(MAX_PROPERTIES)]
    forms = {
        "sound": lambda handle: encode_pairs([(name[0], handle)], restart_interval=1),
        "two": lambda handle: encode_pairs([name, (name[0], handle)], restart_interval=1),
        "more": lambda handle: encode_pairs([*pairs, (name[0], handle)], restart_interval=16),
        "rest": lambda handle: (
            encode_pairs([(name[0], handle)], restart_interval=1)[:-8]
            + b"\1"
            + bytes(4)
            + b"\1\0\0\0"
        ),
    }
    decided = []
    for form, metaindex in forms.items():
        forged = with_metaindex(table, metaindex)
        if check_tail(core, forged, len(forged)):
            decided.append(form)
    assert decided == (["sound"] if has_checksums(core) else [])


@given(SEEDS)
def test_damaged_indexes(core: Core, rng: random.Random) -> None:
    payload = index_of({b"%03d" % at: (at << 12, 1 << rng.randrange(20)) for at in range(40)})
    for _ in range(10):
        check_index(core, mutated(rng, payload))


def test_every_cut_and_every_flipped_bit_of_an_index(core: Core) -> None:
    payload = index_of({b"key/%02d" % at: (at << 12, 4_000) for at in range(9)})
    for size in range(len(payload)):
        check_index(core, payload[:size])
    for bit in range(8 * len(payload)):
        flipped = bytearray(payload)
        flipped[bit // 8] ^= 1 << bit % 8
        check_index(core, bytes(flipped))


@pytest.mark.parametrize("handle", [b"", b"\1", b"\1\2\3", b"\x81", b"\x81\0\2", b"\xff" * 8])
def test_a_handle_of_other_than_two_numbers_is_left_to_the_twin(core: Core, handle: bytes) -> None:
    pairs = [(b"a" + RECORD_TRAILER, b"\1\2"), (b"b" + RECORD_TRAILER, handle)]
    payload = encode_pairs(pairs, restart_interval=1)
    assert core.decode_index(payload) is None
    assert [core.find_handle(payload, key) for key in (b"a", b"aa")] == [(1, 2), NotImplemented]
    assert core.find_handle(payload, b"c") is None
    others = b"\1\2\3\4"[len(handle) :]
    pairs.append((b"c" + RECORD_TRAILER, others))
    assert core.decode_index(encode_pairs(pairs, restart_interval=1)) is None


def test_long_keys_are_left_to_the_twin(core: Core) -> None:
    rows = {b"k" * 5_000 + b"%d" % at: b"value" for at in range(3)}
    payload = block_of(rows)
    key = max(rows)
    assert core.find_value(payload, key) is NotImplemented
    assert find_value(payload, key) == b"value"
    assert core.decode_records(payload) is None
    assert decode_records(payload) == (sorted(rows), [b"value"] * 3)


def test_keys_that_share_more_than_a_block_can_hold(core: Core) -> None:
    """Each key repeats a mebibyte of the one before, in six bytes of the block."""
    first = b"\0\x88\x80\x40\0" + b"k" * (1 << 20) + RECORD_TRAILER
    record = b"\x80\x80\x40\x09\0"
    payload = first + b"".join(record + bytes((at,)) + RECORD_TRAILER for at in range(100))
    payload += b"\0\0\0\0\1\0\0\0"
    assert core.decode_records(payload) is None
    assert core.find_value(payload, b"z") is NotImplemented


@pytest.mark.parametrize("name", ["find_value", "encode_index_entries", "crc64nvme"])
def test_a_wrong_number_of_arguments_is_an_error(core: Core, name: str) -> None:
    with pytest.raises(TypeError):
        getattr(core, name)(b"one")


def test_values_that_are_no_bytes_are_left_to_the_twin(core: Core) -> None:
    assert core.decode_records("text") is None  # type: ignore[arg-type]
    assert core.find_value(b"", "text") is NotImplemented  # type: ignore[arg-type]


@given(SEEDS)
def test_external_objects(core: Core, rng: random.Random) -> None:
    check_columns(core, random_columns(rng))


def test_usual_external_objects_are_never_left_to_the_twin(core: Core) -> None:
    columns = Columns(
        [b"s3://bucket/" + b"k" * at for at in range(800)],
        list(range(1, 801)),
        [b"%032x" % at for at in range(800)],
        [1_700_000_000 + at for at in range(800)],
        [b"text/plain" if at % 2 else b"" for at in range(800)],
    )
    assert check_columns(core, columns)
    assert check_columns(core, columns._replace(content_types=None))
    assert check_columns(core, columns._replace(file_times=[b"%d" % -at for at in range(800)]))
    assert not check_columns(core, columns._replace(file_times=[b""] * 800))
    assert not check_columns(core, columns._replace(file_times=[b"5"]))
    assert not check_columns(core, columns._replace(sizes=columns.sizes[1:]))
    assert not check_columns(core, columns._replace(sizes=tuple(columns.sizes)))


def test_unusual_objects_among_usual_ones(either_core: None) -> None:
    address, checksum = b"s3://bucket/a", b"0" * 32
    columns = Columns(
        [address, address + b"k" * 1_000, address, address, address, address],
        [5, 5, 0, 5, 5, 5],
        [checksum, checksum, checksum, b"", checksum, checksum],
        [1_700_000_000] * 4 + [0, 1_700_000_000],
        [b"text/plain"] * 5 + [b""],
    )
    alone = [encode_external(_rows(columns, [at]))[0] for at in range(6)]
    assert len(set(alone)) == 6
    assert encode_external(columns) == alone
    untyped = columns._replace(content_types=None)
    assert encode_external(untyped)[5] == alone[5]


@given(SEEDS)
def test_entries_in_the_usual_form_are_never_left_to_the_twin(
    core: Core, rng: random.Random
) -> None:
    entry = random_entry(rng)
    value = encode_entry(entry)
    assert check_entry(core, value)
    assert check_owned(core, value) == ("://" not in entry.physical_address)
    for _ in range(10):
        check_damaged_entry(core, mutated(rng, value))


def test_every_cut_and_every_flipped_bit_of_an_entry(core: Core) -> None:
    entry = Entry("s3://b/é", 5, "0" * 32, datetime.fromtimestamp(7, UTC), "t", {"k": "é"})
    value = encode_entry(entry)
    for size in range(len(value)):
        check_damaged_entry(core, value[:size])
    for bit in range(8 * len(value)):
        flipped = bytearray(value)
        flipped[bit // 8] ^= 1 << bit % 8
        check_damaged_entry(core, bytes(flipped))


def test_entries_of_no_year_and_values_that_are_no_bytes(core: Core) -> None:
    seconds = b"\x08" + encode_varint(1 << 40)
    message = b"\x12" + encode_varint(len(seconds)) + seconds
    assert core.decode_entry(encode_value(bytes(32), message)) == ("", 0, "", 1 << 40, "", {})
    with pytest.raises(MalformedValue, match="of no year"):
        decode_entry(encode_value(bytes(32), message))
    assert core.decode_entry("text") is None  # type: ignore[arg-type]
    assert core.find_owned("text") is None  # type: ignore[arg-type]
    assert core.find_owned(["text", None, b""]) == [0, 1, 2]  # type: ignore[list-item]
    assert core.find_owned([]) == []


@pytest.mark.parametrize(
    ("fields", "is_owned"),
    [
        (b"\x0a\x04a://", False),
        (b"\x0a\x04a://\x18\x05\x2a\x00\x2a\x00\x3a\x01t", False),
        (b"\x0a\x03a:/", True),
        (b"\x0a\x04a://\x0a\x01b", True),
        (b"\x0a\x04a://\x2a\x00\x0a\x01b", True),
        (b"\x0a\x04a://\x3a\x01t\x18\x05", True),
        (b"\x0a\x04a://\x8a\x01\x03\x0a\x01b", True),
        (b"\x0a\x04a://\x0d\x00\x00\x00\x00", True),
        (b"\x0a\x04a://\x22\x09t", True),
        (b"\x18\x05\x0a\x04a://", True),
    ],
)
def test_an_external_object_has_one_address_that_comes_first(
    core: Core, fields: bytes, *, is_owned: bool
) -> None:
    value = encode_value(bytes(32), fields)
    assert check_owned(core, value) == is_owned
    assert core.find_owned([value, b"", value]) == ([0, 1, 2] if is_owned else [1])


@given(SEEDS)
def test_content_objects_are_those_of_the_twin(core: Core, rng: random.Random) -> None:
    value = encode_entry(random_content_object(rng))
    check_content_object(core, value, "special")
    for _ in range(10):
        check_content_object(core, mutated(rng, value), "special")
    assert core.content_objects([value, b""], b"special")[1] is None


@pytest.mark.parametrize("metadata", [{}, {CLIENT_MTIME: "1700000000"}, {"k": "v"}])
def test_usual_content_objects_are_never_left_to_the_twin(
    core: Core, metadata: dict[str, str]
) -> None:
    digest = "0123456789abcdef" * 4
    at = datetime.fromtimestamp(7, UTC)
    value = encode_entry(Entry(data_key(digest), 5, digest, at, "text/csv", metadata))
    assert check_content_object(core, value, "special")
    assert not any(check_content_object(core, value, key) for key in metadata)


@given(SEEDS)
def test_lines_of_usual_entries_are_never_left_to_the_twin(core: Core, rng: random.Random) -> None:
    path, value = random_path(rng), encode_entry(random_entry(rng))
    cut = rng.randrange(len(path) + 1)
    assert check_line(core, path, value, cut=cut)
    assert not check_line(core, path, value, cut=len(path) + 1)


def entry_of(size: int, seconds: int = 7) -> bytes:
    return encode_entry(Entry("s3://b/k", size, "c", datetime.fromtimestamp(seconds, UTC), ""))


@given(st.integers(0, (1 << 63) - 1) | st.integers(0, 62).map(lambda bits: 1 << bits))
def test_sizes_in_lines(core: Core, size: int) -> None:
    assert check_line(core, b"k", entry_of(size))


@pytest.mark.parametrize("unit", [1_000**power for power in range(1, 7)])
def test_sizes_in_lines_where_the_unit_changes(core: Core, unit: int) -> None:
    for size in (unit, unit - unit // 20_000, unit - 1, unit * 999 + unit * 19 // 20):
        for near in range(max(0, size - 300), min(size + 300, (1 << 63) - 1)):
            assert check_line(core, b"k", entry_of(near))


@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns", "Africa/Monrovia", "Pacific/Apia"])
def test_dates_in_lines(core: Core, monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    """One has a clock that was changed at one minute past, one left out a day."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    zones_of.cache_clear()
    try:
        days = (0, 63_590_400, 562_500_000, 951_782_400, 1_162_088_000, 1_325_200_000, 1 << 37)
        for second in (first + step for first in days for step in range(0, 100_000, 997)):
            assert check_line(core, b"k", entry_of(5, second))
        for last in (LAST_SECOND, LAST_SECOND - 86_400):  # the twin may show the year 10000
            assert not check_line(core, b"k", entry_of(5, last))
    finally:
        monkeypatch.undo()
        time.tzset()
        zones_of.cache_clear()


def test_items_that_are_no_objects_are_left_to_the_twin(core: Core) -> None:
    value = entry_of(5)
    unusual: list[object] = [(b"k",), (b"k", None), ("k", value), (b"k", value, 1), b"k", None]
    lines, size = core.list_lines([*unusual, (b"k", value)], 0, zones_of, quote_path)
    assert lines[:-1] == [None] * len(unusual)
    assert lines[-1] is not None
    assert size == 5
    with pytest.raises(TypeError):
        core.list_lines((b"k", value), 0, zones_of, quote_path)  # type: ignore[arg-type]


def test_a_zone_with_an_unusual_name_is_left_to_the_twin(core: Core) -> None:
    for name in (" +0000 é", " +0000 \udcff", "x" * 65):
        item = (b"k", entry_of(5))
        for zones in (((0, name), 9, (0, " U")), ((0, " U"), 9, (0, name))):
            assert core.list_lines(
                [item], 0, dict.fromkeys(range(1), zones).__getitem__, quote_path
            ) == ([None], 0)


@pytest.mark.parametrize("found", [(), ((0, "U"), 9, 0), (("0", "U"), 9, (0, "U"))])
def test_functions_for_lines_that_fail_are_errors(core: Core, found: object) -> None:
    item = (b"\n", entry_of(5))
    with pytest.raises(TypeError):
        core.list_lines([item], 0, lambda _: found, quote_path)
    with pytest.raises(ZeroDivisionError):
        core.list_lines([item], 0, lambda _: 1 // 0, quote_path)
    with pytest.raises(ZeroDivisionError):
        core.list_lines([item], 0, zones_of, lambda _: 1 // 0)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    ("hasher", "error"),
    [
        (object(), AttributeError),
        (SimpleNamespace(update=len, digest=lambda: b"short", reset=dict), TypeError),
        (SimpleNamespace(update=len, digest=lambda: "x" * 32, reset=dict), TypeError),
        (SimpleNamespace(update=iter(()).__next__, digest=bytes, reset=dict), TypeError),
        (SimpleNamespace(update=len, digest=iter(()).__next__, reset=dict), StopIteration),
    ],
)
def test_a_hasher_that_fails_is_an_error(
    core: Core, hasher: object, error: type[Exception]
) -> None:
    with pytest.raises(error):
        core.encode_external(hasher, Columns([b"s3://b/k"], [1], [b"c"], [5]))


@given(st.binary(max_size=100), st.integers(0, (1 << 64) - 1))
def test_checksums(core: Core, data: bytes, crc: int) -> None:
    check_crc64(core, data, crc)


def test_checksums_of_what_is_no_bytes_are_errors(core: Core) -> None:
    with pytest.raises(TypeError):
        core.crc64nvme("text", 0)  # type: ignore[arg-type]


def test_nothing_is_leaked(core: Core) -> None:
    rows = {b"%03d" % at: bytes(100) for at in range(30)}
    payload = block_of(rows)
    columns = Columns([b"s3://b/k", b""], [1, 1], [b"c", b"c"], [5, 5], [b"t", b"t"])
    value = encode_entry(Entry("k", 1, "c", datetime.fromtimestamp(7, UTC), "t", {"k": "v" * 99}))
    not_text = value.replace(b"vv", b"v\xff")
    at = datetime.fromtimestamp(7, UTC)
    content = encode_entry(Entry(data_key("0" * 64), 1, "c", at, "t", {CLIENT_MTIME: "5"}))

    def use() -> None:
        for block in (payload, payload[3:], b""):
            core.decode_records(block)
            for key in (b"003", b"x"):
                core.find_value(block, key)
                core.find_handle(block, key)
            core.decode_pairs(block)
        core.encode_external(blake3(), columns)
        for cut in (len(value), 40, 60, len(value) - 1):
            core.decode_entry(value[:cut])
            core.find_owned([value[:cut], value])
            core.entry_columns([value, value[:cut]], b"n/")
            core.content_objects([content, value[:cut]], b"k")
            core.list_lines([(b"k", value[:cut]), (b"\n", value), ()], 0, zones_of, quote_path)
        core.decode_entry(not_text)

    use()
    before = sys.getallocatedblocks()
    references = sys.getrefcount(payload)
    for _ in range(500):
        use()
    assert sys.getallocatedblocks() - before < 200
    assert sys.getrefcount(payload) == references


def test_a_core_with_another_interface_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    older = SimpleNamespace(INTERFACE=native.INTERFACE - 1)
    monkeypatch.setitem(sys.modules, "lakecli.native._core", older)
    monkeypatch.setattr(native, "_core", older, raising=False)
    assert native.load.__wrapped__() == (None, native.OUTDATED)


def test_a_missing_core_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lakecli.native._core", None)
    assert native.load.__wrapped__() == (None, native.MISSING)


def test_a_core_of_another_machine_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "_core.abi3.so").write_bytes(b"not for this processor")
    monkeypatch.setattr(native, "__path__", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "lakecli.native._core", raising=False)
    found, problem = native.load.__wrapped__()
    assert found is None
    assert problem.startswith("it cannot be loaded: ")


def test_the_core_that_was_compiled_is_used(monkeypatch: pytest.MonkeyPatch, core: Core) -> None:
    monkeypatch.setitem(sys.modules, "lakecli.native._core", core)
    monkeypatch.setattr(native, "_core", core, raising=False)
    assert native.load.__wrapped__() == (core, "")
