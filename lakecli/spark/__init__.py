"""Lakes as Spark DataFrames; the public functions are imported from here.

::

    source, types      the data source and its columns; filters: pushed down
    snapshot           what a ref reads as, pinned on the driver
    entries, decode    entries on executors; history: commits, refs, differences
    table, layout      reading tables, from directories; remote and fetch: from buckets
    files              the files of a table
    write, sink        writing tables: the driver, the executors; shape: of the files
    options            formats and options that reading and writing share

`register` makes the data source ``lakefs`` known to a session, `read_table` gives the data of a
table at any ref, `write_table` commits a DataFrame to a branch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.spark.table import read_table
from lakecli.spark.write import Written, write_table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

__all__ = ["Written", "read_table", "register", "write_table"]


def register(spark: SparkSession, *, home: str | Path | None = None) -> None:
    """Make ``spark.read.format("lakefs")`` known to a session; once more changes the home.

    It also allows Spark to hand filters to data sources written in Python, for the option
    ``pushdown``.

    Args:
        spark: the session.
        home: where lakecli keeps things, as ``LAKECLI_HOME``; by default that variable, or the
            platform's directories. The option of the same name goes before it.
    """
    from lakecli.spark.snapshot import home_of
    from lakecli.spark.source import source_class

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(source_class(home_of(home)))
