"""The partition columns of a table, from the names of its directories.

If executors run on this machine, Spark itself infers them, from a directory tree of tiny files.
"""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from lakecli.errors import UsageError
from lakecli.spark.conditions import can_match, of_value
from lakecli.spark.fetch import DIRECTORY
from lakecli.spark.options import KINDS_HINT, quoted
from lakecli.spark.sessions import is_here
from lakecli.spark.sink import NO_VALUE
from lakecli.spark.where import needs_whole_rows, unlogged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

    from lakecli.spark.conditions import Condition

    Place = tuple[Any, ...]
    """The number of a directory, and the values of the partition columns in it."""

    Texts = tuple[str | None, ...]
    """The values of the partition columns in a directory; ``None`` is null."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def find_partitions(
    spark: SparkSession, directories: Sequence[str], given: StructType | None, *, uri: str
) -> tuple[StructType, list[Place]]:
    """Return the directory's number and partition columns as a schema, and their values.

    Args:
        spark: the session.
        directories: relative to the table; ``""`` is its own.
        given: a schema, whose types come before inferred ones.
        uri: the table, for errors.

    Raises:
        UsageError: the directories are not those of a table.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import IntegerType, StringType, StructField, StructType

    if is_here(spark):
        return _find_here(spark, directories, given)
    names, texts = split_directories(directories, uri)
    types = {each.name.lower(): each.dataType for each in (given.fields if given else ())}
    columns = [
        StructField(name, types.get(name.lower()) or type_of([text[at] for text in texts]))
        for at, name in enumerate(names)
    ]
    directory = StructField(DIRECTORY, IntegerType(), nullable=False)
    plain = StructType([directory, *(StructField(name, StringType()) for name in names)])
    rows = spark.createDataFrame([(at, *text) for at, text in enumerate(texts)], plain).select(
        DIRECTORY, *(functions.col(quoted(each.name)).cast(each.dataType) for each in columns)
    )
    return StructType([directory, *columns]), [tuple(row) for row in rows.collect()]


def _find_here(
    spark: SparkSession, directories: Sequence[str], given: StructType | None
) -> tuple[StructType, list[Place]]:
    """Return the same as Spark infers it; directories that Spark ignores are left out."""
    from pyspark.sql.types import IntegerType, StructField, StructType

    with TemporaryDirectory(prefix="lakecli-") as scratch:
        root = Path(scratch)
        for number, name in enumerate(directories):
            place = root / name
            place.mkdir(parents=True, exist_ok=True)
            (place / "part").write_text(f"{number}\n", encoding="ascii")
        seen = spark.read.text(root.as_uri()).schema.fields
        types = {each.name.lower(): each for each in (given.fields if given else ())}
        columns = [types.get(each.name.lower(), each) for each in seen[1:]]
        texts = StructType([seen[0], *columns])
        rows = spark.read.schema(texts).text(root.as_uri()).collect()
    directory = StructField(DIRECTORY, IntegerType(), nullable=False)
    return StructType([directory, *columns]), [(int(row[0]), *row[1:]) for row in rows]


def prune(
    spark: SparkSession,
    partitions: StructType,
    places: list[Place],
    *,
    where: str,
    conditions: Sequence[Condition],
) -> list[Place]:
    """Return the directories whose rows can satisfy a condition.

    Args:
        spark: the session.
        partitions: the schema of `places`.
        places: the directories.
        where: the condition, which Spark applies if it names partition columns only.
        conditions: the simple conditions in it.
    """
    from pyspark.errors import AnalysisException

    if not where or len(partitions.fields) == 1:
        return places
    possible = [place for place in places if _can_hold(partitions, place, conditions)]
    if needs_whole_rows(where):
        return possible
    try:
        with unlogged():
            rows = spark.createDataFrame(possible, partitions).where(where).collect()
    except AnalysisException:
        return possible
    return [tuple(row) for row in rows]


def _can_hold(partitions: StructType, place: Place, conditions: Sequence[Condition]) -> bool:
    """Return whether rows in a directory can satisfy conditions."""
    values = {
        field.name.lower(): of_value(value)
        for field, value in zip(partitions.fields[1:], place[1:], strict=True)
    }
    return all(can_match(each, values[each.column]) for each in conditions if each.column in values)


def split_directories(directories: Sequence[str], uri: str) -> tuple[tuple[str, ...], list[Texts]]:
    """Return the names of the partition columns, and their values in each directory.

    Args:
        directories: relative to the table; ``""`` is its own.
        uri: the table, for errors.

    Raises:
        UsageError: the directories are not those of a table.
    """
    parts = [[part.partition("=") for part in name.split("/") if part] for name in directories]
    names = {tuple(name for name, _, _ in part) for part in parts}
    if len(names) > 1 or not all(sign for part in parts for _, sign, _ in part):
        raise UsageError(
            f"not a table: its files are in different kinds of directories: {uri}",
            hint=KINDS_HINT,
        )
    texts: list[Texts] = [tuple(_value(text) for _, _, text in part) for part in parts]
    return tuple(map(unquote, names.pop())), texts


def _value(text: str) -> str | None:
    return None if text == NO_VALUE else unquote(text)


def type_of(texts: Sequence[str | None]) -> DataType:
    """Return the type of a partition column, as Spark infers it: by all of its values."""
    from pyspark.sql import types

    present = [text for text in texts if text is not None]
    if present and all(map(_INTEGER.fullmatch, present)):
        largest = max(abs(int(text)) for text in present)
        if largest < 1 << 31:
            return types.IntegerType()
        return types.LongType() if largest < 1 << 63 else types.StringType()
    if present and all(map(_NUMBER.fullmatch, present)):
        return types.DoubleType()
    if present and all(map(_is_date, present)):
        return types.DateType()
    return types.StringType()


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
