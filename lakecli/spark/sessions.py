"""Check Spark sessions and options, run functions on executors, and translate errors.

A function is sent to executors as bytes, so that an executor without lakecli can report that
lakecli is missing.
"""

import getpass
import os
import pickle
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from logging import LogRecord
from pathlib import Path
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import lakecli
from lakecli.base.uri import parse
from lakecli.engine.executors import environment_hint, hint_for_executors
from lakecli.engine.session import gist
from lakecli.errors import LakeError, PermissionDenied, Unsupported, UsageError
from lakecli.opening import warn_of_notices
from lakecli.repository.contract import Repository

P = TypeVar("P")

FORMATS: Final = ("parquet", "csv", "json")

_KINDS_HINT: Final = (
    "name the directory of the table, with all its files in directories column=value, or none"
)
_HINTS: Final = {
    "CANNOT_READ_FILE_FOOTER": 'give the format of the files: format="csv"',
    "is not a Parquet file": 'give the format of the files: format="csv"',
    "CONFLICTING_DIRECTORY_STRUCTURES": _KINDS_HINT,
    "CONFLICTING_PARTITION_COLUMN_NAMES": _KINDS_HINT,
    "COLUMN_ALREADY_EXISTS": "set spark.sql.caseSensitive to true",
    "UNABLE_TO_INFER_SCHEMA": 'check the format, or give the schema: schema="id INT, …"',
}
"""Hints for errors of Spark, by a text that the error contains."""

_HIDE: Final = "SPARK_HIDE_TRACEBACK"
"""The environment variable that makes PySpark's workers send errors without a traceback."""


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session uses Spark Connect, which has no local JVM and no RDDs."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def user_of(spark: SparkSession) -> str:
    """Return the user of the Spark session; with Spark Connect, the user of this process."""
    return getpass.getuser() if is_connect(spark) else str(spark.sparkContext.sparkUser())


def check_server(spark: SparkSession) -> None:
    """Raise `Unsupported` unless a Spark Connect server can call Java, as Apache Spark can."""
    if not is_connect(spark):
        return
    try:
        _ = spark.sql("SELECT java_method('java.lang.Math', 'abs', 1)").schema
    except PySparkException as error:
        raise Unsupported(
            "this server of Spark Connect runs no method of Java, as Sail (pysail) and others than "
            f"Apache Spark do not: {gist(str(error))}",
            hint="connect to a server of Apache Spark 4.1 or later; read_entries needs no Java",
        ) from error


def check_planner(spark: SparkSession) -> None:
    """Raise `Unsupported` if the driver lacks the Python in which Spark plans data sources.

    Spark starts this Python on the driver by the same path as on executors, where the path may be
    in an archive. With Spark Connect, the server does the planning, so only `check_server` is
    called.
    """
    check_server(spark)
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


def check_format(format: str) -> None:
    """Raise `UsageError` for a format that lakecli cannot read or write."""
    if format not in FORMATS:
        raise UsageError(f"unknown format {format!r}", hint=f"one of {', '.join(FORMATS)}")


def lower_case(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options with their names and values in lower case."""
    return {name.lower(): option_text(value).lower() for name, value in options.items()}


def option_text(value: object) -> str:
    """Return an option's value in the form that Spark expects: booleans are in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def names_of(given: Sequence[str]) -> list[str]:
    """Return column names as a list; a string counts as a single name, as in Spark."""
    return [given] if isinstance(given, str) else list(given)


def quoted(name: str) -> str:
    """Return a column name in backticks, for SQL expressions."""
    return "`" + name.replace("`", "``") + "`"


@contextmanager
def opened(uri: str, *, home: str | Path | None) -> Iterator[Repository]:
    """Open the repository of a URI; the setting ``sync`` works as on the command line.

    If the URI names a namespace, its repository is read without a clone. If the block raises a
    lakecli error, the error's hint is added to it as a note. Notices become Python warnings.
    """
    with hints_told():
        parsed = parse(uri, anywhere=True)
        if parsed.namespace is not None:
            repository = lakecli.open_remote(parsed.namespace, home=home)
        else:
            repository = lakecli.open(f"lakefs://{parsed.repository}", home=home)
        with repository:
            try:
                yield repository
            finally:
                warn_of_notices(repository)


@contextmanager
def hints_told() -> Iterator[None]:
    """Add the hint of an error to its traceback, because Spark shows only the traceback."""
    try:
        yield
    except LakeError as error:
        note = f"hint: {error.hint}"
        if error.hint and note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise


@contextmanager
def explained(uri: str) -> Iterator[None]:
    """Translate Spark's errors about a table into a `UsageError` with a hint."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        hint = next((hint for word, hint in _HINTS.items() if word in text), None)
        raise UsageError(f"Spark cannot read {uri}: {gist(text)}", hint=hint) from error


@contextmanager
def unlogged() -> Iterator[None]:
    """Suppress PySpark's log of SQL errors in this thread, for errors that are expected."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    thread = threading.get_ident()

    def is_other(_record: LogRecord) -> bool:
        return threading.get_ident() != thread

    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


def read_parts(
    spark: SparkSession, read: Callable[[P], Iterator[Any]], parts: Sequence[P], schema: StructType
) -> DataFrame:
    """Return a DataFrame of the rows of all parts; each part is read by one task.

    Args:
        read: a picklable function that yields the record batches of a part.
        parts: the picklable arguments for `read`.
    """
    packed = pickle.dumps((read, parts))
    hint = environment_hint()

    # A nested function, because such functions are pickled by value, without importing lakecli.
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        try:
            read_part, all_parts = pickle.loads(packed)  # noqa: S301 - made by the driver, above
        except ModuleNotFoundError as error:
            os.environ[_HIDE] = "1"
            what = f"the Python of Spark's executors lacks the module {error.name}"
            raise RuntimeError(f"{what}\nhint: {hint}") from None
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_part(all_parts[number])

    count = len(parts)
    return spark.range(0, count, 1, max(1, count)).mapInArrow(run, schema)


@contextmanager
def told() -> Iterator[None]:
    """Make a worker report a lakecli error as a message and a hint, without a traceback.

    After an error, the environment variable that hides tracebacks stays set; this is harmless,
    because the worker ends. Spark's own setting would also hide tracebacks of the user's functions.
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
