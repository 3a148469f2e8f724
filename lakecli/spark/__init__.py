"""Repositories as Spark DataFrames; import the public functions from here.

In reading order::

    sessions          what a session is, its options and errors, and tasks on executors
    table_reading     `read_table`; then partition_values, schemas, table_files, private_names, and
                      the two ways: native_reading by Spark itself, fetched_reading by lakecli
    write             `write_table`; then schema_check, file_writer and target
    data_source       ``format("lakefs")``; then entries and record_columns

May import `fsck`, `gc`, `exports` and what is below.
"""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

from lakecli.settings.home import chosen_home
from lakecli.spark.entries import read_entries
from lakecli.spark.sessions import check_planner
from lakecli.spark.table_reading import read_table
from lakecli.spark.write import WriteResult, write_table

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
    spark.dataSource.register(source_class(chosen_home(home, os.environ)))
