"""The Python of the topic ``python`` about Spark, run as it stands there."""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from lakecli.repository import branch, repo
from lakecli.repository.log import LogOptions, log
from lakecli.spark import read_table, register, write_table
from tests.spark.conftest import open_home

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.repository.contract import Repository

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[2] / "lakecli" / "cli" / "manual" / "topics" / "python.md"
URI = "lakefs://sales/main/orders/"


def blocks() -> list[str]:
    section = PAGE.read_text(encoding="utf-8").partition("\n## Spark tables\n")[2]
    found = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", section, re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


@pytest.fixture
def sales(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A repository where `lakecli.open` finds it, with orders of two days."""
    monkeypatch.delenv("LAKECLI_HOME")
    with open_home(None) as lake:
        repo.create(lake, "sales", str(tmp_path / "namespace"))
    orders = spark.createDataFrame(
        [(1, 10.0, "2026-10-31"), (2, 20.0, "2026-11-01")], "id int, amount double, day string"
    )
    write_table(orders, URI, partition_by=["day"])


def _ids(uri: str, spark: Any) -> list[int]:
    return sorted(row.id for row in read_table(spark, uri).collect())


@pytest.mark.parametrize(("amount", "ids"), [(30.0, [1, 2, 3]), (-1.0, [1, 2])])
def test_write_audit_publish(
    sales: None, spark: Any, tmp_path: Path, amount: float, ids: list[int]
) -> None:
    [example] = [block for block in blocks() if '"audit", source="main"' in block]
    assert len([line for line in example.splitlines() if line and "import" not in line]) <= 11
    schema = "id int, amount double, day string"
    new_orders = spark.createDataFrame([(3, amount, "2026-11-02")], schema)
    exec(example, {"spark": spark, "new_orders": new_orders})
    assert _ids(URI, spark) == ids
    with open_home(None) as lake:
        repository: Repository = lake.repository("sales")
        # A failed audit leaves its branch to be looked at; the other one is published.
        kept = [] if len(ids) == 3 else ["audit"]
        assert [each.name for each in branch.iter_branches(repository)] == [*kept, "main"]
        assert len(list((tmp_path / "namespace/_lakecli/refs").rglob("main"))) == 1 - len(kept)
        with log(repository, "main", LogOptions()) as commits:
            assert ("Merge" in next(commits).message) == (len(ids) == 3)


def test_reading_and_writing_tables(sales: None, spark: Any) -> None:
    [example] = [block for block in blocks() if 'where="day' in block]
    later = spark.createDataFrame([(4, 1.0)], "id int, amount double").selectExpr(
        "*", "'2026-10-31' as day"
    )
    write_table(later, URI, mode="overwrite_partitions", partition_by=["day"])
    assert _ids(URI, spark) == [2, 4]
    # The repository is younger than the date that the page speaks of.
    assert "main@{2026-11-01}" in example
    exec(example.replace("main@{2026-11-01}", "main~1"), {"spark": spark})
    assert _ids(URI, spark) == [1, 2]


def test_a_batch_that_is_repeated_after_a_crash_is_written_once(
    sales: None, spark: Any, tmp_path: Path
) -> None:
    [example] = [block for block in blocks() if "foreachBatch" in block]
    source = tmp_path / "source"
    source.mkdir()
    (source / "1.json").write_text('{"id": 3, "amount": 1.0, "day": "2026-11-02"}\n')
    schema = "id int, amount double, day string"

    def run(*, crash: bool) -> list[int]:
        numbers: list[int] = []
        stream = spark.readStream.schema(schema).json(str(source))
        # The example runs as it stands, but until all files are read, and not for ever.
        writer = stream.writeStream.trigger(availableNow=True)
        foreach = writer.foreachBatch

        def crashing(write: Callable[[Any, int], None]) -> Any:
            def batch(rows: Any, number: int) -> None:
                numbers.append(number)
                write(rows, number)
                if crash:
                    raise ValueError("injected, after the commit")

            return foreach(batch)

        writer.foreachBatch = crashing
        new_orders = SimpleNamespace(writeStream=writer)
        exec(example, {"new_orders": new_orders, "checkpoint": str(tmp_path / "checkpoint")})
        return numbers

    with pytest.raises(StreamingQueryException, match="injected"):
        run(crash=True)
    assert _ids(URI, spark) == [1, 2, 3]
    assert run(crash=False) == [0], "Spark repeats the batch that it did not see end"
    assert _ids(URI, spark) == [1, 2, 3]
    (source / "2.json").write_text('{"id": 4, "amount": 1.0, "day": "2026-11-02"}\n')
    assert run(crash=False) == [1]
    assert _ids(URI, spark) == [1, 2, 3, 4]
    with open_home(None) as lake, log(lake.repository("sales"), "main", LogOptions()) as commits:
        versions = [commit.metadata.get("lakecli.txn.version") for commit in commits]
        assert versions[:3] == ["1", "0", None]


def test_what_a_repository_holds(
    sales: None,
    spark: Any,
    spark_environment: Callable[[str, str], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in os.environ.items():
        if name == "HOME" or name.startswith("XDG_"):
            spark_environment(name, value)
    spark_environment("LAKECLI_HOME", "")
    register(spark)
    with open_home(None) as lake:
        branch.create(lake.repository("sales"), "audit", source="main")
    extra = spark.createDataFrame([(5, 1.0)], "id int, amount double")
    write_table(extra, "lakefs://sales/audit/more/")
    [example] = [block for block in blocks() if "groupBy" in block]
    exec(example, {"spark": spark})
    shown = capsys.readouterr().out
    assert "|application/vnd.a..." in shown
    assert re.search(r"added\|more/part-0", shown)
    [example] = [block for block in blocks() if "createOrReplaceTempView" in block]
    exec(example, {"spark": spark})
    shown = capsys.readouterr().out
    assert "|2026-10-31|       10.0|" in shown
    spark.catalog.dropTempView("orders")
    [example] = [block for block in blocks() if "new_orders.write.format" in block]
    schema = "id int, amount double, day string"
    rows = spark.createDataFrame([(3, 30.0, "2026-11-02")], schema)
    exec(example, {"spark": spark, "new_orders": rows})
    assert _ids(URI, spark) == [1, 2, 3]
