"""Check that rows have the column names and types of the table that they are added to.

The schema of a table is the schema of its newest file: the first file with the highest generation
in its name. A file without a generation in its name counts as older than all others. For CSV the
schema is the names in the header, or the number of columns; JSON files have no schema.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

from lakecli.committed.values import decode_entry
from lakecli.engine.object_reader import TableFile
from lakecli.engine.runner import StoreLocation
from lakecli.errors import UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.reading.hadoop_names import is_read
from lakecli.repository.reading.recorded import Recorded
from lakecli.repository.reading.view import View
from lakecli.spark.schemas import recorded_in
from lakecli.spark.sessions import explained, lower_case, option_text, quoted
from lakecli.spark.table_reading import load

_DATED: Final = re.compile(rb"part-([0-9]{8,})-[0-9]{5,}-")


class SchemaMismatch(UsageError):
    """The columns of the rows, or their types, differ from those of the table."""


@dataclass
class SchemaCheck:
    """Compares rows with the table to which they are added.

    Attributes:
        prefix: the path of the table, with a slash at its end.
        partition_by: the partition columns of the rows.
        merges: whether the table may get new columns, and existing columns may get wider types.
        spark: the session; ``None`` in a worker of Spark, where only the schema of Parquet files
            can be read.
    """

    schema: StructType
    repository: Repository
    uri: str
    prefix: bytes
    format: str
    partition_by: Sequence[str]
    options: Mapping[str, Any]
    merges: bool
    spark: SparkSession | None

    def __post_init__(self) -> None:
        given = lower_case(self.options)
        self._by = [name.lower() for name in self.partition_by]
        self._merges = self.merges or given.get("mergeschema") == "true"
        self._has_header = given.get("header") == "true"
        self._checked: TableFile | None = None
        self._columns: list[StructField] = []
        self._fields = [each for each in self.schema.fields if each.name.lower() not in self._by]
        if self._merges and self.format != "parquet":
            hint = 'write a new table: mode="overwrite"'
            raise UsageError(f"mergeSchema is for Parquet, not for {self.format}", hint=hint)

    def check(self, view: View) -> None:
        """Raise `SchemaMismatch` if the rows do not fit the newest file in a view."""
        newest = None if self.format == "json" else _newest(view, self.prefix)
        if newest is None or newest == self._checked:
            return
        self._check_partitions(newest)
        if newest.recorded.size:
            self._check_columns(newest)
        self._checked = newest

    def _check_columns(self, newest: TableFile) -> None:
        self.repository.addresses.check(newest.recorded.address)
        if self.spark is None:
            stored = recorded_in(StoreLocation.of(self.repository), newest)
        else:
            given = {} if self.format == "parquet" else self.options
            options = {name: option_text(value) for name, value in given.items()}
            read = partial(load, self.spark, self.repository, [newest], format=self.format)
            with explained(self.uri):
                stored = read(schema=None, options=options, native=False).schema
        if self.format == "csv":
            self._check_names(stored)
        else:
            self._columns = self._compare(stored)

    @property
    def adapted_schema(self) -> StructType:
        """The schema to write; with `mergeSchema` it has all columns of the table."""
        if not (self._merges and self._columns):
            return self.schema
        present = {each.name.lower(): each for each in self.schema.fields}
        return StructType([*self._columns, *(present[name] for name in self._by)])

    def adapted(self, frame: DataFrame) -> DataFrame:
        """Return the rows, cast to the columns of `adapted_schema`."""
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
        names = (part.partition("=")[0] for part in file.directory.split("/") if "=" in part)
        there = [unquote(name) for name in names]  # `escape` wrote them
        own, stored = (", ".join(each) or "no column" for each in (self._by, there))
        if [name.lower() for name in there] != self._by:
            raise SchemaMismatch(
                f"the table {self.uri} is partitioned by {stored}, and the rows by {own}",
                hint=f"partition_by={there!r}",
            )

    def _check_names(self, stored: StructType) -> None:
        names, there = [each.name for each in self._fields], stored.names
        for at, (name, other) in enumerate(zip(names, there, strict=False)):
            if self._has_header and name.lower() != other.lower():
                raise SchemaMismatch(
                    f"column {at + 1} of the rows is {name!r}, and of the table {self.uri} "
                    f"{other!r}",
                    hint="select the columns in the order of the table",
                )
        if len(names) != len(there):
            raise SchemaMismatch(
                f"the rows have {len(names)} columns, and the table {self.uri} {len(there)}",
                hint=f"columns of the table: {', '.join(there)}",
            )

    def _compare(self, stored: StructType) -> list[StructField]:
        present = {each.name.lower(): each for each in self._fields}
        result = []
        for field in stored.fields:
            if field.name.lower() in self._by:
                continue  # a partition column, which was checked before
            own = present.pop(field.name.lower(), None)
            if own is None and not self._merges:
                raise SchemaMismatch(
                    f"column {field.name!r} of the table {self.uri}, "
                    f"{field.dataType.simpleString()}, is missing in the rows",
                    hint="add it, or write null there: mergeSchema=True",
                )
            result.append(field if own is None else self._common(field, own))
        for own in present.values():
            if not self._merges:
                raise SchemaMismatch(
                    f"column {own.name!r} of the rows, {own.dataType.simpleString()}, is missing "
                    f"in the table {self.uri}",
                    hint="drop it, or add it to the table: mergeSchema=True",
                )
            result.append(own)
        return result

    def _common(self, field: StructField, own: StructField) -> StructField:
        if _same_type(field.dataType, own.dataType):
            return field
        common = merged_type(field.dataType, own.dataType) if self._merges else None
        if common is None:
            raise SchemaMismatch(
                f"column {field.name!r} is {own.dataType.simpleString()} in the rows, and "
                f"{field.dataType.simpleString()} in the table {self.uri}",
                hint=f'cast it: .withColumn("{field.name}", '
                f'col("{field.name}").cast("{field.dataType.simpleString()}"))',
            )
        return StructField(field.name, common, metadata=field.metadata)


def _newest(view: View, prefix: bytes) -> TableFile | None:
    """Return the first file of the highest generation below a path, or ``None``."""

    def generation(file: tuple[bytes, bytes]) -> int:
        found = _DATED.match(file[0].rpartition(b"/")[2])
        return int(found[1]) if found else -1

    start = len(prefix)
    files = (
        (path, value)
        for path, value in view.scan(prefix=prefix)
        if not path.endswith(b"/") and is_read(os.fsdecode(path[start:]))
    )
    path, value = max(files, key=generation, default=(b"", b""))
    if not path:
        return None
    name = path[start:].decode(errors="replace")
    return TableFile(name, Recorded.of(decode_entry(value)))


def merged_type(left: DataType, right: DataType) -> DataType | None:
    """Return the common type by the rules of Spark's ``mergeSchema``; ``None`` if there is none."""
    if _same_type(left, right):
        return left
    if isinstance(left, DecimalType) and isinstance(right, DecimalType):
        precision = max(left.precision, right.precision)
        return DecimalType(precision, left.scale) if left.scale == right.scale else None
    if isinstance(left, ArrayType) and isinstance(right, ArrayType):
        item = merged_type(left.elementType, right.elementType)
        return item and ArrayType(item)
    if isinstance(left, MapType) and isinstance(right, MapType):
        key = merged_type(left.keyType, right.keyType)
        value = merged_type(left.valueType, right.valueType)
        return MapType(key, value) if key and value else None
    if isinstance(left, StructType) and isinstance(right, StructType):
        return _merged_struct(left, right)
    return None


def _merged_struct(left: StructType, right: StructType) -> StructType | None:
    others = {each.name.lower(): each for each in right.fields}
    fields = []
    for field in left.fields:
        common = merged_type(field.dataType, others.pop(field.name.lower(), field).dataType)
        if common is None:
            return None
        fields.append(StructField(field.name, common))
    return StructType([*fields, *others.values()])


def _same_type(left: DataType, right: DataType) -> bool:
    """Return whether two types are the same, ignoring nullability and the case of names."""
    return left.simpleString().lower() == right.simpleString().lower()
