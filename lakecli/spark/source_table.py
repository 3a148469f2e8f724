"""The rows of a table by ``spark.read.format("lakefs").option("format", "parquet")``.

Spark runs a data source in a Python process of its own, without a session. So the schema comes from
the footer of the first file: Spark's own, where Spark or lakecli wrote it, else that of Arrow.
"""

from __future__ import annotations

import json
import re
from datetime import date
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lakecli.errors import UsageError
from lakecli.pipeline.store_location import StoreLocation
from lakecli.spark.fetch import ObjectFile, Remote, fetched, parquet_batches
from lakecli.spark.files import table_files
from lakecli.spark.remote import tasks_of
from lakecli.spark.sink import NO_VALUE
from lakecli.spark.snapshot import opened
from lakecli.spark.types import arrow_schema
from lakecli.spark.worker_errors import told

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import DataType, StructType

_ROW_METADATA: Final = b"org.apache.spark.sql.parquet.row.metadata"
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class Table(NamedTuple):
    """The files of a table, as of the moment when the DataFrame was created.

    Attributes:
        location: the repository's namespace.
        files: each with the number of its directory.
        partitions: the partition columns.
        values: of each directory, the texts of its partition columns; ``None`` is null.
        uri: the table, for errors.
    """

    location: StoreLocation
    files: list[Remote]
    partitions: tuple[str, ...]
    values: list[tuple[str | None, ...]]
    uri: str


def look_at_table(uri: str, *, home: str | None) -> Table:
    """Pin a table.

    Raises:
        NotFound: there is nothing to read.
        UsageError: the directories are not those of a table.
    """
    with opened(uri, home=home) as repository:
        files = table_files(repository, uri).files
        directories = sorted({file.directory for file in files})
        numbers = {name: number for number, name in enumerate(directories)}
        parts = [[part.partition("=") for part in name.split("/") if part] for name in directories]
        names = {tuple(name for name, _, _ in part) for part in parts}
        if len(names) > 1 or not all(sign for part in parts for _, sign, _ in part):
            raise UsageError(
                f"not a table: its files are in different kinds of directories: {uri}",
                hint="name the directory of the table, with all its files in directories "
                "column=value, or none",
            )
        return Table(
            StoreLocation.of(repository),
            [Remote(each.name, each.address, each.size, numbers[each.directory]) for each in files],
            tuple(map(unquote, names.pop())),
            [tuple(_value(text) for _, _, text in part) for part in parts],
            uri,
        )


def _value(text: str) -> str | None:
    return None if text == NO_VALUE else unquote(text)


def schema_of(table: Table) -> StructType:
    """Return the columns of a table: those of the first file, then the partition columns.

    Raises:
        UsageError: the file is not Parquet, or has a type that Spark does not.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructField, StructType

    first = table.files[0]
    try:
        with ObjectFile(table.location, first) as source:
            stored = pq.ParquetFile(source, coerce_int96_timestamp_unit="us").schema_arrow
        spark = (stored.metadata or {}).get(_ROW_METADATA)
        columns = StructType.fromJson(json.loads(spark)) if spark else from_arrow_schema(stored)
    except (pa.ArrowException, PySparkException, ValueError, LookupError) as error:
        raise UsageError(
            f"cannot read the schema of {table.uri}: {first.name}: {error}",
            hint="a table in CSV or JSON is read by lakecli.spark.read_table",
        ) from error
    taken = {name.lower() for name in table.partitions}
    fields = [
        StructField(each.name, each.dataType, metadata=each.metadata)
        for each in columns.fields
        if each.name.lower() not in taken
    ]
    for at, name in enumerate(table.partitions):
        texts = [values[at] for values in table.values]
        fields.append(StructField(name, _type_of([text for text in texts if text is not None])))
    return StructType(fields)


def _type_of(texts: Sequence[str]) -> DataType:
    """Return the type of a partition column, as Spark infers it: by all of its values."""
    from pyspark.sql import types

    if texts and all(map(_INTEGER.fullmatch, texts)):
        largest = max(abs(int(text)) for text in texts)
        if largest < 1 << 31:
            return types.IntegerType()
        return types.LongType() if largest < 1 << 63 else types.StringType()
    if texts and all(map(_NUMBER.fullmatch, texts)):
        return types.DoubleType()
    if texts and all(map(_is_date, texts)):
        return types.DateType()
    return types.StringType()


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


class _Files(InputPartition):
    """The files of one task."""

    def __init__(self, files: list[Remote]) -> None:
        super().__init__(None)
        self.files = files


class TableReader(DataSourceReader):
    """Reads a table.

    Args:
        table: its files.
        schema: schema of the rows: any of the columns, in any order.
    """

    def __init__(self, table: Table, schema: StructType) -> None:
        self._table = table
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return the groups of files that a task reads."""
        return [_Files(files) for files in tasks_of(self._table.files)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some files."""
        with told():
            assert isinstance(partition, _Files)
            schema = arrow_schema(self._schema)
            columns = {name.lower(): at for at, name in enumerate(self._table.partitions)}
            stored = pa.schema([each for each in schema if each.name.lower() not in columns])
            sources = fetched(self._table.location, partition.files)
            for file, source in zip(partition.files, sources, strict=True):
                values = self._table.values[file.directory]
                for batch in parquet_batches(source, file, stored):
                    yield self._rows(batch, schema, columns, values)

    def _rows(
        self,
        batch: pa.RecordBatch,
        schema: pa.Schema,
        columns: dict[str, int],
        values: tuple[str | None, ...],
    ) -> pa.RecordBatch:
        arrays: list[Any] = []
        for field in schema:
            at = columns.get(field.name.lower())
            if at is None:
                arrays.append(batch.column(field.name))
                continue
            text = pa.scalar(values[at], pa.string())
            arrays.append(pa.repeat(text.cast(field.type), len(batch)))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
