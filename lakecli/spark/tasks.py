"""Divide a table's files into tasks, and read the files of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakecli.pipeline.worker_heap import freeze_modules
from lakecli.spark.fetch import fetched, line_batches
from lakecli.spark.parquet import parquet_batches
from lakecli.spark.worker_errors import told

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakecli.pipeline.store_location import StoreLocation
    from lakecli.spark.conditions import Condition
    from lakecli.spark.fetch import Remote

TASK_SIZE: Final = 32 << 20
"""Approximate bytes that one task reads."""

OPEN_COST: Final = 1 << 20
"""Bytes that opening a file counts as."""


def tasks_of(files: Sequence[Remote], *, splits: bool) -> Iterator[list[Remote]]:
    """Yield the files of each task.

    Args:
        files: all files.
        splits: divide large files into parts, which Parquet can be read by.
    """
    task: list[Remote] = []
    size = 0
    for file in files:
        for part in parts_of(file) if splits else [file]:
            length = (part.size if part.stop is None else part.stop) - part.start
            if task and size + length > TASK_SIZE:
                yield task
                task, size = [], 0
            task.append(part)
            size += length + OPEN_COST
    if task:
        yield task


def parts_of(file: Remote) -> list[Remote]:
    """Return the parts of a file, each of about `TASK_SIZE` bytes."""
    count = max(1, -(-file.size // TASK_SIZE))
    edges = [file.size * number // count for number in range(count)]
    return [
        file._replace(start=start, stop=stop)
        for start, stop in zip(edges, [*edges[1:], None], strict=True)
    ]


class Reader:
    """The function for ``mapInArrow``: takes numbers of tasks, and yields rows.

    Args:
        location: the repository's namespace.
        tasks: the files of each task.
        format: ``parquet``; all others are read as lines.
        schema: schema of the rows, serialised, as Arrow's own cannot always be pickled.
        skip: skip the first line of each file.
        conditions: row groups of Parquet without a row that satisfies all of them are left out.
    """

    def __init__(
        self,
        location: StoreLocation,
        tasks: list[list[Remote]],
        *,
        format: str,
        schema: bytes,
        skip: bool,
        conditions: Sequence[Condition],
    ) -> None:
        self._location = location
        self._tasks = tasks
        self._format = format
        self._schema = schema
        self._skip = skip
        self._conditions = conditions

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the tasks whose numbers are in some batches."""
        schema = pa.ipc.read_schema(pa.py_buffer(self._schema))
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with told():
                    yield from self._read(self._tasks[number], schema)
        freeze_modules()

    def _read(self, files: list[Remote], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        if self._format == "parquet":
            for file, source in zip(files, fetched(self._location, files), strict=True):
                yield from parquet_batches(source, file, schema, self._conditions)
            return
        for file in files:
            yield from line_batches(self._location, file, schema, skip=self._skip)
