"""Rows that a function of lakecli makes on executors, part by part.

The function travels as bytes, so that an executor without lakecli can say what it lacks.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from lakecli.engine.executors import environment_hint

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
