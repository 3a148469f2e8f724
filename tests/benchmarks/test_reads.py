"""Point reads in one process."""

from __future__ import annotations

import random
import time
from statistics import median
from typing import TYPE_CHECKING

import pytest

from lakecli.committed.scan import find
from lakecli.repository.core.view import open_view
from lakecli.repository.stat import stat
from tests.benchmarks import dataset
from tests.benchmarks.lake import EVERYTHING
from tests.benchmarks.measure import repeat

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

    from lakecli.committed.tree_store import TreeStore
    from lakecli.model import Entry, MetarangeId
    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Large

ROUNDS = 3
AT_ONCE = 1_000
STATS = 20_000


@pytest.fixture(scope="module")
def shuffled(million: Large) -> dict[bytes, bytes]:
    """Every entry, in random order."""
    entries = list(dataset.records(million.count))
    random.Random(1).shuffle(entries)
    return dict(entries)


def one_by_one(trees: TreeStore, tree: MetarangeId, keys: list[bytes]) -> list[bytes | None]:
    return [find(trees, tree, key) for key in keys]


def in_batches(trees: TreeStore, tree: MetarangeId, keys: list[bytes]) -> list[bytes | None]:
    found: list[bytes | None] = []
    for at in range(0, len(keys), AT_ONCE):
        found += trees.points.find_many(tree, keys[at : at + AT_ONCE])
    return found


@pytest.mark.parametrize(
    ("name", "read"),
    [("point reads", one_by_one), ("point reads, 1,000 at a time", in_batches)],
)
def test_point_reads(
    benchmark: BenchmarkFixture,
    report: Report,
    million: Large,
    shuffled: dict[bytes, bytes],
    *,
    name: str,
    read: Callable[[TreeStore, MetarangeId, list[bytes]], list[bytes | None]],
) -> None:
    """Read every entry once in random order, beginning with nothing in memory."""
    keys, expected = list(shuffled), list(shuffled.values())
    taken: list[float] = []
    again: list[float] = []

    def run() -> list[bytes | None]:
        with million.open() as repository, open_view(repository, EVERYTHING) as view:
            trees, tree = repository.trees, view.commit.metarange_id
            start = time.process_time()
            found = read(trees, tree, keys)
            middle = time.process_time()
            read(trees, tree, keys)
            again.append(time.process_time() - middle)
            taken.append(middle - start)
        return found

    assert repeat(benchmark, run, rounds=ROUNDS) == expected
    detail = f"{len(keys) / median(again):,.0f}/s the second time, in the same order"
    report.check(name, len(keys) / median(taken), detail)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "read"),
    [("point reads, 10M", one_by_one), ("point reads, 1,000 at a time, 10M", in_batches)],
)
def test_point_reads_of_ten_million(
    benchmark: BenchmarkFixture,
    report: Report,
    both: tuple[Large, Large],
    *,
    name: str,
    read: Callable[[TreeStore, MetarangeId, list[bytes]], list[bytes | None]],
) -> None:
    """Read a million of ten million entries at random, beginning with nothing in memory."""
    _, large = both
    rng = random.Random(1)
    keys = [dataset.key_of(rng.randrange(large.count)) for _ in range(1_000_000)]
    taken: list[float] = []

    def run() -> list[bytes | None]:
        with large.open() as repository, open_view(repository, EVERYTHING) as view:
            start = time.process_time()
            found = read(repository.trees, view.commit.metarange_id, keys)
            taken.append(time.process_time() - start)
        return found

    assert None not in repeat(benchmark, run, rounds=1)
    report.check(name, len(keys) / median(taken), "most blocks are read for one entry")


@pytest.mark.parametrize("name", ["stat, ref resolved each time", "stat by a reader"])
def test_stat(
    benchmark: BenchmarkFixture,
    report: Report,
    million: Large,
    shuffled: dict[bytes, bytes],
    name: str,
) -> None:
    paths = list(shuffled)[:STATS]
    taken: list[float] = []
    with million.open() as repository, repository.reader(EVERYTHING) as reader:
        expected = list(reader.stat_many(paths))  # what is measured are warm reads

        def run() -> list[Entry | None]:
            start = time.process_time()
            if name == "stat by a reader":
                found: list[Entry | None] = [reader.stat(path) for path in paths]
            else:
                found = [stat(repository, EVERYTHING, path) for path in paths]
            taken.append(time.process_time() - start)
            return found

        assert repeat(benchmark, run, rounds=ROUNDS) == expected
    report.check(name, STATS / median(taken))
