"""How many entries a task reads: tasks in whole rounds of the cores, neither small nor large."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from lakecli.repository.commit import commit
from lakecli.spark import shares
from lakecli.spark.entries import EntriesReader
from lakecli.spark.shares import LARGEST, SHARE, SMALLEST, cores_of, share_of
from lakecli.spark.snapshot import snapshot_of
from lakecli.spark.source import source_class
from tests.support.lakes import stage

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.core.lake import Repository


@pytest.mark.parametrize(
    ("count", "cores", "share"),
    [
        (0, 2, SMALLEST),
        (3, 2, SMALLEST),
        (2 * SMALLEST, 2, SMALLEST),
        (2 * SMALLEST + 1, 2, SMALLEST + 1),
        (2_000_000, 2, 1_000_000),
        (2 * LARGEST, 2, LARGEST),
        (2 * LARGEST + 1, 2, LARGEST // 2 + 1),
        (5 * LARGEST, 2, 5 * LARGEST // 6 + 1),
        (2_000_000, 8, 250_000),
        (2_000_000, 64, SMALLEST),
        (2_000_000, 1, 1_000_000),
        (0, 0, SHARE),
        (1 << 40, 0, SHARE),
    ],
)
def test_shares(count: int, cores: int, share: int) -> None:
    assert share_of(count, cores) == share


def test_cores_of_a_session() -> None:
    def session(cores: int) -> Any:
        return SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=cores))

    assert [cores_of(session(cores)) for cores in (0, 1, 7)] == [1, 1, 7]
    connect: Any = type("Session", (), {"__module__": "pyspark.sql.connect.session"})()
    assert cores_of(connect) == 0


def test_partitions_are_as_many_as_cores(
    repository: Repository, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(repository, "main", {f"t/{number:04d}".encode(): b"1" for number in range(1000)})
    commit(repository, "main", message="One", committer="test")
    schema = StructType([StructField("size", LongType())])
    snapshot = snapshot_of(repository, "main", prefix=b"")
    monkeypatch.setattr(shares, "SMALLEST", 1)
    for cores in (1, 2, 3):
        assert len(EntriesReader(snapshot, schema, cores=cores).partitions()) == cores
    few = snapshot_of(repository, "main", prefix=b"t/000")
    assert len(EntriesReader(few, schema, cores=1).partitions()) == 1
    given = EntriesReader(snapshot, schema, entries_per_partition=1, cores=1)
    assert len(given.partitions()) > 10

    source = source_class(str(home), cores=3)({"path": "lakefs://demo/main"})
    assert len(list(source.reader(schema).partitions())) == 3
