"""Rows that a function of lakecli makes on executors, and their errors.

Rows that a function of lakecli makes on executors, part by part.

The function travels as bytes, so that an executor without lakecli can say what it lacks.

Errors of the data source, which Spark runs in worker processes of its own.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark import TaskContext

from lakecli.engine.executors import environment_hint
from lakecli.errors import LakeError, PermissionDenied
from lakecli.spark.snapshot import hints_told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

P = TypeVar("P")


def read_parts(
    spark: SparkSession,
    read: Callable[[P], Iterator[Any]],
    parts: Sequence[P],
    schema: StructType,
) -> DataFrame:
    """Return the rows of all parts; each part is a task.

    Args:
        spark: the session.
        read: yields the record batches of a part; it and the parts can be pickled.
        parts: the parts.
        schema: the schema of the rows.
    """
    packed = pickle.dumps((read, parts))
    hint = environment_hint()

    # A nested function, so that it travels by value.
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        try:
            read_part, all_parts = pickle.loads(packed)  # noqa: S301 - made by the driver, above
        except ModuleNotFoundError as error:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            what = f"the Python of Spark's executors lacks the module {error.name}"
            raise RuntimeError(f"{what}\nhint: {hint}") from None
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_part(all_parts[number])

    count = len(parts)
    return spark.range(0, count, 1, max(1, count)).mapInArrow(run, schema)


_HIDE: Final = "SPARK_HIDE_TRACEBACK"
"""The variable by which PySpark leaves the traceback out of the error that it sends."""


@contextmanager
def told() -> Iterator[None]:
    """Have a worker send an error of lakecli as its message and hint, without a traceback.

    A worker that has sent an error ends, so the variable does not outlive it. The setting of Spark
    for the same purpose would hide the tracebacks of the user's own functions, too.
    """
    try:
        with hints_told():
            try:
                yield
            except PermissionDenied as error:
                if TaskContext.get() is not None:
                    hint_for_executors(error)
                raise
    except LakeError:
        os.environ[_HIDE] = "1"
        raise


def hint_for_executors(error: LakeError) -> LakeError:
    """Return an error of a task, with the hint for executors if it lacks a permission."""
    if isinstance(error, PermissionDenied):
        error.hint = (
            "give the executors credentials, too, for example by the settings "
            "spark.executorEnv.AWS_ACCESS_KEY_ID and spark.executorEnv.AWS_SECRET_ACCESS_KEY"
        )
    return error
