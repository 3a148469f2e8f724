"""Read the files of a task on an executor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from lakecli.engine.store_location import StoreLocation
from lakecli.engine.worker_heap import freeze_modules
from lakecli.spark.fetch import Remote, fetched, line_batches
from lakecli.spark.parquet import parquet_batches
from lakecli.spark.worker_errors import told


class TableReader(NamedTuple):
    """Reads files of a table; a value that can be sent to executors.

    Attributes:
        location: the repository's namespace.
        format: ``parquet``; all others are read as lines.
        schema: schema of the rows, serialised, as Arrow's own cannot always be pickled.
        skip: skip the first line of each file of lines.
        is_case_sensitive: whether names of columns that differ in case only are different ones.
    """

    location: StoreLocation
    format: str
    schema: bytes
    skip: bool = False
    is_case_sensitive: bool = False

    def read(self, files: list[Remote]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some files."""
        schema = pa.ipc.read_schema(pa.py_buffer(self.schema))
        fold = str if self.is_case_sensitive else str.lower
        with told():
            if self.format == "parquet":
                sources = fetched(self.location, files)
                for file, source in zip(files, sources, strict=True):
                    yield from parquet_batches(source, file, schema, fold)
            else:
                for file in files:
                    yield from line_batches(self.location, file, schema, skip=self.skip)
        freeze_modules()
