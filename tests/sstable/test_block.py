"""Blocks: headers of every width, restart points of every density, and the bounds of each check."""

from __future__ import annotations

from functools import partial
from itertools import product
from math import ceil

import pytest
from cramjam import snappy

from lakecli.proto.varint import Malformed, encode_varint
from lakecli.sstable.block import (
    decode_pairs,
    decode_records,
    encode_restarts,
    find_value,
    payload_of,
    payload_size,
    seal,
    shared_prefix_size,
    verify,
)
from lakecli.sstable.format import (
    BLOCK_TRAILER_SIZE,
    MIN_STORED_SIZE,
    RECORD_TRAILER,
    STORED_SNAPPY,
)
from tests.support.blocks import encode_pairs, stored_as

AROUND_ONE_BYTE = (119, 120, 121, 127, 128, 129)
"""Sizes that a header holds in one byte or two, with the trailer of a key or without it."""

INTERVALS = (1, 2, 3, 16)


def check_block(rows: dict[bytes, bytes], *, interval: int) -> None:
    """Check that a block of these records decodes, and that each of its keys is found."""
    pairs = [(key + RECORD_TRAILER, value) for key, value in rows.items()]
    payload = encode_pairs(pairs, restart_interval=interval)
    assert decode_records(payload) == (list(rows), list(rows.values()))
    assert decode_pairs(payload, limit=len(pairs)) == pairs
    for key, value in rows.items():
        assert find_value(payload, key) == value
        for other in (key[:-1], key + b"\0", key[:-1] + b"\xff", b"", b"\xff"):
            assert find_value(payload, other) == rows.get(other)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 129, 255, 256, 16_383, 16_384, 16_385])
def test_headers_of_every_width(size: int) -> None:
    shared_sizes = (0, 1, *AROUND_ONE_BYTE, 16_384)
    for shared, rest, interval in product(shared_sizes, (1, *AROUND_ONE_BYTE), INTERVALS[:3]):
        keys = [b"k" * shared + bytes((letter,)) * rest for letter in b"ABCDE"]
        check_block({key: key[-1:] * size for key in keys}, interval=interval)


@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("count", range(1, 36))
def test_every_number_of_restart_points(count: int, interval: int) -> None:
    rows = {b"%03d" % (2 * at): b"%d" % at for at in range(count)}
    check_block(rows, interval=interval)
    payload = encode_pairs(rows.items(), restart_interval=interval)
    assert int.from_bytes(payload[-4:], "little") == ceil(count / interval)


@pytest.mark.parametrize("interval", INTERVALS)
def test_a_record_may_have_an_empty_key(interval: int) -> None:
    payload = encode_pairs(
        [(RECORD_TRAILER, b"empty"), (b"a" + RECORD_TRAILER, b"a")], restart_interval=interval
    )
    assert decode_records(payload) == ([b"", b"a"], [b"empty", b"a"])
    assert [find_value(payload, key) for key in (b"", b"\0", b"a")] == [b"empty", None, b"a"]


@pytest.mark.parametrize("interval", INTERVALS)
def test_a_key_may_go_on_as_the_trailer_of_the_one_before(interval: int) -> None:
    trailer = RECORD_TRAILER
    keys = [b"a", b"a" + trailer, b"a" + trailer + b"\0", b"a" + trailer + b"b", b"a\1\1", b"b"]
    check_block({key: b"of " + key for key in keys}, interval=interval)


def entry(shared: int, key: bytes, value: bytes = b"") -> bytes:
    return b"".join(map(encode_varint, (shared, len(key), len(value)))) + key + value


@pytest.mark.parametrize(("shared", "is_sound"), [(0, True), (1, True), (9, True), (10, False)])
def test_a_key_shares_no_more_than_the_one_before_has(shared: int, *, is_sound: bool) -> None:
    payload = entry(0, b"a" + RECORD_TRAILER) + entry(shared, b"b" + RECORD_TRAILER)
    payload += encode_restarts([0])
    if is_sound:
        first, second = decode_records(payload)[0]
        assert first == b"a"
        assert second == (b"a" + RECORD_TRAILER)[:shared] + b"b"
        assert find_value(payload, second) == b""
    else:
        with pytest.raises(Malformed, match="shares more"):
            decode_records(payload)


@pytest.mark.parametrize("shared", [0, 1])
def test_a_restart_point_shares_nothing(shared: int) -> None:
    first, second = entry(0, b"a" + RECORD_TRAILER), entry(shared, b"b" + RECORD_TRAILER)
    payload = first + second + encode_restarts([0, len(first)])
    if shared:
        with pytest.raises(Malformed, match="not complete"):
            find_value(payload, b"z")
    else:
        assert find_value(payload, b"b") == b""


def test_the_first_key_shares_nothing() -> None:
    payload = entry(1, b"b" + RECORD_TRAILER) + encode_restarts([0])
    with pytest.raises(Malformed, match="shares more"):
        decode_records(payload)
    with pytest.raises(Malformed, match="shares more"):
        decode_pairs(payload, limit=1)


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_a_value_ends_where_the_restart_points_begin(cut: int) -> None:
    """Or before them: the last entry claims to be longer than it is."""
    whole = entry(0, b"a" + RECORD_TRAILER, b"value")
    payload = whole[:-cut] + encode_restarts([0])
    with pytest.raises(Malformed, match="restart points begin"):
        decode_records(payload)
    with pytest.raises(Malformed, match="restart points begin"):
        decode_pairs(payload, limit=9)
    with pytest.raises(Malformed, match="restart points begin"):
        find_value(payload, b"a")


@pytest.mark.parametrize("limit", [0, 1, 4, 5, 6])
def test_pairs_are_limited(limit: int) -> None:
    pairs = [(b"%d" % at, b"value") for at in range(5)]
    payload = encode_pairs(pairs, restart_interval=2)
    if limit >= len(pairs):
        assert decode_pairs(payload, limit=limit) == pairs
    else:
        with pytest.raises(Malformed, match=f"more than {limit} entries"):
            decode_pairs(payload, limit=limit)


@pytest.mark.parametrize("size", [0, 127, 128, 129, 16_384])
def test_a_pair_may_have_an_empty_key(size: int) -> None:
    pairs = [(b"", b"v" * size), (b"k", b"w" * size)]
    assert decode_pairs(encode_pairs(pairs, restart_interval=1), limit=2) == pairs


def test_a_block_has_no_more_bytes_than_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(b"a" + RECORD_TRAILER, b"value")]
    payload = encode_pairs(pairs, restart_interval=1)
    monkeypatch.setattr("lakecli.sstable.format.MAX_BLOCK_SIZE", len(payload))
    assert decode_pairs(payload, limit=1) == pairs
    monkeypatch.setattr("lakecli.sstable.format.MAX_BLOCK_SIZE", len(payload) - 1)
    with pytest.raises(Malformed, match="claims 1 restart points"):
        decode_pairs(payload, limit=1)


def test_a_block_without_entries() -> None:
    payload = encode_pairs([], restart_interval=16)
    assert payload == encode_restarts([]) == b"\0\0\0\0\1\0\0\0"
    assert decode_records(payload) == ([], [])
    assert decode_pairs(payload, limit=0) == []
    assert find_value(payload, b"") is None


@pytest.mark.parametrize(
    ("left", "right", "size"),
    [
        *((b"", b"", 0), (b"", b"a", 0), (b"a", b"", 0), (b"a", b"a", 1), (b"a", b"b", 0)),
        *((b"ab", b"ac", 1), (b"ab", b"a", 1), (b"abc", b"abd", 2), (b"a\0", b"a\1", 1)),
        *((b"a\0b", b"a\0c", 2), (b"\0", b"\x80", 0), (b"\0", b"\1", 0), (b"\xff", b"\x7f", 0)),
        *((b"k" * 300, b"k" * 300, 300), (b"k" * 300, b"k" * 299 + b"l", 299)),
    ],
)
def test_the_shared_prefix_of_two_keys(left: bytes, right: bytes, size: int) -> None:
    assert shared_prefix_size(left, right) == size


@pytest.mark.parametrize("payload", [b"12345678", b"abc" * 10_000, bytes(1 << 20)])
@pytest.mark.parametrize("compress", [False, True])
def test_a_stored_block_is_verified(payload: bytes, *, compress: bool) -> None:
    stored = seal(payload, compress=compress)
    verify(stored, len(stored))
    assert payload_of(stored) == payload
    assert payload_size(stored) == len(payload)
    for size in (len(stored) - 1, len(stored) + 1):
        with pytest.raises(Malformed, match=f"not a block of {size}"):
            verify(stored, size)
    with pytest.raises(Malformed, match="checksum"):
        verify(stored[:-1] + bytes((stored[-1] ^ 1,)), len(stored))


def test_nothing_shorter_than_an_empty_block_is_a_block() -> None:
    empty = seal(bytes(MIN_STORED_SIZE - 5), compress=False)
    verify(empty, len(empty))
    assert payload_of(empty) == empty[:-5]
    short = seal(bytes(MIN_STORED_SIZE - 6), compress=False)
    for read in (payload_of, partial(verify, size=len(short))):
        with pytest.raises(Malformed, match="too short"):
            read(short)
    with pytest.raises(Malformed, match="6 bytes, not a block of 7"):
        payload_of(short, 7)


@pytest.mark.parametrize("size", [16_384, 1 << 20, 1 << 28])
def test_a_false_size_is_refused_before_it_is_allocated(size: int) -> None:
    stored = stored_as(STORED_SNAPPY, encode_varint(size) + b"abc")
    with pytest.raises(Malformed, match=f"a compressed block that claims {size} bytes"):
        payload_of(stored)


def test_a_block_is_compressed_if_that_saves_more_than_an_eighth() -> None:
    for payload in (bytes(100), bytes(range(256)), b"0123456789" * 2):
        packed, raw = (len(seal(payload, compress=each)) for each in (True, False))
        assert raw == len(payload) + 5
        assert packed == raw or packed < raw - len(payload) // 8
    assert len(seal(bytes(100), compress=True)) < 30


@pytest.mark.parametrize(("size", "is_compressed"), [(129, False), (130, True)])
def test_a_block_that_saves_just_an_eighth_is_stored_as_it_is(
    size: int, *, is_compressed: bool
) -> None:
    payload = bytes(range(1, size - 29)) + bytes(30)
    packed = bytes(snappy.compress_raw(payload))
    assert size - len(packed) == size // 8 + is_compressed
    stored = seal(payload, compress=True)
    assert stored[:-BLOCK_TRAILER_SIZE] == (packed if is_compressed else payload)
