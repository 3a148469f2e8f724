"""One Spark for all tests of a worker process, started by the first test that uses it.

Tests that use it carry ``@pytest.mark.xdist_group("spark")`` (or ``pytestmark``), so that one
process of a parallel run holds all of them, and one JVM.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.engine.spark_runner import SparkRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONF = {
    "spark.default.parallelism": "2",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A SparkSession with two cores, which runs for the session."""
    cache = tmp_path_factory.mktemp("spark")
    conf = {
        **CONF,
        "spark.local.dir": str(cache / "local"),
        "spark.sql.warehouse.dir": str(cache / "warehouse"),
    }
    runner = SparkRunner(
        master="local[2]", conf=conf, environ=os.environ, cache=cache, quick_start=True
    )
    yield runner.session
    runner.close()


@pytest.fixture
def spark_runner(spark: Any) -> SparkRunner:
    """A runner on that session."""
    return SparkRunner(spark)


@pytest.fixture
def spark_environment(spark: Any) -> Iterator[Callable[[str, str], None]]:
    """A function that sets a variable of the executors' Python for one test.

    They were started with the environment of the first test; credentials of another one do not
    reach them otherwise.
    """
    environment = spark.sparkContext.environment
    before = dict(environment)
    yield environment.__setitem__
    environment.clear()
    environment.update(before)
