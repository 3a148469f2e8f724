"""An index, as the compiled core decodes it and as Python does."""

from __future__ import annotations

import pytest

from lakecli import native
from lakecli.proto.varint import Malformed
from lakecli.sstable.directory import Blocks, decode_handles, decode_index, search_index
from lakecli.sstable.format import RECORD_TRAILER, SEPARATOR_TRAILER
from tests.native.laws import index_of
from tests.support.blocks import encode_pairs


@pytest.fixture(params=["compiled", "python"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(native, "core", lambda: None)


THREE = index_of({b"a": (10, 2), b"b": (17, 2), b"c": (25, 3)})


def test_an_index() -> None:
    blocks = decode_index(THREE, start=10, end=33)
    assert blocks == ([b"a", b"b", b"c"], [10, 17, 25], [7, 7, 8])
    assert blocks.end == 33


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (11, 40, "points at offset 10, 2 bytes"),
        (10, 32, "points at offset 25, 3 bytes"),
        (13, 33, "more than 2 entries"),
    ],
)
def test_blocks_outside_the_limits(start: int, end: int, message: str) -> None:
    with pytest.raises(Malformed, match=message):
        decode_index(THREE, start=start, end=end)


def test_blocks_that_overlap() -> None:
    overlapping = index_of({b"a": (0, 2), b"b": (6, 2)})
    with pytest.raises(Malformed, match="points at offset 6, 2 bytes"):
        decode_index(overlapping, start=0, end=40)


def test_an_index_without_entries() -> None:
    with pytest.raises(Malformed, match="an index without entries"):
        decode_index(encode_pairs([], restart_interval=1), start=0, end=40)


@pytest.mark.parametrize(
    "pair",
    [(b"a" + RECORD_TRAILER, b"\1"), (b"a" + RECORD_TRAILER, b"\1\2\3"), (b"a" * 7, b"\1\2")],
)
def test_entries_that_are_no_key_and_handle(pair: tuple[bytes, bytes]) -> None:
    with pytest.raises(Malformed, match="not a key and a handle"):
        decode_index(encode_pairs([pair], restart_interval=1), start=0, end=40)


def test_an_empty_key() -> None:
    payload = encode_pairs([(SEPARATOR_TRAILER, b"\0\x20")], restart_interval=1)
    assert decode_index(payload, start=0, end=37) == ([b""], [0], [37])
    assert decode_handles(payload, limit=1) == ([b""], [0, 32])


def test_blocks_are_added_to_others() -> None:
    blocks = Blocks([], [], [])
    assert blocks.end == 0
    blocks.extend(Blocks([b"a"], [3], [7]))
    blocks.extend(Blocks([b"b"], [10], [8]))
    assert blocks == ([b"a", b"b"], [3, 10], [7, 8])


@pytest.mark.parametrize("interval", [1, 2, 16])
@pytest.mark.parametrize(
    ("key", "handle"),
    [
        (b"", (10, 7)),
        (b"a", (10, 7)),
        (b"a\0", (17, 7)),
        (b"a" + SEPARATOR_TRAILER, (17, 7)),
        (b"b", (17, 7)),
        (b"bb", (25, 8)),
        (b"c", (25, 8)),
        (b"c\0", None),
    ],
)
def test_the_first_block_that_may_have_a_key(
    key: bytes, handle: tuple[int, int] | None, interval: int
) -> None:
    payload = index_of({b"a": (10, 2), b"b": (17, 2), b"c": (25, 3)}, interval=interval)
    assert search_index(payload, key, end=33) == handle


def test_a_search_that_leads_outside_the_limits() -> None:
    assert search_index(THREE, b"b", end=24) == (17, 7)
    with pytest.raises(Malformed, match="points at offset 17, 2 bytes"):
        search_index(THREE, b"b", end=23)


@pytest.mark.parametrize(
    "pair",
    [(b"a" + RECORD_TRAILER, b"\1"), (b"a" + RECORD_TRAILER, b"\1\2\3"), (b"a" * 7, b"\1\2")],
)
def test_a_search_that_ends_at_no_key_and_handle(pair: tuple[bytes, bytes]) -> None:
    with pytest.raises(Malformed, match="not a key and a handle"):
        search_index(encode_pairs([pair], restart_interval=1), b"", end=40)
