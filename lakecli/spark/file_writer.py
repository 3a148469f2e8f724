"""Write the rows of a DataFrame to files, and upload the files.

Executors write files to their disk, and upload them under the digest of their contents. No entry
refers to the files until the driver commits, so a task that fails or runs twice leaves only
garbage.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import StructField, StructType

from lakecli.base.content_types import content_type_of
from lakecli.base.layout import data_key
from lakecli.base.model import Entry
from lakecli.base.own_directory import OwnDirectory
from lakecli.base.uri import check_path
from lakecli.committed.values import encode_entry
from lakecli.engine.runner import StoreLocation
from lakecli.engine.spark_joins import arrow_batches, task_number
from lakecli.errors import UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.transfer.ingest import Ingest, Ingested
from lakecli.repository.transfer.walk import FileOpener, LinkPolicy
from lakecli.spark.schemas import arrow_schema, nullable
from lakecli.spark.sessions import check_format, quoted

ROW_GROUP: Final = 64 << 20
"""The approximate size in bytes of the Arrow data in one row group."""

NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The directory name of a partition column's null or empty value."""

_FLOATING: Final = frozenset({"FLOAT", "DOUBLE"})
"""Parquet types for which no minimum and maximum are written, as Arrow leaves NaN out of both."""

_ESCAPED: Final = frozenset([*map(chr, range(1, 0x20)), *"\"#%'*/:=?\\\x7f{[]^"])

_COMPRESSIONS: Final = ("snappy", "gzip", "zstd", "lz4", "none", "uncompressed")
_TEXT_COMPRESSIONS: Final = {"": "none", "none": "none", "uncompressed": "none", "gzip": "gzip"}
_NOT_IN_CSV: Final = frozenset({"array", "map", "struct", "variant"})
"""Types that cannot be written as CSV, not by Spark either."""
_NOT_IN_NAMES: Final = _NOT_IN_CSV | {"binary"}
"""Types not allowed as partition columns; Spark allows binary, but alters bytes outside UTF-8."""

RESULT: Final = "path string, checksum string, size bigint, rows bigint"
"""The columns of a task's result: one row for each uploaded file, an `UploadedFile`."""


class UploadedFile(NamedTuple):
    """A file that an executor uploaded; `path` is relative to the table."""

    path: str
    checksum: str
    size: int
    rows: int


class FileLayout(NamedTuple):
    """The properties that all files of a table have in common.

    Attributes:
        format: ``parquet``, ``csv`` or ``json``; the last two are lines of text.
        partition_by: partition columns; they are the first columns of the rows, as text.
        schema: Arrow schema of the other columns, serialised.
        extension: extension of the files' names, with its dot.
        compression: pyarrow's name of the compression; for text files ``gzip`` or ``none``.
        header: first line of each text file; ``""`` for none.
        max_rows: maximum number of rows in a file; 0 for no limit.
    """

    format: str
    partition_by: tuple[str, ...]
    schema: bytes
    extension: str
    compression: str
    header: str
    max_rows: int


def layout_of(
    schema: StructType,
    *,
    format: str,
    partition_by: Sequence[str],
    options: Mapping[str, Any],
    version: str,
) -> FileLayout:
    """Return the layout of a table's files; the caller adds the header line of CSV files.

    Args:
        options: the options of the write, such as ``compression``.
        version: the version of Spark, which is recorded in Parquet files.

    Raises:
        UsageError: the rows cannot be written in this format, or an option is not valid.
    """
    check_format(format)
    names = [name.lower() for name in schema.names]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise UsageError(f"two columns have the name {name!r}", hint="rename one of them")
    by = [name.lower() for name in partition_by]
    for name in by:
        if name not in names or by.count(name) > 1:
            hint = f"columns: {', '.join(schema.names)}"
            raise UsageError(f"cannot partition by {name!r}", hint=hint)
    fields = [field for field in schema.fields if field.name.lower() not in by]
    _check_types([f for f in schema.fields if f not in fields], _NOT_IN_NAMES, "partition by")
    if format == "csv":
        _check_types(fields, _NOT_IN_CSV, "write as CSV")
    if not fields:
        raise UsageError(
            "all columns are partition columns, so the files would be empty",
            hint="leave one of them out of the partition columns",
        )
    given = {name.lower(): str(value) for name, value in options.items()}
    compression = given.get("compression", "snappy" if format == "parquet" else "").lower()
    known = _COMPRESSIONS if format == "parquet" else _TEXT_COMPRESSIONS
    if compression not in known:
        hint = f"one of {', '.join(filter(None, known))}"
        raise UsageError(f"unknown compression {compression!r}", hint=hint)
    if format == "parquet":
        arrow = _stored(StructType(fields), version)
        compression = "none" if compression == "uncompressed" else compression
        packing = {"none": "", "gzip": ".gz"}.get(compression, f".{compression}")
        extension = f"{packing}.parquet"
    else:
        arrow = pa.schema([("value", pa.string())])
        compression = _TEXT_COMPRESSIONS[compression]
        extension = f".{format}.gz" if compression == "gzip" else f".{format}"
    partitions = tuple(schema.names[names.index(name)] for name in by)
    # As bytes, because Arrow's own objects cannot always be pickled.
    stored, most = bytes(arrow.serialize()), _max_rows(given.get("maxrecordsperfile", "0"))
    return FileLayout(format, partitions, stored, extension, compression, "", most)


def _stored(schema: StructType, version: str) -> pa.Schema:
    """Return the schema of Parquet files, whose metadata contain Spark's schema.

    All columns, including nested ones, are nullable, as in the files that Spark writes.
    """
    schema = cast("StructType", nullable(schema))
    metadata = {
        "org.apache.spark.version": version,
        "org.apache.spark.sql.parquet.row.metadata": schema.json(),
    }
    try:
        return arrow_schema(schema).with_metadata(metadata)
    except PySparkException as error:
        hint = "cast the column to another type"
        raise UsageError(f"cannot write the rows: {error}", hint=hint) from error


def _max_rows(text: str) -> int:
    """Return the maximum number of rows in a file; 0 means no limit, as do negative numbers."""
    try:
        return max(0, int(text))
    except ValueError:
        hint = "for example 1000000"
        raise UsageError(f"maxRecordsPerFile is not a number: {text!r}", hint=hint) from None


def _check_types(fields: Sequence[StructField], kinds: frozenset[str], purpose: str) -> None:
    """Raise `UsageError` if a column has one of the given types.

    Args:
        purpose: the use for which the types are not allowed, for the message.
    """
    for field in fields:
        if field.dataType.typeName() in kinds:
            raise UsageError(
                f"cannot {purpose} {field.name!r}, {field.dataType.simpleString()}",
                hint="cast it to string, or drop it",
            )


def header_of(frame: DataFrame, *, partition_by: Sequence[str], options: Mapping[str, Any]) -> str:
    """Return the header line of CSV files, quoted as Spark does; ``""`` if none is requested."""
    given = {name.lower(): str(value) for name, value in options.items()}
    if given.get("header", "false").lower() != "true":
        return ""
    by = {name.lower() for name in partition_by}
    names = [name for name in frame.columns if name.lower() not in by]
    cells = [functions.lit(name).alias(f"c{at}") for at, name in enumerate(names)]
    line = functions.to_csv(functions.struct(*cells), dict(given))
    return str(frame.sparkSession.range(1).select(line).collect()[0][0])


def arranged(frame: DataFrame, layout: FileLayout, options: Mapping[str, str]) -> DataFrame:
    """Return the rows sorted by the partition columns, which become the first columns, as text."""
    by = {name.lower() for name in layout.partition_by}
    directories = [functions.col(quoted(name)).cast("string") for name in layout.partition_by]
    data = [functions.col(quoted(name)) for name in frame.columns if name.lower() not in by]
    if layout.format != "parquet":
        to_text = functions.to_json if layout.format == "json" else functions.to_csv
        data = [to_text(functions.struct(*data), dict(options))]
    # PySpark would take a dot in a column's name for a nested field. The writer uses positions.
    columns = [each.alias(f"__lakecli_{at}") for at, each in enumerate([*directories, *data])]
    rows = frame.select(*columns)
    names = rows.columns[: len(directories)]
    return rows.sortWithinPartitions(*names) if names else rows


def escape(text: str) -> str:
    """Escape a column's name or value for use in a path, as Hive and Spark do."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


class TableFileWriter(NamedTuple):
    """A function for ``mapInArrow`` that writes the rows of a task to files, and uploads the files.

    Attributes:
        write_id: a unique text in the names of the files.
    """

    location: StoreLocation
    layout: FileLayout
    write_id: str

    @classmethod
    def of(cls, repository: Repository, layout: FileLayout) -> "TableFileWriter":
        """Return the writer of a new table write to a repository, with a random write ID."""
        write_id = UUID(bytes=repository.lake.runtime.new_id())
        return cls(StoreLocation.of(repository), layout, str(write_id))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write and upload the rows of this task; yield the uploaded files once durable."""
        yield from arrow_batches(RESULT, self.write(task_number(), batches))

    def write(self, task: int, batches: Iterator[pa.RecordBatch]) -> list[UploadedFile]:
        """Write and upload rows, which are sorted by the partition columns.

        Without partition columns, the first task writes a file even if it has no rows, so that the
        schema of the table can be read.
        """
        with OwnDirectory("lakecli-") as directory:
            files = _TaskFiles(self, task, Path(directory, "file"))
            for batch in batches:
                files.add(batch)
            return files.finish()

    def or_empty(self, files: list[UploadedFile]) -> list[UploadedFile]:
        """Return `files`; if the list is empty, write and return one file without rows."""
        return files or self.write(0, iter(()))


class _TaskFiles:
    """The files of one task; at most one file is open at a time."""

    def __init__(self, writer: TableFileWriter, task: int, path: Path) -> None:
        self._writer = writer
        self._layout = writer.layout
        self._schema = pa.ipc.read_schema(pa.py_buffer(self._layout.schema))
        self._task = task
        self._path = path
        self._ingest = Ingest(writer.location.store(), writer.location.guard())
        self._done: list[tuple[str, Ingested, int]] = []
        self._directory: str | None = None
        self._file: _ParquetFile | _TextFile | None = None
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Write rows to the files of their partition directories."""
        width = len(self._layout.partition_by)
        texts = [pc.fill_null(column, NO_VALUE) for column in batch.columns[:width]]
        arrays = [
            column.cast(field.type)
            for column, field in zip(batch.columns[width:], self._schema, strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        starts = _run_starts(texts, len(batch))
        for start, stop in zip(starts, [*starts[1:], len(batch)], strict=True):
            values = [_value_at(text, start) or NO_VALUE for text in texts]
            directory = "".join(
                f"{escape(name)}={escape(value)}/"
                for name, value in zip(self._layout.partition_by, values, strict=True)
            )
            self._write(directory, rows.slice(start, stop - start))

    def _write(self, directory: str, rows: pa.RecordBatch) -> None:
        most = self._layout.max_rows
        while len(rows):
            file = self.begin(directory)
            part = rows.slice(0, most - self._rows) if most else rows
            file.write(part)
            self._rows += len(part)
            rows = rows.slice(len(part))
            if most and self._rows >= most:
                self._end()

    def begin(self, directory: str) -> "_ParquetFile | _TextFile":
        """Return the open file of a directory; first finish the file of another directory."""
        if self._file is not None and self._directory == directory:
            return self._file
        self._end()
        self._directory = directory
        if self._layout.format == "parquet":
            self._file = _ParquetFile(self._path, self._layout, self._schema)
        else:
            self._file = _TextFile(self._path, self._layout)
        return self._file

    def _end(self) -> None:
        if self._file is None:
            return
        self._file.close()
        with FileOpener(None, LinkPolicy.FOLLOW).open(os.fsencode(self._path)) as file:
            ingested = self._ingest.file(file)
        self._path.unlink()
        name = f"part-{self._task:05d}-{self._writer.write_id}-c{len(self._done):03d}"
        path = f"{self._directory}{name}{self._layout.extension}"
        self._done.append((path, ingested, self._rows))
        self._file, self._rows = None, 0

    def finish(self) -> list[UploadedFile]:
        """Make the files durable, claim them, and return them."""
        if self._task == 0 and not self._layout.partition_by and not self._done:
            self.begin("")
        self._end()
        self._ingest.flush([ingested for _, ingested, _ in self._done])
        return [UploadedFile(path, each.digest, each.size, rows) for path, each, rows in self._done]


def _value_at(texts: pa.Array, position: int) -> str:
    """Return a value of a partition column; raise `UsageError` if it is not UTF-8."""
    try:
        return str(texts[position].as_py())
    except UnicodeDecodeError as error:
        value = error.object[:40]
        raise UsageError(
            f"cannot partition by a value that is not UTF-8: {value!r}",
            hint="partition by another column, or by its hex digits: hex(COLUMN)",
        ) from None


def _run_starts(texts: list[pa.Array], count: int) -> list[int]:
    """Return the positions at which runs of equal partition values start, beginning with 0."""
    ends = (pc.run_end_encode(text).run_ends.to_pylist() for text in texts)
    return sorted({0}.union(*ends) - {count})


class _ParquetFile:
    """A Parquet file, with row groups of about `ROW_GROUP` bytes for batches of any size."""

    def __init__(self, path: Path, layout: FileLayout, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(
            path,
            schema,
            compression=layout.compression,
            store_schema=False,
            write_statistics=_columns_with_statistics(schema) or False,
        )
        # With `store_schema=False`, Arrow does not write the metadata of the schema.
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


def _columns_with_statistics(schema: pa.Schema) -> list[str]:
    """Return the columns of a Parquet file, nested ones too, except floating-point numbers.

    Spark skips row groups whose recorded maximum is too low for a filter. For Spark, NaN is the
    largest number, but Arrow leaves NaN out of the maximum. So statistics of floating-point columns
    would hide rows with NaN.
    """
    empty = BytesIO()
    pq.write_table(schema.empty_table(), empty, store_schema=False)
    stored: Any = pq.read_metadata(empty).schema
    columns = (stored.column(at) for at in range(len(stored)))
    return [each.path for each in columns if each.physical_type not in _FLOATING]


class _TextFile:
    """A text file with one row per line."""

    def __init__(self, path: Path, layout: FileLayout) -> None:
        packing = None if layout.compression == "none" else layout.compression
        self._file = pa.output_stream(path, compression=packing)
        if layout.header:
            self._file.write(layout.header.encode() + b"\n")

    def write(self, batch: pa.RecordBatch) -> None:
        lines = batch.column(0).cast(pa.binary()).to_pylist()
        self._file.write(b"\n".join([*lines, b""]))

    def close(self) -> None:
        self._file.close()


def new_entries(
    repository: Repository, prefix: bytes, files: Sequence[UploadedFile]
) -> list[tuple[bytes, bytes]]:
    """Return the path and encoded entry of each file, in path order.

    Raises:
        UsageError: a path is too long.
    """
    now = repository.lake.runtime.now()
    additions = []
    for name, checksum, size, _ in files:
        path = prefix + name.encode()
        check_path(path)
        entry = Entry(data_key(checksum), size, checksum, now, content_type_of(path))
        additions.append((path, encode_entry(entry)))
    return sorted(additions)
