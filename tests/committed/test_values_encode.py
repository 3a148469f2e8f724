"""Entries that are encoded in columns have the same bytes as entries encoded one by one."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from lakecli.base.layout import data_key
from lakecli.base.model import CLIENT_MTIME, Entry
from lakecli.committed.values import Columns, encode_entry, encode_external

pytestmark = pytest.mark.usefixtures("either_core")

TEXTS = st.text(max_size=300) | st.integers(0, 20_000).map(lambda size: "x" * size)
SIZES = st.integers(0, 2**63 - 1) | st.integers(0, 2**30) | st.sampled_from([0, 127, 128, 16_383])
SECONDS = st.integers(0, 253_402_300_799)
ROWS = st.tuples(TEXTS, SIZES, TEXTS, SECONDS, st.sampled_from(["", "text/plain"]) | TEXTS)


def one_by_one(row: tuple[str, int, str, int, str]) -> bytes:
    address, size, checksum, seconds, content_type = row
    at = datetime.fromtimestamp(seconds, UTC)
    return encode_entry(Entry(f"s3://b/{address}", size, checksum, at, content_type))


@given(st.lists(ROWS, max_size=5))
def test_columns_give_the_same_values_as_single_entries(
    rows: list[tuple[str, int, str, int, str]],
) -> None:
    columns = Columns(
        [f"s3://b/{address}".encode() for address, *_ in rows],
        [size for _, size, *_ in rows],
        [checksum.encode() for _, _, checksum, *_ in rows],
        [seconds for *_, seconds, _ in rows],
        [content_type.encode() for *_, content_type in rows],
    )
    assert encode_external(columns) == [one_by_one(row) for row in rows]


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=3), SIZES, SECONDS, st.integers(-(2**63), 2**63 - 1) | SECONDS, TEXTS
        ),
        max_size=5,
    )
)
def test_columns_of_uploaded_files_give_the_same_values(
    rows: list[tuple[bytes, int, int, int, str]],
) -> None:
    entries = [
        Entry(
            data_key(blake3(data).hexdigest()),
            size,
            blake3(data).hexdigest(),
            datetime.fromtimestamp(seconds, UTC),
            content_type,
            {CLIENT_MTIME: str(mtime)},
        )
        for data, size, seconds, mtime, content_type in rows
    ]
    columns = Columns(
        [entry.physical_address.encode() for entry in entries],
        [entry.size for entry in entries],
        [entry.checksum.encode() for entry in entries],
        [seconds for _, _, seconds, *_ in rows],
        [entry.content_type.encode() for entry in entries],
        [b"%d" % mtime for *_, mtime, _ in rows],
    )
    assert encode_external(columns) == list(map(encode_entry, entries))


@pytest.mark.parametrize("shift", range(0, 63, 7))
@pytest.mark.parametrize("off", [-1, 0, 1])
def test_numbers_at_the_edges_of_varints_give_the_same_values(shift: int, off: int) -> None:
    size = max(0, (1 << shift) + off)
    row = ("k" * (size % 40_000), size, "c" * (size % 300), size % 2**37, "")
    columns = Columns([f"s3://b/{row[0]}".encode()], [row[1]], [row[2].encode()], [row[3]])
    assert encode_external(columns) == [one_by_one(row)]


def test_rows_at_the_edges_of_the_fast_path_give_the_same_values() -> None:
    rows = [
        ("k" * (length - len("s3://b/")), size, "c" * checksum, seconds, "")
        for length, size, checksum, seconds in product(
            (7, 4_095, 4_096),
            (0, 1, (1 << 14) - 1, 1 << 14, (1 << 26) - 1, 1 << 26),
            (0, 1, 4_095, 4_096),
            (0, (1 << 28) - 1, 1 << 28, (1 << 35) - 1, 1 << 35),
        )
    ]
    rows += [("k" * length, 1, "c", 1 << 30, "") for length in range(1_990, 2_050)]
    addresses = [f"s3://b/{address}".encode() for address, *_ in rows]
    checksums = [row[2].encode() for row in rows]
    columns = Columns(addresses, [row[1] for row in rows], checksums, [row[3] for row in rows])
    assert encode_external(columns) == [one_by_one(row) for row in rows]


def test_more_times_and_types_than_are_cached_give_the_same_values() -> None:
    rows = [("a", 1, "c", n, f"t/{n}") for n in range(40_000)]
    columns = Columns(
        [b"s3://b/a"] * len(rows),
        [1] * len(rows),
        [b"c"] * len(rows),
        list(range(len(rows))),
        [f"t/{n}".encode() for n in range(len(rows))],
    )
    found = encode_external(columns)
    assert all(found[n] == one_by_one(rows[n]) for n in range(0, 40_000, 997))
