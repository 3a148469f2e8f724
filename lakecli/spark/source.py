"""The data source ``lakefs``: entries, commits, refs, differences and tables, as rows.

The driver looks everything up in the local store once, when the DataFrame is created; all actions
on the DataFrame, on all executors, read that state.

It takes no filters from Spark, which stores the plan of a Python data source with the loaded
DataFrame: what one filter skips would be missing from all other queries on it.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter

from lakecli.engine.errors_as_json import dump_error, load_error
from lakecli.errors import LakeError, Unsupported, UsageError
from lakecli.spark import history
from lakecli.spark.entries import SHARE, EntriesReader
from lakecli.spark.snapshot import take_snapshot
from lakecli.spark.source_table import TableReader, look_at_table, schema_of
from lakecli.spark.types import COLUMNS, DIFF, ENTRIES, check_schema, chosen, chosen_fields
from lakecli.spark.worker_errors import told
from lakecli.spark.writer import TableWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

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
                return chosen_fields(schema_of(self._moment), self._given.get("columns", ""))
        return self._schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of rows with a schema, which the user may have given."""
        self._check_opened()
        with told():
            if self._what == TABLE:
                return TableReader(self._moment, schema)
            check_schema(self._what, schema)
        if self._what == ENTRIES:
            return EntriesReader(self._moment, schema, entries_per_partition=self._target)
        if self._what == DIFF:
            return history.DiffReader(self._moment, schema, entries_per_partition=self._target)
        return history.RecordsReader(self._moment, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        """Return the writer of a table; its options are `lakecli.spark.writer.OPTIONS`.

        Raises:
            LakeError: what `TableWriter` raises.
        """
        with told():
            return TableWriter(self._given, schema, overwrite=overwrite, home=self.home)

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
