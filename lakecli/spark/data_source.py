"""The data source ``lakefs``: entries, commits, refs, differences and tables, as rows.

The rows of a table by ``spark.read.format("lakefs").option("format", "parquet")``.

Spark plans a data source in a Python process of its own, without a session, so nothing can be asked
of Spark there. The schema is the one that was given; else the one that Spark or lakecli recorded
in the first file, with the partition columns whose types are beyond doubt. Everything else is
refused: `lakecli.spark.read_table` asks Spark.

The driver looks everything up in the local store once, when the DataFrame is created; all actions
on the DataFrame, on all executors, read that state.

It takes no filters from Spark, which stores the plan of a Python data source with the loaded
DataFrame: what one filter skips would be missing from all other queries on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition
from pyspark.sql.types import (
    DataType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from lakecli.engine.errors_as_json import dump_error, load_error
from lakecli.engine.store_location import StoreLocation
from lakecli.errors import LakeError, Unsupported, UsageError
from lakecli.spark import history
from lakecli.spark.entries import SHARE, EntriesReader, take_snapshot
from lakecli.spark.fetched_reading import FileReader
from lakecli.spark.partitions import split_directory
from lakecli.spark.record_columns import COLUMNS, DIFF, ENTRIES, check_schema, chosen
from lakecli.spark.schemas import arrow_schema, first_file, recorded_in, serialised
from lakecli.spark.sessions import KINDS_HINT, opened, told
from lakecli.spark.source_writer import SourceTableWriter
from lakecli.spark.table_files import TableFile, table_files, tasks_of

_INTEGER: Final = re.compile("0|-?[1-9][0-9]{0,17}")
_TEXT: Final = re.compile(r"(?!nan|inf|t\d|p)[a-z_][^\0]*", re.IGNORECASE)
"""Texts that are no number, date, time or interval to anybody."""

_MAX_INT: Final = (1 << 31) - 1
_FROM_TEXT: Final = (StringType, IntegerType, LongType, DateType)
"""Types of partition columns that Arrow makes of texts as Spark does."""


class SourceTable(NamedTuple):
    """The files of a table, as of the moment when the DataFrame was created.

    Attributes:
        location: the repository's namespace.
        files: the files that Spark would read.
        partitions: the partition columns.
    """

    location: StoreLocation
    files: list[TableFile]
    partitions: tuple[str, ...]


def look_at_table(uri: str, *, home: str | None) -> SourceTable:
    """Pin a table.

    Raises:
        NotFound: there is nothing to read.
        UsageError: the directories are not those of a table.
    """
    with opened(uri, home=home) as repository:
        files = [each for each in table_files(repository, uri)[0] if each.size]
        location = StoreLocation.of(repository)
    found = {each.directory: split_directory(each.directory) for each in files}
    if any(found.values()):
        found = {directory: pairs for directory, pairs in found.items() if pairs}
    else:  # as Spark, which then reads no directories
        found = {directory: [] for directory in found if not directory}
    kinds = {tuple(name.lower() for name, _ in pairs) for pairs in found.values()}
    if len(kinds) != 1:
        what = "its files are in different kinds of directories" if kinds else "no file is read"
        raise UsageError(f"not a table: {what}: {uri}", hint=KINDS_HINT)
    files = [each for each in files if each.directory in found]
    return SourceTable(location, files, tuple(name for name, _ in found[files[0].directory]))


def schema_of(table: SourceTable) -> StructType:
    """Return the columns of a table: those of the first file, then the partition columns.

    Raises:
        UsageError: the file is not Parquet.
        Unsupported: only Spark can say what the columns are.
    """
    columns = recorded_in(table.location, first_file(table.files))
    taken = {name.lower() for name in table.partitions}
    fields = [each for each in columns.fields if each.name.lower() not in taken]
    values = {each.directory: split_directory(each.directory) for each in table.files}.values()
    for at, name in enumerate(table.partitions):
        texts = [pairs[at][1] for pairs in values]
        fields.append(StructField(name, _type_of(name, texts)))
    return StructType(fields)


def _type_of(name: str, texts: Sequence[str | None]) -> DataType:
    """Return the type that Spark gives to a partition column, if there is no doubt."""
    present = [text for text in texts if text is not None]
    if not present or any(map(_TEXT.fullmatch, present)):
        return StringType()
    if all(map(_INTEGER.fullmatch, present)):
        small = all(abs(int(text)) <= _MAX_INT for text in present)
        return IntegerType() if small else LongType()
    if all(map(_is_date, present)):
        return DateType()
    raise Unsupported(
        f"only Spark can say which type the partition column {name!r} has: {present[0]!r}",
        hint=f'give the schema: .schema("…, {name} STRING"), or use lakecli.spark.read_table',
    )


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


class SourceTableReader(DataSourceReader):
    """Reads a table.

    Args:
        table: its files.
        schema: schema of the rows: any of the columns, in any order.

    Raises:
        Unsupported: a partition column has a type that needs Spark.
    """

    def __init__(self, table: SourceTable, schema: StructType) -> None:
        names = {name.lower() for name in table.partitions}
        for field in schema.fields:
            if field.name.lower() in names and not isinstance(field.dataType, _FROM_TEXT):
                raise Unsupported(
                    f"the data source cannot read the partition column {field.name!r} as "
                    f"{field.dataType.simpleString()}",
                    hint="read it as STRING and cast it, or use lakecli.spark.read_table",
                )
        self._files = table.files
        wanted = serialised(arrow_schema(schema))
        self._reader = FileReader(table.location, "parquet", wanted, table.partitions)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the groups of files that a task reads."""
        return [InputPartition(each) for each in tasks_of(self._files)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some files."""
        return self._reader.read(partition.value)


NAME: Final = "lakefs"

TABLE: Final = "table"

_OPTIONS: Final = frozenset(
    {
        *("path", "home", "what", "diff", "format", "columns", "prefix"),
        "entriesperpartition",
    }
)


class LakefsSource(DataSource):
    """Rows about a repository of this machine.

    Options:
        path: ``lakefs://REPOSITORY/REF[/PREFIX]``, which ``load`` takes.
        home: directory of lakecli's data, as ``LAKECLI_HOME``.
        what: ``entries`` (the default), ``commits`` or ``refs``.
        format: ``parquet``: the rows of the table at the path.
        diff: ``LEFT...RIGHT`` or ``LEFT..RIGHT``: differences, in Git's sense of the dots.
        columns: names separated by commas; only these columns are decoded.
        prefix: additional prefix of the paths, after the one in the URI; limits the ranges read.
        entriesPerPartition: approximate number of entries in a partition; by default 524,288.

    Raises:
        UsageError: an option is not valid.
        NotFound: the repository or a ref does not exist.
    """

    _schema: StructType | str
    _what: str
    _moment: Any

    home: str | None = None
    """Default of the option ``home``."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._failure = ""
        self._given = {name.lower(): text for name, text in options.items()}
        try:
            self._open(self._given)
        except LakeError as error:
            # Whether this is for reading is not known yet: a table that is written may not exist.
            self._failure = dump_error(error)

    def _open(self, given: Mapping[str, str]) -> None:
        _check_options(given)
        if "format" in given:
            self._open_table(given)
            return
        self._diff = given.get("diff", "")
        self._what = DIFF if self._diff else given.get("what", ENTRIES)
        if self._what not in COLUMNS or (self._what == DIFF and not self._diff):
            raise UsageError(
                f"unknown rows: {self._what!r}",
                hint="what: entries, commits or refs; diff: LEFT...RIGHT",
            )
        self._schema = chosen(self._what, given.get("columns", ""))
        self._target = _positive(given.get("entriesperpartition", ""))
        self._moment = self._look(
            given.get("path", ""), given.get("home", self.home), given.get("prefix", "")
        )

    def _check_opened(self) -> None:
        if error := load_error(self._failure) if self._failure else None:
            with told():
                raise error

    def _open_table(self, given: Mapping[str, str]) -> None:
        others = sorted(set(given) - {"format", "path", "home", "columns"})
        if given["format"].lower() != "parquet" or others:
            what = f"option {others[0]}" if others else f"format {given['format']!r}"
            raise UsageError(
                f"{what} does not work for tables in the data source",
                hint="use lakecli.spark.read_table, which reads CSV and JSON, too",
            )
        self._what = TABLE
        self._moment = look_at_table(given.get("path", ""), home=given.get("home", self.home))

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return NAME

    def schema(self) -> StructType | str:
        """Return the columns that were chosen."""
        self._check_opened()
        if self._what == TABLE:
            with told():
                return _chosen_fields(schema_of(self._moment), self._given.get("columns", ""))
        return self._schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of rows with a schema, which the user may have given."""
        self._check_opened()
        with told():
            if self._what == TABLE:
                return SourceTableReader(self._moment, schema)
            check_schema(self._what, schema)
        if self._what == ENTRIES:
            return EntriesReader(self._moment, schema, entries_per_partition=self._target)
        if self._what == DIFF:
            return history.DiffReader(self._moment, schema, entries_per_partition=self._target)
        return history.RecordsReader(self._moment, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        """Return the writer of a table; its options are `lakecli.spark.source_writer.OPTIONS`.

        Raises:
            LakeError: what `SourceTableWriter` raises.
        """
        with told():
            return SourceTableWriter(self._given, schema, overwrite=overwrite, home=self.home)

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: FBT001, N802 - Spark's
        """Refuse to write a stream, whose batches would have to be commits.

        Raises:
            Unsupported: always.
        """
        del schema, overwrite
        with told():
            raise Unsupported(
                "the data source writes no streams",
                hint="write batches by lakecli.spark.write_table in writeStream.foreachBatch(…)",
            )

    def _look(self, uri: str, home: str | None, prefix: str) -> Any:  # noqa: ANN401 - as the reader takes it
        if self._what == ENTRIES:
            return take_snapshot(uri, home=home, prefix=prefix)
        if self._what == DIFF:
            return history.look_at_differences(uri, self._diff, home=home, prefix=prefix)
        return history.LOOKS[self._what](uri, home)


def source_class(home: str | None) -> type[LakefsSource]:
    """Return the data source for a home."""

    class Source(LakefsSource):
        """The data source for one session."""

    Source.home = home
    return Source


def _chosen_fields(schema: StructType, columns: str) -> StructType:
    """Return some columns of a table, by names separated by commas; all without names."""
    known = {field.name.lower(): field for field in schema.fields}
    names = [name.strip() for name in columns.split(",")] if columns.strip() else list(known)
    for name in names:
        if name.lower() not in known:
            raise UsageError(
                f"column {name!r} of the table is unknown",
                hint=f"columns: {', '.join(schema.names)}",
            )
    return StructType([known[name.lower()] for name in names])


def _check_options(given: Mapping[str, str]) -> None:
    unknown = sorted(set(given) - _OPTIONS)
    if unknown:
        raise UsageError(
            f"unknown option {unknown[0]!r} of the data source",
            hint="columns, diff, entriesPerPartition, format, home, prefix, what",
        )
    if not given.get("path"):
        raise UsageError("no URI to load", hint='.load("lakefs://REPOSITORY/REF/PREFIX")')


def _positive(text: str) -> int:
    if not text:
        return SHARE
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(
            f"entriesPerPartition is not a positive number: {text!r}", hint="for example 100000"
        )
    return int(text)
