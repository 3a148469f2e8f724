"""Repositories as Spark DataFrames; import the public functions from here.

::

    source, types      the data source and its columns
    source_table       the rows of a table in it; worker_errors: its errors
    snapshot           a ref pinned on the driver: a tree and staged changes
    entries            read entries on executors; history: commits, refs, differences
    decode             records as columns; parts: rows that executors make
    table, layout      read tables; from directories of links
    rows               from objects, the way of the data; native: read by Spark itself
    sessions           kinds of sessions, and Spark's errors
    places             partition columns, from names of directories
    infer, schemas     the schema of files that Spark cannot reach; schemas that it recorded
    reader, fetch      read files on executors; their bytes and lines
    parquet, conform   rows of Parquet, in the types of the schema
    files              lists the files of a table
    write, sink        write tables: the driver, the executors; shape: of the files
    writer             the same by the data source; uploads: entries of uploaded files
    target, origin     what a write replaces, and the commit it builds on; batches: written once
    fit                whether rows have the columns of the table that they are added to
    options            formats and options that reading and writing share

`register` registers the data source ``lakefs`` with a session, `read_table` returns the data of a
table at any ref, `read_entries` the entries of a ref, and `write_table` commits a DataFrame to a
branch.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lakecli.spark.entries import read_entries
from lakecli.spark.sessions import check_planner
from lakecli.spark.snapshot import home_of
from lakecli.spark.table import read_table
from lakecli.spark.write import Written, write_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Written", "read_entries", "read_table", "register", "write_table"]


def register(spark: SparkSession, *, home: str | Path | None = None) -> None:
    """Register ``spark.read.format("lakefs")`` with a session; a second call changes the home.

    Args:
        spark: the session.
        home: directory of lakecli's data, as ``LAKECLI_HOME``; by default that variable, or the
            platform's directories. The option of the same name overrides it.

    Raises:
        Unsupported: this machine lacks the Python of the executors, by which Spark plans reads.
    """
    from lakecli.spark.source import source_class

    check_planner(spark)
    spark.dataSource.register(source_class(home_of(home)))
