"""The rows of a table by ``spark.read.format("lakefs").option("format", "parquet")``.

Spark plans a data source in a Python process of its own, without a session, so nothing can be asked
of Spark there. The schema is the one that was given; else the one that Spark or lakecli recorded
in the first file, with the partition columns whose types are beyond doubt. Everything else is
refused: `lakecli.spark.read_table` asks Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import (
    DataType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from lakecli.engine.store_location import StoreLocation
from lakecli.errors import Unsupported, UsageError
from lakecli.spark.fetch import Remote, serialised, tasks_of
from lakecli.spark.files import remote_files, table_files
from lakecli.spark.infer import first_file, not_recorded, recorded
from lakecli.spark.options import KEY, KINDS_HINT
from lakecli.spark.places import split_directory
from lakecli.spark.reader import TableReader as FilesReader
from lakecli.spark.snapshot import opened
from lakecli.spark.types import arrow_schema

_INTEGER: Final = re.compile("0|-?[1-9][0-9]{0,17}")
_TEXT: Final = re.compile(r"(?!nan|inf|t\d|p)[a-z_][^\0]*", re.IGNORECASE)
"""Texts that are no number, date, time or interval to anybody."""

_MAX_INT: Final = (1 << 31) - 1
_FROM_TEXT: Final = (StringType, IntegerType, LongType, DateType)
"""Types of partition columns that Arrow makes of texts as Spark does."""


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
    values: dict[int, tuple[str | None, ...]]
    uri: str


def look_at_table(uri: str, *, home: str | None) -> Table:
    """Pin a table.

    Raises:
        NotFound: there is nothing to read.
        UsageError: the directories are not those of a table.
    """
    with opened(uri, home=home) as repository:
        files = [each for each in remote_files(table_files(repository, uri).files) if each.size]
        location = StoreLocation.of(repository)
    found = {each.directory: split_directory(each.name.rpartition("/")[0]) for each in files}
    if not any(found.values()):  # as Spark, which then reads no directories
        found = {each.directory: [] for each in files if "/" not in each.name}
    found = {at: pairs for at, pairs in found.items() if pairs or not any(found.values())}
    kinds = {tuple(name.lower() for name, _ in pairs) for pairs in found.values()}
    if len(kinds) > 1:
        raise UsageError(
            f"not a table: its files are in different kinds of directories: {uri}",
            hint=KINDS_HINT,
        )
    files = [each for each in files if each.directory in found]
    if not files:
        raise UsageError(f"not a table: Spark would read none of its files: {uri}", hint=KINDS_HINT)
    names = tuple(name for name, _ in found[files[0].directory])
    values = {at: tuple(text for _, text in pairs) for at, pairs in found.items()}
    return Table(location, files, names, values, uri)


def schema_of(table: Table) -> StructType:
    """Return the columns of a table: those of the first file, then the partition columns.

    Raises:
        UsageError: the file is not Parquet.
        Unsupported: only Spark can say what the columns are.
    """
    first = first_file(table.files)
    columns = recorded(table.location, first)
    if columns is None:
        raise not_recorded(first)
    taken = {name.lower() for name in table.partitions}
    fields = [each for each in columns.fields if each.name.lower() not in taken]
    for at, name in enumerate(table.partitions):
        texts = [values[at] for values in table.values.values()]
        fields.append(StructField(name, _type_of(name, texts)))
    return StructType(fields)


def _type_of(name: str, texts: Sequence[str | None]) -> DataType:
    """Return the type that Spark gives to a partition column, if there is no doubt."""
    present = [text for text in texts if text is not None]
    if not present or any(map(_TEXT.fullmatch, present)):
        return StringType()
    if all(map(_INTEGER.fullmatch, present)):
        small = all(abs(int(text)) <= _MAX_INT for text in present)
        return IntegerType() if small else LongType()
    if all(map(_is_date, present)):
        return DateType()
    raise Unsupported(
        f"only Spark can say which type the partition column {name!r} has: {present[0]!r}",
        hint=f'give the schema: .schema("…, {name} STRING"), or use lakecli.spark.read_table',
    )


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

    Raises:
        Unsupported: a partition column has a type that needs Spark.
    """

    def __init__(self, table: Table, schema: StructType) -> None:
        self._table = table
        self._schema = schema
        self._at = {name.lower(): at for at, name in enumerate(table.partitions)}
        for field in schema.fields:
            if field.name.lower() in self._at and not isinstance(field.dataType, _FROM_TEXT):
                raise Unsupported(
                    f"the data source cannot read the partition column {field.name!r} as "
                    f"{field.dataType.simpleString()}",
                    hint="read it as STRING and cast it, or use lakecli.spark.read_table",
                )

    def partitions(self) -> Sequence[InputPartition]:
        """Return the groups of files that a task reads."""
        return [_Files(each) for each in tasks_of(self._table.files)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some files."""
        assert isinstance(partition, _Files)
        schema = arrow_schema(self._schema)
        stored = [each for each in schema if each.name.lower() not in self._at]
        # Without any column a batch would have no rows.
        wanted = serialised(pa.schema([*stored, pa.field(KEY, pa.int32())]))
        reader = FilesReader(self._table.location, "parquet", wanted)
        for batch in reader.read(partition.files):
            if len(batch):
                yield self._rows(batch, schema)

    def _rows(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        values = self._table.values[batch.column(KEY)[0].as_py()]
        arrays: list[Any] = []
        for field in schema:
            at = self._at.get(field.name.lower())
            if at is None:
                arrays.append(batch.column(field.name))
                continue
            text = pa.scalar(values[at], pa.string())
            arrays.append(pa.repeat(text.cast(field.type), len(batch)))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
