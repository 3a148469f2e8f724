"""The partition columns of a table, from the names of its directories.

Spark infers their names and types itself, from a directory tree of tiny files on the driver; this
lists directories, and runs no job. The values are texts, which Spark converts to these types.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import functions
from pyspark.sql.types import DataType, NullType, StringType, StructField, StructType

from lakecli.errors import Unsupported
from lakecli.spark.file_writer import NO_VALUE
from lakecli.spark.options import KEY, quoted
from lakecli.spark.sessions import is_case_sensitive, is_connect

if TYPE_CHECKING:
    from logging import LogRecord

    from pyspark.sql import DataFrame, SparkSession

    Texts = tuple[str | None, ...]
    """The values of the partition columns in a directory; ``None`` is null."""

_LISTED_HERE: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_MANY: Final = 1 << 30
_ESCAPED: Final = re.compile("%([0-9A-Fa-f]{2})")
_ALTERNATIVES: Final = re.compile(r"\bor\b|--|/\*", re.IGNORECASE)
_AND: Final = re.compile(r"\band\b", re.IGNORECASE)
_BETWEEN: Final = re.compile(r"\bbetween\b", re.IGNORECASE)
_CALL: Final = re.compile(r"(?<!\bin)\s*(?<!\bin )\(|\*", re.IGNORECASE)
"""A parenthesis that begins no list, or all columns at once: there may be a function, whose result
may differ from row to row."""


class Places(NamedTuple):
    """The directories of a table that Spark reads.

    Attributes:
        columns: the partition columns.
        texts: the values of each directory, by its name.
    """

    columns: StructType
    texts: Mapping[str, Texts]

    def frame(self, spark: SparkSession, directories: Sequence[tuple[object, str]]) -> DataFrame:
        """Return rows of a key and the partition columns.

        Args:
            spark: the session.
            directories: keys, texts or numbers, each with its directory.
        """
        names = [f"__lakecli_{at}" for at in range(len(self.columns.fields))]
        key = "string" if directories and isinstance(directories[0][0], str) else "int"
        schema = ", ".join([f"{KEY} {key}", *(f"{name} string" for name in names)])
        rows = [(key, *self.texts[directory]) for key, directory in directories]
        columns = [
            functions.lit(None).alias(field.name)  # all are null, and Spark casts no text to void
            if isinstance(field.dataType, NullType)
            else functions.col(name).cast(field.dataType).alias(field.name)
            for name, field in zip(names, self.columns.fields, strict=True)
        ]
        return spark.createDataFrame(rows, schema).select(KEY, *columns)


def find_places(
    spark: SparkSession, directories: Sequence[str], given: StructType | None
) -> Places:
    """Return the directories of a table that Spark reads, and their partition columns.

    Args:
        spark: the session.
        directories: directories with files, relative to the table; ``""`` is its own.
        given: a schema, whose types come before inferred ones.

    Raises:
        PySparkException: the directories are not those of a table.
        Unsupported: the server of Spark Connect does not see the files of this machine.
    """
    found = {name: split_directory(name) for name in directories}
    if not any(found.values()):
        own: dict[str, Texts] = {name: () for name in directories if not name}
        return Places(StructType([]), own)
    inferred = _inferred(spark, directories, found, given)
    fold = str if is_case_sensitive(spark) else str.lower
    types = {fold(each.name): each.dataType for each in (given.fields if given else ())}
    columns = [StructField(name, types.get(fold(name), kind)) for name, kind in inferred.items()]
    texts = {name: tuple(text for _, text in pairs) for name, pairs in found.items() if pairs}
    return Places(StructType(columns), texts)


def _inferred(
    spark: SparkSession,
    directories: Sequence[str],
    found: Mapping[str, Sequence[tuple[str, str | None]]],
    given: StructType | None,
) -> dict[str, DataType]:
    with TemporaryDirectory(prefix="lakecli-") as scratch:
        root = Path(scratch)
        for name in directories:
            place = root / name
            place.mkdir(parents=True, exist_ok=True)
            (place / "part").write_text("x", encoding="ascii")
        try:
            with _listed_by_the_driver(spark):
                reader = spark.read.option("recursiveFileLookup", "false").format("text")
                fields = reader.load(root.as_uri()).schema.fields[1:]
        except AnalysisException as error:
            if not is_connect(spark) or error.getCondition() != "PATH_NOT_FOUND":
                raise
            names = [name for name, _ in next(filter(None, found.values()))]
            if given is not None and set(names) <= set(given.names):
                return {name: StringType() for name in names}  # the given types come first
            raise Unsupported(
                "the server of Spark Connect cannot infer the types of partition columns",
                hint=f"give the schema, with the columns {', '.join(names)}: schema=…",
            ) from error
    return {field.name: field.dataType for field in fields}


@contextmanager
def _listed_by_the_driver(spark: SparkSession) -> Iterator[None]:
    """Have Spark list directories without a job: executors do not see those of the driver."""
    before = str(spark.conf.get(_LISTED_HERE))
    spark.conf.set(_LISTED_HERE, _MANY)
    try:
        yield
    finally:
        spark.conf.set(_LISTED_HERE, before)


def split_directory(directory: str) -> list[tuple[str, str | None]]:
    """Return the partition columns that Spark sees in a directory's name, and their values."""
    pairs: list[tuple[str, str | None]] = []
    for part in reversed(directory.split("/")):
        name, sign, value = part.partition("=")
        if sign:
            pairs.append((_unescaped(name), None if value == NO_VALUE else _unescaped(value)))
        elif pairs:
            break
    return pairs[::-1]


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def prune(spark: SparkSession, places: Places, where: str) -> Places:
    """Return the directories whose rows can satisfy a condition.

    Spark applies those of its conditions, joined by AND, that name partition columns only.

    Args:
        spark: the session.
        places: the directories.
        where: the condition in SQL; ``""``: there is none.
    """
    conditions = conjuncts(where)
    if not conditions or not places.columns.fields:
        return places
    rows = places.frame(spark, [(name, name) for name in places.texts])
    try:
        with unlogged():
            for condition in conditions:
                rows = _narrowed(rows, condition)
            kept = {row[0] for row in rows.select(quoted(KEY)).collect()}
    except PySparkException:  # it is not what it seems to be, or fails for a value
        return places
    return places._replace(
        texts={name: places.texts[name] for name in places.texts if name in kept}
    )


def _narrowed(rows: DataFrame, condition: str) -> DataFrame:
    try:
        narrowed = rows.where(condition)
        _ = narrowed.schema
    except ParseException:
        raise
    except AnalysisException:  # it names other columns
        return rows
    return narrowed


def conjuncts(where: str) -> list[str]:
    """Return conditions that all rows satisfy which satisfy a condition.

    Only such without functions, and none if there is an alternative: these may be parts of one.
    """
    if not where or _ALTERNATIVES.search(where):
        return []
    parts: list[str] = []
    for part in _AND.split(where):
        if parts and len(_BETWEEN.findall(parts[-1])) == 1 and not _AND.search(parts[-1]):
            parts[-1] += f" and {part}"
        else:
            parts.append(part)
    return [part for part in parts if not _CALL.search(part)]


@contextmanager
def unlogged() -> Iterator[None]:
    """Have PySpark log no errors of SQL in this thread, where they are expected."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    thread = threading.get_ident()

    def is_other(_record: LogRecord) -> bool:
        return threading.get_ident() != thread

    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)
