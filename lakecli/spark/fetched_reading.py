"""Read a table's files on executors, which fetch them through lakecli's stores.

This is for sessions without a connector to the store. With the schema of the table alone,
`pyarrow.dataset` would show wrong values without an error: null in columns and fields whose names
differ from the schema's in case only; timestamps without the time of day if the schema says date,
and doubles with fewer digits if it says float. Spark finds such names, and refuses such types. So
this finds names as Spark does, and refuses types that `_READ_AS` does not list; Arrow casts the
others, and stops at values that do not fit.

Rows of CSV and JSON are lines, which Spark parses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any, BinaryIO, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import StringType, StructField, StructType

from lakecli.engine.runner import StoreLocation
from lakecli.errors import Unsupported, UsageError
from lakecli.spark.partition_values import PartitionValues, split_directory
from lakecli.spark.schemas import (
    GIVE_SCHEMA,
    Fold,
    TypeMismatch,
    arrow_schema,
    infer_parquet,
    merges_schemas,
    positions_of,
    serialised,
)
from lakecli.spark.sessions import (
    is_case_sensitive,
    is_connect,
    lower_case,
    quoted,
    read_parts,
    told,
)
from lakecli.spark.table_files import TableFile, fetched, iter_lines, tasks_of

LINES: Final = 10_000
"""Lines in a batch, at most."""

VALUE: Final = "value"
LINE: Final = StructField(VALUE, StringType())
"""The column of lines."""

_NOTHING: Final = StructField("__lakecli_nothing", StringType())

_OF_NAMES: Final = frozenset(
    {"recursivefilelookup", "pathglobfilter", "basepath", "modifiedbefore", "modifiedafter"}
)
"""Options about names and times of files, which are not those of the objects."""

_OF_LINES: Final = frozenset({"multiline", "linesep", "encoding", "charset"})
"""Options about how text becomes lines, which Spark does not do here."""

_PLAIN: Final = frozenset({"false", "utf-8", "utf8"})

_LEGACY: Final = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")

is_type: Final = pa.types

_BYTES: Final = (
    *(pa.string(), pa.large_string(), pa.string_view()),
    *(pa.binary(), pa.large_binary(), pa.binary_view()),
)


def _is_bytes(kind: pa.DataType) -> bool:
    return kind in _BYTES


def _is_small(kind: pa.DataType) -> bool:
    # Parquet stores all integers of up to 32 bits alike.
    return bool(is_type.is_integer(kind) and kind.bit_width <= _INT)


def _is_local(kind: pa.DataType) -> bool:
    return bool(is_type.is_timestamp(kind) and kind.tz is None)


_INT: Final = 32
_READ_AS: Final = (
    (_is_small, is_type.is_integer),
    (_is_small, is_type.is_float64),
    (is_type.is_integer, is_type.is_int64),
    (is_type.is_integer, is_type.is_decimal),
    (is_type.is_float32, is_type.is_float64),
    (is_type.is_decimal, is_type.is_decimal),
    (is_type.is_timestamp, is_type.is_timestamp),
    (is_type.is_date, _is_local),
    (is_type.is_temporal, is_type.is_integer),
    (is_type.is_int64, is_type.is_duration),
    (is_type.is_duration, is_type.is_duration),
    (is_type.is_time, is_type.is_time),
    (is_type.is_fixed_size_binary, is_type.is_binary),
    (_is_bytes, _is_bytes),
)
"""Predicates of the types of files, and of the types of a schema that they are read as."""


def check_options(options: Mapping[str, str]) -> None:
    """Refuse options about names of files, which Spark does not see, as `Unsupported`."""
    for name, value in lower_case(options).items():
        if name in _OF_NAMES and value != "false":
            raise Unsupported(
                f"option {name} does not work for a table in a repository",
                hint="name the directory or file in the URI, or download the table",
            )


@dataclass
class FetchedReading:
    """A table whose files executors fetch; options of Spark's reader count as far as they can."""

    _spark: SparkSession
    _location: StoreLocation
    _format: str
    _options: dict[str, str]

    def __post_init__(self) -> None:
        self._flags = lower_case(self._options)
        self._has_header = self._format == "csv" and self._flags.get("header") == "true"
        given = {name for name, value in self._flags.items() if value not in _PLAIN}
        wrong = [f"option {name}" for name in sorted(_OF_LINES & given)]
        if self._flags.get("mode") == "dropmalformed" and self._format != "parquet":
            wrong.append("mode DROPMALFORMED")
        if wrong:
            raise Unsupported(
                f"{wrong[0]} does not work for a table in a bucket",
                hint="download the table and read it there",
            )

    def infer(self, files: Sequence[TableFile]) -> StructType:
        """Return the schema that Spark infers, all columns nullable."""
        if self._format == "parquet":
            merges = merges_schemas(self._spark, self._flags)
            return infer_parquet(self._spark, self._location, files, merges=merges)
        if is_connect(self._spark):
            raise Unsupported(
                f"Spark Connect cannot infer the schema of {self._format}", hint=GIVE_SCHEMA
            )
        every = PartitionValues(StructType([]), {})
        first = self._mapped(files, [LINE], every, skip=False).take(1)
        sample = self._spark.sparkContext.parallelize([row[0] for row in first], 1)
        if self._format == "json" or self._flags.get("inferschema") == "true":
            values = self._mapped(files, [LINE], every).rdd.map(itemgetter(0))
            sample = sample.union(values) if self._has_header else values
        reader = self._spark.read.options(**self._options)
        schema = (reader.json if self._format == "json" else reader.csv)(sample).schema
        if not schema.fields:
            raise UsageError(
                f"Spark cannot infer the schema: {files[0].name} is empty", hint=GIVE_SCHEMA
            )
        return schema

    def rows(
        self, files: Sequence[TableFile], stored: StructType, partitions: PartitionValues
    ) -> DataFrame:
        """Return the rows of files: the columns of a schema, and the partition columns."""
        if self._format == "parquet":
            rows = self._mapped(files, stored.fields, partitions)
            data = [functions.col(quoted(name)) for name in stored.names]
        else:
            rows = self._mapped(files, [LINE], partitions)
            if stored.fields:
                rows = rows.select(self._parsed(stored).alias(VALUE), *partitions.text_names)
            data = [functions.col(f"{VALUE}.{quoted(name)}") for name in stored.names]
        return rows.select(*data, *partitions.typed())

    def _parsed(self, stored: StructType) -> Column:
        if self._format == "json":
            return functions.from_json(VALUE, stored, self._options)
        fields = (f"{quoted(each.name)} {each.dataType.simpleString()}" for each in stored.fields)
        return functions.from_csv(VALUE, ", ".join(fields), self._options)

    def _mapped(
        self,
        files: Sequence[TableFile],
        fields: Sequence[StructField],
        partitions: PartitionValues,
        *,
        skip: bool = True,
    ) -> DataFrame:
        texts = [StructField(name, StringType()) for name in partitions.text_names]
        # Without any column a batch would have no rows.
        schema = StructType([*fields, *texts] or [_NOTHING])
        reader = FileReader(
            self._location,
            self._format,
            serialised(arrow_schema(schema)),
            partitions=len(texts),
            skip=skip and self._has_header,
            is_case_sensitive=is_case_sensitive(self._spark),
        )
        return read_parts(self._spark, reader.read, tasks_of(files), schema)


class FileReader(NamedTuple):
    """Reads files of a table; a value that can be sent to executors.

    Attributes:
        location: the repository's namespace.
        format: ``parquet``; all others are read as lines.
        schema: schema of the rows, serialised; the partition columns are the last ones, texts.
        partitions: number of partition columns.
        skip: whether the first line of each file of lines is left out.
        is_case_sensitive: whether names of columns that differ in case only are different.
    """

    location: StoreLocation
    format: str
    schema: bytes
    partitions: int = 0
    skip: bool = False
    is_case_sensitive: bool = False

    def read(self, files: list[TableFile]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some files; refuse types that Spark does not read as the schema's."""
        fold: Fold = str if self.is_case_sensitive else str.lower
        schema = pa.ipc.read_schema(pa.py_buffer(self.schema))
        stored = pa.schema(list(schema)[: len(schema) - self.partitions])
        with told():
            for file, source in fetched(self.location, files):
                pairs = split_directory(file.directory) if self.partitions else []
                texts = [pa.scalar(text, pa.string()) for _, text in pairs]
                if self.format == "parquet":
                    batches = _parquet_batches(source, file, stored, fold)
                else:
                    batches = _line_batches(source, file, stored, skip=self.skip)
                for batch in batches:
                    last = [pa.repeat(text, len(batch)) for text in texts]
                    arrays = [*batch.columns, *last]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _line_batches(
    source: BinaryIO, file: TableFile, schema: pa.Schema, *, skip: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the lines of a text file, except the first if `skip`."""
    lines = iter_lines(source, file)
    if skip:
        next(lines, None)
    while some := list(islice(lines, LINES)):
        # Spark's strings need not be UTF-8.
        column = pa.array(some, pa.binary()).view(pa.string())
        yield pa.RecordBatch.from_arrays([column], schema=schema)


def _parquet_batches(
    source: BinaryIO, file: TableFile, schema: pa.Schema, fold: Fold
) -> Iterator[pa.RecordBatch]:
    """Yield a file's rows with the columns of a schema; missing columns are null."""
    table = pq.ParquetFile(source, coerce_int96_timestamp_unit="us", buffer_size=1 << 20)
    stored = table.schema_arrow
    if any(key in (stored.metadata or {}) for key in _LEGACY):
        raise Unsupported(
            f"{file.name} has dates in the calendar of Spark 2, which only Spark reads",
            hint="give Spark a connector to the store, and read the table with native=True",
        )
    wanted = {fold(field.name) for field in schema}
    names = [each for each in stored.names if fold(each) in wanted]
    try:
        # Spark gives a task one core, so a thread for each column only has it wait more often.
        for batch in table.iter_batches(columns=names, use_threads=False):
            rows = conform(batch.to_struct_array(), pa.struct(list(schema)), fold)
            yield pa.RecordBatch.from_struct_array(rows)
    except TypeMismatch as error:
        raise Unsupported(
            f"Spark does not read {file.name} with the schema of the table: {error}",
            hint="give a schema that fits all files, or read the files separately",
        ) from None


def conform(array: pa.Array, kind: pa.DataType, fold: Fold) -> pa.Array:
    """Return an array in another type; fields of structs by name, null where missing.

    Raises `TypeMismatch` if Spark does not read the array's type as the other.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if is_type.is_dictionary(array.type):
        array = array.dictionary_decode()
    own = array.type
    if own == kind:
        return array
    if is_type.is_null(own):
        return pa.nulls(len(array), kind)
    if is_type.is_struct(own) and is_type.is_struct(kind):
        positions = positions_of((each.name for each in own), fold)
        children = []
        for field in kind:
            at = positions.get(fold(field.name))
            try:
                child = pa.nulls(len(array)) if at is None else array.field(at)
                children.append(conform(child, field.type, fold))
            except TypeMismatch as error:
                raise TypeMismatch(f"column {field.name}: {error}") from None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if is_type.is_map(own) and is_type.is_map(kind):
        keys = conform(array.keys, kind.key_type, fold)
        items = conform(array.items, kind.item_type, fold)
        offsets, mask = _offsets(array), array.is_null()
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)
    if (is_type.is_list(own) or is_type.is_large_list(own)) and is_type.is_list(kind):
        values = conform(array.values, kind.value_type, fold)
        return pa.ListArray.from_arrays(_offsets(array), values, type=kind, mask=array.is_null())
    return _conform_leaf(array, kind)


def _offsets(array: Any) -> pa.Array:  # noqa: ANN401 - a list or a map
    """Return the offsets of a list in memory of their own: with a mask they may be no slice."""
    return pa.array(array.offsets.to_numpy(zero_copy_only=False).astype("int32"))


def _conform_leaf(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if not any(before(array.type) and after(kind) for before, after in _READ_AS):
        raise TypeMismatch(f"it is {array.type}, not {kind}")
    try:
        return array.cast(kind)
    except pa.ArrowException as error:
        raise TypeMismatch(str(error)) from None
