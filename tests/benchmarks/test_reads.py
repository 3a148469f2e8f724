"""Point reads in one process, against LMDB with the same entries."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import lmdb
import pytest

from lakecli.committed.point_reads import find, find_many
from lakecli.repository.reading.reader import open_reader
from tests.benchmarks import dataset
from tests.benchmarks.claims import LMDB
from tests.benchmarks.lake import EVERYTHING
from tests.benchmarks.measure import compare, timed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from lakecli.base.model import MetarangeId
    from lakecli.committed.tree_store import TreeStore
    from tests.benchmarks.claims import Report
    from tests.benchmarks.lake import Large
    from tests.benchmarks.measure import Comparison

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
