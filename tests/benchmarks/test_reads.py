"""Point reads in one process."""

from __future__ import annotations

import random
import time
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import lmdb
import pytest

from lakecli.committed.scan import find
from lakecli.repository.core.view import open_view
from lakecli.repository.stat import stat
from tests.benchmarks import dataset
from tests.benchmarks.claims import LMDB
from tests.benchmarks.lake import EVERYTHING
from tests.benchmarks.measure import KIB, repeat

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

    from lakecli.committed.tree_store import TreeStore
    from lakecli.model import Entry, MetarangeId
    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Large

ROUNDS = 3
AT_ONCE = 1_000
MEMORY_OF_TEN_MILLION = 10 << 30
"""Half of it is for entries, which take 4.5 GiB."""
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


def in_sorted_batches(trees: TreeStore, tree: MetarangeId, keys: list[bytes]) -> list[bytes | None]:
    """Read keys whose batches `sorted_by_batch` has sorted."""
    return in_batches(trees, tree, keys)


def sorted_by_batch(keys: list[bytes]) -> list[bytes]:
    """Return the keys with those of each batch in order."""
    starts = range(0, len(keys), AT_ONCE)
    return [key for at in starts for key in sorted(keys[at : at + AT_ONCE])]


def lmdb_rate(directory: Path, count: int, keys: list[bytes]) -> float:
    """Return how many reads of the same entries LMDB does in a second, in one transaction.

    They are read once before, so that the time has no page faults.
    """
    with lmdb.open(str(directory / "lmdb"), map_size=1 << 35, sync=False) as environment:
        with environment.begin(write=True) as txn, txn.cursor() as cursor:
            cursor.putmulti(dataset.records(count), append=True)
        with environment.begin() as txn:
            for _ in range(2):
                start = time.process_time()
                found = [txn.get(key) for key in keys]
                taken = time.process_time() - start
    assert None not in found
    return len(keys) / taken


def rates_of_batches(million: Large) -> tuple[float, float]:
    """Return how many entries a second of processor time this process reads, in batches.

    Returns:
        The rate beginning with nothing in memory, and the one after all was read into memory.
    """
    keys = [dataset.key_of(number) for number in range(million.count)]
    random.Random(1).shuffle(keys)
    rates = []
    for fill in (None, ""):
        with million.open() as repository, repository.reader(EVERYTHING, fill=fill) as reader:
            assert reader.wait_filled() == (fill is not None)
            start = time.process_time()
            found = in_batches(repository.trees, reader.commit.metarange_id, keys)
            rates.append(len(keys) / (time.process_time() - start))
        assert None not in found
    cold, warm = rates
    return cold, warm


def test_point_reads_of_two_processes(
    benchmark: BenchmarkFixture, report: Report, million: Large
) -> None:
    """Two processes read the same tree at once; no lock is shared."""
    with get_context("spawn").Pool(2) as pool:

        def run() -> list[tuple[float, float]]:
            return pool.map(rates_of_batches, [million] * 2, chunksize=1)

        rates = repeat(benchmark, run, rounds=1)
        ((_, alone),) = pool.map(rates_of_batches, [million])
    cold = sum(rate for rate, _ in rates)
    detail = f"one of them alone {alone:,.0f}/s; both without a fill {cold:,.0f}/s"
    name = "point reads, 1,000 at a time, two processes"
    report.check(name, sum(rate for _, rate in rates), detail)


def cost_of_fill(large: Large) -> tuple[float, int]:
    """Return the seconds of processor time and the bytes of memory of reading all entries."""
    with large.open() as repository:
        before, start = anonymous_memory(), time.process_time()
        with repository.reader(EVERYTHING, fill="") as reader:
            assert reader.wait_filled()
            return time.process_time() - start, anonymous_memory() - before


def anonymous_memory() -> int:
    """Return this process's memory, without pages of files."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("RssAnon:")[2].split()[0]) * KIB


def test_fill(benchmark: BenchmarkFixture, report: Report, million: Large) -> None:
    """Read everything into memory, as the thread of a reader does, in a process of its own."""
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:

        def run() -> tuple[float, int]:
            return pool.apply(cost_of_fill, (million,))

        seconds, memory = repeat(benchmark, run, rounds=1)
    taken = f"{seconds:.2f} s of processor time for {million.count:,} entries"
    report.check("fill of memory", million.count / seconds, taken)
    report.check("fill of memory, memory", memory / million.count)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("point reads", one_by_one),
        ("point reads, 1,000 at a time", in_batches),
        ("point reads, 1,000 sorted at a time", in_sorted_batches),
    ],
)
def test_point_reads(
    benchmark: BenchmarkFixture,
    report: Report,
    million: Large,
    shuffled: dict[bytes, bytes],
    tmp_path: Path,
    *,
    name: str,
    read: Callable[[TreeStore, MetarangeId, list[bytes]], list[bytes | None]],
) -> None:
    """Read every entry once in random order, beginning with nothing in memory."""
    keys = sorted_by_batch(list(shuffled)) if read is in_sorted_batches else list(shuffled)
    expected = [shuffled[key] for key in keys]
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
    peer = lmdb_rate(tmp_path, million.count, keys)
    detail = f"{len(keys) / median(again):,.0f}/s the second time, LMDB {peer:,.0f}/s"
    report.check(name, len(keys) / median(taken), detail)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("point reads, 10M", one_by_one),
        ("point reads, 1,000 at a time, 10M", in_batches),
        ("point reads, 1,000 sorted at a time, 10M", in_sorted_batches),
    ],
)
def test_point_reads_of_ten_million(
    benchmark: BenchmarkFixture,
    report: Report,
    both: tuple[Large, Large],
    tmp_path: Path,
    *,
    name: str,
    read: Callable[[TreeStore, MetarangeId, list[bytes]], list[bytes | None]],
) -> None:
    """Read a million of ten million entries at random, after all were read into memory."""
    _, large = both
    rng = random.Random(1)
    keys = [dataset.key_of(rng.randrange(large.count)) for _ in range(1_000_000)]
    if read is in_sorted_batches:
        keys = sorted_by_batch(keys)
    taken: list[float] = []
    filled: list[float] = []

    def run() -> list[bytes | None]:
        with large.open(memory=MEMORY_OF_TEN_MILLION) as repository:
            start = time.process_time()
            with repository.reader(EVERYTHING, fill="") as reader:
                assert reader.wait_filled()
                middle = time.process_time()
                found = read(repository.trees, reader.commit.metarange_id, keys)
            filled.append(middle - start)
            taken.append(time.process_time() - middle)
        return found

    assert None not in repeat(benchmark, run, rounds=1)
    peer = lmdb_rate(tmp_path, large.count, keys)
    rate = len(keys) / median(taken)
    report.check(name, rate, f"filled in {median(filled):.1f} s of processor time")
    report.check(f"{name}, LMDB", rate / peer, f"{rate:,.0f}/s : {peer:,.0f}/s, {LMDB}")


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
