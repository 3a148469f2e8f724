"""What ``--engine``, ``--master`` and ``--conf`` mean: which runner does the bulk work."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from lakecli.cli.params import EngineName
from lakecli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakecli.cli.context import Context
    from lakecli.pipeline.runner import Runner

SPARK_FROM: Final = 20_000_000
"""Objects from which ``--engine auto`` takes Spark, where it is installed: on one machine it
overtakes a single process only where starting it no longer counts, and shuffling does."""

_SPARK_PACKAGE: Final = "pyspark"


@contextmanager
def open_runner(
    context: Context,
    *,
    engine: EngineName,
    master: str = "",
    conf: Mapping[str, str] | None = None,
    size: int | None = None,
    parallelism: int = 1,
) -> Iterator[Runner]:
    """Open the runner that is asked for, and close it.

    Args:
        context: of the command.
        engine: ``auto`` takes Spark from `SPARK_FROM` objects on, and wherever a master is named.
        master: of Spark.
        conf: settings of Spark.
        size: how many objects there are, as far as that is known.
        parallelism: of the runner in this process.

    Raises:
        UsageError: settings of Spark for a job that does not run there.
        Unsupported: Spark is asked for and not installed.
    """
    if engine is EngineName.LOCAL and (master or conf):
        raise UsageError(
            "--master and --conf need Spark", hint="leave them out, or give --engine spark"
        )
    if not _takes_spark(engine, named=bool(master or conf), size=size):
        from lakecli.pipeline.runner import LocalRunner

        with LocalRunner(parallelism=parallelism) as local:
            yield local
        return
    from lakecli.pipeline.spark_runner import SparkRunner

    silence_py4j()
    with SparkRunner(
        master=master,
        conf=conf,
        environ=context.environ,
        cache=context.home.cache / "spark",
        quick_start=size is not None and size < SPARK_FROM,
    ) as spark:
        yield spark


def silence_py4j() -> None:
    """Keep tracebacks of Py4J from people, who get our error: it logs where nobody listens yet."""
    import logging

    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())


def _takes_spark(engine: EngineName, *, named: bool, size: int | None) -> bool:
    if engine is not EngineName.AUTO:
        return engine is EngineName.SPARK
    if named:
        return True
    if size is None or size < SPARK_FROM:
        return False
    from importlib.util import find_spec

    return find_spec(_SPARK_PACKAGE) is not None
