"""Errors of the data source, which Spark runs in worker processes of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark import TaskContext

from lakecli.errors import LakeError, PermissionDenied
from lakecli.spark.snapshot import hints_told

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
