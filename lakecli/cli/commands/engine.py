"""The runner of bulk work that ``--engine``, ``--master`` and ``--conf`` select."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from lakecli.cli.context import Context
from lakecli.cli.params import EngineName, EngineOptions
from lakecli.engine.runner import LocalRunner, Runner, StoreLocation, count_head_entries
from lakecli.engine.scratch import Scratch
from lakecli.engine.spark_runner import SparkRunner
from lakecli.errors import UsageError
from lakecli.repository.contract import Repository

SPARK_FROM: Final = 20_000_000
"""The number of objects from which ``--engine auto`` selects Spark, if installed. With fewer
objects, one process is faster than Spark on one machine, because Spark takes time to start."""

_SPARK_PACKAGE: Final = "pyspark"


@contextmanager
def open_runner(
    context: Context,
    options: EngineOptions,
    *,
    repository: Repository,
    others: Sequence[str] = (),
    size: int | None = None,
    parallelism: int = 1,
) -> Iterator[Runner]:
    """Open a runner, and close it at the end.

    Args:
        options: the options of the command; ``auto`` selects Spark from `SPARK_FROM` objects on, or
            if an option for Spark is given.
        repository: the repository whose namespace the executors must be able to read.
        others: URIs of other places that the executors must be able to read: buckets, prefixes
            and directories.
        size: the number of objects, if known.
        parallelism: the parallelism of the runner in this process, if Spark is not selected.

    Raises:
        UsageError: options for Spark with ``--engine local``.
        Unsupported: Spark is not installed, or an executor lacks lakecli.
        PermissionDenied: an executor cannot read a store.
        Unreachable: no Spark master answers.
    """
    if options.engine is EngineName.LOCAL and options.names_spark:
        raise UsageError(
            "--master and --conf need Spark", hint="leave them out, or give --engine spark"
        )
    if not _takes_spark(options, size=size):
        with LocalRunner(parallelism=parallelism) as local:
            yield local
        return

    silence_py4j()
    account = repository.lake.runtime.account(repository.name)
    with SparkRunner(
        master=options.master,
        conf=options.conf,
        environ=context.environ,
        cache=Path(context.home.cache) / "spark",
        quick_start=size is not None and size < SPARK_FROM,
        stores=[
            (repository.record.storage_namespace, repository.record.region, *account),
            *((uri, "", *account) for uri in others),
        ],
        notice=context.out.note,
        scratch=None
        if repository.record.is_borrowed
        else Scratch(StoreLocation.of(repository), context.new_id()),
    ) as spark:
        yield spark


def open_runner_of(
    context: Context, options: EngineOptions, repository: Repository, *, workers: int | None = None
) -> AbstractContextManager[Runner]:
    """Open a runner for work on all objects of a repository; see `open_runner`.

    Args:
        options: the options of the command; ``auto`` selects Spark if it is installed and the
            largest branch has enough objects.
        repository: the repository to work on.
        workers: the value of ``--parallelism``; ``None`` if it was not given.
    """
    is_open = options.engine is EngineName.AUTO and _spark_is_installed()
    size = count_head_entries(repository, check_from=SPARK_FROM) if is_open else None
    workers = context.parallelism(repository, workers)
    return open_runner(context, options, repository=repository, size=size, parallelism=workers)


def silence_py4j() -> None:
    """Keep Py4J from writing tracebacks to stderr; lakecli writes its own error instead."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())


def _takes_spark(options: EngineOptions, *, size: int | None) -> bool:
    if options.engine is not EngineName.AUTO:
        return options.engine is EngineName.SPARK
    if options.names_spark:
        return True
    return size is not None and size >= SPARK_FROM and _spark_is_installed()


def _spark_is_installed() -> bool:
    return find_spec(_SPARK_PACKAGE) is not None
