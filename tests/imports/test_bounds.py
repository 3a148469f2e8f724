"""Intervals of manifests on clusters: no task has more than twice its share of the rows."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.imports import plain, sorting
from lakecli.imports.plain import LineRange, Lines, QuotedLineEnds, ranges_of
from lakecli.imports.sorting import Sample, bounds_of, tasks_for
from tests.imports.listings import (
    PREFIX,
    clustered,
    in_order,
    interval_sizes,
    listing,
    shuffled,
    strided,
)

if TYPE_CHECKING:
    from tests.imports.listings import Order

ROWS = 128_000
TARGET = 640  # 200 intervals


@pytest.fixture(autouse=True)
def small_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "ROWS_PER_INTERVAL", TARGET)


@pytest.mark.parametrize("order", [in_order, clustered, shuffled, strided])
@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([], id="one giant file"),
        pytest.param([1_000] * 127, id="equal files"),
        pytest.param([100_000, *[7] * 1_000], id="a large and many small files"),
    ],
)
@pytest.mark.parametrize("row_size", [None, 150])
def test_no_interval_has_twice_its_share(
    order: Order,
    pieces: list[int],
    row_size: int | None,
) -> None:
    found = interval_sizes(listing(ROWS, pieces, order), row_size=row_size)
    assert len(found) == pytest.approx(ROWS / TARGET, rel=0.05)
    assert max(found) <= 2 * TARGET


def test_keys_with_the_same_long_prefix_are_divided_too() -> None:
    found = interval_sizes(listing(ROWS, [1_000] * 127, shuffled, PREFIX))
    assert len(found) == pytest.approx(ROWS / TARGET, rel=0.05)
    assert max(found) <= 2 * TARGET


def test_a_path_that_comes_often_is_not_divided_and_moves_no_other_bound() -> None:
    often = Sample(4_000, 10, [b"b"] * 400)
    others = Sample(
        4_000, 10, [b"a%03d" % n for n in range(200)] + [b"c%03d" % n for n in range(200)]
    )
    found = bounds_of([often, others], least=8)
    assert found == sorted(set(found))
    # Of 8,000 rows in 13 intervals: 3 before the path, 3 after it, and one with it.
    shares = [low for low in found if low.startswith(b"c")]
    assert 3 <= len(shares) <= 4


def test_a_sample_is_the_same_after_a_restart() -> None:
    sizes = listing(ROWS, [1_000] * 127, shuffled)
    (first, *_), (again, *_) = (sorting.wish_for(sizes, 200, is_exact=True) for _ in range(2))
    assert sorting.sample(first) == sorting.sample(again)


@given(st.integers(1, 5_000), st.integers(2, 300))
def test_a_sample_has_one_key_of_each_step(rows: int, most: int) -> None:
    ((piece, _),) = listing(rows, [], in_order)
    found = sorting.sample(sorting.Wish(piece, 1, most))
    numbers = [int(key) for key in found.keys]
    assert found.rows == rows
    assert len(numbers) <= most + 1
    assert [number // found.step for number in numbers] == list(range(len(numbers)))
    assert rows // found.step <= len(numbers)
    assert found.step == 1 or 2 * len(numbers) + 2 > most  # no more was thrown away than needed


def test_no_rows_have_no_bounds() -> None:
    assert bounds_of([Sample(0, 1, [])], least=4) == []


def test_small_pieces_share_a_task_and_large_ones_have_their_own() -> None:
    assert tasks_for([5, 5, 5, 100, 5, 5], most=10) == [
        range(2), range(2, 3), range(3, 4), range(4, 6),
    ]  # fmt: skip
    assert len(tasks_for([1] * 100, most=1_000)) == 9
    assert tasks_for([], most=10) == []


@given(st.lists(st.integers(1, 3_000), max_size=200), st.integers(1_000, 100_000))
def test_tasks_have_bounded_sizes(sizes: list[int], most: int) -> None:
    tasks = tasks_for(sizes, most=most)
    assert [at for task in tasks for at in task] == list(range(len(sizes)))
    for task in tasks:
        size = sum(sizes[task.start : task.stop])
        assert size <= most or len(task) == 1
    # No more than twice as many as the sizes need, beside those of a small manifest.
    assert len(tasks) <= 2 * (sum(sizes) // min(most, max(1, sum(sizes) // 8)) + 1)


LINES = st.lists(st.binary(max_size=9).map(lambda line: line.replace(b"\n", b"")), max_size=12)


@given(LINES, st.booleans(), st.integers(1, 12), st.integers(1, 5), st.integers(0, 3))
def test_ranges_divide_lines_without_loss(
    lines: list[bytes],
    ends: bool,  # noqa: FBT001
    size: int,
    chunk: int,
    header: int,
) -> None:
    skipped = b"x" * header + b"\n" if header else b""
    data = skipped + b"\n".join(lines) + (b"\n" if ends else b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "RANGE", size)
        patch.setattr(plain, "_CHUNK", chunk)
        ranges = list(ranges_of(len(skipped), len(data)))
        pieces = [
            io.BufferedReader(Lines(io.BytesIO(data), each, is_quoted=False)).read()
            for each in ranges
        ]
    assert skipped + b"".join(pieces) == data
    assert all(piece.endswith(b"\n") for piece in list(filter(None, pieces))[:-1])
    for each, piece in zip(ranges, pieces, strict=True):
        first = data.find(piece, each.start) if piece else -1
        assert not piece or each.start <= first < each.end


@pytest.mark.parametrize("chunk", [1, 3, 1_000])
def test_a_line_end_in_quotation_marks_is_refused(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain, "_CHUNK", chunk)

    def read(data: bytes) -> bytes:
        whole = LineRange(0, len(data))
        return io.BufferedReader(Lines(io.BytesIO(data), whole, is_quoted=True)).read()

    sound = b'"a""b",1\n"c,d",2\ne,3\n'
    assert read(sound) == sound
    for broken in (b'a,1\n"b\nc",2\nd,3\n', b'"a\nb"', b'x,"y\n'):
        with pytest.raises(QuotedLineEnds):
            read(broken)
