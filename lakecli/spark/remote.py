"""Plan on the driver how executors read a table from a bucket.

If executors run on this machine, Spark itself infers the schema of Parquet, from sparse local files
with the original footers; elsewhere `schemas` does. The schema of CSV and JSON Spark infers from
lines.
"""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from lakecli.errors import Unsupported, UsageError
from lakecli.pipeline.store_location import StoreLocation
from lakecli.spark.fetch import DIRECTORY, VALUE, ObjectFile, Remote, iter_lines, serialised
from lakecli.spark.options import option_text, quoted
from lakecli.spark.partitions import find_partitions, prune
from lakecli.spark.schemas import merged_type, stored_columns
from lakecli.spark.sessions import is_connect, is_here
from lakecli.spark.tasks import Reader, tasks_of
from lakecli.spark.where import find_columns, find_conditions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

    from lakecli.repository.core.lake import Repository
    from lakecli.spark.conditions import Condition
    from lakecli.spark.files import TableFile
    from lakecli.spark.partitions import Place

_MAGIC: Final = b"PAR1"
_TAIL: Final = 8
_ONLY_HERE: Final = ("multiline", "linesep", "encoding", "charset", "recursivefilelookup")


class Plan(NamedTuple):
    """What is read of a table.

    Attributes:
        stored: the columns that are read from files.
        partitions: the number of a directory, then the partition columns.
        places: the directories.
        files: the files in them.
        conditions: simple conditions on stored columns, for statistics.
        order: the names of all columns, in their order.
    """

    stored: StructType
    partitions: StructType
    places: list[Place]
    files: list[Remote]
    conditions: list[Condition]
    order: list[str]


class Source:
    """A table in a bucket.

    Args:
        repository: the repository.
        files: files of the table, ordered by name.
        uri: URI of the table, for errors.
        format: ``parquet``, ``csv`` or ``json``.
        options: options of Spark's reader.
    """

    def __init__(
        self,
        repository: Repository,
        files: Sequence[TableFile],
        *,
        uri: str,
        format: str,
        options: Mapping[str, Any],
    ) -> None:
        self._uri = uri
        self._location = StoreLocation.of(repository)
        self._directories = sorted({file.directory for file in files})
        numbers = {name: number for number, name in enumerate(self._directories)}
        self._files = [
            Remote(file.name, file.address, file.size, numbers[file.directory]) for file in files
        ]
        self._format = format
        self._options = {name: option_text(value) for name, value in options.items()}
        self._flags = {name.lower(): text.lower() for name, text in self._options.items()}
        for name in _ONLY_HERE:
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

    def read(
        self,
        spark: SparkSession,
        *,
        schema: StructType | str | None,
        columns: Sequence[str],
        where: str,
    ) -> DataFrame:
        """Return the DataFrame.

        The caller applies `where` and selects `columns`: here they tell what need not be read.
        """
        from pyspark.sql import functions

        plan = self.plan(spark, schema=schema, columns=columns, where=where)
        frame = self._rows(spark, plan.files, plan.stored, plan.conditions)
        if len(plan.partitions.fields) > 1:
            by_number = functions.broadcast(spark.createDataFrame(plan.places, plan.partitions))
            frame = frame.join(by_number, DIRECTORY)
        return frame.select(*(functions.col(quoted(name)) for name in plan.order))

    def plan(
        self,
        spark: SparkSession,
        *,
        schema: StructType | str | None,
        columns: Sequence[str],
        where: str,
    ) -> Plan:
        """Return what must be read for a condition and a selection."""
        from pyspark.sql.types import StructType

        given = _parsed(spark, schema)
        partitions, places = find_partitions(spark, self._directories, given, uri=self._uri)
        self._files = _inside(self._files, places)
        data = given if given is not None else self.stored_schema(spark)
        names = {field.name.lower() for field in partitions.fields[1:]}
        order = [field.name for field in data.fields]
        known = {name.lower() for name in order}
        order += [each.name for each in partitions.fields[1:] if each.name.lower() not in known]
        stored = StructType([field for field in data.fields if field.name.lower() not in names])
        everything = StructType([*stored.fields, *partitions.fields[1:]])
        wanted = find_columns(spark, everything, where, columns)
        stored = StructType([each for each in stored.fields if each.name.lower() in wanted])
        order = [name for name in order if name.lower() in wanted]
        conditions = find_conditions(spark, everything, where)
        places = prune(spark, partitions, places, where=where, conditions=conditions)
        return Plan(
            stored,
            partitions,
            places,
            _inside(self._files, places),
            [each for each in conditions if each.column not in names],
            order,
        )

    def stored_schema(self, spark: SparkSession | None) -> StructType:
        """Return the schema of the files, without partition columns, as Spark infers it.

        Raises:
            UsageError: Spark cannot infer it.
        Unsupported: Spark Connect cannot infer it.
        """
        if not self._files:
            raise UsageError(
                f"Spark cannot infer the schema of {self._uri}: it would read none of the files",
                hint="name the directories of the table column=value",
            )
        if self._format == "parquet":
            return self._infer_parquet(spark)
        assert spark is not None, "workers read Parquet only"
        if is_connect(spark):
            raise Unsupported(
                f"Spark Connect cannot infer the schema of {self._format} in {self._uri}",
                hint='give the schema: schema="id INT, …"',
            )
        reader = spark.read.format(self._format).options(**self._options)
        infers = self._format == "json" or self._flags.get("inferschema") == "true"
        lines = self._sample(spark, everything=infers)
        parse = reader.json if self._format == "json" else reader.csv
        found: StructType = parse(lines).schema
        if not found.fields:
            raise UsageError(
                f"Spark cannot infer the schema of {self._uri}: {self._files[0].name} is empty",
                hint='give the schema: schema="id INT, …"',
            )
        return found

    def _infer_parquet(self, spark: SparkSession | None) -> StructType:
        """Return the schema that Spark infers from the footers of files."""
        merges = self._flags.get("mergeschema", "false")
        if spark is not None and "mergeschema" not in self._flags:
            merges = str(spark.conf.get("spark.sql.parquet.mergeSchema", "false"))
        files = self._files if merges == "true" else self._files[:1]
        if spark is None or not is_here(spark):
            schemas = (stored_columns(self._location, file, self._uri) for file in files)
            return reduce(self._merged, schemas)
        with TemporaryDirectory(prefix="lakecli-") as name:
            scratch = Path(name)
            for number, file in enumerate(files):
                _copy_end(self._location, file, scratch / f"{number:08d}.parquet", uri=self._uri)
            reader = spark.read.options(**self._options)
            schema: StructType = reader.parquet(scratch.as_uri()).schema
            return schema

    def _merged(self, left: StructType, right: StructType) -> StructType:
        merged = merged_type(left, right)
        if merged is None:
            raise UsageError(
                f"the files of {self._uri} have a column of types that cannot be merged",
                hint='give the schema: schema="id INT, …"',
            )
        return cast("StructType", merged)

    def _sample(self, spark: SparkSession, *, everything: bool) -> Any:  # noqa: ANN401 - an RDD
        """Return the lines from which Spark infers a schema, beginning with the header, if any."""
        has_header = self._has_header
        first: list[str] = []
        for file in self._files:
            for line in iter_lines(self._location, file):
                if line.strip():
                    first.append(line.decode("utf-8", "replace"))
                    break
            if first:
                break
        lines = spark.sparkContext.parallelize(first, 1)
        if not everything:
            return lines
        values = self._lines(spark, self._files).select(VALUE).rdd.map(_first)
        return lines.union(values) if has_header else values

    @property
    def _has_header(self) -> bool:
        return self._format == "csv" and self._flags.get("header") == "true"

    def _rows(
        self,
        spark: SparkSession,
        files: list[Remote],
        stored: StructType,
        conditions: Sequence[Condition],
    ) -> DataFrame:
        """Return the rows of files, each with the number of its directory."""
        from pyspark.sql import functions

        if self._format == "parquet":
            return self._mapped(
                spark, files, stored.fields, format="parquet", conditions=conditions
            )
        lines = self._lines(spark, files)
        parse = functions.from_json if self._format == "json" else functions.from_csv
        schema: Any = stored if self._format == "json" else _ddl(stored)
        if not stored.fields:
            return lines.select(DIRECTORY)
        parsed = parse(functions.col(VALUE), schema, self._options)
        frame = lines.select(parsed.alias(VALUE), DIRECTORY)
        return frame.select(f"{VALUE}.*", DIRECTORY)

    def _lines(self, spark: SparkSession, files: list[Remote]) -> DataFrame:
        from pyspark.sql.types import StringType, StructField

        return self._mapped(spark, files, [StructField(VALUE, StringType())], format="lines")

    def _mapped(
        self,
        spark: SparkSession,
        files: list[Remote],
        fields: list[StructField],
        *,
        format: str,
        conditions: Sequence[Condition] = (),
    ) -> DataFrame:
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import IntegerType, StructField, StructType

        # A file may lack a column that is never null in another, so all columns are nullable.
        nullable = [
            StructField(each.name, each.dataType, metadata=each.metadata) for each in fields
        ]
        # Rows of a table without directories need it only if they have nothing else.
        is_bare = format == "parquet" and nullable and self._directories == [""]
        directory = [] if is_bare else [StructField(DIRECTORY, IntegerType())]
        schema = StructType([*nullable, *directory])
        tasks = list(tasks_of(files, splits=format == "parquet"))
        reader = Reader(
            self._location,
            tasks,
            format=format,
            schema=serialised(to_arrow_schema(schema, timezone="UTC")),
            skip=self._has_header,
            conditions=conditions,
        )
        numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))

        def read(batches: Iterator[Any]) -> Iterator[Any]:
            return reader(batches)

        return numbers.mapInArrow(read, schema)


def _inside(files: Sequence[Remote], places: Sequence[Place]) -> list[Remote]:
    numbers = {place[0] for place in places}
    return [file for file in files if file.directory in numbers]


def _parsed(spark: SparkSession, schema: StructType | str | None) -> StructType | None:
    if not isinstance(schema, str):
        return schema
    parsed: StructType = spark.createDataFrame([], schema).schema
    return parsed


def _copy_end(location: StoreLocation, file: Remote, target: Path, *, uri: str) -> None:
    """Write a sparse file with the size and the footer of a Parquet file.

    Raises:
        UsageError: it is not a Parquet file.
    """
    with ObjectFile(location, file) as source:
        source.seek(max(0, file.size - _TAIL))
        tail = source.read(_TAIL)
        size = int.from_bytes(tail[:4], "little") + _TAIL
        if tail[4:] != _MAGIC or size > file.size:
            raise UsageError(
                f"Spark cannot read {uri}: {file.name} is not a Parquet file",
                hint='give its format: format="csv"',
            )
        source.seek(file.size - size)
        end = source.read(size)
    with target.open("wb") as sparse:
        sparse.write(_MAGIC)
        sparse.seek(file.size - size)
        sparse.write(end)


def _first(row: Sequence[str]) -> str:
    return row[0]


def _ddl(schema: StructType) -> str:
    return ", ".join(
        f"{quoted(field.name)} {field.dataType.simpleString()}" for field in schema.fields
    )
