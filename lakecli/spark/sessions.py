"""What a Spark session is: behind Spark Connect or not, on this machine or on a cluster."""

from __future__ import annotations

import getpass
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from lakecli.engine.session import gist
from lakecli.errors import Unsupported, UsageError
from lakecli.spark.options import KINDS_HINT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HINTS: Final = {
    "CANNOT_READ_FILE_FOOTER": 'give the format of the files: format="csv"',
    "is not a Parquet file": 'give the format of the files: format="csv"',
    "CONFLICTING_DIRECTORY_STRUCTURES": KINDS_HINT,
    "CONFLICTING_PARTITION_COLUMN_NAMES": KINDS_HINT,
}
"""Hints, by what Spark's error contains."""


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect, which has no JVM here and no RDDs."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_here(spark: SparkSession) -> bool:
    """Return whether executors run on this machine, so that they see its files."""
    return not is_connect(spark) and str(spark.sparkContext.master).startswith("local")


def user_of(spark: SparkSession) -> str:
    """Return Spark's user; through Spark Connect, the user of this process."""
    return getpass.getuser() if is_connect(spark) else str(spark.sparkContext.sparkUser())


def is_case_sensitive(spark: SparkSession) -> bool:
    """Return whether columns whose names differ in case only are different ones."""
    return str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


def check_planner(spark: SparkSession) -> None:
    """Check that the driver has the Python by which Spark plans the reads of data sources.

    Spark runs it on the driver by the same path as on executors, where an archive may have it.
    Through Spark Connect it is that of the server.

    Raises:
        Unsupported: there is no such program.
    """
    if is_connect(spark):
        return
    program = str(spark.sparkContext.pythonExec)
    if shutil.which(program) is None:
        raise Unsupported(
            f"Spark plans data sources with the Python of the executors, and this machine has none "
            f"at {program}",
            hint=f"make {program} a link to {sys.executable} in the directory where the driver "
            "starts; read_table and write_table do not need it",
        )


@contextmanager
def explained(uri: str) -> Iterator[None]:
    """Translate Spark's errors about a table.

    Raises:
        UsageError: Spark cannot read the table.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if "UNABLE_TO_INFER_SCHEMA" in text:
            raise UsageError(
                f"Spark cannot infer the schema of {uri}",
                hint='check the format, or give the schema: schema="id INT, …"',
            ) from error
        hint = next((hint for word, hint in _HINTS.items() if word in text), None)
        raise UsageError(f"Spark cannot read {uri}: {gist(text)}", hint=hint) from error
