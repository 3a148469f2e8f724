"""What the compiled core must answer, and inputs to ask it about; run as a program, a fuzz of it.

    python -m tests.native.laws MODULE SECONDS SEED

Each function answers as its twin in Python does, or leaves the answer to it.
"""

from __future__ import annotations

import random
import sys
import time
from datetime import UTC, datetime
from functools import partial
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, cast

from blake3 import blake3
from cramjam import snappy

from lakecli.base.model import CLIENT_MTIME, Entry
from lakecli.cli.commands.fs_ls import object_line
from lakecli.cli.out.text import quote_path, zones_of
from lakecli.committed import values
from lakecli.committed.values import Columns, MalformedValue
from lakecli.proto.varint import Malformed, decode_varint
from lakecli.serving.s3.checksums import python_crc64nvme
from lakecli.sstable.block import decode_pairs, decode_records, encode_block, find_value, unpack
from lakecli.sstable.directory import Tail, decode_handles, find_handle, read_tail
from lakecli.sstable.format import (
    BLOCK_TRAILER_SIZE,
    CHECKSUM_CRC32C,
    FOOTER_HANDLES_END,
    FOOTER_SIZE,
    PROPERTIES_BLOCK,
    RECORD_TRAILER,
    SEPARATOR_TRAILER,
    STORED_RAW,
    STORED_SNAPPY,
    CorruptTable,
)
from lakecli.sstable.reader import BytesSource, KeyLookup
from lakecli.sstable.writer import TableWriter, encode_handle, encode_index_entries
from tests.support.blocks import encode_pairs, stored_as

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakecli.native import Core


LAST_SECOND = 253_402_300_799
"""The end of the year 9999."""


def block_of(rows: dict[bytes, bytes], *, interval: int = 16) -> bytes:
    """Return the payload of a block."""
    pairs = [(key + RECORD_TRAILER, rows[key]) for key in sorted(rows)]
    return encode_pairs(pairs, restart_interval=interval)


def check_payload(core: Core, payload: bytes, keys: Sequence[bytes]) -> bool:
    """Compare the answers about a payload, which may be of any bytes.

    Returns:
        Whether the core has decided all of them.
    """
    decided = core.decode_records(payload)
    if decided is not None:
        assert decided == decode_records(payload)
    is_decided = decided is not None
    for key in keys:
        value = core.find_value(payload, key)
        if value is NotImplemented:
            is_decided = False
        else:
            assert value == find_value(payload, key)
    return is_decided


def index_of(rows: dict[bytes, tuple[int, int]], *, interval: int = 1) -> bytes:
    """Return the payload of an index: the offset and the size of a block by key."""
    trailers = cycle((SEPARATOR_TRAILER, RECORD_TRAILER))
    pairs = [(key + next(trailers), encode_handle(*rows[key])) for key in sorted(rows)]
    return encode_pairs(pairs, restart_interval=interval)


def check_index(core: Core, payload: bytes, keys: Sequence[bytes] = (b"", b"key/04", b"2")) -> bool:
    """Compare the answers about an index, which may be of any bytes.

    Returns:
        Whether the core has decided all of them.
    """
    decoded = core.decode_index(payload)
    if decoded is not None:
        assert decoded == decode_handles(payload, limit=len(payload))
    is_decided = decoded is not None
    for key in keys:
        handle = core.find_handle(payload, key)
        if handle is NotImplemented:
            is_decided = False
        else:
            assert handle == find_handle(payload, key)
    check_pairs(core, payload)
    return is_decided


def check_pairs(core: Core, payload: bytes) -> bool:
    """Compare the answers about a block of keys without trailers, which may be of any bytes."""
    found = core.decode_pairs(payload)
    if found is None:
        return False
    assert list(zip(*found, strict=True)) == decode_pairs(payload, limit=len(payload))
    return True


def check_tail(core: Core, tail: bytes, size: int) -> bool:
    """Compare what the last bytes of a table say; `size` is that of its file."""
    found = core.decode_tail(tail, size)
    if found is None:
        return False
    data = bytes(size - len(tail)) + tail
    assert found == read_tail(Tail(BytesSource("file", data), len(tail)))
    return True


def check_file(core: Core, stored: Sequence[bytes], keys: Sequence[bytes]) -> bool:
    """Compare what stored blocks hold, and what is found in their file by an index.

    Args:
        core: to compare.
        stored: a data block, and the partition of an index if it has two levels.
        keys: to find.

    Returns:
        Whether the core has decided all of them.
    """
    for block in stored:
        payload = core.unpack_block(block)
        assert payload is None or payload == unpack(block)
    lookup = object.__new__(KeyLookup)
    data = b"".join(stored)
    run = core.decode_run(data, [0, 0], [len(stored[0])] * 2)
    if run is not None:
        keys_of, values_of = decode_records(unpack(stored[0]))
        assert run == (keys_of * 2, values_of * 2, [0, len(keys_of), 2 * len(keys_of)])
    lookup.name, lookup.is_deep, lookup.data_size = "file", len(stored) > 1, len(stored[0])
    lookup.source, lookup.top_offset = BytesSource("file", data), len(data)
    handle = len(data) - len(stored[-1]), len(stored[-1]) - BLOCK_TRAILER_SIZE
    lookup.top = index_of({b"\xff" * 700: handle})
    is_decided = run is not None
    with TemporaryFile() as file:
        file.write(data)
        file.flush()
        ends = len(data) if lookup.is_deep else 0, lookup.data_size
        values = core.find_in_file(file.fileno(), lookup.top, *ends, [*keys])
        for key, found in zip(keys, values, strict=True):
            if found is NotImplemented:
                is_decided = False
            else:
                assert found == lookup.get(key)
    return is_decided


def files_of(payload: bytes) -> list[list[bytes]]:
    """Return the stored blocks of files that have the same data block, in all forms."""
    raw, packed = stored_as(STORED_RAW, payload), snappy.compress_raw(payload)
    blocks = [raw, stored_as(STORED_SNAPPY, bytes(packed))]
    index = index_of({b"\xff" * 700: (0, len(raw) - BLOCK_TRAILER_SIZE)})
    return [[block] for block in blocks] + [[raw, stored_as(STORED_RAW, index)]]


def table_of(rows: dict[bytes, bytes]) -> bytes:
    """Return a table of these records."""
    writer = TableWriter(properties={"type": b"ranges", "writer": b"lakecli"})
    writer.add_many(sorted(rows), [rows[key] for key in sorted(rows)])
    return writer.finish()


def with_metaindex(table: bytes, metaindex: Callable[[bytes], bytes]) -> bytes:
    """Return a table with another metaindex, at the same place and with the right checksum.

    Args:
        metaindex: a function that returns the payload, given the handle of the properties.
    """
    at, end = decode_varint(table, len(table) - FOOTER_SIZE + 1)
    size, end = decode_varint(table, end)
    ((_, handle),) = decode_pairs(table[at : at + size], limit=1)
    forged = stored_as(STORED_RAW, metaindex(handle))
    where = bytes((CHECKSUM_CRC32C,)) + encode_handle(at, len(forged) - BLOCK_TRAILER_SIZE)
    last = table[FOOTER_HANDLES_END - FOOTER_SIZE :]
    rest = table[end : -len(last)]  # the handle of the index, and zeros
    footer = (where + rest)[:FOOTER_HANDLES_END].ljust(FOOTER_HANDLES_END, b"\0")
    return table[:at] + forged + footer + last


def check_encoding(core: Core, rows: dict[bytes, bytes], checksums: Sequence[int]) -> bool:
    """Compare the blocks that records fill from each position on.

    Returns:
        Whether the core has encoded all of them.
    """
    keys = sorted(rows)
    values = [rows[key] for key in keys]
    found = [core.encode_block(keys, values, checksums, start) for start in range(len(keys))]
    for start, block in enumerate(found):
        assert block is None or block == encode_block(keys, values, checksums, start)
    sizes = [BLOCK_TRAILER_SIZE + len(value) for value in values]
    entries = [core.encode_index_entries(keys, sizes, offset) for offset in (0, sum(sizes) << 20)]
    assert entries == [encode_index_entries(keys, sizes, at) for at in (0, sum(sizes) << 20)]
    return None not in found


def check_columns(core: Core, columns: Columns) -> bool:
    """Compare the values of external objects."""
    found = core.encode_external(blake3(), columns)
    if found is None:
        return False
    expected = values._encode_external(columns)
    assert len(found) == len(expected)
    for value, whole in zip(found, expected, strict=True):
        assert value in (b"", whole)
    return all(found)


def check_entry(core: Core, value: bytes) -> bool:
    """Compare the entries of a value, which may be any bytes but names a year.

    Returns:
        Whether the core has decided it.
    """
    found = core.decode_entry(value)
    if found is None:
        return False
    expected = values._decode_any(value)
    seconds = int(expected.modified_at.timestamp())
    assert found == (*expected[:3], seconds, *expected[4:])
    return True


def check_line(core: Core, path: bytes, value: bytes, *, cut: int = 0) -> bool:
    """Compare the lines of a path and a value, which may be any bytes.

    Returns:
        Whether the core has decided it.
    """
    (line,), size = core.list_lines([(path, value)], cut, zones_of, quote_path)
    if line is None:
        assert size == 0
        return False
    entry = values._decode_any(value)
    assert (line, size) == (object_line(path[cut:], entry), entry.size)
    return True


def check_damaged_entry(core: Core, value: bytes) -> None:
    """Compare the entries of any bytes; of those without a year, what the twin refuses."""
    found = core.decode_entry(value)
    if found is None or found[3] <= LAST_SECOND:
        check_entry(core, value)
    check_owned(core, value)
    check_line(core, b"p", value)
    core.entry_columns([value, value], b"n/")  # compared in tests/exports, where Arrow is


def check_owned(core: Core, value: bytes) -> bool:
    """Compare whether a value may be of an object of the repository; return the core's answer."""
    (*found,) = core.find_owned([value]) or ()
    if found == [0]:
        return True
    assert not found
    try:
        address = values._decode_any(value).physical_address
    except MalformedValue:
        return False
    assert "://" in address
    return False


def check_content_object(core: Core, value: bytes, special: str) -> bool:
    """Compare what a copy of an object needs with the twin; return whether the core answers."""
    (found,) = core.content_objects([value], special.encode())
    assert found is None or found == values._content_object(value, special)
    return found is not None


def check_crc64(core: Core, data: bytes, crc: int) -> None:
    """Compare the checksum of bytes that follow others."""
    assert core.crc64nvme(data, crc) == python_crc64nvme(data, crc)


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Return bytes that are changed, cut, repeated or filled in a few places."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(changed) + 1)
        to = min(len(changed), at + rng.choice((1, 1, 2, 4, 16, 100)))
        kind = rng.randrange(5)
        if kind == 0:
            changed[at:to] = rng.randbytes(to - at)
        elif kind == 1:
            del changed[at:to]
        elif kind == 2:
            changed[at:at] = changed[at:to]
        elif kind == 3:
            changed[at:to] = rng.choice((b"\0", b"\xff", b"\x80", b"\x7f")) * (to - at)
        elif at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
    return bytes(changed)


def random_rows(rng: random.Random) -> dict[bytes, bytes]:
    """Return records whose keys share much or little, and go on as trailers do."""
    starts = [b"", b"a" * rng.choice((3, 119, 127, 128, 300)), b"k" + RECORD_TRAILER[:3]]
    sizes = (0, 1, 2, 8, 30, 119, 120, 127, 128, 200)
    letters = bytes((0, 1, 97, 98, 255))
    return {
        rng.choice(starts) + bytes(rng.choices(letters, k=rng.choice(sizes))): rng.randbytes(
            rng.choice((0, 1, 33, 127, 128, 300))
        )
        for _ in range(rng.choice((0, 1, 2, 15, 16, 17, 60)))
    }


def random_metaindex(rng: random.Random, handle: bytes) -> bytes:
    """Return the payload of a metaindex, sound or not, given the handle of the properties."""
    names = [PROPERTIES_BLOCK, b"a", b"z", PROPERTIES_BLOCK, PROPERTIES_BLOCK + b"s"]
    pairs = [(name, rng.choice((handle, b"\1\1", b""))) for name in rng.sample(names, 3)]
    payload = encode_pairs(
        [(PROPERTIES_BLOCK, handle), *pairs], restart_interval=rng.choice((1, 9))
    )
    if rng.randrange(2):
        pairs.append((PROPERTIES_BLOCK, handle))
        payload = encode_pairs(sorted(pairs), restart_interval=rng.choice((1, 9)))
    return mutated(rng, payload) if rng.randrange(2) else payload


def random_columns(rng: random.Random) -> Columns:
    """Return columns of a few objects, some of them at the limits of each number and text."""
    count = rng.randrange(5)
    numbers = (0, 1, -1, 127, 128, 1 << 14, 1_700_000_000, 1 << 35, (1 << 63) - 1)
    sizes = (0, 1, 32, 64, 127, 128, 300, 800, 900, 1023, 1024, 2000)

    def texts() -> list[bytes]:
        return [rng.randbytes(rng.choice(sizes)) for _ in range(count)]

    return Columns(
        texts(),
        rng.choices(numbers, k=count),
        texts(),
        [number for number in rng.choices(numbers, k=count) if number >= 0] or [1] * count,
        texts() if rng.randrange(2) else None,
        [b"%d" % rng.choice(numbers) for _ in range(count)] if rng.randrange(2) else None,
    )


def random_path(rng: random.Random) -> bytes:
    """Return a path, which may have any bytes."""
    parts = (b"a/", b"~ ", b'"', b"\\", b"\n", b"\x7f", b"\xff", "é".encode(), "\u200b".encode())
    return b"".join(rng.choices(parts, k=rng.choice((0, 1, 3, 30, 700))))


def random_entry(rng: random.Random) -> Entry:
    """Return an entry with fields that are empty, usual or long."""

    def text() -> str:
        return "".join(rng.choices("aé/:", k=rng.choice((0, 1, 30, 127, 128, 300))))

    return Entry(
        rng.choice(("", "s3://bucket/")) + text(),
        rng.choice((0, 1, 127, 128, 1 << 40, (1 << 63) - 1)),
        text(),
        datetime.fromtimestamp(rng.choice((0, 1, 1_700_000_000, 1 << 35)), UTC),
        rng.choice(("", "text/csv", text())),
        {text(): text() for _ in range(rng.choice((0, 0, 1, 3)))},
    )


def random_content_object(rng: random.Random) -> Entry:
    """Return an entry whose object is usually at a content address, with a usual or odd time."""
    digits = rng.choice(("0123456789abcdef" * 4, "f" * 64, "F" * 64, "g" * 64, "0" * 63))
    address = f"data/{digits[:2]}/{digits[2:]}"
    time = rng.choice(("", "0", "7", "1700000000", "9223372036", "9223372037", "-5", "0x7", "٣"))
    metadata = {CLIENT_MTIME: time} if rng.random() < 0.8 else {}
    return random_entry(rng)._replace(
        physical_address=rng.choice((address, address, address, address + "0", "s3:" + address)),
        metadata={**metadata, **rng.choice(({}, {}, {"k": "v"}, {"special": ""}))},
    )


def fuzz(core: Core, seconds: float, seed: int) -> int:
    """Compare answers about sound and damaged input for a time; return how often."""
    rng = random.Random(seed)
    end = time.monotonic() + seconds
    count = decided = 0
    while time.monotonic() < end:
        rows = random_rows(rng)
        payload = block_of(rows, interval=rng.choice((1, 2, 16)))
        asked = [*rng.sample(sorted(rows), min(4, len(rows))), b"", b"a" * 130, b"\xff" * 700]
        decided += check_payload(core, payload, asked)
        index = index_of({key: (rng.getrandbits(50), rng.getrandbits(20)) for key in rows})
        for _ in range(8):
            try:
                check_payload(core, mutated(rng, payload), asked)
                check_index(core, mutated(rng, index), asked)
            except Malformed as error:  # the core has decided what the twin refuses
                raise AssertionError(str(error)) from error
        for stored in files_of(payload):
            decided -= not check_file(core, stored, asked)
        for kind in (STORED_RAW, STORED_SNAPPY):
            packed = payload if kind == STORED_RAW else bytes(snappy.compress_raw(payload))
            check_file(core, [stored_as(kind, mutated(rng, packed))], asked)
            check_file(core, [mutated(rng, stored_as(kind, packed))], asked)
        file = table_of(rows)
        tail = file[-rng.choice((4_096, len(file))) :]
        assert check_tail(core, tail, len(file))
        for _ in range(8):
            check_tail(core, mutated(rng, tail[-rng.randrange(60, 2_000) :]), len(file))
        for _ in range(8):
            try:
                forged = with_metaindex(file, partial(random_metaindex, rng))
                check_tail(core, forged[-4_096:], len(forged))
            except CorruptTable as error:  # the core has decided what the twin refuses
                raise AssertionError(str(error)) from error
        pairs = encode_pairs(sorted(rows.items()), restart_interval=1 << 30)
        assert check_pairs(core, pairs)
        check_pairs(core, mutated(rng, pairs))
        value = values.encode_entry(random_entry(rng))
        assert check_entry(core, value)
        assert check_line(core, random_path(rng), value)
        for _ in range(8):
            check_damaged_entry(core, mutated(rng, value))
            copied = values.encode_entry(random_content_object(rng))
            check_content_object(core, copied, "special")
            check_content_object(core, mutated(rng, copied), "special")
        check_columns(core, random_columns(rng))
        check_crc64(core, payload[rng.randrange(9) :], rng.getrandbits(64))
        assert check_encoding(core, rows, [rng.randrange(16) for _ in rows])
        count += 1
    assert decided == count, f"{count - decided} of {count} sound blocks were left to the twin"
    return count


if __name__ == "__main__":
    from tests.support.cores import loaded

    module, limit, first = sys.argv[1:]
    done = fuzz(
        cast("Core", loaded("lakecli.native._core", Path(module))), float(limit), int(first)
    )
    sys.stdout.write(f"{done} rounds\n")
