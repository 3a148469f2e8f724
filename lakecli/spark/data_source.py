"""The data source ``lakefs``: read entries, commits, refs and differences, and write tables.

Spark plans a data source in a separate Python process without a session, so the data source cannot
ask Spark anything. Therefore it writes tables but does not read them. `lakecli.spark.read_table`,
which can ask Spark, reads tables.

When a DataFrame is created, the driver looks up commits and refs in the local store. All actions
on the DataFrame, on all executors, read this state.

The driver reads the rows of commits and refs from the local store. Executors read entries (module
`entries`) and differences, one interval of keys per task. `SourceTableWriter` writes tables.

The data source accepts no filters from Spark. Spark keeps the plan of a Python data source with the
loaded DataFrame. So rows that the filter of one query excludes would be missing in all other
queries on the same DataFrame.
"""

import getpass
import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyspark
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceReader, InputPartition, WriterCommitMessage
from pyspark.sql.types import StructType

from lakecli.base.model import Difference
from lakecli.base.uri import as_directory, parse, parse_path, ref_of
from lakecli.committed.values import decode_entry
from lakecli.engine.differences import intervals
from lakecli.engine.errors_as_json import dump_error, load_error
from lakecli.engine.runner import StoreLocation
from lakecli.engine.spark_joins import task_number
from lakecli.errors import LakeError, Unsupported, UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.diff import TreesToCompare, compare_here, trees_of
from lakecli.repository.log import LogOptions, log
from lakecli.spark.entries import SHARE, EntriesReader, take_snapshot
from lakecli.spark.file_writer import ROW_GROUP, TableFileWriter, UploadedFile, layout_of
from lakecli.spark.record_columns import COLUMNS, COMMITS, DIFF, ENTRIES, check_schema, chosen
from lakecli.spark.schema_check import SchemaCheck
from lakecli.spark.schemas import arrow_schema
from lakecli.spark.sessions import opened, told
from lakecli.spark.target import WriteTarget, batch_of
from lakecli.spark.write import commit_files
from lakecli.stores import streams

_OPTIONS: Final = {"path", "home", "what", "diff", "columns", "prefix", "entriesperpartition"}


class LakefsSource(datasource.DataSource):
    """Entries, commits, refs or differences of a repository of this machine, as rows.

    Options:
        path: ``lakefs://REPOSITORY/REF[/PREFIX]``, or ``NAMESPACE@REF[/PREFIX]`` to read without a
            clone; the argument of ``load``.
        home: directory of lakecli's data, as ``LAKECLI_HOME``.
        what: ``entries`` (the default), ``commits`` or ``refs``.
        diff: ``LEFT...RIGHT`` or ``LEFT..RIGHT``: differences, in Git's sense of the dots.
        columns: names of columns, separated by commas; only these columns are decoded.
        prefix: text to append to the prefix in the URI; only ranges with such paths are read.
        entriesPerPartition: approximate number of entries in a partition; by default 524,288.
    """

    home: str | None = None
    """The default value of the option ``home``."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._failure = ""
        self._given = {name.lower(): text for name, text in options.items()}
        try:
            self._open()
        except LakeError as error:
            # Raise the error only when reading: for a write, the table need not exist yet.
            self._failure = dump_error(error)

    def _open(self) -> None:
        given = self._given
        _check_options(given)
        self._what = DIFF if given.get("diff") else given.get("what", ENTRIES)
        if self._what not in COLUMNS or (self._what == DIFF and not given.get("diff")):
            hint = "what: entries, commits or refs; diff: LEFT...RIGHT"
            raise UsageError(f"unknown rows: {self._what!r}", hint=hint)
        self._schema = chosen(self._what, given.get("columns", ""))
        share = _positive(given.get("entriesperpartition", ""))
        uri, home, prefix = given["path"], given.get("home", self.home), given.get("prefix", "")
        self._reader: Callable[[StructType], DataSourceReader]
        if self._what == ENTRIES:
            snapshot = take_snapshot(uri, home=home, prefix=prefix)
            self._reader = partial(EntriesReader, snapshot, entries_per_partition=share)
        elif self._what == DIFF:
            trees = look_at_differences(uri, given["diff"], home=home, prefix=prefix)
            self._reader = partial(DiffReader, *trees, entries_per_partition=share)
        else:
            look = look_at_commits if self._what == COMMITS else look_at_refs
            self._reader = partial(RecordsReader, look(uri, home))

    def _check_opened(self) -> None:
        if error := load_error(self._failure) if self._failure else None:
            with told():
                raise error

    @classmethod
    def name(cls) -> str:
        """Return the name of the data source, as in ``spark.read.format("lakefs")``."""
        return "lakefs"

    def schema(self) -> str:
        """Return the schema of the chosen columns."""
        self._check_opened()
        return self._schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the rows.

        Args:
            schema: the schema of the rows, which the user may have given.
        """
        self._check_opened()
        with told():
            check_schema(self._what, schema)
        return self._reader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> datasource.DataSourceWriter:  # noqa: FBT001
        """Return the writer of a table; its options are `WRITE_OPTIONS`."""
        with told():
            return SourceTableWriter(self._given, schema, overwrite=overwrite, home=self.home)

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: FBT001, N802 - Spark's
        """Raise `Unsupported`: streams cannot be written, because each batch needs a commit."""
        del schema, overwrite
        with told():
            hint = "write batches by lakecli.spark.write_table in writeStream.foreachBatch(…)"
            raise Unsupported("the data source writes no streams", hint=hint)


def source_class(home: str | None) -> type[LakefsSource]:
    """Return a data source class whose default home is `home`."""

    class SessionSource(LakefsSource):
        """The data source that one session registers."""

    SessionSource.home = home
    return SessionSource


def _check_options(given: Mapping[str, str]) -> None:
    if "format" in given:
        raise UsageError(
            "the data source reads no tables, as it cannot ask Spark for their schema",
            hint="lakecli.spark.read_table(spark, URI).createOrReplaceTempView(NAME) makes a view",
        )
    unknown = sorted(set(given) - _OPTIONS)
    if unknown:
        hint = "columns, diff, entriesPerPartition, home, prefix, what"
        raise UsageError(f"unknown option {unknown[0]!r} of the data source", hint=hint)
    if not given.get("path"):
        raise UsageError("no URI to load", hint='.load("lakefs://REPOSITORY/REF/PREFIX")')


def _positive(text: str) -> int:
    if not text:
        return SHARE
    if not text.isdecimal() or int(text) < 1:
        hint = "for example 100000"
        raise UsageError(f"entriesPerPartition is not a positive number: {text!r}", hint=hint)
    return int(text)


Row = dict[str, Any]

ROWS: Final = 1_000
"""The maximum number of commits or refs in one partition."""

BATCH: Final = 8_192
"""The maximum number of differences in one record batch."""


def look_at_commits(uri: str, home: str | None) -> list[Row]:
    """Return the commits that a ref reaches, newest first; without a ref, the default branch."""
    with opened(uri, home=home) as repository:
        ref = parse(uri, anywhere=True).ref or repository.record.default_branch
        with log(repository, ref, LogOptions()) as commits:
            return [
                {name: getattr(each, name) for name in COLUMNS[COMMITS]}
                | {"parents": list(each.parents), "metadata": list(each.metadata.items())}
                for each in commits
            ]


def look_at_refs(uri: str, home: str | None) -> list[Row]:
    """Return the rows of branches, then of tags, both ordered by name."""
    with opened(uri, home=home) as repository, repository.lake.kv.read() as txn:
        return [
            {"kind": kind.value, "name": name, "commit_id": commit_id}
            for kind, name, commit_id in repository.refs(txn).iter_refs()
        ]


@dataclass(eq=False)
class RecordsReader(DataSourceReader):
    """Reads commits or refs; the partitions contain the rows, which the driver has read."""

    rows: list[Row]
    columns: StructType

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, without the rows: the partitions contain them."""
        return {"columns": self.columns, "rows": []}

    def partitions(self) -> Sequence[InputPartition]:
        """Return partitions with at most `ROWS` rows each."""
        return list(map(InputPartition, streams.batches(self.rows, ROWS)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        yield _batch(arrow_schema(self.columns), partition.value)


def look_at_differences(
    uri: str, refs: str, *, home: str | None, prefix: str
) -> tuple[StoreLocation, TreesToCompare]:
    """Return the trees to compare for ``LEFT...RIGHT`` or ``LEFT..RIGHT``, and where they are.

    Args:
        uri: the repository, without a ref.
        refs: the two refs, with two or three dots.

    Raises:
        UsageError: `refs` does not name two refs, or the URI has a ref.
    """
    dots = "..." if "..." in refs else ".."
    left, _, right = refs.partition(dots)
    if not left or not right:
        raise UsageError(f"not two refs: {refs!r}", hint="write LEFT...RIGHT or LEFT..RIGHT")
    parsed = parse(uri, anywhere=True)
    if parsed.ref is not None:
        hint = f'.option("prefix", …).load("{parsed._replace(ref=None, path=None)}")'
        raise UsageError(f"the URI has a ref in addition to the two to compare: {uri!r}", hint=hint)
    below, two_way = os.fsencode(prefix), dots == ".."
    with opened(uri, home=home) as repository, repository.lake.kv.read() as txn:
        trees = trees_of(repository, txn, left, right, prefix=below, two_way=two_way)
        return StoreLocation.of(repository), trees


@dataclass(eq=False)
class DiffReader(DataSourceReader):
    """Reads the differences of two trees; with a merge base, also the conflicts."""

    location: StoreLocation
    compared: TreesToCompare
    columns: StructType
    entries_per_partition: int

    def partitions(self) -> Sequence[InputPartition]:
        """Return the intervals of keys in which the trees differ."""
        with told():
            trees, most = self.location.trees(), self.entries_per_partition
            return list(map(InputPartition, intervals(trees, self.compared, entries=most)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the differences of an interval, in path order."""
        schema = arrow_schema(self.columns)
        with told():
            start, stop, _ = partition.value
            found = compare_here(self.location.trees(), self.compared, start, stop)
            for batch in streams.batches(map(_difference_row, found), BATCH):
                yield _batch(schema, batch)


def _difference_row(difference: Difference) -> Row:
    row: Row = {"type": str(difference.type), "path": difference.path}
    for side, value in (("left", difference.left), ("right", difference.right)):
        entry = None if value is None else decode_entry(value)
        row[f"{side}_size"] = entry and entry.size
        row[f"{side}_checksum"] = entry and entry.checksum
    return row


def _batch(schema: pa.Schema, rows: list[Row]) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        values = [row[field.name] for row in rows]
        if field.name == "path":  # paths are bytes, and Spark's strings need not be UTF-8
            arrays.append(pa.array(values, pa.binary()).view(pa.string()))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


WRITE_OPTIONS: Final = {
    name.lower(): name
    for name in (
        *("path", "home", "format", "partitionBy", "message", "committer", "expected"),
        *("mergeSchema", "compression", "maxRecordsPerFile", "partitionOverwriteMode"),
        *("txnAppId", "txnVersion"),
    )
}
"""The names of the options of a write, by their lower-case form."""

_TEXT_TYPES: Final = frozenset({"string", "byte", "short", "integer", "long", "boolean", "date"})
"""Types of partition columns that Arrow converts to the same text as Spark does."""


@dataclass
class _Files(WriterCommitMessage):
    """The files that one task has uploaded."""

    files: list[UploadedFile]


class SourceTableWriter(datasource.DataSourceArrowWriter):
    """Writes a table; see `lakecli.spark.write_table` for the options and the errors."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, *, overwrite: bool, home: str | None
    ) -> None:
        _check_write_options(options)
        self._options = dict(options)
        self._home = options.get("home", home)
        self._uri = options["path"]
        self._schema = schema
        self._by = [name.strip() for name in options.get("partitionby", "").split(",") if name]
        self._mode = _mode_of(options, overwrite=overwrite)
        self._base = options.get("expected", "")
        _check_partition_types(schema, self._by)
        parsed = parse_path(self._uri, allow_empty=True)  # `NAMESPACE@REF` is read-only
        self._branch, self._prefix = ref_of(parsed), as_directory(parsed.path or b"")
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
            self._writer = TableFileWriter.of(repository, layout)

    def _check(self, repository: Repository) -> SchemaCheck:
        merges = self._options.get("mergeschema", "").lower() == "true"
        where = (self._schema, repository, self._uri, self._prefix)
        return SchemaCheck(*where, "parquet", self._by, {}, merges, spark=None)

    def _target(self, repository: Repository, check: SchemaCheck) -> WriteTarget:
        batch = batch_of(_txn_of(self._options), self._prefix)
        where = (repository, self._branch, self._prefix)
        return WriteTarget(*where, mode=self._mode, batch=batch, check=check.check)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write and upload the rows of one task."""
        with told():
            if not self._is_needed:
                return _Files([])
            return _Files(self._writer.write(task_number(), self._arranged(iterator)))

    def _arranged(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows sorted by the partition columns, which come first and are converted to text.

        Spark does not sort rows for data sources in Python, so this method sorts them, in groups of
        about `ROW_GROUP` bytes.
        """
        by = self._writer.layout.partition_by
        stored = pa.ipc.read_schema(pa.py_buffer(self._writer.layout.schema))
        ready = (_with_texts(batch, by, stored) for batch in batches)
        for group in streams.groups_of(ready, attrgetter("nbytes"), most=ROW_GROUP):
            yield from _sorted(group, len(by))

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
        """Do nothing: no entry refers to the uploaded files, so garbage collection deletes them."""


def _with_texts(batch: pa.RecordBatch, by: Sequence[str], stored: pa.Schema) -> pa.RecordBatch:
    pairs = zip(batch.schema.names, batch.columns, strict=True)
    columns = {name.lower(): column for name, column in pairs}
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


def _check_write_options(options: Mapping[str, str]) -> None:
    unknown = sorted(set(options) - set(WRITE_OPTIONS))
    if unknown:
        hint = ", ".join(sorted(WRITE_OPTIONS.values()))
        raise UsageError(f"unknown option {unknown[0]!r} of a write", hint=hint)
    if options.get("format", "parquet").lower() != "parquet":
        hint = "lakecli.spark.write_table writes CSV and JSON, too"
        raise UsageError(f"the data source does not write {options['format']!r}", hint=hint)
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
        hint = 'option("partitionBy", "COLUMN")'
        raise UsageError("partitionOverwriteMode=dynamic needs partition columns", hint=hint)
    return "overwrite_partitions"


def _txn_of(options: Mapping[str, str]) -> Any:  # noqa: ANN401 - `batch_of` checks it
    app, version = options.get("txnappid"), options.get("txnversion")
    if app is None and version is None:
        return None
    if app is None or version is None:
        hint = "give both options, or none"
        raise UsageError("txnAppId and txnVersion belong together", hint=hint)
    return app, int(version) if version.isdecimal() and len(version) < 20 else version  # noqa: PLR2004
