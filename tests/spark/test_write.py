from __future__ import annotations

import pickle
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    StructField,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from lakecli.base.layout import DATA
from lakecli.base.model import RefKind
from lakecli.base.retry import RetryPolicy
from lakecli.engine.errors_as_json import dump_error
from lakecli.engine.runner import StoreLocation
from lakecli.engine.spark_runner import Unfinished
from lakecli.errors import DirtyBranch, ErrorKind, LakeError, NotFound, Unreachable, UsageError
from lakecli.remote.refs import find_ref
from lakecli.repository import branch
from lakecli.repository.clone import clone
from lakecli.repository.commit import commit
from lakecli.repository.commit_attempts import clean_attempt
from lakecli.repository.diff import diff_uncommitted
from lakecli.repository.guard import claim_values
from lakecli.repository.log import LogOptions, log
from lakecli.repository.push import PushOptions, push
from lakecli.repository.reading.view import open_view
from lakecli.spark import read_table, write_table
from lakecli.spark.file_writer import FileLayout, TableFileWriter, escape, layout_of
from lakecli.spark.schema_check import SchemaCheck, SchemaMismatch
from lakecli.spark.table_files import read_footer
from lakecli.spark.target import TableExists
from tests.support.clones import machine
from tests.support.lakes import read, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql.types import DataType

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
def rows(spark: Any) -> Any:
    """Rows of many types, in three partitions."""
    return spark.range(0, 60, 1, 3).selectExpr(
        "id",
        "cast(id as string) as text",
        "cast(id / 7 as decimal(10, 3)) as price",
        "timestamp'2026-01-01 00:00:00' + make_interval(0, 0, 0, 0, id) as at",
        "timestamp_ntz'2026-01-01 00:00:00' as wall",
        "named_struct('a', id, 'b', array(id), 'c', map('k', id)) as nested",
        "make_dt_interval(id) as lasts",
        "cast(id as string) collate UTF8_LCASE as `a.b`",
        "case id % 5 when 0 then null when 1 then '' when 2 then 'a/b=c' when 3 then 'ü %' "
        "else 'x:y' end as kind",
        "date'2026-01-01' + cast(id % 3 as int) as day",
    )


def texts(frame: Any) -> list[str]:
    return sorted(map(str, frame.collect()))


def directories(repository: Repository) -> set[str]:
    return {path.decode().rpartition("/")[0] for path in read(repository, "main")}


def test_a_table_reads_back_as_spark_would_have_written_it(  # noqa: PLR0917 - fixtures
    anywhere: Repository, rows: Any, spark: Any, write: Write, table: Write, tmp_path: Path
) -> None:
    written = write(rows, partition_by=["day", "kind"], message="Rows", committer="Ada")
    assert (written.rows, written.commit.message, written.commit.committer) == (60, "Rows", "Ada")
    assert len(read(anywhere, "main")) == written.files
    rows.write.partitionBy("day", "kind").parquet(str(tmp_path / "t"))
    expected = spark.read.parquet(str(tmp_path / "t"))
    assert directories(anywhere) == {
        path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.parquet")
    }
    found = table()
    assert found.schema == expected.schema
    assert texts(found) == texts(expected)


@pytest.mark.parametrize(
    ("format", "options"),
    [("csv", {"header": True, "sep": ";"}), ("csv", {"compression": "gzip"}), ("json", {})],
)
def test_text_files_equal_those_of_spark(  # noqa: PLR0917 - fixtures and cases
    repository: Repository, rows: Any, write: Write, tmp_path: Path, format: str, options: Any
) -> None:
    flat = rows.drop("nested").coalesce(1) if format == "csv" else rows.coalesce(1)
    flat.write.format(format).options(**options).save(str(tmp_path / "t"))
    [expected] = [path for path in (tmp_path / "t").iterdir() if path.name.startswith("part-")]
    write(flat, format=format, options=options)
    [path] = read(repository, "main")
    assert path.decode().endswith("".join(expected.suffixes))
    from lakecli.repository.reading.contents import read_object
    from lakecli.repository.stat import stat

    data = b"".join(read_object(repository, stat(repository, "main", path)))
    if options.get("compression"):
        import gzip

        assert gzip.decompress(data) == gzip.decompress(expected.read_bytes())
    else:
        assert data == expected.read_bytes()


def test_modes(repository: Repository, spark: Any, write: Write, table: Write) -> None:
    def frame(*pairs: tuple[int, int]) -> Any:
        return spark.createDataFrame(pairs, "v int, p int").coalesce(1)

    def values() -> list[tuple[int, ...]]:
        return sorted(map(tuple, table().collect()))

    stage(repository, "main", {b"other": b"x", b"t2/a": b"x"})
    with pytest.raises(DirtyBranch):
        write(frame((1, 1)))
    write(frame((1, 1), (2, 2)), partition_by=["p"], commit=False)
    with diff_uncommitted(repository, "main") as changes:
        assert len(list(changes)) == 4
    assert values() == [(1, 1), (2, 2)]
    branch.reset(repository, "main")

    first = write(frame((1, 1), (2, 2)), partition_by=["p"])
    assert (first.files, first.rows) == (2, 2)
    with pytest.raises(TableExists, match="there are objects at lakefs://demo/main/t/"):
        write(frame((9, 9)))
    assert write(frame((9, 9)), mode="ignore") == (0, 0, 0, None)
    write(frame((3, 1)), mode="append", partition_by=["p"])
    assert values() == [(1, 1), (2, 2), (3, 1)]
    write(frame((4, 1), (5, 7)), mode="overwrite_partitions", partition_by=["p"])
    assert values() == [(2, 2), (4, 1), (5, 7)]
    last = write(frame((6, 6)), mode="overwrite", partition_by=["p"], metadata={"k": "v"})
    assert values() == [(6, 6)]
    with log(repository, "main", LogOptions()) as commits:
        assert next(commit.id for commit in commits) == last.commit.id
    assert last.commit.metadata == {"k": "v"}
    assert last.commit.message == "Write 1 rows to demo/main/t"
    nothing = spark.createDataFrame([], "v int, p int")
    assert write(nothing, mode="append", partition_by=["p"]).commit is None


def test_sync_auto_shares_the_commit(  # noqa: PLR0917 - fixtures
    repository: Repository,
    rows: Any,
    write: Write,
    table: Write,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAKECLI_SYNC", "auto")
    made = write(rows).commit
    ref = find_ref(repository.store, RefKind.BRANCH, "main")
    assert made is not None
    assert ref is not None
    assert ref.commit_id == made.id
    with machine(tmp_path, "bob") as lake:
        bob = clone(lake, str(tmp_path / "namespace"), "demo")
        assert read(bob, "main") == read(repository, "main")
        stage(bob, "main", {b"other": b"bob's"})
        commit(bob, "main", message="bob's", committer="bob")
        push(bob, "main", options=PushOptions(who="bob"))
    assert table().count() == 60  # reading fetches, too
    assert b"other" in read(repository, "main")


def test_a_write_without_rows_keeps_its_schema(
    repository: Repository, spark: Any, write: Write, table: Write
) -> None:
    for name, frame in {
        "none": spark.range(0),
        "empty": spark.createDataFrame([], "id long"),
    }.items():
        assert write(frame, f"{URI}/{name}").rows == 0
        assert table(f"{URI}/{name}").schema.simpleString() == "struct<id:bigint>"
        assert table(f"{URI}/{name}").count() == 0


def _failing(times: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Rows that end in an error, in one task and a number of times."""

    def fail(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch.slice(0, len(batch) // 2)
            if context.partitionId() == 1 and context.attemptNumber() < times:
                raise ValueError("injected")
            yield batch.slice(len(batch) // 2)

    return fail


def test_failed_tasks_leave_nothing_visible(
    repository: Repository, spark: Any, write: Write, table: Write
) -> None:
    frame = spark.range(0, 40, 1, 2)
    again = write(frame.mapInArrow(_failing(1), "id long"), options={"maxRecordsPerFile": 5})
    assert (again.files, again.rows) == (8, 40)
    assert sorted(row.id for row in table().collect()) == list(range(40))

    before = read(repository, "main")
    objects = {info.key for info in repository.store.list(DATA)}
    with pytest.raises(LakeError, match=r"Spark failed: .*injected"):
        write(
            frame.selectExpr("id + 100 as id").mapInArrow(_failing(9), "id long"),
            mode="overwrite",
            options={"maxRecordsPerFile": 5},
        )
    assert read(repository, "main") == before
    with diff_uncommitted(repository, "main") as changes:
        assert list(changes) == []
    # Some of it was uploaded, which is what garbage collection is for.
    assert {info.key for info in repository.store.list(DATA)} > objects


def test_a_task_that_runs_twice_writes_the_same(repository: Repository) -> None:
    schema = pa.schema([("v", pa.int64())])
    kept = bytes(schema.serialize())
    layout = FileLayout("parquet", ("p",), kept, ".parquet", "snappy", "", 2)
    writer = TableFileWriter(StoreLocation.of(repository), layout, "write")
    batch = pa.record_batch({"p": ["a", "a", "a", "", None], "v": [1, 2, 3, 4, 5]})
    once, twice = (writer.write(7, iter([batch])) for _ in range(2))
    assert once == twice
    assert [each.path for each in once] == [
        "p=a/part-00007-write-c000.parquet",
        "p=a/part-00007-write-c001.parquet",
        "p=__HIVE_DEFAULT_PARTITION__/part-00007-write-c002.parquet",
    ]
    assert [each.rows for each in once] == [2, 1, 2]


def test_a_partition_of_bytes_that_are_not_utf_8_is_refused(repository: Repository) -> None:
    schema = pa.schema([("v", pa.int64())])
    kept = bytes(schema.serialize())
    layout = FileLayout("parquet", ("p",), kept, ".parquet", "snappy", "", 0)
    writer = TableFileWriter(StoreLocation.of(repository), layout, "write")
    texts = pa.array([b"a", b"\xff"]).view(pa.string())  # as Spark's cast of binary gives them
    batch = pa.record_batch({"p": texts, "v": pa.array([1, 2])})
    with pytest.raises(UsageError, match=r"cannot partition by .* not UTF-8: b'\\xff'"):
        writer.write(0, iter([batch]))


def test_a_partition_column_may_have_a_name_that_paths_escape(repository: Repository) -> None:
    stage(repository, "main", {f"t/{escape('p:q')}=1/part-0.parquet".encode(): b""})
    schema = StructType([StructField("v", LongType()), StructField("p:q", LongType())])
    given = (schema, repository, URI, b"t/", "parquet")
    with open_view(repository, "main") as view:
        SchemaCheck(*given, ["p:q"], {}, merges=False, spark=None).check(view)
        with pytest.raises(SchemaMismatch) as refused:
            SchemaCheck(*given, [], {}, merges=False, spark=None).check(view)
    assert refused.value.hint == "partition_by=['p:q']"


def test_escaping_is_that_of_spark(spark: Any) -> None:
    text = "".join(map(chr, range(1, 256))) + "€"
    jvm = spark.sparkContext._jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
    assert escape(text) == jvm.escapePathName(text)


def test_wrong_arguments_are_refused_before_anything_runs(
    repository: Repository, spark: Any, write: Write
) -> None:
    frame = spark.range(3).selectExpr("id", "id as p")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"mode": "replace"}, "unknown mode 'replace'"),
        ({"format": "orc"}, "unknown format 'orc'"),
        ({"partition_by": ["q"]}, "cannot partition by 'q'"),
        ({"partition_by": ["p", "P"]}, "cannot partition by 'p'"),
        ({"partition_by": ["p", "id"]}, "all columns are partition columns"),
        ({"mode": "overwrite_partitions"}, "needs partition columns"),
        ({"format": "csv", "options": {"compression": "zip"}}, "unknown compression 'zip'"),
        ({"options": {"compression": "lzo"}}, "unknown compression 'lzo'"),
        ({"options": {"maxRecordsPerFile": "many"}}, "maxRecordsPerFile is not a number: 'many'"),
        ({"txn": ("app", 1), "commit": False}, "does not go with commit=False"),
    ]
    for options, message in cases:
        with pytest.raises(UsageError, match=message) as refused:
            write(frame, **options)
        assert refused.value.__notes__ == [f"hint: {refused.value.hint}"]
    with pytest.raises(UsageError, match="the rows are a stream") as refused:
        write(spark.readStream.format("rate").load())
    assert "foreachBatch" in str(refused.value.hint)
    with pytest.raises(UsageError, match="two columns have the name 'p'"):
        write(frame.selectExpr("p", "p as P"))
    with pytest.raises(NotFound, match="no branch 'nope'"):
        write(frame, "lakefs://demo/nope/t")


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (ArrayType(LongType()), {"partition_by": ["x"]}, "cannot partition by 'x', array<bigint>"),
        (BinaryType(), {"partition_by": ["X"]}, "cannot partition by 'x', binary"),
        (VariantType(), {"format": "csv"}, "cannot write as CSV 'x', variant"),
        (YearMonthIntervalType(), {}, "cannot write the rows: .*YearMonth"),
    ],
)
def test_types_that_files_cannot_have_are_refused(
    kind: DataType, options: dict[str, Any], message: str
) -> None:
    schema = StructType([StructField("id", LongType()), StructField("x", kind)])
    given = {"format": "parquet", "partition_by": [], "options": {}, "version": "4", **options}
    with pytest.raises(UsageError, match=message):
        layout_of(schema, **given)
    layout_of(StructType(schema.fields[:1]), **{**given, "partition_by": []})


def test_without_a_limit_a_file_has_all_rows() -> None:
    schema = StructType([StructField("id", LongType())])
    options = {"maxRecordsPerFile": -1}  # as for Spark
    layout = layout_of(schema, format="json", partition_by=[], options=options, version="4")
    assert layout.max_rows == 0


class _Touch:
    """Runs code where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.path), "w")


def test_text_in_a_cell_runs_nothing_and_forges_no_error(
    repository: Repository, spark: Any, write: Write, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    forged = dump_error(UsageError("forged")).encode()
    for body in (pickle.dumps(_Touch(canary)), forged):
        for packed in (b64encode(body).decode(), urlsafe_b64encode(body).decode()):
            cells = tmp_path / "cells.csv"
            cells.write_text(f"lakecli:{packed}:\n")
            frame = spark.read.csv(str(cells), schema="cell string").selectExpr(
                "cast(cell as int) as number"
            )
            with pytest.raises(LakeError, match=r"CAST_INVALID_INPUT|cannot be cast") as caught:
                write(frame)
            assert type(caught.value) is Unfinished
    assert not canary.exists()
    assert read(repository, "main") == {}


def test_a_lakecli_error_on_an_executor_keeps_its_class(
    repository: Repository, spark: Any, write: Write, tmp_path: Path
) -> None:
    namespace = Path(repository.record.storage_namespace.removeprefix("local://"))
    data = namespace / DATA.rstrip("/")
    if data.exists():
        data.rmdir()
    data.write_bytes(b"a file is in the way")
    with pytest.raises(LakeError) as caught:
        write(spark.range(3))
    assert not isinstance(caught.value, Unfinished)
    assert caught.value.kind != ErrorKind.UNEXPECTED


def test_filters_find_rows_with_nan(repository: Repository, spark: Any, write: Write) -> None:
    frame = spark.range(0, 4_000, 1, 2).selectExpr(
        "id",
        "if(id % 2 = 0, double('NaN'), double(id)) as d",
        "named_struct('f', if(id % 2 = 0, float('NaN'), float(id))) as s",
    )
    write(frame)
    namespace = repository.record.storage_namespace.removeprefix("local://")
    files = [path for path in Path(namespace, "data").rglob("*") if path.is_file()]
    stored = spark.read.parquet(*map(str, files))
    for where in ("d >= 7000", "s.f > 7000", "d = double('NaN')", "d < 100 and id < 100"):
        assert stored.where(where).count() == frame.where(where).count() > 0
    statistics = pq.read_metadata(files[0]).row_group(0).column(0).statistics
    assert statistics.has_min_max


def test_fields_that_are_never_null_in_a_struct_that_may_be(
    repository: Repository, spark: Any, write: Write, table: Write, tmp_path: Path
) -> None:
    del repository
    kinds = "s struct<a: int not null>, l array<struct<x: int not null>>, m map<string, int>"
    frame = spark.createDataFrame(
        [((1,), [(1,)], {"k": 1}), (None, None, None), ((2,), [None], {"k": None})], kinds
    )
    frame.write.parquet(str(tmp_path / "t"))
    write(frame)
    expected = spark.read.parquet(str(tmp_path / "t"))
    assert table().schema == expected.schema
    assert texts(table()) == texts(expected)


def test_columns_without_a_type(
    repository: Repository, spark: Any, write: Write, table: Write, tmp_path: Path
) -> None:
    """Spark writes `void` from version 4.2 on, and refuses it before."""
    del repository
    frame = spark.sql("select 1 as a, array() as b, named_struct('x', null) as c, null as d")
    try:
        frame.write.parquet(str(tmp_path / "t"))
    except AnalysisException:
        with pytest.raises(UsageError, match="cannot write the rows") as refused:
            write(frame)
        assert refused.value.hint == "cast the column to another type"
    else:
        write(frame)
        expected = spark.read.parquet(str(tmp_path / "t"))
        assert table().schema == expected.schema
        assert texts(table()) == texts(expected)


def test_the_driver_waits_for_a_store_as_long_as_executors_do(
    repository: Repository, spark: Any, write: Write, table: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request of the driver fails three times, as tasks may: Spark tries them four times."""
    del repository
    monkeypatch.setattr(RetryPolicy, "delay", lambda *_: 0.0)
    failed: list[str] = []

    def failing(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*arguments: Any, **options: Any) -> Any:
            if failed.count(name) < 3:
                failed.append(name)
                raise Unreachable("503: slow down")
            return call(*arguments, **options)

        return instead

    claims, commits = failing("claim", claim_values), failing("commit", clean_attempt)
    monkeypatch.setattr("lakecli.spark.write.claim_values", claims)
    monkeypatch.setattr("lakecli.spark.target.clean_attempt", commits)
    assert write(spark.range(7)).rows == 7
    assert (failed.count("claim"), failed.count("commit")) == (3, 3)
    monkeypatch.setattr("lakecli.spark.schemas.read_footer", failing("footer", read_footer))
    assert table(native=False).count() == 7
    assert failed.count("footer") == 3
