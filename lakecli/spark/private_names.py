"""The private names of PySpark that lakecli uses; only this module uses private names.

PySpark has no public API for

- the query plan of a DataFrame, in which lakecli records the commit of the rows;
- the driver's JVM, into which lakecli loads a file system;
- Hadoop's list of connectors;
- the active session.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from lakecli.spark.sessions import is_connect


def jvm_of(spark: SparkSession) -> Any:  # noqa: ANN401 - here and below: of the JVM
    """Return the driver's JVM."""
    return spark._jvm  # noqa: SLF001


def session_state(spark: SparkSession) -> Any:  # noqa: ANN401
    """Return the state of a session in the JVM, with the settings of the session and of Hadoop."""
    return cast("Any", spark)._jsparkSession.sessionState()  # noqa: SLF001


@contextmanager
def made_active(spark: SparkSession) -> Iterator[None]:
    """Make a session the active session, in which Spark looks up registered data sources."""
    if is_connect(spark):
        yield
        return
    sessions = jvm_of(spark).org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(cast("Any", spark)._jsparkSession)  # noqa: SLF001
    try:
        yield
    finally:
        sessions.setActiveSession(before.get() if before.isDefined() else None)


def analyzed_plan(frame: DataFrame) -> Any:  # noqa: ANN401
    """Return the query plan of a DataFrame, with all names resolved."""
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001


def sent_plan(frame: Any) -> Any:  # noqa: ANN401
    """Return the plan that a client of Spark Connect sends for its DataFrame."""
    return frame._plan.to_proto(frame.sparkSession.client)  # noqa: SLF001
