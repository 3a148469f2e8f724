"""Read the files of a task on an executor, in the types that Spark gives to the columns.

Arrow arrays in the types that Spark gives to a table's columns.

What a file has in another type is converted only where Spark converts it, too, and no value can
change: the file of a later commit may have narrower numbers. Anything else is refused.

Read Parquet files on executors, by the schema that Spark has inferred.

Read the files of a task on an executor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakecli.engine.spark_runner import freeze_modules
from lakecli.engine.store_location import StoreLocation
from lakecli.errors import Unsupported
from lakecli.spark.fetch import READ_AHEAD, ObjectFile, Remote, fetched, line_batches
from lakecli.spark.options import KEY
from lakecli.spark.parts import told
from lakecli.spark.schemas import check_calendar

if TYPE_CHECKING:
    Fold = Callable[[str], str]
    """Returns what two names of one column have in common."""

is_type: Final = pa.types

_INT: Final = 32
_INT_DIGITS: Final = 10
_LONG_DIGITS: Final = 20


class Mismatch(Exception):
    """An array has a type that Spark does not read as the wanted one."""


def positions_of(names: Iterable[str], fold: Fold) -> dict[str, int]:
    """Return the position of each name.

    Raises:
        Mismatch: two names are the same.
    """
    found: dict[str, int] = {}
    for at, name in enumerate(names):
        if fold(name) in found:
            raise Mismatch(f"two fields are named {name}")
        found[fold(name)] = at
    return found


def conform(array: pa.Array, kind: pa.DataType, fold: Fold) -> pa.Array:
    """Return an array in another type; fields of structs by their names, null where missing.

    Raises:
        Mismatch: Spark does not read the array's type as the other.
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
        return _struct(array, kind, fold)
    if is_type.is_map(own) and is_type.is_map(kind):
        keys = conform(array.keys, kind.key_type, fold)
        items = conform(array.items, kind.item_type, fold)
        offsets, mask = _offsets(array), array.is_null()
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)
    if _is_list(own) and is_type.is_list(kind):
        values = conform(array.values, kind.value_type, fold)
        return pa.ListArray.from_arrays(_offsets(array), values, type=kind, mask=array.is_null())
    return _leaf(array, kind)


def _struct(array: pa.StructArray, kind: pa.StructType, fold: Fold) -> pa.StructArray:
    positions = positions_of((each.name for each in array.type), fold)
    children = []
    for field in kind:
        at = positions.get(fold(field.name))
        if at is None:
            children.append(pa.nulls(len(array), field.type))
        else:
            children.append(conform(array.field(at), field.type, fold))
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())


def _is_list(kind: pa.DataType) -> bool:
    return bool(is_type.is_list(kind) or is_type.is_large_list(kind))


def _offsets(array: Any) -> pa.Array:  # noqa: ANN401 - a list or a map
    """Return the offsets of a list in memory of their own: with a mask they may be no slice."""
    return pa.array(array.offsets.to_numpy(zero_copy_only=False).astype("int32"))


def _leaf(array: pa.Array, kind: pa.DataType) -> pa.Array:
    own = array.type
    try:
        if _is_bytes(own) and _is_bytes(kind):
            stored = array.cast(pa.binary())
            # Spark's strings need not be UTF-8, so they are not checked.
            return stored.view(pa.string()) if is_type.is_string(kind) else stored
        if _is_converted(own, kind):
            return pc.cast(array, options=pc.CastOptions(kind, allow_time_truncate=True))
    except pa.ArrowException as error:
        raise Mismatch(str(error)) from None
    raise Mismatch(f"it is {own}, not {kind}")


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        is_type.is_string(kind)
        or is_type.is_binary(kind)
        or is_type.is_large_string(kind)
        or is_type.is_large_binary(kind)
        or is_type.is_string_view(kind)
        or is_type.is_binary_view(kind)
    )


def _is_converted(own: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether Spark reads one type of a file as another, without a change of values."""
    if is_type.is_integer(own):
        return _is_integer_converted(own, kind)
    if is_type.is_decimal(own):
        return bool(
            is_type.is_decimal(kind)
            and kind.scale >= own.scale
            and kind.precision - kind.scale >= own.precision - own.scale
        )
    if is_type.is_timestamp(own):
        # Spark takes the numbers of a moment and of a local time for one another.
        return bool(is_type.is_timestamp(kind) or (own.unit == "ns" and is_type.is_int64(kind)))
    if is_type.is_date(own):
        return bool(is_type.is_date32(kind) or (is_type.is_timestamp(kind) and kind.tz is None))
    pairs = (
        (is_type.is_float32, is_type.is_float64),
        (is_type.is_duration, is_type.is_int64),
        (is_type.is_duration, is_type.is_duration),
        (is_type.is_time, is_type.is_time),
        (is_type.is_fixed_size_binary, is_type.is_binary),
    )
    return any(before(own) and after(kind) for before, after in pairs)


def _is_integer_converted(own: pa.DataType, kind: pa.DataType) -> bool:
    width = own.bit_width
    if is_type.is_decimal(kind):
        digits = _INT_DIGITS if width <= _INT else _LONG_DIGITS
        return bool(kind.precision - kind.scale >= digits)
    if is_type.is_unsigned_integer(own):
        return bool(is_type.is_signed_integer(kind) and kind.bit_width > width)
    if is_type.is_signed_integer(kind):
        # Parquet stores all numbers of up to 32 bits alike; those out of range are refused.
        return bool(kind.bit_width >= width or width <= _INT)
    return bool(
        (is_type.is_float64(kind) and width <= _INT) or (is_type.is_duration(kind) and width > _INT)
    )


BUFFERED: Final = 48 << 20
"""Bytes of compressed pages in memory, for all columns together, approximately."""

MAX_BUFFER: Final = 8 << 20
"""Bytes of one column that are fetched at a time, at most."""


def parquet_batches(
    source: ObjectFile, file: Remote, schema: pa.Schema, fold: Fold
) -> Iterator[pa.RecordBatch]:
    """Yield a file's rows with the columns of a schema; missing columns are null.

    Args:
        source: the file.
        file: its name, and the number of its directory.
        schema: the columns; `KEY` is the number of the file's directory.
        fold: returns what names of one column have in common.

    Raises:
        Unsupported: a column has a type that Spark does not read as that of the table.
    """
    with source:
        metadata = pq.read_metadata(source)
        stored = metadata.schema.to_arrow_schema()
        check_calendar(stored, file.name)
        wanted = {fold(field.name) for field in schema}
        names = [name for name in stored.names if fold(name) in wanted]
        # Pages are fetched as they are decoded, so a large row group needs little memory.
        size = min(MAX_BUFFER, max(READ_AHEAD, BUFFERED // max(1, len(names))))
        table = pq.ParquetFile(
            source, metadata=metadata, buffer_size=size, coerce_int96_timestamp_unit="us"
        )
        for batch in table.iter_batches(columns=names):
            yield _conformed(batch, schema, file, fold)


def _conformed(
    batch: pa.RecordBatch, schema: pa.Schema, file: Remote, fold: Fold
) -> pa.RecordBatch:
    columns = []
    name = ""
    try:
        present = positions_of(batch.schema.names, fold)
        for field in schema:
            name = field.name
            at = present.get(fold(name))
            if name == KEY:
                columns.append(pa.repeat(pa.scalar(file.directory, pa.int32()), len(batch)))
            elif at is None:
                columns.append(pa.nulls(len(batch), field.type))
            else:
                columns.append(conform(batch.column(at), field.type, fold))
    except Mismatch as error:
        raise Unsupported(
            f"Spark does not read column {name} of {file.name} with the schema of the table: "
            f"{error}",
            hint="give a schema that fits all files, or read the files separately",
        ) from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


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
