"""Tables that many people write: nothing is lost, and nothing is written twice."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyarrow import parquet
from pyspark.sql.types import DataType

import lakecli.spark.write
from lakecli.errors import ConflictError, NotFound, UsageError
from lakecli.refs.ref_store import RefStore
from lakecli.repository import branch
from lakecli.repository.cherry_pick import cherry_pick
from lakecli.repository.commit import commit
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.reading.view import commit_at
from lakecli.spark import read_table, write_table
from lakecli.spark.schema_check import SchemaMismatch, merged_type
from lakecli.spark.table_files import Origin, origins
from lakecli.spark.target import APP, MODES, TABLE, VERSION, StreamBatch, TableChanged, TableExists
from tests.support.lakes import read, stage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.base.ids import CommitId
    from lakecli.repository.contract import Repository

    Write = Callable[..., Any]

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

URI = "lakefs://demo/main/t"


@pytest.fixture
def write(home: Path) -> Write:
    """`write_table`, by default to the same table."""

    def write(frame: Any, uri: str = URI, **options: Any) -> Any:
        return write_table(frame, uri, home=home, **options)

    return write


@pytest.fixture
def table(spark: Any, home: Path) -> Write:
    def table(uri: str = URI, **options: Any) -> Any:
        return read_table(spark, uri, home=home, **options)

    return table


@pytest.fixture
def frame(spark: Any) -> Write:
    """Rows of `v` and `p`, in one file for each `p`."""

    def frame(*pairs: tuple[int, int]) -> Any:
        return spark.createDataFrame(pairs, "v int, p int").coalesce(1)

    return frame


def values(found: Any) -> list[tuple[int, ...]]:
    return sorted(map(tuple, found.collect()))


def head(repository: Repository, ref: str = "main") -> CommitId:
    with repository.lake.kv.read() as txn:
        return commit_at(repository, txn, ref).id


def test_rows_know_the_commit_that_they_were_read_from(
    repository: Repository, write: Write, table: Write, frame: Write
) -> None:
    write(frame((1, 1)))
    first = Origin("demo", "main", head(repository))
    found = table()
    write(frame((2, 2)), mode="append")
    second = Origin("demo", "main", head(repository))
    derived = found.where("v > 0").join(table().select("v").distinct(), "v").groupBy("p").count()
    assert set(origins(derived)) == {first, second}
    found.createOrReplaceTempView("rows")
    spark = found.sparkSession
    assert origins(spark.sql("select * from rows where v in (select max(v) from rows)")) == [first]
    # A past state was meant by whoever named it, and rows of Python come from nowhere.
    assert origins(table("lakefs://demo/main~1/t")) == origins(frame((1, 1))) == []
    assert origins(table(f"lakefs://demo/{second.commit_id}/t")) == []


def test_an_overwrite_does_not_undo_what_was_appended_meanwhile(
    anywhere: Repository, write: Write, table: Write, frame: Write
) -> None:
    write(frame(*((v, 0) for v in range(10))))
    kept = table().where("v % 2 = 0")
    before = read(anywhere, "main")
    write(frame(*((v, 0) for v in range(10, 15))), mode="append")
    appended = sorted(set(read(anywhere, "main")) - set(before))
    with pytest.raises(TableChanged, match="a path of lakefs://demo/main/t/ changed since") as lost:
        write(kept, mode="overwrite")
    assert list(lost.value.paths) == appended
    assert isinstance(lost.value, ConflictError)
    assert 'expected="main"' in str(lost.value.hint)
    assert table().count() == 15
    # Staging is no way round, and appending is no conflict.
    with pytest.raises(TableChanged):
        write(kept, mode="overwrite", commit=False)
    assert write(kept, mode="append").rows == 5
    # The rows read again, or the word that what came meanwhile may go.
    assert write(table().where("v % 2 = 0"), mode="overwrite").rows == 13
    assert write(kept, mode="overwrite", expected="main").rows == 5
    assert values(table().select("v")) == [(0,), (2,), (4,), (6,), (8,)]


def test_partitions_conflict_only_where_they_changed(
    repository: Repository, write: Write, table: Write, frame: Write
) -> None:
    write(frame((1, 1), (2, 2)), partition_by=["p"])
    rows = table()
    other = rows.where("p = 2")
    write(frame((3, 1)), mode="append", partition_by=["p"])
    options: dict[str, Any] = {"mode": "overwrite_partitions", "partition_by": ["p"]}
    with pytest.raises(TableChanged) as lost:
        write(rows.selectExpr("v + 10 as v", "p"), **options)
    assert [path.startswith(b"t/p=1/part-") for path in lost.value.paths] == [True]
    write(other.selectExpr("v + 10 as v", "p"), **options)
    assert values(table()) == [(1, 1), (3, 1), (12, 2)]
    # A write to another path of the branch is none of its business.
    write(frame((9, 9)), "lakefs://demo/main/other", mode="overwrite")
    write(table().where("p = 2"), **options)


@pytest.mark.parametrize("mode", MODES)
def test_a_write_during_the_call(
    repository: Repository, write: Write, frame: Write, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    file = io.BytesIO()
    parquet.write_table(pa.table({"v": pa.array([5], pa.int32())}), file)
    others = dict.fromkeys(("p=1/a", "p=2/a"), file.getvalue())

    def interfered(*args: Any) -> Any:
        done = upload(*args)
        stage(repository, "main", {f"t/{name}".encode(): data for name, data in others.items()})
        commit(repository, "main", message="meanwhile", committer="bob")
        return done

    upload = lakecli.spark.write._upload
    monkeypatch.setattr(lakecli.spark.write, "_upload", interfered)
    refused = {
        "error": TableExists,
        "overwrite": TableChanged,
        "overwrite_partitions": TableChanged,
    }
    rows = frame((1, 1))
    if mode in refused:
        with pytest.raises(refused[mode]) as lost:
            write(rows, mode=mode, partition_by=["p"])
        conflicting = {"error": 0, "overwrite": 2, "overwrite_partitions": 1}
        assert lost.value.paths == (b"t/p=1/a", b"t/p=2/a")[: conflicting[mode]]
    else:
        assert (write(rows, mode=mode, partition_by=["p"]).commit is None) == (mode == "ignore")
    assert len(read(repository, "main")) == (3 if mode == "append" else 2)


def test_what_is_expected_can_be_named(
    repository: Repository, write: Write, table: Write, frame: Write
) -> None:
    first = write(frame((1, 1))).commit
    write(frame((2, 2)), mode="append")
    # Without a source, the head of the call's begin counts; so this replaces what is there.
    with pytest.raises(TableChanged):
        write(frame((3, 3)), mode="overwrite", expected=first.id)
    with pytest.raises(TableChanged):
        write(frame((3, 3)), mode="overwrite", expected="main~1")
    with pytest.raises(NotFound):
        write(frame((3, 3)), mode="overwrite", expected="nope")
    assert values(table()) == [(1, 1), (2, 2)]
    # An old state is read on purpose: this is how it comes back.
    write(table("lakefs://demo/main~1/t"), mode="overwrite")
    assert values(table()) == [(1, 1)]
    with pytest.raises(TableExists):
        write(frame((3, 3)), expected="main")


def test_a_batch_is_written_once(
    repository: Repository, write: Write, table: Write, frame: Write
) -> None:
    txn = ("orders", 17)
    made = write(frame((1, 1)), mode="append", txn=txn, metadata={"k": "v"}).commit
    assert made.metadata == {"k": "v", APP: "orders", VERSION: "17", TABLE: "t/"}
    for mode in ("append", "overwrite", "error"):
        assert write(frame((1, 1)), mode=mode, txn=txn) == (0, 0, 0, None)
        assert write(frame((1, 1)), mode=mode, txn=("orders", 16)).commit is None
    # Another table, application or version is another batch.
    assert write(frame((1, 1)), "lakefs://demo/main/u", mode="append", txn=txn).commit
    assert write(frame((2, 2)), mode="append", txn=("other", 1)).commit
    assert write(frame((3, 3)), mode="append", txn=("orders", 18)).commit
    assert values(table()) == [(1, 1), (2, 2), (3, 3)]
    # A batch without rows counts as well: after it, an overwrite must not happen again.
    nothing = frame((1, 1)).where("false")
    options: dict[str, Any] = {"mode": "overwrite", "partition_by": ["p"], "txn": ("orders", 19)}
    assert write(nothing, **options).commit.metadata[VERSION] == "19"
    write(frame((4, 4)), mode="append")
    assert write(nothing, **options).commit is None
    assert values(table()) == [(4, 4)]


@pytest.mark.parametrize(
    "txn", [("", 1), ("a", -1), ("a", "1"), ("a", True), ("a",), "ab", ("a", 1 << 63)]
)
def test_a_batch_that_is_none_is_refused(
    repository: Repository, write: Write, frame: Write, txn: Any
) -> None:
    with pytest.raises(UsageError, match="txn is not an application and a version"):
        write(frame((1, 1)), txn=txn)


def test_a_batch_has_to_be_committed(repository: Repository, write: Write, frame: Write) -> None:
    with pytest.raises(UsageError, match="txn does not go with commit=False"):
        write(frame((1, 1)), txn=("a", 1), commit=False)


def test_batches_are_found_behind_merges_and_cherry_picks(repository: Repository) -> None:
    def record(name: str, batch: StreamBatch) -> None:
        stage(repository, name, {f"{batch.table}{batch.version}".encode(): b"x"})
        commit(repository, name, message="b", committer="ada", metadata=batch.metadata)

    def is_written(version: int) -> bool:
        with repository.lake.kv.read() as txn:
            refs = RefStore(txn, repository.key)
            head = commit_at(repository, txn, "main")
            return StreamBatch("a", version, "t/").is_written(refs, head)

    branch.create(repository, "side", source="main")
    record("main", StreamBatch("a", 5, "t/"))
    record("main", StreamBatch("a", 9, "u/"))
    assert [is_written(version) for version in (4, 5, 6)] == [True, True, False]
    # An older batch comes on top of the newer one, which still counts.
    record("side", StreamBatch("a", 4, "t/"))
    cherry_pick(repository, "side", "main", committer="ada")
    assert [is_written(version) for version in (5, 6)] == [True, False]
    record("side", StreamBatch("a", 7, "t/"))
    merge(repository, "side", "main", MergeOptions(committer="ada"))
    assert [is_written(version) for version in (7, 8)] == [True, False]


ROW = ["1 as a", "'x' as b", "cast(1 as decimal(5,2)) as d", "named_struct('x', 1) as n"]


def _row(spark: Any, *columns: str) -> Any:
    return spark.range(0, 1, 1, 1).selectExpr(*columns)


def _but(number: int, *columns: str) -> list[str]:
    """`ROW` with other columns in place of one."""
    return [*ROW[:number], *columns, *ROW[number + 1 :]]


def test_appended_rows_have_the_columns_of_the_table(
    anywhere: Repository, spark: Any, write: Write, table: Write
) -> None:
    write(_row(spark, *ROW, "1 as p"), partition_by=["p"])
    before = read(anywhere, "main")
    uri = "the table lakefs://demo/main/t"
    cases = [
        (_but(0, "'1' as A"), f"column 'a' is string in the rows, and int in {uri}"),
        (_but(0), f"column 'a' of {uri}, int, is missing in the rows"),
        ([*ROW, "2L as c"], f"column 'c' of the rows, bigint, is missing in {uri}"),
        (_but(3, "named_struct('x', 1L) as n"), r"column 'n' is struct<x:bigint> in the rows"),
    ]
    for columns, message in cases:
        for mode in ("append", "overwrite_partitions"):
            with pytest.raises(SchemaMismatch, match=message):
                write(_row(spark, *columns, "1 as p"), mode=mode, partition_by=["p"])
    with pytest.raises(SchemaMismatch, match="is partitioned by p, and the rows by no column"):
        write(_row(spark, *ROW), mode="append")
    assert read(anywhere, "main") == before
    # Order, case and nulls are no difference, and a new table may have any columns.
    write(_row(spark, "null as p", *ROW[::-1][:3], "1 as A"), mode="append", partition_by=["P"])
    assert table().count() == 2
    write(_row(spark, "'1' as a", "2 as p"), mode="overwrite", expected="main")


def test_a_merged_schema_is_that_of_spark(
    repository: Repository, spark: Any, write: Write, table: Write
) -> None:
    write(_row(spark, *ROW))
    wider = [
        "cast(12345.5 as decimal(9,2)) as d",
        "named_struct('x', 2, 'y', 'z') as n",
        "1 as new",
    ]
    with pytest.raises(SchemaMismatch, match=r"column 'd' is decimal\(9,2\) in the rows, and dec"):
        write(_row(spark, *ROW[:2], *wider), mode="append")
    merging: dict[str, Any] = {"mode": "append", "mergeSchema": True}
    write(_row(spark, ROW[0], *wider), **merging)
    found = table(options={"mergeSchema": True})
    assert found.schema.simpleString() == (
        "struct<a:int,b:string,d:decimal(9,2),n:struct<x:int,y:string>,new:int>"
    )
    assert sorted(map(str, found.collect())) == [
        "Row(a=1, b='x', d=Decimal('1.00'), n=Row(x=1, y=None), new=None)",
        "Row(a=1, b=None, d=Decimal('12345.50'), n=Row(x=2, y='z'), new=1)",
    ]
    # The table has these columns from now on; the option means the same as the argument.
    with pytest.raises(SchemaMismatch, match="column 'd' is"):
        write(_row(spark, *ROW), mode="append")
    write(_row(spark, *ROW), mode="append", options={"mergeSchema": True})
    assert table(options={"mergeSchema": True}).schema == found.schema
    with pytest.raises(SchemaMismatch, match="column 'a' is bigint in the rows"):
        write(_row(spark, "1L as a"), **merging)
    # Names sort by the order of the commits, and the oldest file tells the schema.
    files = [path.split(b"-")[1] for path in read(repository, "main")]
    assert files == sorted(files)
    assert len(set(files)) == len(files) == 3
    assert table().columns == ["a", "b", "d", "n"]


def test_types_merge_as_in_spark(spark: Any) -> None:
    kinds = [
        "int",
        "bigint",
        "string",
        "decimal(5,2)",
        "decimal(9,2)",
        "decimal(9,3)",
        "array<decimal(5,2)>",
        "array<decimal(6,2)>",
        "map<string,decimal(5,2)>",
        "map<string,decimal(7,2)>",
        "map<int,decimal(7,2)>",
        "struct<x:int>",
        "struct<X:int,y:decimal(5,2)>",
        "struct<y:decimal(8,2)>",
        "struct<x:string>",
    ]
    of_ddl = spark._jvm.org.apache.spark.sql.types.StructType.fromDDL
    for left in kinds:
        for right in kinds:
            try:
                merged = of_ddl(f"c {left}").merge(of_ddl(f"c {right}"), *(False,))
                expected = merged.apply(0).dataType().simpleString()
            except Py4JJavaError:
                expected = None
            one, other = (DataType.fromDDL(kind) for kind in (left, right))
            found = merged_type(one, other)
            assert (found and found.simpleString()) == expected, (left, right)


def test_a_table_that_changes_its_columns_during_the_call(
    repository: Repository, spark: Any, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(_row(spark, *ROW))

    def interfered(*args: Any) -> Any:
        monkeypatch.setattr(lakecli.spark.write, "_upload", upload)
        write(_row(spark, *ROW, "1 as new"), mode="append", mergeSchema=True)
        return upload(*args)

    upload = lakecli.spark.write._upload
    monkeypatch.setattr(lakecli.spark.write, "_upload", interfered)
    with pytest.raises(SchemaMismatch, match="column 'new' of the table"):
        write(_row(spark, *ROW), mode="append")
    assert len(read(repository, "main")) == 2


def test_text_is_compared_by_what_it_has(
    repository: Repository, spark: Any, write: Write, frame: Write
) -> None:
    rows = frame((1, 2))
    csv: dict[str, Any] = {"format": "csv", "options": {"header": True, "sep": ";"}}
    write(rows, **csv)
    write(rows, mode="append", **csv)
    with pytest.raises(SchemaMismatch, match="column 1 of the rows is 'p', and of the table"):
        write(rows.select("p", "v"), mode="append", **csv)
    with pytest.raises(SchemaMismatch, match=r"the rows have 1 columns, and the table .* 2"):
        write(rows.select("v"), mode="append", **csv)
    with pytest.raises(UsageError, match="mergeSchema is for Parquet, not for csv"):
        write(rows, mode="append", mergeSchema=True, **csv)
    with pytest.raises(UsageError, match="is not a Parquet file"):
        write(rows, mode="append")
    write(rows, f"{URI}/json", format="json")
    write(rows.select("v"), f"{URI}/json", format="json", mode="append")
