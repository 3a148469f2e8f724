"""Tables within a block of `fs.committing`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakecli
from lakecli.errors import CheckFailed, ConflictError, UsageError
from lakecli.filesystem import LakeFileSystem, lakes
from lakecli.repository.check import CheckedCommit
from lakecli.repository.commit import commit
from lakecli.spark import read_entries, read_table, write_table
from tests.support.lakes import stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.repository.contract import Repository

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

MAIN = "lakefs://demo/main"
TABLE = f"{MAIN}/t/"


@pytest.fixture
def fs(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakeFileSystem]:
    monkeypatch.setenv("LAKECLI_HOME", str(Path(repository.lake.home.store).parent))
    yield LakeFileSystem(committer="Ada <ada@example.com>")
    lakes.close_unused()


def values(spark: Any, ref: str = "main") -> list[int]:
    rows = read_table(spark, f"lakefs://demo/{ref}/t/", native=False).collect()
    return sorted(row.a for row in rows)


def test_tables_within_a_block(fs: LakeFileSystem, repository: Repository, spark: Any) -> None:
    def frame(*numbers: int) -> Any:
        return spark.createDataFrame([(number,) for number in numbers], "a int").coalesce(1)

    made = write_table(frame(1), TABLE, mode="append").commit
    assert made is not None
    old = read_table(spark, TABLE, native=False)
    with fs.committing(MAIN, "in one commit"):
        assert write_table(frame(2), TABLE, mode="append").commit is None
        assert values(spark) == [1, 2]
        write_table(frame(3), TABLE, mode="append")
        fs.pipe(f"{MAIN}/note", b"")
        assert read_entries(spark, MAIN).count() == 4
        assert values(spark, "main@") == [1]
        with pytest.raises(UsageError, match="a commit of its own"):
            write_table(frame(4), TABLE, mode="append", txn=("app", 1))
    assert values(spark, "main@") == values(spark) == [1, 2, 3]
    with fs.committing(MAIN, "replaced"):
        rows = read_table(spark, TABLE, native=False)
        write_table(rows.selectExpr("a + 10 AS a"), TABLE, mode="overwrite")
        write_table(frame(4), TABLE, mode="overwrite", expected="main")
    assert values(spark, "main@") == [4]

    def stale() -> None:
        with fs.committing(MAIN, "never"):
            write_table(old, TABLE, mode="overwrite")

    with pytest.raises(ConflictError, match="lakefs://demo/main/t/ changed since"):
        stale()

    def lost() -> None:
        with fs.committing(MAIN, "never"):
            write_table(frame(5), TABLE, mode="overwrite")
            stage(repository, "main", {b"t/another": b"theirs"})
            commit(repository, "main", message="theirs", committer="t")

    with pytest.raises(OSError, match="conflict"):
        lost()
    assert f"{MAIN}/t/another".removeprefix("lakefs://") in fs.find(f"{MAIN}/t")


@pytest.mark.usefixtures("fs")
def test_tables_are_published_or_not(repository: Repository, spark: Any) -> None:
    def load(number: int, table: str) -> None:
        frame = spark.createDataFrame([(number,)], "a int").coalesce(1)
        write_table(frame, f"{table}/t/", mode="append")

    def check(candidate: CheckedCommit) -> bool:
        return max(values(spark, candidate.commit.id)) < 3

    def fails() -> None:
        with lakecli.publishing(repository, "main", checks=[check]) as branch:
            load(3, str(branch))

    for number in (1, 2):
        with lakecli.publishing(repository, "main", checks=[check]) as branch:
            load(number, str(branch))
    with pytest.raises(CheckFailed):
        fails()
    assert values(spark) == [1, 2]
