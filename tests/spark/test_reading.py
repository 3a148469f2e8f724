"""What stands between a table of objects and Spark: directories, schemas, executors."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StructField, StructType

from lakecli.errors import LakeWarning, Unsupported, UsageError
from lakecli.repository.commit import commit
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import upload_tree
from lakecli.spark import read_entries, read_table, register, table_reading, write_table
from lakecli.spark.schemas import GIVE_SCHEMA, arrow_schema, schema_of_json
from lakecli.spark.sessions import check_planner, read_parts
from tests.support.lakes import stage

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.repository.contract import Repository

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

KEY = "org.apache.spark.sql.parquet.row.metadata"
VECTOR = {
    "type": "udt",
    "class": "org.apache.spark.ml.linalg.VectorUDT",
    "pyClass": "pyspark.ml.linalg.VectorUDT",
    "sqlType": "long",
}
MERGES: dict[str, Any] = {"native": False, "options": {"mergeSchema": True}}


def test_types_that_programs_define_are_not_made(tmp_path: Path) -> None:
    """PySpark unpickles the class of a type that a file describes."""
    canary = tmp_path / "canary"
    kind = {"type": "udt", "class": None, "sqlType": "long"}
    bad = [
        {**kind, "pyClass": "os.X", "serializedClass": "Y29zCnN5c3RlbQo="},
        {**kind, "pyClass": "this.X"},
        {**kind, "pyClass": "pyspark.ml.linalg.None", "serializedClass": "gASVAAAA"},
        {**kind, "pyClass": "pyspark.shell.X"},
        {**kind, "pyClass": "pyspark.testing.objects.ExamplePointUDT"},
        {**kind, "pyClass": "pyspark.ml.linalg.VectorUDT"},
        {**VECTOR, "class": "org.apache.spark.mllib.linalg.VectorUDT"},
        {**VECTOR, "class": "java.util.concurrent.ForkJoinPool"},
        {**VECTOR, "pyClass": "pyspark.ml.linalg.VectorUDT "},
        {**VECTOR, "serializedClass": "gASVAAAA"},
        {**kind, "class": [], "pyClass": {}},
        {"type": "udt"},
    ]
    for each in bad:
        for nested in (each, {"type": "array", "elementType": each, "containsNull": True}):
            field = {"name": "v", "type": nested, "nullable": True, "metadata": {}}
            text = json.dumps({"type": "struct", "fields": [field]})
            with pytest.raises(Unsupported, match="type that a program defined"):
                schema_of_json(text, "f")
    assert not canary.exists()
    assert not {"this", "pyspark.shell"} & {*sys.modules}
    with pytest.raises(UsageError, match="is damaged"):
        schema_of_json("{", "f")


@pytest.mark.parametrize("name", ["VectorUDT", "MatrixUDT"])
@pytest.mark.parametrize("place", ["ml.linalg", "mllib.linalg"])
def test_types_of_spark_itself_are_known(place: str, name: str) -> None:
    kind = getattr(import_module(f"pyspark.{place}"), name)()
    schema = StructType([StructField("v", kind)])
    assert schema_of_json(schema.json(), "f") == schema


def nested(depth: int) -> str:
    """Return a schema in which a struct is in a struct, so many times."""
    before = '{"type":"struct","fields":[{"name":"a","nullable":true,"metadata":{},"type":'
    return before * depth + '"long"' + "}]}" * depth


def test_a_schema_that_is_nested_too_deep_is_refused() -> None:
    schema = schema_of_json(nested(60), "f")
    assert pa.ipc.read_schema(arrow_schema(schema).serialize()) is not None
    for depth in (70, 2_000, 100_000):
        with pytest.raises(UsageError, match="nested deeper than 192 levels") as error:
            schema_of_json(nested(depth), "f")
        assert error.value.hint == GIVE_SCHEMA


def _keep(repository: Repository, source: Path, table: pa.Table) -> None:
    source.mkdir()
    pq.write_table(table, source / "f.parquet")
    upload_tree(repository, "main", source.name.encode(), source=source, options=UploadOptions())
    commit(repository, "main", message="Table", committer="test")


def _text_of(kind: dict[str, str]) -> str:
    field = {"name": "v", "type": kind, "nullable": True, "metadata": {}}
    return json.dumps({"type": "struct", "fields": [field]})


def test_such_a_file_is_refused_by_each_reader(
    repository: Repository, spark: Any, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(spark, home=home)
    python = {"type": "udt", "pyClass": "this.X", "serializedClass": "Lg==", "sqlType": "long"}
    java = {"type": "udt", "class": "java.lang.Object"}
    texts = [_text_of(kind) for kind in (python, java)] + [nested(2_000)]
    for number, text in enumerate(texts):
        table = pa.table({"v": [1]}).replace_schema_metadata({KEY: text})
        _keep(repository, tmp_path / str(number), table)
        uri = f"lakefs://demo/main/{number}"
        match = "nested deeper" if number == 2 else "type that a program defined"
        for options in (*({"native": each} for each in (None, True, False)), MERGES):
            with pytest.raises((Unsupported, UsageError), match=match):
                read_table(spark, uri, home=home, **options)
        with pytest.raises(PySparkException, match=match):
            spark.range(1).toDF("v").write.format("lakefs").mode("append").save(uri)
    assert "this" not in sys.modules


class _Lacking:
    """Imports a module that executors do not have, where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return __import__, ("lakecli.is.not.here",)


def test_an_executor_without_lakecli_says_so(spark: Any) -> None:
    read: Any = _Lacking()
    frame = read_parts(spark, read, [1], StructType([StructField("id", LongType())]))
    with pytest.raises(PySparkException, match="lacks the module lakecli") as failed:
        frame.collect()
    assert "hint: give the executors an environment with Python" in str(failed.value)


def test_servers_of_spark_connect_without_java_are_named() -> None:
    def refuse(_: str) -> None:
        raise PySparkException("function: java_method")

    kind = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    sail: Any = kind()
    sail.sql = refuse
    for call in (
        lambda: read_table(sail, "lakefs://demo/main"),
        lambda: register(sail),
        lambda: write_table(SimpleNamespace(sparkSession=sail), "lakefs://demo/main/t"),  # type: ignore[arg-type]
    ):
        with pytest.raises(Unsupported, match=r"Sail \(pysail\).*: function: java_method"):
            call()


def test_a_pyspark_without_java_is_named() -> None:
    text = "import sys; sys.modules['py4j'] = None; import lakecli.spark"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert "ImportError: lakecli.spark needs the package pyspark" in done.stderr
    assert "pyspark-client" in done.stderr


def test_the_python_of_the_driver_is_looked_up() -> None:
    def session(program: str) -> Any:
        return SimpleNamespace(sparkContext=SimpleNamespace(pythonExec=program))

    check_planner(session(sys.executable))
    with pytest.raises(Unsupported, match=r"this machine has none at \./environment/bin/python"):
        check_planner(session("./environment/bin/python"))


def test_entries_are_those_of_the_data_source(
    repository: Repository, spark: Any, load: Any, home: Path
) -> None:
    stage(repository, "main", {b"t/%03d" % number: b"%d" % number for number in range(90)})
    commit(repository, "main", message="One", committer="test")
    stage(repository, "main", {b"t/new": b"x"})
    for uri in ("lakefs://demo/main", "lakefs://demo/main@", "lakefs://demo/main/t/00"):
        found, expected = read_entries(spark, uri, home=home), load(uri)
        assert found.schema == expected.schema
        assert sorted(map(str, found.collect())) == sorted(map(str, expected.collect()))
    assert read_entries(spark, "lakefs://demo/main", columns=["size"], home=home).columns == [
        "size"
    ]
    with pytest.raises(UsageError, match="column 'etag' of entries is unknown"):
        read_entries(spark, "lakefs://demo/main", columns=["path", "etag"], home=home)


def test_fields_of_one_name_in_a_struct_are_refused(
    repository: Repository, spark: Any, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"v": [[{"a": 1, "A": 2}]]})
    _keep(repository, tmp_path / "t", table)
    with pytest.raises(PySparkException, match="COLUMN_ALREADY_EXISTS"):
        spark.read.parquet(str(tmp_path / "t"))
    with pytest.raises(UsageError, match="COLUMN_ALREADY_EXISTS"):
        read_table(spark, "lakefs://demo/main/t", native=False, home=home)


def test_a_connector_that_fails_is_reported(
    repository: Repository, spark: Any, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _keep(repository, tmp_path / "t", pa.table({"id": [1]}))
    uri = "lakefs://demo/main/t"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_table(spark, uri, home=home).count() == 1

    load = table_reading.load

    def fail(*args: Any, native: bool | None, **options: Any) -> Any:
        if native is not False:
            raise PySparkException("403 Forbidden")
        return load(*args, native=native, **options)

    monkeypatch.setattr(table_reading, "load", fail)
    with pytest.warns(LakeWarning, match="403 Forbidden.*native=True") as warned:
        assert read_table(spark, uri, home=home).count() == 1
    assert len(warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_table(spark, uri, native=False, home=home).count() == 1
        with pytest.raises(UsageError, match="403"):
            read_table(spark, uri, native=True, home=home)
