"""Read the row groups of Parquet files on executors.

A large file is read by several tasks: each has a part of its bytes, and reads the row groups that
begin there. So nobody needs the file's footer to divide it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakecli.errors import Unsupported
from lakecli.spark.conditions import Bounds, can_match
from lakecli.spark.fetch import DIRECTORY, READ_AHEAD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakecli.spark.conditions import Condition
    from lakecli.spark.fetch import ObjectFile, Remote

BUFFERED: Final = 48 << 20
"""Bytes of compressed pages in memory, for all columns together, approximately."""

MAX_BUFFER: Final = 8 << 20
"""Bytes of one column that are fetched at a time, at most."""


def parquet_batches(
    source: ObjectFile, file: Remote, schema: pa.Schema, conditions: Sequence[Condition] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield a file's rows with the columns of a schema; missing columns are null.

    Column names are case-insensitive, as in Spark.

    Args:
        source: the file.
        file: which part of it to read.
        schema: the columns; `DIRECTORY` is the number of the file's directory.
        conditions: row groups without a row that satisfies all of them are left out.
    """
    with source:
        metadata = pq.read_metadata(source)
        groups = wanted_groups(metadata, file, conditions)
        if not groups:
            return
        names = {name.lower(): name for name in metadata.schema.to_arrow_schema().names}
        wanted = [names[field.name.lower()] for field in schema if field.name.lower() in names]
        # Pages are fetched as they are decoded, so a large row group needs little memory.
        size = min(MAX_BUFFER, max(READ_AHEAD, BUFFERED // max(1, len(wanted))))
        table = pq.ParquetFile(
            source, metadata=metadata, buffer_size=size, coerce_int96_timestamp_unit="us"
        )
        for batch in table.iter_batches(row_groups=groups, columns=wanted):
            yield _conformed(batch, schema, file)


def wanted_groups(
    metadata: pq.FileMetaData, file: Remote, conditions: Sequence[Condition]
) -> list[int]:
    """Return the row groups of a part of a file that can have rows which satisfy conditions."""
    columns = {metadata.schema.column(at).path.lower(): at for at in range(metadata.num_columns)}
    return [
        number
        for number in range(metadata.num_row_groups)
        if _is_inside(metadata.row_group(number), file)
        and _can_match(metadata.row_group(number), columns, conditions)
    ]


def _is_inside(group: pq.RowGroupMetaData, file: Remote) -> bool:
    """Return whether a row group begins in the part of the file; any group does in one part."""
    start = 0
    if group.num_columns:
        column = group.column(0)
        start = column.data_page_offset
        if column.has_dictionary_page and column.dictionary_page_offset:
            start = min(start, column.dictionary_page_offset)
    start = min(max(start, 0), file.size - 1)
    return file.start <= start < (file.size if file.stop is None else file.stop)


def _can_match(
    group: pq.RowGroupMetaData, columns: Mapping[str, int], conditions: Sequence[Condition]
) -> bool:
    for condition in conditions:
        at = columns.get(condition.column)
        if at is not None and not can_match(condition, _bounds(group, at)):
            return False
    return True


def _bounds(group: pq.RowGroupMetaData, column: int) -> Bounds:
    statistics: Any = group.column(column).statistics
    if statistics is None:
        return Bounds(None, None, has_nulls=True, has_values=True)
    nulls = statistics.null_count if statistics.has_null_count else None
    bounds: tuple[Any, Any] = None, None
    # Values that Python cannot hold, such as texts that are not UTF-8, are unknown.
    with suppress(ValueError, OverflowError, pa.ArrowException):
        if statistics.has_min_max:
            bounds = statistics.min, statistics.max
    return Bounds(*bounds, has_nulls=nulls != 0, has_values=nulls is None or nulls < group.num_rows)


def _conformed(batch: pa.RecordBatch, schema: pa.Schema, file: Remote) -> pa.RecordBatch:
    present = {
        name.lower(): column for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    columns = []
    for field in schema:
        if field.name == DIRECTORY:
            columns.append(pa.repeat(pa.scalar(file.directory, pa.int32()), len(batch)))
            continue
        column = present.get(field.name.lower())
        if column is None:
            columns.append(pa.nulls(len(batch), field.type))
        elif column.type == field.type:
            columns.append(column)
        else:
            try:
                options = pc.CastOptions(field.type, allow_time_truncate=True)
                columns.append(pc.cast(column, options=options))
            except pa.ArrowException as error:
                raise Unsupported(
                    f"column {field.name} of {file.name} is {column.type}, not {field.type} "
                    f"as in the table: {error}",
                    hint="give a schema that fits all files, or read the files separately",
                ) from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)
