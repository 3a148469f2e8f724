"""The data source ``lakefs``: entries, commits, refs and differences, as rows.

Spark plans a data source in a Python process of its own, without a session, so nothing can be asked
of Spark there. Therefore it writes tables, and reads none: `lakecli.spark.read_table` asks Spark.

The driver looks everything up in the local store once, when the DataFrame is created; all actions
on the DataFrame, on all executors, read that state.

It takes no filters from Spark, which stores the plan of a Python data source with the loaded
DataFrame: what one filter skips would be missing from all other queries on it.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, Final, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter
from pyspark.sql.types import StructType

from lakecli.engine.errors_as_json import dump_error, load_error
from lakecli.errors import LakeError, Unsupported, UsageError
from lakecli.spark.entries import SHARE, EntriesReader, take_snapshot
from lakecli.spark.history import (
    DiffReader,
    RecordsReader,
    look_at_commits,
    look_at_differences,
    look_at_refs,
)
from lakecli.spark.record_columns import COLUMNS, COMMITS, DIFF, ENTRIES, check_schema, chosen
from lakecli.spark.sessions import told
from lakecli.spark.source_writer import SourceTableWriter

_OPTIONS: Final = frozenset(
    {"path", "home", "what", "diff", "columns", "prefix", "entriesperpartition"}
)


class LakefsSource(DataSource):
    """Rows about a repository of this machine.

    Options:
        path: ``lakefs://REPOSITORY/REF[/PREFIX]``, which ``load`` takes.
        home: directory of lakecli's data, as ``LAKECLI_HOME``.
        what: ``entries`` (the default), ``commits`` or ``refs``.
        diff: ``LEFT...RIGHT`` or ``LEFT..RIGHT``: differences, in Git's sense of the dots.
        columns: names separated by commas; only these columns are decoded.
        prefix: additional prefix of the paths, after the one in the URI; limits the ranges read.
        entriesPerPartition: approximate number of entries in a partition; by default 524,288.
    """

    home: str | None = None
    """Default of the option ``home``."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._failure = ""
        self._given = {name.lower(): text for name, text in options.items()}
        try:
            self._open()
        except LakeError as error:
            # Whether this is for reading is not known yet: a table that is written may not exist.
            self._failure = dump_error(error)

    def _open(self) -> None:
        given = self._given
        _check_options(given)
        self._what = DIFF if given.get("diff") else given.get("what", ENTRIES)
        if self._what not in COLUMNS or (self._what == DIFF and not given.get("diff")):
            raise UsageError(
                f"unknown rows: {self._what!r}",
                hint="what: entries, commits or refs; diff: LEFT...RIGHT",
            )
        self._schema = chosen(self._what, given.get("columns", ""))
        self._share = _positive(given.get("entriesperpartition", ""))
        uri, home, prefix = given["path"], given.get("home", self.home), given.get("prefix", "")
        self._moment: Any
        if self._what == ENTRIES:
            self._moment = take_snapshot(uri, home=home, prefix=prefix)
        elif self._what == DIFF:
            self._moment = look_at_differences(uri, given["diff"], home=home, prefix=prefix)
        elif self._what == COMMITS:
            self._moment = look_at_commits(uri, home)
        else:
            self._moment = look_at_refs(uri, home)

    def _check_opened(self) -> None:
        if error := load_error(self._failure) if self._failure else None:
            with told():
                raise error

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "lakefs"

    def schema(self) -> str:
        """Return the columns that were chosen."""
        self._check_opened()
        return self._schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of rows with a schema, which the user may have given."""
        self._check_opened()
        with told():
            check_schema(self._what, schema)
        if self._what == ENTRIES:
            return EntriesReader(self._moment, schema, entries_per_partition=self._share)
        if self._what == DIFF:
            return DiffReader(self._moment, schema, entries_per_partition=self._share)
        return RecordsReader(self._moment, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        """Return the writer of a table; its options are `lakecli.spark.source_writer.OPTIONS`."""
        with told():
            return SourceTableWriter(self._given, schema, overwrite=overwrite, home=self.home)

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: FBT001, N802 - Spark's
        """Refuse to write a stream, whose batches would have to be commits, as `Unsupported`."""
        del schema, overwrite
        with told():
            raise Unsupported(
                "the data source writes no streams",
                hint="write batches by lakecli.spark.write_table in writeStream.foreachBatch(…)",
            )


def source_class(home: str | None) -> type[LakefsSource]:
    """Return the data source for a home."""

    class Source(LakefsSource):
        """The data source for one session."""

    Source.home = home
    return Source


def _check_options(given: Mapping[str, str]) -> None:
    if "format" in given:
        raise UsageError(
            "the data source reads no tables, as it cannot ask Spark for their schema",
            hint="lakecli.spark.read_table(spark, URI).createOrReplaceTempView(NAME) makes a view",
        )
    unknown = sorted(set(given) - _OPTIONS)
    if unknown:
        raise UsageError(
            f"unknown option {unknown[0]!r} of the data source",
            hint="columns, diff, entriesPerPartition, home, prefix, what",
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
