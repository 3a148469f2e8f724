"""Repositories as Spark DataFrames; import the public functions from here.

::

    source    the data source ``lakefs``: entries, commits, refs, differences and tables, as rows
    entries   the entries of a ref as a DataFrame
    rows      the rows of a table whose directories Spark does not see itself
    types     the columns of each kind of rows of the data source
    table     read a table's data at any ref
    snapshot  A ref pinned on the driver, as plain values for executors
    history   commits, refs and differences as rows
    decode    decode many records of a range at once, into Arrow columns
    parts     rows that a function of lakecli makes on executors, and their errors
    native    have Spark read the objects of a table itself
    sessions  what a Spark session is: behind Spark Connect or not, on this machine or on a cluster
    places    the partition columns of a table, from the names of its directories
    infer     the schema that Spark infers from files which it cannot reach itself
    files     list the files of a table at a ref: their names below its path, and their addresses
    schemas   schemas of files
    reader    read the files of a task on an executor, in the types that Spark gives to the columns
    fetch     fetch a table's files through lakecli's stores, where Spark has no connector
    write     write a DataFrame to a branch
    sink      write a table's files on executors, upload them, and return their entries
    shape     the files that a DataFrame is written to
    writer    ``frame.write.format("lakefs")``
    target    the path of a branch that a DataFrame is written to, and what each mode does there
    batches   writes that happen exactly once, and where the rows of a DataFrame come from
    fit       whether rows fit the table that they are added to: names and types of its columns
    options   what reading and writing tables share: formats, options of Spark, quoted column names

`register` registers the data source ``lakefs`` with a session, `read_table` returns the data of a
table at any ref, `read_entries` the entries of a ref, and `write_table` commits a DataFrame to a
branch.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lakecli.spark.entries import read_entries
from lakecli.spark.sessions import check_planner, home_of
from lakecli.spark.table_reading import read_table
from lakecli.spark.write import WriteResult, write_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["WriteResult", "read_entries", "read_table", "register", "write_table"]


def register(spark: SparkSession, *, home: str | Path | None = None) -> None:
    """Register ``spark.read.format("lakefs")`` with a session; a second call changes the home.

    Args:
        spark: the session.
        home: directory of lakecli's data, as ``LAKECLI_HOME``; by default that variable, or the
            platform's directories. The option of the same name overrides it.

    Raises:
        Unsupported: this machine lacks the Python of the executors, by which Spark plans reads.
    """
    from lakecli.spark.data_source import source_class

    check_planner(spark)
    spark.dataSource.register(source_class(home_of(home)))
