"""A program that uses tables through Spark Connect, by the server that PySpark ships.

It is a process of its own, as PySpark cannot have an ordinary session besides.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import SparkSession

from lakecli.spark import read_entries, read_table, register, write_table
from lakecli.spark.sessions import is_connect
from lakecli.spark.target import TableChanged

URI = "lakefs://demo/main/t"
CSV = "lakefs://demo/main/csv"


def main(local_dir: str) -> None:
    """Write, read and query a table."""
    builder = SparkSession.builder.remote("local[2]")
    for name, value in {
        "spark.local.dir": local_dir,
        "spark.sql.warehouse.dir": f"{local_dir}/warehouse",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    assert is_connect(spark)
    try:
        use_tables(spark)
        use_the_data_source(spark)
    finally:
        spark.stop()


def use_tables(spark: Any) -> None:
    """Use `read_table` and `write_table`."""
    frame = spark.range(0, 40, 1, 2).selectExpr(
        "id", "date'2026-01-01' + cast(id % 2 as int) as day", "array(id) as nested"
    )
    txn = ("app", 1)
    written = write_table(frame, URI, partition_by=["day"], txn=txn)
    assert written.rows == 40
    assert written.commit is not None
    assert write_table(frame, URI, mode="append", partition_by=["day"], txn=txn).rows == 0
    table = read_table(spark, URI)
    assert dict(table.dtypes) == {"id": "bigint", "nested": "array<bigint>", "day": "date"}
    assert same(table.select(frame.columns), frame)
    where = "id >= 10 and day = '2026-01-02'"
    assert same(
        read_table(spark, URI, columns=["nested"], where=where), frame.where(where).select("nested")
    )
    for native in (True, False):
        assert same(read_table(spark, URI, native=native, where=where), table.where(where))

    # The plan that the client has tells from which commit the rows come.
    few = table.where("id < 10").join(spark.range(5), "id", "left_anti")
    write_table(frame.limit(1), URI, mode="append", partition_by=["day"])
    expect(TableChanged, lambda: write_table(few, URI, mode="overwrite", partition_by=["day"]))
    write_table(few, URI, mode="overwrite", partition_by=["day"], expected="main")
    assert read_table(spark, URI).count() == 5

    write_table(frame.select("id"), CSV, format="csv", options={"header": True})
    given: dict[str, Any] = {"format": "csv", "options": {"header": True}}
    for native in (True, False):
        assert read_table(spark, CSV, native=native, **given).dtypes == [("id", "string")]
        text = read_table(spark, CSV, native=native, schema="id bigint", **given)
        assert same(text, frame.select("id"))
        assert same(read_table(spark, URI, native=native), read_table(spark, URI))


def use_the_data_source(spark: Any) -> None:
    """Use entries, and write a table by the data source."""
    register(spark)
    entries = spark.read.format("lakefs").load("lakefs://demo/main/t/")
    assert entries.where("size > 0 and path like 't/day=%'").count() == entries.count() > 0
    decoded = read_entries(spark, "lakefs://demo/main/t/", columns=["size", "path"])
    assert same(decoded, entries.select("size", "path"))
    spark.range(2).write.format("lakefs").mode("append").save("lakefs://demo/main/new")
    assert read_table(spark, "lakefs://demo/main/new").count() == 2


def same(found: Any, expected: Any) -> bool:
    """Return whether two DataFrames have the same rows."""
    return sorted(map(str, found.collect())) == sorted(map(str, expected.collect()))


def expect(kind: type[Exception], call: Any) -> None:
    """Check that a call raises an error."""
    try:
        call()
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


if __name__ == "__main__":
    main(*sys.argv[1:])
