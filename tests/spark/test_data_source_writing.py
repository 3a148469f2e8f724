"""Tables by ``frame.write.format("lakefs")``: committed once, with the rules of `write_table`."""

from __future__ import annotations

import io
import json
import pickle
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql.types import (
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from lakecli.errors import DirtyBranch, LakeError, Unsupported, UsageError
from lakecli.filesystem import LakeFileSystem
from lakecli.repository.commit import commit
from lakecli.repository.reading.view import branch_at
from lakecli.spark import data_source, read_table, register
from lakecli.spark.data_source import source_class
from lakecli.spark.file_writer import NO_VALUE
from lakecli.spark.schema_check import SchemaMismatch
from lakecli.spark.target import TableChanged
from tests.support.lakes import read, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lakecli.repository.contract import Repository

    Save = Callable[..., Any]

URI = "lakefs://demo/main/t"
SCHEMA = StructType(
    [StructField("id", LongType()), StructField("day", DateType()), StructField("n", StringType())]
)
DAYS = [date(2026, 1, 1), date(2026, 1, 2), None]


class Context:
    """What a task knows of itself."""

    number = 0

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        return self.number


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Context:
    """The context of the task that this process plays."""
    context = Context()
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")  # this is no worker that ends with an error
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    return context


@pytest.fixture
def begin(home: Path, context: Context) -> Save:
    """Begin a write as Spark does; the writer reaches tasks and the commit in pickles."""

    def begin(schema: StructType = SCHEMA, *, overwrite: bool = False, **options: str) -> Any:
        source = source_class(str(home))({"path": URI, **options})
        return pickle.loads(pickle.dumps(source.writer(schema, overwrite)))

    return begin


@pytest.fixture
def save(begin: Save, context: Context) -> Save:
    """Write rows, those of each task in a list."""

    def save(*tasks: Sequence[pa.RecordBatch], **options: Any) -> None:
        writer = begin(**options)
        messages = []
        for number, batches in enumerate(tasks):
            context.number = number
            messages.append(pickle.loads(pickle.dumps(writer.write(iter(batches)))))
        writer.commit(messages)

    return save


def rows(start: int, stop: int) -> pa.RecordBatch:
    numbers = range(start, stop)
    return pa.record_batch(
        {
            "id": pa.array(numbers, pa.int64()),
            "day": pa.array([DAYS[number % 3] for number in numbers], pa.date32()),
            "n": [f"n{number}" for number in numbers],
        }
    )


def present(home: Path) -> list[Any]:
    """Return the IDs, days and other columns of all rows of the table."""
    system = LakeFileSystem(home)
    found: list[Any] = []
    for path in system.find("demo/main/t"):
        rows = pq.ParquetFile(system.open(path)).read().to_pylist()
        if "/day=" in path:
            text = path.partition("/day=")[2].partition("/")[0]
            day = None if text == NO_VALUE else date.fromisoformat(text)
            rows = [{**{k: v for k, v in row.items() if k != "day"}, "day": day} for row in rows]
        found += rows
    return sorted(found, key=str)


def columns(home: Path, path: str) -> list[str]:
    return list(pq.read_schema(LakeFileSystem(home).open(path)).names)


def head(repository: Repository) -> Any:
    with repository.lake.kv.read() as txn:
        return branch_at(repository, txn, "main").commit_id


def names(repository: Repository) -> list[str]:
    return [path.decode() for path in read(repository, "main")]


def test_rows_reach_their_directories(
    repository: Repository, save: Save, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Spark does not sort the rows: each task has three directories in each batch.
    tasks = [[rows(0, 20), rows(20, 40)], [rows(40, 60)], []]
    save(*tasks, partitionBy="day", message="Rows", committer="Ada")
    expected = [row for task in tasks for batch in task for row in batch.to_pylist()]
    assert present(home) == sorted(
        expected, key=lambda row: str({k: row[k] for k in ("id", "n", "day")})
    )
    assert len(names(repository)) == 6, "one file for each task and directory"
    assert {name.split("/")[1] for name in names(repository)} == {
        "day=2026-01-01",
        "day=2026-01-02",
        "day=__HIVE_DEFAULT_PARTITION__",
    }
    save([rows(60, 70)], partitionBy="day")
    assert len(present(home)) == 70

    # A task that has more rows than it may hold writes several files.
    monkeypatch.setattr(data_source, "ROW_GROUP", 1)
    save([rows(0, 3), rows(3, 6)], partitionBy="day", overwrite=True)
    assert len(present(home)) == 6
    assert len(names(repository)) == 6


def test_only_the_answers_that_reach_the_commit_count(
    repository: Repository, begin: Save, home: Path
) -> None:
    before = head(repository)
    begun = begin()
    begun.write(iter([rows(0, 5)]))  # an attempt that was killed, or a slower copy
    message = begun.write(iter([rows(0, 5)]))
    assert head(repository) == before, "nothing is visible yet"
    begun.abort([message, None])
    assert head(repository) == before
    begun.commit([message, None])
    assert len(present(home)) == 5
    assert len(names(repository)) == 1


def test_no_rows_make_a_table_with_columns(repository: Repository, save: Save, home: Path) -> None:
    save()
    assert present(home) == []
    assert columns(home, f"demo/main/{names(repository)[0]}") == ["id", "day", "n"]


def test_rows_must_have_the_columns_of_the_table(
    save: Save, home: Path, repository: Repository
) -> None:
    save([rows(0, 2)])
    wider = pa.record_batch({"id": pa.array([9], pa.int64()), "more": pa.array([1], pa.int32())})
    schema = StructType([SCHEMA.fields[0], StructField("more", IntegerType())])
    before = head(repository)
    with pytest.raises(SchemaMismatch, match=r"column 'day' of the table .* is missing"):
        save([wider], schema=schema)
    assert head(repository) == before
    save([wider], schema=schema, mergeSchema="true")
    assert [row["id"] for row in present(home)] == [0, 1, 9]
    newest = max(names(repository))
    assert columns(home, f"demo/main/{newest}") == ["id", "day", "n", "more"]


def test_files_may_have_the_partition_column_too(
    repository: Repository, save: Save, home: Path
) -> None:
    kinds = {"day": "long", "id": "long", "n": "string"}
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in kinds.items()
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    table = pa.table({"day": [20260101], "id": [7], "n": ["n7"]})
    for key in ("another", "org.apache.spark.sql.parquet.row.metadata"):
        data = io.BytesIO()
        pq.write_table(table.replace_schema_metadata({key: schema}), data)
        stage(repository, "main", {b"t/day=2026-01-01/f.parquet": data.getvalue()})
        commit(repository, "main", message="As other programs write it", committer="test")
        if key == "another":  # only Spark can infer the schema
            with pytest.raises(Unsupported, match="no session to infer one") as refused:
                save([rows(0, 1)], partitionBy="day")
            assert "write_table" in str(refused.value.hint)
    for merges in ("false", "true"):
        save([rows(0, 1)], partitionBy="day", mergeSchema=merges)
    assert present(home) == [
        {"id": 0, "n": "n0", "day": DAYS[0]},
        {"id": 0, "n": "n0", "day": DAYS[0]},
        {"id": 7, "n": "n7", "day": DAYS[0]},
    ]


def test_what_changed_meanwhile_is_not_replaced(
    repository: Repository, save: Save, begin: Save, home: Path
) -> None:
    save([rows(0, 6)], partitionBy="day")
    first = head(repository)
    begun = begin(overwrite=True, partitionBy="day")
    message = begun.write(iter([rows(10, 16)]))
    save([rows(6, 7)], partitionBy="day")  # one row of the first day
    with pytest.raises(TableChanged, match="a path of"):
        begun.commit([message])
    assert len(present(home)) == 7
    with pytest.raises(TableChanged):
        begin(overwrite=True, expected=first)

    dynamic = {"partitionBy": "day", "partitionOverwriteMode": "dynamic", "overwrite": True}
    second = rows(10, 11)  # of the second day only
    save([second], expected=first, **dynamic)
    assert sorted(row["id"] for row in present(home)) == [0, 2, 3, 5, 6, 10]
    with pytest.raises(TableChanged):
        save([rows(12, 13)], expected=first, **dynamic)
    save([rows(12, 13)], overwrite=True)
    assert [row["id"] for row in present(home)] == [12]


def test_a_batch_is_written_once(
    repository: Repository, save: Save, begin: Save, home: Path
) -> None:
    txn = {"txnAppId": "app", "txnVersion": "7"}
    late = begin(**txn)
    message = late.write(iter([rows(0, 3)]))
    for _ in range(2):
        save([rows(0, 3)], **txn)
    late.commit([message])
    assert len(present(home)) == 3
    save([rows(3, 4)], txnAppId="app", txnVersion="8")
    assert len(present(home)) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "csv"}, "does not write 'csv'"),
        ({"colour": "red"}, "unknown option 'colour' of a write"),
        ({"path": ""}, "no URI to save to"),
        ({"partitionBy": "nope"}, "cannot partition by 'nope'"),
        ({"partitionBy": "id,day,n"}, "all columns are partition columns"),
        ({"partitionOverwriteMode": "x"}, "must be static or dynamic"),
        ({"mergeSchema": "maybe"}, "mergeSchema must be true or false"),
        ({"txnAppId": "app"}, "belong together"),
        ({"compression": "zip"}, "unknown compression 'zip'"),
        ({"maxRecordsPerFile": "many"}, "maxRecordsPerFile is not a number"),
        ({"txnAppId": "app", "txnVersion": "-1"}, "not an application and a version"),
    ],
)
def test_options_that_are_not_valid_are_refused(
    repository: Repository, begin: Save, options: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        begin(**options)


def test_what_cannot_be_written_is_refused(repository: Repository, begin: Save) -> None:
    schema = StructType([SCHEMA.fields[0], StructField("x", DoubleType())])
    with pytest.raises(UsageError, match="cannot partition by 'x', double") as refused:
        begin(schema, partitionBy="x")
    assert "cast it to string" in str(refused.value.hint)
    with pytest.raises(UsageError, match="dynamic needs partition columns"):
        begin(overwrite=True, partitionOverwriteMode="dynamic")
    with pytest.raises(LakeError, match="no branch 'nope'"):
        begin(path="lakefs://demo/nope/t")
    stage(repository, "main", {b"x": b"1"})
    with pytest.raises(DirtyBranch):
        begin()


@pytest.mark.xdist_group("spark")
def test_spark_writes_reads_and_queries_tables(
    repository: Repository, spark: Any, home: Path
) -> None:
    register(spark, home=home)
    frame = spark.range(0, 60, 1, 3).selectExpr(
        "id",
        "date'2026-01-01' + cast(id % 2 as int) as day",
        "named_struct('a', id, 'b', array(id)) as nested",
        "timestamp'2026-01-01 00:00:00' + make_interval(0, 0, 0, 0, id) as at",
    )
    target = frame.write.format("lakefs").option("partitionBy", "day")
    target.mode("append").save(URI)
    table = read_table(spark, URI, home=home)
    order = ["id", "day", "nested", "at"]
    assert sorted(map(str, table.select(order).collect())) == sorted(map(str, frame.collect()))

    table.where("id < 10").createOrReplaceTempView("few")
    joined = spark.sql("select f.day, count(*) as n from few f group by f.day order by f.day")
    assert [row["n"] for row in joined.collect()] == [5, 5]
    spark.catalog.dropTempView("few")

    checkpoint = {"checkpointLocation": str(home / "checkpoint")}
    stream = spark.readStream.format("rate").load().writeStream.format("lakefs")
    with pytest.raises(PySparkException, match=r"hint: .*foreachBatch") as caught:
        stream.options(**checkpoint).start(URI).awaitTermination(60)
    assert "Traceback" not in str(caught.value)

    frame.limit(7).write.format("lakefs").mode("overwrite").save(URI)
    assert read_table(spark, URI, home=home).count() == 7
    spark.range(1).write.format("lakefs").mode("append").save("lakefs://demo/main/new")

    refused: list[tuple[Callable[[], Any], str]] = [
        (lambda: frame.write.format("lakefs").save(URI), "ErrorIfExists"),
        (lambda: frame.write.format("lakefs").mode("ignore").save(URI), "Ignore"),
        (lambda: target.partitionBy("day").mode("append").save(URI), "(?i)partition"),
        (
            lambda: spark.range(1).write.format("lakefs").mode("append").save(URI),
            "(?s)column 'day' of the table.*hint: add it",
        ),
        (
            lambda: (
                frame.selectExpr("id", "raise_error('mine') as x")
                .write.format("lakefs")
                .mode("append")
                .save("lakefs://demo/main/other")
            ),
            "mine",
        ),
    ]
    before = head(repository)
    for call, message in refused:
        with pytest.raises(PySparkException, match=message) as caught:
            call()
        assert "Traceback" not in str(caught.value)
    assert head(repository) == before
