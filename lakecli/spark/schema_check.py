"""Whether rows fit the table that they are added to: names and types of its columns.

The schema of a table is that of the newest file, by the generation in its name; a file without one
is older than all that have one. Of CSV it is the names in the header, or the number of columns;
files of JSON have none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from lakecli.committed.values import decode_entry
from lakecli.engine.store_location import StoreLocation
from lakecli.errors import UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.reading.view import View
from lakecli.spark.fetched_reading import FetchedReading
from lakecli.spark.schemas import merged_type, recorded_in, same_type
from lakecli.spark.sessions import lower_case, option_text, quoted
from lakecli.spark.table_files import TableFile, is_read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DATED: Final = re.compile(rb"part-([0-9]{8,})-[0-9]{5,}-")


class SchemaMismatch(UsageError):
    """Rows have other columns, or other types of columns, than the table."""


class SchemaCheck:
    """Compares rows with the table that they are added to.

    Args:
        schema: of the rows.
        repository: the repository.
        uri: the table, for errors.
        prefix: its path, with a slash at its end.
        format: of its files.
        partition_by: the partition columns of the rows.
        options: of Spark's writer.
        merges: whether the table may get new columns, and columns wider types.
        spark: the session; ``None`` in a worker of Spark, which can read the schema of Parquet.
    """

    def __init__(
        self,
        schema: StructType,
        repository: Repository,
        uri: str,
        prefix: bytes,
        *,
        format: str,
        partition_by: Sequence[str],
        options: Mapping[str, Any],
        merges: bool,
        spark: SparkSession | None,
    ) -> None:
        given = lower_case(options)
        self._repository = repository
        self._uri = uri
        self._prefix = prefix
        self._format = format
        self._options = options
        self._by = [name.lower() for name in partition_by]
        self._merges = merges or given.get("mergeschema") == "true"
        self._has_header = given.get("header") == "true"
        self._checked: TableFile | None = None
        self._columns: list[StructField] = []
        self._spark = spark
        self._schema = schema
        self._fields = [each for each in schema.fields if each.name.lower() not in self._by]
        if self._merges and format != "parquet":
            raise UsageError(
                f"mergeSchema is for Parquet, not for {format}",
                hint='write a new table: mode="overwrite"',
            )

    def check(self, view: View) -> None:
        """Compare the rows with the table in a view, unless its newest file was compared before.

        Raises:
            SchemaMismatch: they do not fit; naming a column, and both of its types.
        """
        newest = None if self._format == "json" else _newest(view, self._prefix)
        if newest is None or newest == self._checked:
            return
        self._check_partitions(newest)
        if newest.size:
            self._check_columns(newest)
        self._checked = newest

    def _check_columns(self, newest: TableFile) -> None:
        self._repository.addresses.check(newest.address)
        location = StoreLocation.of(self._repository)
        if self._spark is None:
            stored = recorded_in(location, newest)
        else:
            given = {} if self._format == "parquet" else self._options
            options = {name: option_text(value) for name, value in given.items()}
            reading = FetchedReading(self._spark, location, format=self._format, options=options)
            stored = reading.infer([newest])
        if self._format == "csv":
            self._check_names(stored)
        else:
            self._columns = self._compare(stored)

    @property
    def adapted_schema(self) -> StructType:
        """The schema that the rows are to be written with.

        With `mergeSchema` they have all columns of the table, so its newest file tells its schema.
        """
        if not (self._merges and self._columns):
            return self._schema
        present = {each.name.lower(): each for each in self._schema.fields}
        return StructType([*self._columns, *(present[name] for name in self._by)])

    def adapted(self, frame: DataFrame) -> DataFrame:
        """Return the rows with the columns of that schema."""
        if not (self._merges and self._columns):
            return frame
        present = {each.name.lower(): each for each in self._fields}
        columns = []
        for field in self._columns:
            own = present.get(field.name.lower())
            column = functions.lit(None) if own is None else functions.col(quoted(own.name))
            if own is None or not isinstance(own.dataType, ArrayType | MapType | StructType):
                column = column.cast(field.dataType)
            columns.append(column.alias(field.name))
        names = {each.lower(): each for each in frame.columns}
        return frame.select(*columns, *(functions.col(quoted(names[name])) for name in self._by))

    def _check_partitions(self, file: TableFile) -> None:
        there = [part.partition("=")[0] for part in file.directory.split("/") if "=" in part]
        if [name.lower() for name in there] != self._by:
            raise SchemaMismatch(
                f"the table {self._uri} is partitioned by {_list(there)}, and the rows by "
                f"{_list(self._by)}",
                hint=f"partition_by={there!r}",
            )

    def _check_names(self, stored: StructType) -> None:
        names, there = [each.name for each in self._fields], stored.names
        for at, (name, other) in enumerate(zip(names, there, strict=False)):
            if self._has_header and name.lower() != other.lower():
                raise SchemaMismatch(
                    f"column {at + 1} of the rows is {name!r}, and of the table {self._uri} "
                    f"{other!r}",
                    hint="select the columns in the order of the table",
                )
        if len(names) != len(there):
            raise SchemaMismatch(
                f"the rows have {len(names)} columns, and the table {self._uri} {len(there)}",
                hint=f"columns of the table: {', '.join(there)}",
            )

    def _compare(self, stored: StructType) -> list[StructField]:
        present = {each.name.lower(): each for each in self._fields}
        result = []
        for field in stored.fields:
            if field.name.lower() in self._by:
                continue  # the directories have it, and those come first
            own = present.pop(field.name.lower(), None)
            if own is None and not self._merges:
                raise SchemaMismatch(
                    f"column {field.name!r} of the table {self._uri}, "
                    f"{field.dataType.simpleString()}, is missing in the rows",
                    hint="add it, or write null there: mergeSchema=True",
                )
            result.append(field if own is None else self._common(field, own))
        for own in present.values():
            if not self._merges:
                raise SchemaMismatch(
                    f"column {own.name!r} of the rows, {own.dataType.simpleString()}, is missing "
                    f"in the table {self._uri}",
                    hint="drop it, or add it to the table: mergeSchema=True",
                )
            result.append(own)
        return result

    def _common(self, field: StructField, own: StructField) -> StructField:
        if same_type(field.dataType, own.dataType):
            return field
        common = merged_type(field.dataType, own.dataType) if self._merges else None
        if common is None:
            raise SchemaMismatch(
                f"column {field.name!r} is {own.dataType.simpleString()} in the rows, and "
                f"{field.dataType.simpleString()} in the table {self._uri}",
                hint=f'cast it: .withColumn("{field.name}", '
                f'col("{field.name}").cast("{field.dataType.simpleString()}"))',
            )
        return StructField(field.name, common, metadata=field.metadata)


def _newest(view: View, prefix: bytes) -> TableFile | None:
    """Return the file of the highest generation below a path, the first of several, or ``None``."""
    newest: tuple[bytes, bytes] | None = None
    highest = -2
    for path, value in view.scan(prefix=prefix):
        found = _DATED.match(path.rpartition(b"/")[2])
        generation = int(found[1]) if found else -1
        name = os.fsdecode(path[len(prefix) :])
        is_file = name and not name.endswith("/") and is_read(name)
        if is_file and generation > highest:
            newest, highest = (path, value), generation
    if newest is None:
        return None
    path, value = newest
    entry = decode_entry(value)
    name = path[len(prefix) :].decode(errors="replace")
    return TableFile(name, entry.physical_address, entry.size)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "no column"
