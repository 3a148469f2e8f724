"""Tables by ``spark.read.format("lakefs")``: as Spark reads them, in SQL, and with plain errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from lakecli.repository.commit import commit
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import upload_tree
from lakecli.spark import read_table, write_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.repository.contract import Repository

    Load = Callable[..., Any]

pytestmark = pytest.mark.xdist_group("spark")

URI = "lakefs://demo/main/t"


def _texts(frame: Any) -> list[str]:
    return sorted(map(str, frame.collect()))


def test_a_table_is_as_spark_reads_it(
    repository: Repository, load: Load, spark: Any, home: Path, tmp_path: Path
) -> None:
    frame = spark.range(0, 6, 1, 1).selectExpr(
        "id",
        "cast(id / 7 as decimal(10, 3)) as price",
        "timestamp'2026-01-01 00:00:00' + make_interval(0, 0, 0, 0, id) as at",
        "named_struct('a', id, 'b', array(id)) as nested",
        "cast(id % 2 as int) as whole",
        "id % 2 + 5000000000 as long",
        "date'2026-01-01' + cast(id % 2 as int) as day",
        "case id % 2 when 0 then 'a/b=c ü' end as text",
    )
    by = ["whole", "long", "day", "text"]
    frame.write.partitionBy(*by).parquet(str(tmp_path / "t"))
    upload_tree(repository, "main", b"t", source=tmp_path / "t", options=UploadOptions())
    commit(repository, "main", message="Table", committer="test")
    expected = spark.read.parquet(str(tmp_path / "t"))
    found = load(URI, format="parquet")
    assert found.schema.simpleString() == expected.schema.simpleString()
    assert _texts(found) == _texts(expected)
    chosen = load(URI, format="parquet", columns="day, id")
    assert _texts(chosen) == _texts(expected.select("day", "id"))
    schema = "id bigint, whole string, more int"
    given = spark.read.format("lakefs").schema(schema).option("format", "parquet").load(URI)
    assert _texts(given) == _texts(expected.selectExpr("id", "string(whole)", "int(null) as more"))

    # A view keeps its moment.
    options = f"(path '{URI}', format 'parquet', home '{home}')"
    spark.sql(f"create or replace temporary view seen using lakefs options {options}")
    write_table(read_table(spark, URI, home=home).limit(0), URI, mode="overwrite", home=home)
    assert spark.sql("select count(*) as n, sum(id) as s from seen").collect() == [(6, 15)]
    assert load(URI, format="parquet").count() == 0
    spark.catalog.dropTempView("seen")


def test_what_only_spark_can_say_is_refused(
    repository: Repository, load: Load, spark: Any, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "f.parquet")
    for name in ("plain/f.parquet", "typed/x=0.5/f.parquet"):
        (tmp_path / "t" / name).parent.mkdir(parents=True)
        (tmp_path / "t" / name).write_bytes((tmp_path / "f.parquet").read_bytes())
    frame = spark.range(1).selectExpr("id", "0.5 as x")
    frame.write.partitionBy("x").parquet(str(tmp_path / "t" / "recorded"))
    upload_tree(repository, "main", b"t", source=tmp_path / "t", options=UploadOptions())
    commit(repository, "main", message="Table", committer="test")
    for name, message in {
        "plain": "does not record a schema of Spark",
        "typed": "does not record a schema of Spark",
        "recorded": "only Spark can say which type the partition column 'x' has: '0.5'",
    }.items():
        with pytest.raises(PySparkException, match=message) as refused:
            load(f"{URI}/{name}", format="parquet")
        assert "read_table" in str(refused.value)
    given = spark.read.format("lakefs").schema("id bigint, x string").option("format", "parquet")
    assert given.load(f"{URI}/typed").collect() == [(1, "0.5")]
    given = spark.read.format("lakefs").schema("id bigint, x double").option("format", "parquet")
    with pytest.raises(PySparkException, match="cannot read the partition column 'x' as double"):
        given.load(f"{URI}/typed").collect()


def test_errors_have_a_hint_and_no_traceback(
    repository: Repository, load: Load, spark: Any, home: Path, tmp_path: Path
) -> None:
    for name in ("a=1", "b/a=1", "b/c=1"):
        (tmp_path / "t" / name).mkdir(parents=True)
        (tmp_path / "t" / name / "y").write_text("not Parquet")
    (tmp_path / "t" / "x").write_text("not Parquet")
    (tmp_path / "t" / "a=1" / "x").write_text("not Parquet")
    upload_tree(repository, "main", b"t", source=tmp_path / "t", options=UploadOptions())
    commit(repository, "main", message="Table", committer="test")
    fine = load("lakefs://demo/main/t/x")
    cases: list[tuple[Callable[[], Any], str, str]] = [
        (lambda: load("lakefs://demo/nope"), "no branch or tag 'nope'", "hint: "),
        (lambda: load(URI, format="parquet"), "in different kinds of directories", "hint: "),
        (lambda: load(f"{URI}/x", format="parquet"), "which is not a Parquet file", "hint: "),
        (lambda: load(URI, format="csv"), "format 'csv' does not work", "read_table"),
        (lambda: load(URI, format="parquet", prefix="x"), "option prefix does not work", "hint"),
        (lambda: load(URI, pushdown="true"), "unknown option 'pushdown'", "hint: columns"),
        (lambda: load(f"{URI}/b", format="parquet"), "in different kinds of directories", "hint: "),
        (
            lambda: fine.write.format("lakefs").mode("append").save(URI),
            "is partitioned by a, and the rows by no column",
            "hint: partition_by=",
        ),
        (lambda: load(URI, what="nothing"), "unknown rows: 'nothing'", "hint: what: "),
    ]
    for call, message, hint in cases:
        with pytest.raises(PySparkException) as caught:
            call()
        text = str(caught.value)
        assert message in text
        assert hint in text
        assert "Traceback" not in text
        assert "File " not in text
    assert fine.count() == 1, "the workers go on"

    # The user's own functions keep theirs.
    def failing(_batches: Any) -> Any:
        raise ValueError("mine")

    with pytest.raises(PySparkException, match="Traceback") as own:
        spark.range(1).mapInArrow(failing, "id long").collect()
    assert "mine" in str(own.value)
