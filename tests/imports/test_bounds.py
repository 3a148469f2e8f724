"""Intervals of manifests on clusters: no task has more than twice its share of the rows."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecli.imports import sorting
from lakecli.imports.sorting import bounds_of, portions_of, sample_keys
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
    from pathlib import Path

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
@pytest.mark.parametrize(
    "factor", [1, *(pytest.param(each, marks=pytest.mark.nightly) for each in (0.2, 5))]
)
def test_no_interval_has_twice_its_share(
    tmp_path: Path, order: Order, pieces: list[int], factor: float
) -> None:
    """Also where the number of rows is estimated, as that of text is."""
    found = interval_sizes(listing(ROWS, pieces, order, factor=factor), tmp_path)
    assert len(found) == pytest.approx(ROWS / TARGET, rel=0.05)
    assert max(found) <= 2 * TARGET


def test_keys_with_the_same_long_prefix_are_divided_too(tmp_path: Path) -> None:
    found = interval_sizes(listing(ROWS, [1_000] * 127, shuffled, prefix=PREFIX), tmp_path)
    assert len(found) == pytest.approx(ROWS / TARGET, rel=0.05)
    assert max(found) <= 2 * TARGET


def test_a_small_manifest_has_some_intervals_too(tmp_path: Path) -> None:
    assert len(interval_sizes(listing(100, [], shuffled), tmp_path)) == sorting.LEAST_TASKS


def test_a_path_that_comes_often_is_not_divided_and_moves_no_other_bound() -> None:
    keys = [b"a%03d" % n for n in range(200)] + [b"b"] * 400 + [b"c%03d" % n for n in range(200)]
    found = bounds_of(keys, share=0.1)
    assert found == sorted(set(found))
    # Of 8,000 rows in 12 intervals: 3 before the path, 3 after it, and one with it.
    shares = [low for low in found if low.startswith(b"c")]
    assert 3 <= len(shares) <= 4


def test_a_sample_is_the_same_after_a_restart() -> None:
    source = listing(ROWS, [1_000] * 127, shuffled)
    first, *others = portions_of(source)  # type: ignore[arg-type]
    assert sample_keys(first, share=0.1) == sample_keys(first, share=0.1)
    assert others


def test_no_rows_have_no_bounds() -> None:
    assert bounds_of([], share=0.1) == []


def test_small_pieces_share_a_task_and_large_ones_have_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sizes(*pieces: int) -> list[list[int]]:
        source = listing(sum(pieces), pieces[:-1], in_order)
        return [[piece.size for piece in found.pieces] for found in portions_of(source)]  # type: ignore[arg-type,attr-defined]

    monkeypatch.setattr(sorting, "ROWS_PER_MAP", 10)
    assert sizes(5, 5, 5, 100, 5, 5) == [[5, 5], [5], [100], [5, 5]]
    monkeypatch.undo()
    assert len(sizes(*[1] * 100)) == 9
    assert portions_of(listing(0, [], in_order)._replace(listed=[])) == []  # type: ignore[arg-type]


@given(st.lists(st.integers(1, 3_000), min_size=1, max_size=200), st.integers(1_000, 100_000))
def test_tasks_have_bounded_sizes(sizes: list[int], most: int) -> None:
    source = listing(sum(sizes), sizes[:-1], in_order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "ROWS_PER_MAP", most)
        portions = portions_of(source)  # type: ignore[arg-type]
    read: list[list[Any]] = [list(portion.pieces) for portion in portions]
    assert list(chain.from_iterable(read)) == source.listed
    for pieces in read:
        assert sum(piece.size for piece in pieces) <= most or len(pieces) == 1
    # No more than twice as many as the sizes need, beside those of a small manifest.
    assert len(portions) <= 2 * (sum(sizes) // min(most, max(1, sum(sizes) // 8)) + 1)
