"""``frame.write.format("lakefs")``: a table written by Spark's interface for Python data sources.

Spark makes the writer in a process on the driver's machine, sends it to the tasks, and has another
process on the driver's machine commit what successful tasks answered. Nothing is shared but what
the writer and the answers contain.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lakecli.base.uri import as_directory, parse_path, ref_of
from lakecli.engine.runner import StoreLocation
from lakecli.errors import UsageError
from lakecli.repository.contract import Repository
from lakecli.spark.batches import batch_of
from lakecli.spark.file_writer import (
    ROW_GROUP,
    TableFileWriter,
    UploadedFile,
    layout_of,
    new_write_id,
)
from lakecli.spark.schema_check import SchemaCheck
from lakecli.spark.sessions import opened, told
from lakecli.spark.target import WriteTarget
from lakecli.spark.write import commit_files

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

OPTIONS: Final = {
    name.lower(): name
    for name in (
        *("path", "home", "format", "partitionBy", "message", "committer", "expected"),
        *("mergeSchema", "compression", "maxRecordsPerFile", "partitionOverwriteMode"),
        *("txnAppId", "txnVersion"),
    )
}
"""The options of a write, by their names in lower case."""

_TEXT_TYPES: Final = frozenset({"string", "byte", "short", "integer", "long", "boolean", "date"})
"""Types of partition columns that Arrow writes as Spark does."""


@dataclass
class _Files(WriterCommitMessage):
    """The files of one task."""

    files: list[UploadedFile]


class SourceTableWriter(DataSourceArrowWriter):
    """Writes a table; see `lakecli.spark.write_table` for the options, and the errors."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, *, overwrite: bool, home: str | None
    ) -> None:
        _check_options(options)
        self._options = dict(options)
        self._home = options.get("home", home)
        self._uri = options["path"]
        self._schema = schema
        self._by = [name.strip() for name in options.get("partitionby", "").split(",") if name]
        self._mode = _mode_of(options, overwrite=overwrite)
        self._base = options.get("expected", "")
        _check_partition_types(schema, self._by)
        with opened(self._uri, home=self._home) as repository:
            check = self._check(repository)
            target = self._target(repository, check)
            self._is_needed = target.begin(expected=self._base, read=(), commits=True)
            if self._is_needed:
                self._base = target.base.id
            layout = layout_of(
                check.adapted_schema,
                format="parquet",
                partition_by=self._by,
                options=self._options,
                version=pyspark.__version__,
            )
            self._writer = TableFileWriter(
                StoreLocation.of(repository), layout, new_write_id(repository)
            )

    @property
    def _prefix(self) -> bytes:
        return as_directory(parse_path(self._uri, allow_empty=True).path or b"")

    def _check(self, repository: Repository) -> SchemaCheck:
        merges = self._options.get("mergeschema", "").lower() == "true"
        where = (self._schema, repository, self._uri, self._prefix)
        return SchemaCheck(*where, "parquet", self._by, {}, merges, spark=None)

    def _target(self, repository: Repository, check: SchemaCheck) -> WriteTarget:
        branch = ref_of(parse_path(self._uri, allow_empty=True))
        batch = batch_of(_txn_of(self._options), self._prefix)
        return WriteTarget(
            repository, branch, self._prefix, mode=self._mode, batch=batch, check=check.check
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write and upload the rows of one task."""
        with told():
            if not self._is_needed:
                return _Files([])
            return _Files(self._writer.write_task(self._arranged(iterator)))

    def _arranged(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows with the partition columns as text before the others.

        Spark sorts no rows for data sources in Python, so they are sorted by the piece.
        """
        stored = pa.ipc.read_schema(pa.py_buffer(self._writer.layout.schema))
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(_with_texts(batch, self._writer.layout.partition_by, stored))
            if sum(each.nbytes for each in waiting) >= ROW_GROUP:
                yield from _sorted(waiting, len(self._by))
                waiting = []
        if waiting:
            yield from _sorted(waiting, len(self._by))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the files of the successful tasks."""
        with told(), opened(self._uri, home=self._home) as repository:
            target = self._target(repository, self._check(repository))
            if not self._is_needed or not target.begin(expected=self._base, read=(), commits=True):
                return
            files = [file for each in messages if isinstance(each, _Files) for file in each.files]
            files = self._writer.or_empty(files)
            what = {"uri": self._uri, "message": self._options.get("message", "")}
            committer = self._options.get("committer") or getpass.getuser()
            commit_files(repository, target, files, **what, committer=committer, metadata={})

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Leave the uploaded files to garbage collection: nothing refers to them."""


def _with_texts(batch: pa.RecordBatch, by: Sequence[str], stored: pa.Schema) -> pa.RecordBatch:
    columns = {
        name.lower(): column for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    arrays = [columns[name.lower()].cast(pa.string()) for name in by]
    for field in stored:
        column = columns.get(field.name.lower())
        arrays.append(pa.nulls(len(batch), field.type) if column is None else column)
    names = [*(f"__lakecli_{at}" for at in range(len(by))), *stored.names]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _sorted(batches: Sequence[pa.RecordBatch], width: int) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(batches)
    if keys := [(name, "ascending") for name in table.schema.names[:width]]:
        table = table.sort_by(keys)
    yield from table.combine_chunks().to_batches()


def _check_options(options: Mapping[str, str]) -> None:
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise UsageError(
            f"unknown option {unknown[0]!r} of a write", hint=", ".join(sorted(OPTIONS.values()))
        )
    if options.get("format", "parquet").lower() != "parquet":
        raise UsageError(
            f"the data source does not write {options['format']!r}",
            hint="lakecli.spark.write_table writes CSV and JSON, too",
        )
    if (merges := options.get("mergeschema", "")).lower() not in {"", "false", "true"}:
        raise UsageError(f"mergeSchema must be true or false, not {merges!r}")
    if not options.get("path"):
        raise UsageError("no URI to save to", hint='.save("lakefs://REPOSITORY/BRANCH/PATH")')


def _check_partition_types(schema: StructType, by: Sequence[str]) -> None:
    kinds = {field.name.lower(): field.dataType for field in schema.fields}
    for name in by:
        kind = kinds.get(name.lower())
        if kind is not None and kind.typeName() not in _TEXT_TYPES:
            raise UsageError(
                f"the data source cannot partition by {name!r}, {kind.simpleString()}",
                hint="cast it to string, or use lakecli.spark.write_table",
            )


def _mode_of(options: Mapping[str, str], *, overwrite: bool) -> str:
    dynamic = options.get("partitionoverwritemode", "static").lower()
    if dynamic not in {"static", "dynamic"}:
        raise UsageError(f"partitionOverwriteMode must be static or dynamic, not {dynamic!r}")
    if not overwrite:
        return "append"
    if dynamic == "static":
        return "overwrite"
    if not options.get("partitionby"):
        raise UsageError(
            "partitionOverwriteMode=dynamic needs partition columns",
            hint='option("partitionBy", "COLUMN")',
        )
    return "overwrite_partitions"


def _txn_of(options: Mapping[str, str]) -> Any:  # noqa: ANN401 - `batch_of` checks it
    app, version = options.get("txnappid"), options.get("txnversion")
    if app is None and version is None:
        return None
    if app is None or version is None:
        raise UsageError(
            "txnAppId and txnVersion belong together", hint="give both options, or none"
        )
    return app, int(version) if version.isdecimal() and len(version) < 20 else version  # noqa: PLR2004
