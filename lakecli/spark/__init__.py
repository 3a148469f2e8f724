"""Read and write repositories as Spark DataFrames; import public functions from this package.

In reading order::

    sessions          properties, options and errors of a session, and tasks on executors
    table_reading     `read_table`; then table_files, schemas, and file_system: the files of a table
                      as a file system of Hadoop, with TableFileSystem.java and private_names
    write             `write_table`; then schema_check, file_writer and target
    data_source       ``format("lakefs")``; then entries and record_columns

This package may import `fsck`, `gc`, `exports` and the layers below.
"""

import os
from pathlib import Path

try:
    import py4j  # noqa: F401 - PySpark's way to Java
except ImportError as error:
    raise ImportError(
        "lakecli.spark needs the package pyspark, which has the Java of Spark; pyspark-client has "
        "none: pip uninstall pyspark-client; pip install 'lakecli-vcs[spark]'"
    ) from error

from pyspark.sql import SparkSession

from lakecli.settings.home import chosen_home
from lakecli.spark.entries import read_entries
from lakecli.spark.private_names import made_active
from lakecli.spark.sessions import check_planner
from lakecli.spark.table_reading import read_table
from lakecli.spark.write import WriteResult, write_table

__all__ = ["WriteResult", "read_entries", "read_table", "register", "write_table"]


def register(spark: SparkSession, *, home: str | Path | None = None) -> None:
    """Register ``spark.read.format("lakefs")`` in a session; another call can change the home.

    Args:
        home: directory of lakecli's data, as ``LAKECLI_HOME``; by default that variable, or the
            platform's directories. The option ``home`` of a read or write overrides it.

    Raises:
        Unsupported: this machine lacks the Python of the executors, with which Spark plans reads;
            or the server of Spark Connect is not Apache Spark.
    """
    from lakecli.spark.data_source import source_class

    check_planner(spark)
    with made_active(spark):
        spark.dataSource.register(source_class(chosen_home(home, os.environ)))
