"""The rows of a table whose directories Spark does not see itself.

A ref is a list of names, each with the address of an object; the objects' own names say nothing of
the table. The way of the data:

1. `places`: Spark infers the partition columns from the names of the directories.
2. The schema of the files is given, or inferred by Spark: over the addresses (`native`), or from
   footers and lines that the driver fetches (`infer`).
3. Spark reads the objects by their addresses (`native`), or executors fetch them and convert their
   columns to the types of that schema (`fetch`, `reader`).
4. Each row is joined with the partition columns of its file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions
from pyspark.sql.types import IntegerType, StructField, StructType

from lakecli.engine.store_location import StoreLocation
from lakecli.errors import Unsupported, UsageError
from lakecli.spark.fetch import Remote, serialised, tasks_of
from lakecli.spark.fetched_reading import TableReader
from lakecli.spark.infer import LINE, has_header, infer_parquet, infer_text, merges_schemas
from lakecli.spark.options import KEY, VALUE, flags_of, quoted
from lakecli.spark.partitions import Places, find_places, prune
from lakecli.spark.parts import read_parts
from lakecli.spark.sessions import is_case_sensitive
from lakecli.spark.types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OF_NAMES: frozenset[str] = frozenset(
    {"recursivefilelookup", "pathglobfilter", "basepath", "modifiedbefore", "modifiedafter"}
)
"""Options about names and times of files, which are not those of the objects."""

_OF_LINES: frozenset[str] = frozenset({"multiline", "linesep", "encoding", "charset"})
"""Options about how text becomes lines, which Spark does not do here."""


class Way(Protocol):
    """A way by which the rows of files come to Spark."""

    def infer(self, files: Sequence[Remote]) -> StructType:
        """Return the schema of files, without partition columns, all columns nullable."""

    def rows(self, files: Sequence[Remote], stored: StructType, *, keyed: bool) -> DataFrame:
        """Return the rows of files with the columns of a schema; if `keyed`, each with a `KEY`."""

    def needs_key(self, files: Sequence[Remote]) -> bool:
        """Return whether rows need their key, even if there are no partition columns."""

    def keys(self, files: Sequence[Remote]) -> list[tuple[object, str]]:
        """Return keys, each with the directory of the files that it stands for."""


class Fetched:
    """A table whose files executors fetch through lakecli's stores.

    Args:
        spark: the session.
        location: the repository's namespace.
        format: of the files.
        options: options of Spark's reader.

    Raises:
        Unsupported: an option works only if Spark reads the files.
    """

    def __init__(
        self,
        spark: SparkSession,
        location: StoreLocation,
        *,
        format: str,
        options: Mapping[str, str],
    ) -> None:
        self._spark = spark
        self._location = location
        self._format = format
        self._options = options
        self._flags = flags_of(options)
        for name in sorted(_OF_LINES):
            if self._flags.get(name, "false") not in {"false", "utf-8", "utf8"}:
                raise Unsupported(
                    f"option {name} does not work for a table in a bucket",
                    hint="download the table and read it there",
                )
        if self._flags.get("mode") == "dropmalformed" and format != "parquet":
            raise Unsupported(
                "mode DROPMALFORMED does not work for a table in a bucket",
                hint="use PERMISSIVE and .where(), or download the table and read it there",
            )

    def infer(self, files: Sequence[Remote]) -> StructType:
        """Return the schema that Spark infers."""
        if self._format == "parquet":
            merges = merges_schemas(self._spark, self._flags)
            return infer_parquet(self._spark, self._location, files, merges=merges)
        return infer_text(
            self._spark,
            self._location,
            files,
            format=self._format,
            options=self._options,
            lines=lambda: self._mapped(files, StructType([LINE, _KEY_FIELD])),
        )

    def rows(self, files: Sequence[Remote], stored: StructType, *, keyed: bool) -> DataFrame:
        """Return the rows of files; their key is the number of their directory."""
        key = [_KEY_FIELD] if keyed else []
        if self._format == "parquet":
            # Without any column a batch would have no rows.
            columns = [*stored.fields, *(key if stored.fields else [_KEY_FIELD])]
            return self._mapped(files, StructType(columns))
        lines = self._mapped(files, StructType([LINE, _KEY_FIELD]))
        if not stored.fields:
            return lines.select(KEY)
        column = functions.col(VALUE)
        if self._format == "json":
            parsed = functions.from_json(column, stored, dict(self._options))
        else:
            parsed = functions.from_csv(column, _ddl(stored), dict(self._options))
        rows = lines.select(parsed.alias(VALUE), KEY).select(f"{VALUE}.*", KEY)
        return rows if keyed else rows.drop(KEY)

    def needs_key(self, files: Sequence[Remote]) -> bool:
        """Return `False`: each file is read as often as it is named."""
        del files
        return False

    def keys(self, files: Sequence[Remote]) -> list[tuple[object, str]]:
        """Return the number of each directory, and its name."""
        names = {file.directory: file.name.rpartition("/")[0] for file in files}
        return list(names.items())

    def _mapped(self, files: Sequence[Remote], schema: StructType) -> DataFrame:
        reader = TableReader(
            self._location,
            self._format,
            serialised(arrow_schema(schema)),
            skip=has_header(self._format, self._flags),
            is_case_sensitive=is_case_sensitive(self._spark),
        )
        return read_parts(self._spark, reader.read, tasks_of(files), schema)


_KEY_FIELD = StructField(KEY, IntegerType())


def check_options(options: Mapping[str, str]) -> None:
    """Refuse options about the names of files, where Spark does not see those of the table.

    Raises:
        Unsupported: there is one.
    """
    for name, value in flags_of(options).items():
        if name in _OF_NAMES and value != "false":
            raise Unsupported(
                f"option {name} does not work for a table in a bucket",
                hint="name the directory or file in the URI, or download the table",
            )


def read_rows(
    spark: SparkSession,
    way: Way,
    files: Sequence[Remote],
    *,
    uri: str,
    schema: StructType | None,
    columns: Sequence[str],
    where: str,
) -> DataFrame:
    """Return the rows of a table; the caller applies `where`, and selects `columns`.

    Args:
        spark: the session.
        way: how its files are read.
        files: its files.
        uri: the table, for errors.
        schema: the schema of the rows; by default Spark infers it.
        columns: the columns that are selected; all if it is empty.
        where: the condition in SQL; ``""``: there is none.

    Raises:
        UsageError: Spark cannot infer the schema.
        Unsupported: the session cannot do it.
    """
    present = [file for file in files if file.size]  # Spark ignores empty files
    directories = sorted({_directory(file) for file in present})
    places = find_places(spark, directories, schema)
    by_partition = places.columns.fields
    if not by_partition:
        present = [file for file in present if not _directory(file)]
    if schema is None and not present:
        raise UsageError(
            f"Spark cannot infer the schema of {uri}: it would read none of the files",
            hint="name the directories of the table column=value, and check that files have data",
        )
    data = way.infer(present) if schema is None else schema
    places = prune(spark, places, where)
    chosen = [file for file in present if _directory(file) in places.texts]

    fold: Callable[[str], str] = str if is_case_sensitive(spark) else str.lower
    names = {fold(field.name): field.name for field in by_partition}
    known = {fold(name) for name in data.names}
    order = [names.get(fold(name), name) for name in data.names]
    order += [field.name for field in by_partition if fold(field.name) not in known]
    wanted = (
        set(order) if not columns else {each for each in order if _is_named(each, columns, where)}
    )
    stored = StructType(
        [each for each in data.fields if fold(each.name) not in names and each.name in wanted]
    )
    joined = bool(by_partition) or way.needs_key(chosen)
    rows = way.rows(chosen, stored, keyed=joined)
    if joined:
        rows = _joined(spark, rows, places, way.keys(chosen))
    return rows.select(*(functions.col(quoted(name)) for name in order if name in wanted))


def _directory(file: Remote) -> str:
    return file.name.rpartition("/")[0]


def _is_named(name: str, columns: Sequence[str], where: str) -> bool:
    """Return whether a text in SQL may name a column; one with ``*`` names all."""
    spelled = name.lower().replace("`", "``")
    return any(
        name.lower() in text or spelled in text or "*" in text
        for text in map(str.lower, (*columns, where))
    )


def _joined(
    spark: SparkSession,
    rows: DataFrame,
    places: Places,
    keys: Sequence[tuple[object, str]],
) -> DataFrame:
    """Return the rows with the partition columns of their files.

    A row whose file is not among the keys is an error, and not left out.
    """
    found = f"{KEY}_found"
    right = places.frame(spark, keys).withColumn(found, functions.lit(True))  # noqa: FBT003
    unknown = functions.raise_error(
        functions.concat(
            functions.lit("Spark names a file in another way than lakecli: "),
            functions.col(KEY).cast("string"),
        )
    )
    is_known = functions.col(found)
    values = {
        name: functions.when(is_known, functions.col(quoted(name))).otherwise(unknown)
        for name in places.columns.names
    }
    joined = rows.join(functions.broadcast(right), KEY, "left").withColumns(values)
    return joined.drop(found)


def _ddl(schema: StructType) -> str:
    return ", ".join(
        f"{quoted(field.name)} {field.dataType.simpleString()}" for field in schema.fields
    )
