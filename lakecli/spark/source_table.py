"""The rows of a table by ``spark.read.format("lakefs").option("format", "parquet")``.

Spark runs a data source in a Python process of its own, without a session. So the schema comes from
the footer of the first file: Spark's own, where Spark or lakecli wrote it, else that of Arrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lakecli.pipeline.store_location import StoreLocation
from lakecli.pipeline.worker_heap import freeze_modules
from lakecli.spark.conditions import can_match, conditions_of, of_value
from lakecli.spark.fetch import DIRECTORY, Remote, fetched
from lakecli.spark.files import table_files
from lakecli.spark.parquet import parquet_batches
from lakecli.spark.partitions import split_directories, type_of
from lakecli.spark.schemas import stored_columns
from lakecli.spark.snapshot import opened
from lakecli.spark.tasks import tasks_of
from lakecli.spark.types import arrow_schema
from lakecli.spark.worker_errors import told

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from lakecli.spark.conditions import Condition


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
        names, values = split_directories(directories, uri)
        return Table(
            StoreLocation.of(repository),
            [Remote(each.name, each.address, each.size, numbers[each.directory]) for each in files],
            names,
            values,
            uri,
        )


def schema_of(table: Table) -> StructType:
    """Return the columns of a table: those of the first file, then the partition columns.

    Raises:
        UsageError: the file is not Parquet, or has a type that Spark does not.
    """
    from pyspark.sql.types import StructField, StructType

    columns = stored_columns(table.location, table.files[0], table.uri)
    taken = {name.lower() for name in table.partitions}
    fields = [each for each in columns.fields if each.name.lower() not in taken]
    for at, name in enumerate(table.partitions):
        fields.append(StructField(name, type_of([values[at] for values in table.values])))
    return StructType(fields)


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
        self._conditions: list[Condition] = []

    def partitions(self) -> Sequence[InputPartition]:
        """Return the groups of files that a task reads."""
        with told():
            holds = [self._can_hold(values) for values in self._table.values]
            files = [file for file in self._table.files if holds[file.directory]]
            return [_Files(each) for each in tasks_of(files, splits=True)]

    def _can_hold(self, values: tuple[str | None, ...]) -> bool:
        """Return whether rows with values of the partition columns can satisfy the conditions."""
        kinds = {field.name.lower(): field.type for field in arrow_schema(self._schema)}
        bounds = {
            name.lower(): of_value(pa.scalar(text, pa.string()).cast(kinds[name.lower()]).as_py())
            for name, text in zip(self._table.partitions, values, strict=True)
            if name.lower() in kinds
        }
        return all(
            can_match(each, bounds[each.column])
            for each in self._conditions
            if each.column in bounds
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some files."""
        with told():
            assert isinstance(partition, _Files)
            schema = arrow_schema(self._schema)
            columns = {name.lower(): at for at, name in enumerate(self._table.partitions)}
            stored = [each for each in schema if each.name.lower() not in columns]
            # Without any column a batch would have no rows.
            wanted = pa.schema([*stored, pa.field(DIRECTORY, pa.int32())])
            conditions = [each for each in self._conditions if each.column not in columns]
            sources = fetched(self._table.location, partition.files)
            for file, source in zip(partition.files, sources, strict=True):
                values = self._table.values[file.directory]
                for batch in parquet_batches(source, file, wanted, conditions):
                    yield self._rows(batch, schema, columns, values)
        freeze_modules()

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


class FilteringTableReader(TableReader):
    """The same, for DataFrames that are used with one filter only: see `LakefsSource`."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Leave out directories and row groups that cannot pass; Spark applies all filters."""
        self._conditions = conditions_of(filters, self._schema)
        return filters
