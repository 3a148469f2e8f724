"""The division of long listings on Spark, by synthetic listings whose keys are computed."""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.base.model import NO_ACCOUNT
from lakecli.engine.runner import LocalRunner
from lakecli.imports import bucket
from lakecli.imports.bucket import ENOUGH, KeyRange, divide, merged, refine
from lakecli.stores.contract import ObjectInfo, Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BILLION = 1_000_000_000
THEN = datetime(2026, 1, 1, tzinfo=UTC)


class Listing:
    """A store with a number of keys, which are computed when they are listed."""

    uri = "memory://synthetic"

    def __init__(self, count: int, key_of: Callable[[int], str]) -> None:
        self.count = count
        self._key_of = key_of
        self.requests = 0

    def position(self, key: str) -> int:
        return bisect_left(range(self.count), key, key=self._key_of)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        assert not prefix
        self.requests += 1
        at = self.position(after + "\0") if after else 0
        for number in range(at, self.count):
            yield ObjectInfo(self._key_of(number), 1, THEN, Version("v"), "")


def dated(number: int) -> str:
    """Return a key of one of 3,000 days."""
    day, within = divmod(number, BILLION // 3_000 + 1)
    year, rest = divmod(day, 360)
    return f"y={2015 + year}/m={rest // 30 + 1:02}/d={rest % 30 + 1:02}/part-{within:06}.parquet"


def numbered(number: int) -> str:
    return f"logs/{number:012}"


def hashed(number: int) -> str:
    return f"data/{(number << 224) // BILLION:056x}"


def skewed(number: int) -> str:
    """Return a key: nearly all are in one directory far down, the others in 1,000 small ones."""
    if number < 1_000:
        return f"a/{number:04}/x"
    return f"b/c/d/e/f/{number:012}"


@pytest.mark.parametrize(
    "key_of",
    [
        skewed,
        *(pytest.param(each, marks=pytest.mark.nightly) for each in (dated, numbered, hashed)),
    ],
)
def test_a_billion_objects_make_thousands_of_parts(
    key_of: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "FIRST_PAGES", 80)
    store: Any = Listing(BILLION, key_of)
    monkeypatch.setattr(bucket, "open_by_uri", lambda *_, **__: store)
    pieces = refine(
        LocalRunner(), divide(store, KeyRange("", ""), 64), uri=store.uri, account=NO_ACCOUNT
    )
    assert pieces[0].low == ""
    assert pieces[-1].high == ""
    assert all(one.high == other.low for one, other in pairwise(pieces))
    ends = [store.position(piece.low) if piece.low else 0 for piece in pieces]
    sizes = [high - low for low, high in pairwise([*ends, BILLION])]
    assert sum(sizes) == BILLION
    assert 1_000 <= len(pieces) <= 2 * ENOUGH
    # A thousand cores that take the next part when they are free: the largest does not hold them.
    assert max(sizes) < BILLION / 500
    assert store.requests < BILLION / 1_000 / 4  # of the requests of the listing itself


def test_pieces_do_not_depend_on_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "FIRST_PAGES", 80)
    store: Any = Listing(100_000, numbered)
    monkeypatch.setattr(bucket, "open_by_uri", lambda *_, **__: store)
    first = divide(store, KeyRange("", ""), 64)
    found = [
        refine(LocalRunner(parallelism=cores), first, uri=store.uri, account=NO_ACCOUNT)
        for cores in (1, 4)
    ]
    assert found[0] == found[1]


def test_small_neighbours_become_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "KEYS_PER_PIECE", 100)
    pieces = [
        KeyRange("", "b", 40), KeyRange("b", "c", 60), KeyRange("c", "d", 1), KeyRange("d", "e"),
        KeyRange("e", "f", 1), KeyRange("f", "", 99),
    ]  # fmt: skip
    assert merged(pieces) == [
        KeyRange("", "c", 100), KeyRange("c", "d", 1), KeyRange("d", "e"), KeyRange("e", "", 100),
    ]  # fmt: skip


def test_a_listing_of_few_keys_is_one_piece_with_their_number() -> None:
    store: Any = Listing(50, numbered)
    assert divide(store, KeyRange("", ""), 64) == [KeyRange("", "", 50)]
