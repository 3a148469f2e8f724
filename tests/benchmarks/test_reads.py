"""Point reads in one process, against LMDB with the same entries."""

from __future__ import annotations

import random
import sys
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import lmdb
import pytest

from lakecli.committed.point_reads import find, find_many
from lakecli.repository.reading.reader import open_reader
from tests.benchmarks import copies, dataset
from tests.benchmarks.claims import LMDB, MILLION, ONE_MILLION, SMALL_MEMORY
from tests.benchmarks.lake import EVERYTHING
from tests.benchmarks.measure import Memory, compare, repeat, timed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from lakecli.base.model import MetarangeId
    from lakecli.committed.tree_store import TreeStore
    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Large, Place
    from tests.benchmarks.measure import Comparison, Machine, Usage

    Read = Callable[[TreeStore, MetarangeId, list[bytes]], list[bytes | None]]

ROUNDS = 3
AT_ONCE = 1_000
MEMORY_OF_TEN_MILLION = 10 << 30
"""Half of it is for entries, which take 4.5 GiB."""


def one_by_one(trees: TreeStore, tree: MetarangeId, keys: list[bytes]) -> list[bytes | None]:
    return [find(trees, tree, key) for key in keys]


def in_batches(trees: TreeStore, tree: MetarangeId, keys: list[bytes]) -> list[bytes | None]:
    found: list[bytes | None] = []
    for at in range(0, len(keys), AT_ONCE):
        found += find_many(trees, tree, keys[at : at + AT_ONCE])
    return found


READS = {"one by one": one_by_one, "1,000 at a time": in_batches}


@pytest.fixture
def in_lmdb(tmp_path: Path) -> Iterator[lmdb.Environment]:
    with lmdb.open(str(tmp_path / "lmdb"), map_size=1 << 35, sync=False) as environment:
        yield environment


def compare_reads(
    benchmark: BenchmarkFixture, environment: lmdb.Environment, large: Large, read: Read
) -> Comparison:
    """Compare random reads after all entries were read into memory, as LMDB has them mapped."""
    with environment.begin(write=True) as txn, txn.cursor() as cursor:
        cursor.putmulti(dataset.records(large.count), append=True)
    rng = random.Random(1)
    keys = [dataset.key_of(rng.randrange(large.count)) for _ in range(large.count // 10)]
    with (
        large.open(memory=MEMORY_OF_TEN_MILLION) as repository,
        open_reader(repository, EVERYTHING, fill="") as reader,
        environment.begin() as txn,
    ):
        assert reader.wait_filled()
        trees, tree = repository.trees, reader.commit.metarange_id
        expected = [txn.get(key) for key in keys]
        assert None not in expected
        assert read(trees, tree, keys) == expected
        return compare(
            benchmark,
            rounds=ROUNDS,
            subject=lambda _: timed(lambda: read(trees, tree, keys)).each(len(keys)),
            baselines={
                LMDB: lambda _: timed(lambda: [txn.get(key) for key in keys]).each(len(keys))
            },
        )


@pytest.mark.parametrize("name", READS)
def test_one_million(
    benchmark: BenchmarkFixture,
    report: Report,
    in_lmdb: lmdb.Environment,
    million: Large,
    name: str,
) -> None:
    compared = compare_reads(benchmark, in_lmdb, million, READS[name])
    report.note_ratio(f"point reads at a million: {name}", compared, LMDB)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", READS)
def test_ten_million(
    benchmark: BenchmarkFixture,
    report: Report,
    in_lmdb: lmdb.Environment,
    ten_million: Large,
    name: str,
) -> None:
    compared = compare_reads(benchmark, in_lmdb, ten_million, READS[name])
    report.check("point reads at ten million", compared, of=name)


HUNDRED_MILLION: Final = 17_400
"""Ranges that a tree of so many entries has."""


@pytest.fixture(scope="module")
def wide(place: Place, objects: int) -> Iterator[Wide]:
    """A tree of as many ranges as one of a hundred million entries has."""
    place.create("wide")
    ranges = HUNDRED_MILLION * objects // MILLION
    with place.open() as lake:
        yield Wide(place, copies.build(lake.repository("wide").trees, ranges), ranges)


class Wide(NamedTuple):
    """A tree of many ranges, in the repository `wide`."""

    place: Place
    tree: MetarangeId
    ranges: int


AT_A_TIME: Final = 10_000


def cold_reads(wide: Wide, ranges: int) -> Callable[[int], Usage]:
    """Return what reads random keys of the first ranges, one by one, in a store opened anew."""

    def read(number: int) -> Usage:
        keys = copies.random_keys(random.Random(number), ranges, AT_A_TIME)
        with wide.place.open() as lake:
            trees = lake.repository("wide").trees
            trees.metarange(wide.tree)
            return timed(lambda: one_by_one(trees, wide.tree, keys)).each(len(keys))

    return read


@pytest.mark.timeout(1200)
def test_random_reads_of_many_ranges(
    benchmark: BenchmarkFixture, report: Report, wide: Wide
) -> None:
    """With the default memory, nothing of which is filled; files are in the system's memory."""
    compared = compare(
        benchmark,
        rounds=ROUNDS,
        subject=cold_reads(wide, wide.ranges),
        baselines={ONE_MILLION: cold_reads(wide, wide.ranges // 20)},
    )
    report.check("random reads of 17,400 ranges", compared)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_random_batches_of_many_ranges(
    benchmark: BenchmarkFixture, report: Report, in_lmdb: lmdb.Environment, wide: Wide
) -> None:
    """Batches of keys that were not read before, in no order, with the default memory."""
    entries = copies.records(wide.ranges)
    while part := list(islice(entries, 500_000)):
        with in_lmdb.begin(write=True) as txn, txn.cursor() as cursor:
            cursor.putmulti(part, append=True)
    with wide.place.open() as lake, in_lmdb.begin() as txn:
        trees = lake.repository("wide").trees

        def keys(number: int) -> list[bytes]:
            return copies.random_keys(random.Random(number), wide.ranges, AT_A_TIME)

        def subject(number: int) -> Usage:
            asked = keys(number)
            return timed(lambda: find_many(trees, wide.tree, asked)).each(len(asked))

        def baseline(number: int) -> Usage:
            asked = keys(number)
            return timed(lambda: [txn.get(key) for key in asked]).each(len(asked))

        assert find_many(trees, wide.tree, keys(-1)) == [txn.get(key) for key in keys(-1)]
        compared = compare(
            benchmark, rounds=2 * ROUNDS, subject=subject, baselines={LMDB: baseline}
        )
    report.check("batches of random reads of 17,400 ranges", compared)


@pytest.mark.timeout(1200)
def test_memory_of_random_reads(
    benchmark: BenchmarkFixture, report: Report, machine: Machine, wide: Wide
) -> None:
    """What reads take beyond one read stays within the setting, and a fifth of it."""
    program = (sys.executable, "-m", "tests.benchmarks.copies", wide.place.home)
    where = wide.place.namespaces, "wide", wide.tree, str(wide.ranges), str(SMALL_MEMORY)
    before = machine.memory(*program, *where, "1").anonymous
    after = repeat(benchmark, lambda: machine.memory(*program, *where, "100000"), rounds=1)
    grown = Memory(after.anonymous - before, after.resident)
    report.check_memory("", grown, claim="memory of random reads")
