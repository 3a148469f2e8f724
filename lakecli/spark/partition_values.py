"""The values of a table's partition columns, from the names of its directories.

The paths of objects lack these names, so a table's columns are joined by the file. Spark infers the
types, from a directory tree of tiny files on the driver; this lists directories, and runs no job.
The values are texts, which Spark converts to these types.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import DataType, NullType, StringType, StructField, StructType

from lakecli.errors import Unsupported
from lakecli.spark.private_names import analyzed_plan, jvm_of
from lakecli.spark.sessions import is_case_sensitive, is_connect, quoted, unlogged

Texts = tuple[str | None, ...]
"""The values of the partition columns in a directory; ``None`` is null."""

KEY: Final = "__lakecli_key"
"""The column by which rows find the partition columns of their file."""

NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The directory name of a partition column's null or empty value."""

_LISTED_HERE: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_MANY: Final = 1 << 30
_COMPARISONS: Final = frozenset(
    {
        *("Literal", "Cast", "And", "Or", "Not", "IsNull", "IsNotNull", "In"),
        *("Between", "With", "CommonExpressionRef", "CommonExpressionDef"),
        *("EqualTo", "EqualNullSafe"),
        *("LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"),
    }
)
"""Expressions of Spark whose results depend on nothing but what is below them."""

_ESCAPED: Final = re.compile("%([0-9A-Fa-f]{2})")


class PartitionValues(NamedTuple):
    """The partition columns of a table, and their values in each directory that Spark reads."""

    columns: StructType
    texts: Mapping[str, Texts]

    @property
    def text_names(self) -> list[str]:
        """Names of columns with the texts, in the order of the partition columns."""
        return [f"__lakecli_{at}" for at in range(len(self.columns.fields))]

    def typed(self) -> list[Column]:
        """Return the partition columns, made of the columns with the texts."""
        return [
            # All are null, and Spark casts no text to void.
            functions.lit(None).alias(field.name)
            if isinstance(field.dataType, NullType)
            else functions.col(name).cast(field.dataType).alias(field.name)
            for name, field in zip(self.text_names, self.columns.fields, strict=True)
        ]

    def frame(self, spark: SparkSession, directories: Sequence[tuple[str, str]]) -> DataFrame:
        """Return rows of a key and the partition columns, for keys and their directories."""
        schema = ", ".join(f"{name} string" for name in (KEY, *self.text_names))
        rows = [(key, *self.texts[directory]) for key, directory in directories]
        return spark.createDataFrame(rows, schema).select(KEY, *self.typed())


def infer_partition_values(
    spark: SparkSession, directories: Sequence[str], given: StructType | None
) -> PartitionValues:
    """Return the directories of a table that Spark reads, and their partition columns.

    Types of a given schema come before inferred ones. Directories that are not those of a table are
    an error of Spark.
    """
    found = {name: split_directory(name) for name in directories}
    if not any(found.values()):
        own: dict[str, Texts] = {name: () for name in directories if not name}
        return PartitionValues(StructType([]), own)
    inferred = _inferred(spark, directories, found, given)
    fold = str if is_case_sensitive(spark) else str.lower
    types = {fold(each.name): each.dataType for each in (given.fields if given else ())}
    columns = [StructField(name, types.get(fold(name), kind)) for name, kind in inferred.items()]
    texts = {name: tuple(text for _, text in pairs) for name, pairs in found.items() if pairs}
    return PartitionValues(StructType(columns), texts)


def _inferred(
    spark: SparkSession,
    directories: Sequence[str],
    found: Mapping[str, Sequence[tuple[str, str | None]]],
    given: StructType | None,
) -> dict[str, DataType]:
    with TemporaryDirectory(prefix="lakecli-") as scratch:
        root = Path(scratch)
        for name in directories:
            (root / name).mkdir(parents=True, exist_ok=True)
            (root / name / "part").write_text("x", encoding="ascii")
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


def prune(
    spark: SparkSession, partitions: PartitionValues, data: StructType, where: str
) -> PartitionValues:
    """Return the directories whose rows can satisfy a condition in SQL, if there is one.

    Without this, ``where="day = '2026-10-31'"`` would read the files of all days: Spark does not
    know which files have a joined column's value. Spark resolves the condition, and applies those
    of its parts, joined by AND, that compare partition columns with constants, and call no
    function, whose result may be another one when the rows are read. Through Spark Connect, which
    shows no parts, all directories are returned. `data` has the other columns.
    """
    names = {name.lower() for name in partitions.columns.names}
    if not where or not names or is_connect(spark):
        return partitions
    rows = partitions.frame(spark, [(name, name) for name in partitions.texts])
    others = [functions.lit(None).cast(each.dataType).alias(each.name) for each in data.fields]
    try:
        with unlogged():
            whole = rows.select("*", *others).where(where)
            waiting = [analyzed_plan(whole).condition()]
            utils = jvm_of(spark).org.apache.spark.sql.classic.ExpressionUtils
            while waiting:
                part = waiting.pop()
                if part.nodeName() == "And":
                    waiting += [part.left(), part.right()]
                elif _compares(part, names):
                    rows = rows.where(ClassicColumn(utils.column(part)))
            kept = {row[0] for row in rows.select(quoted(KEY)).collect()}
    except (PySparkException, Py4JError):  # it fails for a value, or is not valid at all
        return partitions
    return partitions._replace(
        texts={name: texts for name, texts in partitions.texts.items() if name in kept}
    )


def _compares(expression: Any, names: Collection[str]) -> bool:  # noqa: ANN401 - of the JVM
    """Return whether an expression has comparisons of some columns and constants only."""
    kind = expression.nodeName()
    if kind == "AttributeReference":
        return expression.name().lower() in names
    below = expression.children()
    return kind in _COMPARISONS and all(
        _compares(below.apply(at), names) for at in range(below.size())
    )
