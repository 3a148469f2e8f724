"""Write a table's files on executors, upload them, and return their entries.

The files that executors uploaded, and the entries for them.

Write a table's files on executors, and upload them.

Files are written to the executor's disk and uploaded under the digest of their contents. Nothing
refers to them until the driver commits, so a task that fails or runs twice leaves only garbage.
"""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Protocol, cast
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakecli.base.layout import data_key
from lakecli.base.model import Entry
from lakecli.base.uri import check_path
from lakecli.committed.encode import encode_entry
from lakecli.engine.store_location import StoreLocation
from lakecli.imports.part import make_ingest
from lakecli.repository.contract import Repository
from lakecli.repository.transfer.content_types import content_type_of
from lakecli.repository.transfer.ingest import Ingested


class Uploaded(NamedTuple):
    """A file that an executor uploaded; see `lakecli.spark.file_writer.RESULT`."""

    path: str
    checksum: str
    size: int
    rows: int


def uploads_in(result: Any) -> list[Uploaded]:  # noqa: ANN401 - a record batch
    """Return the files in the result of a `Sink`."""
    columns = result.to_pydict()
    return [Uploaded(*row) for row in zip(*columns.values(), strict=True)]


def new_entries(
    repository: Repository, prefix: bytes, files: Sequence[Uploaded]
) -> list[tuple[bytes, bytes]]:
    """Return path and encoded entry of each file, in path order.

    Raises:
        UsageError: a path is too long.
    """
    now = repository.lake.now()
    additions = []
    for name, checksum, size, _ in files:
        path = prefix + name.encode()
        check_path(path)
        entry = Entry(data_key(checksum), size, checksum, now, content_type_of(path))
        additions.append((path, encode_entry(entry)))
    return sorted(additions)


def new_write_id(repository: Repository) -> str:
    """Return the part of files' names that no other write has."""
    return str(UUID(bytes=repository.lake.runtime.new_id()))


NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The directory name of a partition column's null or empty value."""

ROW_GROUP: Final = 64 << 20
"""Approximate bytes of Arrow data in one row group."""

_FLOATING: Final = frozenset({"FLOAT", "DOUBLE"})
"""Types of Parquet of which files have no minimum and maximum: those of Arrow leave NaN out."""

_ESCAPED: Final = frozenset([*map(chr, range(1, 0x20)), *"\"#%'*/:=?\\\x7f{[]^"])

RESULT: Final = pa.schema(
    [
        ("path", pa.string()),
        ("checksum", pa.string()),
        ("size", pa.int64()),
        ("rows", pa.int64()),
    ]
)
"""One row for each uploaded file."""

RESULT_DDL: Final = "path string, checksum string, size bigint, rows bigint"


def escape(text: str) -> str:
    """Escape a column's name or value for a path, as Hive and Spark do."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


class Shape(NamedTuple):
    """The shape of the files.

    Attributes:
        format: ``parquet``; all others are lines of text.
        partition_by: partition columns, whose values come first in the rows, as text.
        schema: Arrow schema of the other columns, serialised.
        extension: extension of the files' names, with its dot.
        compression: pyarrow's name of the compression; for text ``gzip`` or ``none``.
        header: first line of each text file; ``""``: there is none.
        max_rows: maximum number of rows in a file; 0: there is none.
    """

    format: str
    partition_by: tuple[str, ...]
    schema: bytes
    extension: str
    compression: str
    header: str
    max_rows: int


class _File(Protocol):
    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""

    def close(self) -> None:
        """Finish the file."""


class _ParquetFile:
    """A Parquet file with row groups of about `ROW_GROUP` bytes, whatever the batches."""

    def __init__(self, path: Path, shape: Shape, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(
            path,
            schema,
            compression=shape.compression,
            store_schema=False,
            write_statistics=columns_with_statistics(schema) or False,
        )
        # Without the schema of Arrow, its metadata are not stored either.
        self._writer.add_key_value_metadata(schema.metadata or {})
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._size = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._size += batch.nbytes
        if self._size >= ROW_GROUP:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema)
            self._writer.write_table(table, row_group_size=max(1, len(table)))
            self._waiting, self._size = [], 0


def columns_with_statistics(schema: pa.Schema) -> list[str]:
    """Return the columns of a Parquet file, nested ones too, except floating-point numbers.

    To Spark NaN is the largest number. It skips row groups whose maximum is lower than what a
    filter asks for, so a maximum without NaN would hide rows.
    """
    empty = BytesIO()
    pq.write_table(schema.empty_table(), empty, store_schema=False)
    stored: Any = pq.read_metadata(empty).schema
    columns = (stored.column(at) for at in range(len(stored)))
    return [each.path for each in columns if each.physical_type not in _FLOATING]


class _TextFile:
    """A file of lines."""

    def __init__(self, path: Path, shape: Shape) -> None:
        self._plain = path.open("wb")
        self._file: BinaryIO = self._plain
        if shape.compression == "gzip":
            # Without a timestamp, so that the same rows give the same bytes.
            packed = gzip.GzipFile("", "wb", fileobj=self._plain, mtime=0)
            self._file = cast("BinaryIO", packed)
        if shape.header:
            self._file.write(shape.header.encode() + b"\n")

    def write(self, batch: pa.RecordBatch) -> None:
        lines = batch.column(0).cast(pa.binary()).to_pylist()
        self._file.write(b"\n".join([*lines, b""]))

    def close(self) -> None:
        self._file.close()
        self._plain.close()


class Sink:
    """The function for ``mapInArrow`` that writes a table.

    Args:
        location: the repository's namespace.
        shape: shape of the files.
        write_id: unique part of the files' names.
    """

    def __init__(self, location: StoreLocation, shape: Shape, write_id: str) -> None:
        self.location = location
        self.shape = shape
        self._write_id = write_id

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write and upload the rows of this task; yield the uploaded files, once durable."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "not in a task"
        yield self.write(context.partitionId(), batches)

    def write(self, task: int, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
        """Write and upload rows, which are sorted by the partition columns.

        Without partition columns, the first task writes a file even if it has no rows, so that the
        schema of the table can be read.
        """
        with tempfile.TemporaryDirectory(prefix="lakecli-") as directory:
            task_files = _Task(self, task, Path(directory))
            for batch in batches:
                task_files.add(batch)
            if task == 0 and not self.shape.partition_by and task_files.is_empty:
                task_files.begin("")
            return task_files.finish()

    def name(self, task: int, number: int) -> str:
        """Return the name of a task's file."""
        return f"part-{task:05d}-{self._write_id}-c{number:03d}{self.shape.extension}"


class _Task:
    """The files of one task, one of them open at a time."""

    def __init__(self, sink: Sink, task: int, scratch: Path) -> None:
        self._sink = sink
        self._shape = sink.shape
        self._schema = pa.ipc.read_schema(pa.py_buffer(self._shape.schema))
        self._task = task
        self._scratch = scratch
        self._ingest = make_ingest(sink.location.store(), guard=sink.location.guard())
        self._done: list[tuple[str, Ingested, int]] = []
        self._directory: str | None = None
        self._file: _File | None = None
        self._path = Path()
        self._rows = 0

    @property
    def is_empty(self) -> bool:
        """Whether no file has been begun."""
        return self._file is None and not self._done

    def add(self, batch: pa.RecordBatch) -> None:
        """Write rows to the files of their directories."""
        width = len(self._shape.partition_by)
        places = [pc.fill_null(column, NO_VALUE) for column in batch.columns[:width]]
        arrays = [
            column.cast(field.type)
            for column, field in zip(batch.columns[width:], self._schema, strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        starts = _run_starts(places, len(batch))
        for start, stop in zip(starts, [*starts[1:], len(batch)], strict=True):
            values = [str(place[start].as_py()) or NO_VALUE for place in places]
            directory = "".join(
                f"{escape(name)}={escape(value)}/"
                for name, value in zip(self._shape.partition_by, values, strict=True)
            )
            self._write(directory, rows.slice(start, stop - start))

    def _write(self, directory: str, rows: pa.RecordBatch) -> None:
        most = self._shape.max_rows
        while len(rows):
            file = self.begin(directory)
            part = rows.slice(0, most - self._rows) if most else rows
            file.write(part)
            self._rows += len(part)
            rows = rows.slice(len(part))
            if most and self._rows >= most:
                self._end()

    def begin(self, directory: str) -> _File:
        """Return the open file of a directory, after finishing that of another directory."""
        if self._file is not None and self._directory == directory:
            return self._file
        self._end()
        self._directory = directory
        self._path = self._scratch / "file"
        if self._shape.format == "parquet":
            self._file = _ParquetFile(self._path, self._shape, self._schema)
        else:
            self._file = _TextFile(self._path, self._shape)
        return self._file

    def _end(self) -> None:
        if self._file is None:
            return
        self._file.close()
        ingested = self._ingest.file(os.fsencode(self._path))
        self._path.unlink()
        name = self._sink.name(self._task, len(self._done))
        self._done.append((f"{self._directory}{name}", ingested, self._rows))
        self._file, self._rows = None, 0

    def finish(self) -> pa.RecordBatch:
        """Make the files durable, and return a row for each."""
        self._end()
        self._ingest.flush()
        self._ingest.claim([ingested for _, ingested, _ in self._done])
        columns: list[list[Any]] = [
            [path for path, _, _ in self._done],
            [ingested.digest for _, ingested, _ in self._done],
            [ingested.size for _, ingested, _ in self._done],
            [rows for _, _, rows in self._done],
        ]
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, RESULT, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=RESULT)


def _run_starts(places: list[pa.Array], count: int) -> list[int]:
    """Return the positions of rows whose values differ from the row before, and the first."""
    if not count:
        return []
    changes = np.zeros(count, np.bool_)
    changes[0] = True
    for place in places:
        differs = pc.not_equal(place[1:], place[:-1])
        changes[1:] |= differs.to_numpy(zero_copy_only=False)
    return [int(at) for at in np.flatnonzero(changes)]
