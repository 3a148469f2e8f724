"""What a Spark session is: behind Spark Connect or not, on this machine or on a cluster."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect, which has no JVM here and no RDDs."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_here(spark: SparkSession | None) -> bool:
    """Return whether executors run on this machine, so that they see its files.

    Without a session, in a worker of Spark, that is not known.
    """
    return (
        spark is not None
        and not is_connect(spark)
        and str(spark.sparkContext.master).startswith("local")
    )


def user_of(spark: SparkSession) -> str:
    """Return Spark's user; through Spark Connect, the user of this process."""
    return getpass.getuser() if is_connect(spark) else str(spark.sparkContext.sparkUser())
