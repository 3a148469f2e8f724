"""How many entries a task reads, so that tasks are few, and no core waits for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakecli.spark.sessions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARE: Final = 524_288
"""Entries of a task where the number of cores is not known: half a second of work."""

LARGEST: Final = 1 << 20
"""Entries of a task, at most; batches of them are streamed, so memory does not depend on it."""

SMALLEST: Final = 1 << 17
"""Entries of a task, if there are as many: a task takes 0.05 s beside them, half of their time."""


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks of a session run at the same time; 0 behind Spark Connect."""
    return 0 if is_connect(spark) else max(1, int(spark.sparkContext.defaultParallelism))


def share_of(count: int, cores: int) -> int:
    """Return how many entries each task reads.

    The number of tasks is a multiple of the number of cores, unless shares would be too small.

    Args:
        count: entries of all tasks.
        cores: tasks that run at the same time; 0: not known.
    """
    if not cores:
        return SHARE
    rounds = max(1, -(-count // (LARGEST * cores)))
    return max(SMALLEST, -(-count // (rounds * cores)))
