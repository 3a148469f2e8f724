"""Read Parquet files on executors, by the schema that Spark has inferred."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakecli.errors import Unsupported
from lakecli.spark.conform import Mismatch, conform, positions_of
from lakecli.spark.fetch import READ_AHEAD, ObjectFile, Remote
from lakecli.spark.options import KEY
from lakecli.spark.schemas import check_calendar

if TYPE_CHECKING:
    from lakecli.spark.conform import Fold

BUFFERED: Final = 48 << 20
"""Bytes of compressed pages in memory, for all columns together, approximately."""

MAX_BUFFER: Final = 8 << 20
"""Bytes of one column that are fetched at a time, at most."""


def parquet_batches(
    source: ObjectFile, file: Remote, schema: pa.Schema, fold: Fold
) -> Iterator[pa.RecordBatch]:
    """Yield a file's rows with the columns of a schema; missing columns are null.

    Args:
        source: the file.
        file: its name, and the number of its directory.
        schema: the columns; `KEY` is the number of the file's directory.
        fold: returns what names of one column have in common.

    Raises:
        Unsupported: a column has a type that Spark does not read as that of the table.
    """
    with source:
        metadata = pq.read_metadata(source)
        stored = metadata.schema.to_arrow_schema()
        check_calendar(stored, file.name)
        wanted = {fold(field.name) for field in schema}
        names = [name for name in stored.names if fold(name) in wanted]
        # Pages are fetched as they are decoded, so a large row group needs little memory.
        size = min(MAX_BUFFER, max(READ_AHEAD, BUFFERED // max(1, len(names))))
        table = pq.ParquetFile(
            source, metadata=metadata, buffer_size=size, coerce_int96_timestamp_unit="us"
        )
        for batch in table.iter_batches(columns=names):
            yield _conformed(batch, schema, file, fold)


def _conformed(
    batch: pa.RecordBatch, schema: pa.Schema, file: Remote, fold: Fold
) -> pa.RecordBatch:
    columns = []
    name = ""
    try:
        present = positions_of(batch.schema.names, fold)
        for field in schema:
            name = field.name
            at = present.get(fold(name))
            if name == KEY:
                columns.append(pa.repeat(pa.scalar(file.directory, pa.int32()), len(batch)))
            elif at is None:
                columns.append(pa.nulls(len(batch), field.type))
            else:
                columns.append(conform(batch.column(at), field.type, fold))
    except Mismatch as error:
        raise Unsupported(
            f"Spark does not read column {name} of {file.name} with the schema of the table: "
            f"{error}",
            hint="give a schema that fits all files, or read the files separately",
        ) from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)
