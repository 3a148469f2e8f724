"""Read the rows of a manifest: the names of its columns, and the meaning of their values.

Text is read line by line, which needs no other package; Parquet is read by Arrow, in bulk. Both
readers interpret the same values in the same way, and refuse the same values.
"""

import csv
import io
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from itertools import count, islice
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes

from lakecli.base.model import MAX_PATH_SIZE
from lakecli.base.parsing import RecordLines, Unparsable, parse_json_object
from lakecli.errors import IntegrityError
from lakecli.imports.model import ROWS_AT_ONCE, Rows
from lakecli.repository.reading.addresses import unpinned_bytes

T = TypeVar("T")

_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_LARGEST: Final = 2**63 - 1

_OLDEST: Final = -62_135_596_800
"""The first second of the year 1, in unix seconds."""
_AFTER_LAST: Final = 253_402_300_800
"""The first second of the year 10000."""

MAX_TEXT_SIZE: Final = 16 << 10
"""Maximum size of one text of a row in bytes. An address is a URI, so it can be three times as long
as the key in it; it may also have a version ID."""


LOOKED_AT: Final = 1_000
"""Number of JSON lines that show which fields the objects have."""


class Layout(NamedTuple):
    """The names of a manifest's columns; ``""`` for a missing column.

    Attributes:
        bucket: the column with an object's bucket, in manifests without complete addresses.
        latest: the column that is true for the latest version of an object.
        is_quoted: whether keys are percent-encoded, with a plus sign for a space.
        scheme: scheme of addresses that are composed of a bucket and a key.
    """

    path: str
    address: str
    size: str
    checksum: str
    mtime: str = ""
    content_type: str = ""
    bucket: str = ""
    latest: str = ""
    deleted: str = ""
    is_quoted: bool = False
    scheme: str = ""

    def columns(self) -> list[str]:
        """Return the names of the columns to read."""
        return list(dict.fromkeys(name for name in self[:9] if name))

    def key(self, path: bytes) -> bytes:
        """Return the key for a value of the path column; percent-decode it if keys are quoted."""
        if self.is_quoted and (b"%" in path or b"+" in path):
            return unquote_to_bytes(path.replace(b"+", b" "))
        return path

    def composed(self, bucket: bytes, key: bytes) -> bytes:
        """Return the address of an object, composed of its bucket and its key."""
        return unpinned_bytes(b"%b://%b/%b" % (self.scheme.encode(), bucket, key))


class BadValue(IntegrityError):
    """A value of a manifest is missing, has another type, or is out of bounds.

    Attributes:
        at: position of the value's row in the batch.
    """

    at = 0


def _too_long(size: int, column: str) -> BadValue:
    hint = f"a path has at most {MAX_PATH_SIZE:,} bytes, any text {MAX_TEXT_SIZE:,}"
    return BadValue(f"column {column!r} has a text of {size:,} bytes", hint=hint)


def parse_text(value: object, column: str) -> bytes:
    """Return text as bytes, with surrogate escapes decoded; raise `BadValue` if it is not text."""
    _check_present(value, column)
    found = value
    if isinstance(value, str):
        with suppress(UnicodeEncodeError):
            found = value.encode("utf-8", "surrogateescape")
    if isinstance(found, bytes):
        if len(found) > MAX_TEXT_SIZE:
            raise _too_long(len(found), column)
        return found
    hint = "paths, addresses, checksums and content types are texts"
    raise BadValue(f"column {column!r} does not contain text: {str(value)[:40]!a}", hint=hint)


def parse_size(value: object, column: str) -> int:
    """Return a 64-bit integer, which may be written as text; raise `BadValue` for other values."""
    _check_present(value, column)
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    number: object = text
    is_whole = isinstance(text, float) and text.is_integer()
    if is_whole or (isinstance(text, str) and _NUMBER.fullmatch(text)):
        number = int(text)  # type: ignore[call-overload]
    if not isinstance(number, int) or isinstance(number, bool) or abs(number) > _LARGEST:
        raise BadValue(
            f"column {column!r} does not contain integers: {str(text)[:40]!a}",
            hint="give sizes in bytes, as integers",
        )
    return number


def parse_time(value: object, column: str) -> int:
    """Return a time as unix seconds; raise `BadValue` for other values.

    Args:
        value: a number of unix seconds, or RFC 3339 text; a time without a zone is in UTC.
    """
    _check_present(value, column)
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else value
    number: object = text
    if isinstance(text, str):
        if text.isdecimal() and len(text) <= len(str(_AFTER_LAST)):
            number = int(text)
        else:
            try:
                when = datetime.fromisoformat(text)
            except ValueError:
                pass
            else:
                seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
                number = max(_OLDEST, int(seconds))  # its zone may lead out of the years 1 to 9999
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or not _OLDEST <= number < _AFTER_LAST:  # type: ignore[operator]
        hint = "give times as RFC 3339, such as 2026-03-01T12:00:00Z, or as unix seconds"
        raise BadValue(f"column {column!r} does not contain times: {str(text)[:40]!a}", hint=hint)
    return int(number)  # type: ignore[call-overload,no-any-return]


def _check_present(value: object, column: str) -> None:
    if value is None:
        hint = (
            "every object of a manifest needs all of path, physical_address, size, checksum, and "
            "all or none of them a time"
        )
        raise BadValue(f"a value of column {column!r} is missing", hint=hint)


def csv_names(stream: BinaryIO) -> list[str]:
    """Return the names in the first line of CSV; raise `IntegrityError` if it is malformed."""
    try:
        line = next(RecordLines(stream), b"")
        return next(csv.reader([line.decode("utf-8-sig", "replace")]), [])
    except (csv.Error, Unparsable) as error:
        raise IntegrityError(f"line 1 is not CSV: {error}") from error


def json_names(stream: BinaryIO) -> list[str]:
    """Return the names of the fields of the first `LOOKED_AT` objects of JSON lines.

    The first object alone does not show them: Spark leaves out fields that are null.
    """
    records = islice(json_records(stream), LOOKED_AT)
    return list(dict.fromkeys(name for _, record in records for name in record))


TextRecord = tuple[str, dict[str, Any]]
"""A record of a manifest in text: its position for error messages, and its values by column."""


def csv_records(stream: Any, names: Sequence[str]) -> Generator[TextRecord]:  # noqa: ANN401
    """Yield the records of CSV; if `names` is empty, the first line has the column names."""
    text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
    lines = RecordLines(text)
    reader = csv.reader(lines, strict=True)
    number = 0
    try:
        for fields in reader:
            lines.end_record()
            if not fields:
                continue
            if not names:
                names = fields
                continue
            number += 1
            if len(fields) != len(names):
                raise IntegrityError(
                    f"row {number}: {len(fields)} values instead of {len(names)}",
                    hint="a manifest is Parquet, CSV with a line of names, or JSON lines",
                )
            yield f"row {number}", dict(zip(names, fields, strict=True))
    except csv.Error as error:
        raise IntegrityError(f"line {reader.line_num} is not CSV: {error}") from error
    except Unparsable as error:
        raise IntegrityError(
            f"the record after line {reader.line_num} is not CSV: {error}"
        ) from None
    finally:
        text.detach()  # the caller closes the stream


def json_records(stream: BinaryIO) -> Generator[TextRecord]:
    """Yield the records of JSON lines; raise `IntegrityError` for a line that is not an object."""
    lines = RecordLines(stream)
    for number in count(1):
        try:
            line = next(lines, None)
            if line is None:
                return
            lines.end_record()
            if line.strip():
                yield f"line {number}", parse_json_object(line)
        except Unparsable as error:
            raise IntegrityError(
                f"line {number} is not a JSON object: {error}",
                hint="JSON lines have one object in each line",
            ) from None


def rows_of_records(records: Generator[TextRecord], layout: Layout, *, now: int) -> Iterator[Rows]:
    """Yield the objects of records, in their order.

    Args:
        now: the modification time for objects that the manifest gives no time for, in unix seconds.
    """
    with closing(records):
        rows = filter(None, (_row(record, layout, now, where) for where, record in records))
        while taken := list(islice(rows, ROWS_AT_ONCE)):
            yield rows_of_tuples(taken)


def _row(
    record: dict[str, Any], layout: Layout, now: int, where: str
) -> tuple[bytes, bytes, int, bytes, int, bytes] | None:
    """Return an object's row; ``None`` for an old version or a delete marker."""
    for name, wanted in ((layout.latest, True), (layout.deleted, False)):
        if name and (str(record.get(name) or "").lower() == "true") is not wanted:
            return None
    value = record.get
    try:
        key = layout.key(parse_text(value(layout.path), layout.path))
        if layout.address:
            address = parse_text(value(layout.address), layout.address)
        else:
            address = layout.composed(parse_text(value(layout.bucket), layout.bucket), key)
        content_type = value(layout.content_type) if layout.content_type else None
        return (
            key,
            address,
            parse_size(value(layout.size), layout.size),
            parse_text(value(layout.checksum), layout.checksum).strip(b'"'),
            parse_time(value(layout.mtime), layout.mtime) if layout.mtime else now,
            b"" if content_type is None else parse_text(content_type, layout.content_type),
        )
    except BadValue as error:
        raise IntegrityError(f"{where}: {error.message}", hint=error.hint) from error


def rows_of_tuples(tuples: Iterable[tuple[Any, ...]]) -> Rows:
    """Return tuples as rows; the values of each tuple are in the order of `Rows.columns`."""
    keys, addresses, sizes, checksums, seconds, types = map(list, zip(*tuples, strict=True))
    given = [each or b"" for each in types] if any(types) else None
    return Rows(keys, addresses, sizes, checksums, seconds, given)


def rows_of_parquet(batch: Any, layout: Layout, *, now: int) -> Rows:  # noqa: ANN401 - of pyarrow
    """Return the objects of a batch of a Parquet file, in its order.

    Args:
        now: the modification time for objects that the manifest gives no time for, in unix seconds.
    """
    import pyarrow as pa

    for name, wanted in ((layout.latest, True), (layout.deleted, False)):
        if name:
            flags = batch.column(name).cast(pa.string()).to_pylist()
            wanted_rows = [flag is None or (flag.lower() == "true") is wanted for flag in flags]
            batch = batch.filter(pa.array(wanted_rows, pa.bool_()))
    keys = keys_of(batch, layout)
    if layout.address:
        addresses = _texts(batch.column(layout.address), layout.address)
    else:
        buckets = _texts(batch.column(layout.bucket), layout.bucket)
        addresses = list(map(layout.composed, buckets, keys))
    types = None
    if layout.content_type:
        column = batch.column(layout.content_type)
        if column.null_count and not pa.types.is_nested(column.type):
            column = _as_binary(column).fill_null(b"")
        types = _texts(column, layout.content_type)
    sizes = _sizes(batch.column(layout.size), layout.size)
    tags = _texts(batch.column(layout.checksum), layout.checksum)
    checksums = [tag.strip(b'"') for tag in tags]  # a few listings quote ETags
    times = [now] * len(keys)
    if layout.mtime:
        times = _times(batch.column(layout.mtime), layout.mtime)
    return Rows(keys, addresses, sizes, checksums, times, types)


def keys_of(batch: Any, layout: Layout) -> list[bytes]:  # noqa: ANN401 - of pyarrow
    """Return the keys of a batch of a Parquet file; raise `BadValue` if one is missing."""
    keys = _texts(batch.column(layout.path), layout.path)
    return list(map(layout.key, keys)) if layout.is_quoted else keys


def check_dictionaries(batch: Any) -> None:  # noqa: ANN401 - of pyarrow
    """Raise `BadValue` if a dictionary of a batch has a text that is too long.

    Rows could repeat the text many times.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        kind = column.type
        if pa.types.is_dictionary(kind) and not pa.types.is_primitive(kind.value_type):
            longest = pc.max(pc.binary_length(column.dictionary)).as_py() or 0
            if longest > MAX_TEXT_SIZE:
                raise _too_long(longest, name)


def _texts(column: Any, name: str) -> list[bytes]:  # noqa: ANN401
    import pyarrow as pa

    if not (column.null_count or pa.types.is_nested(column.type)):
        values: list[bytes] = _as_binary(column).to_pylist()
        if max(map(len, values), default=0) <= MAX_TEXT_SIZE:
            return values
    return _each(parse_text, column.to_pylist(), name)


def _as_binary(column: Any) -> Any:  # noqa: ANN401
    import pyarrow as pa

    kind = column.type
    if pa.types.is_binary(kind):
        return column
    is_bytes = pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    return (column if is_bytes else column.cast(pa.string())).cast(pa.binary())


def _sizes(column: Any, name: str) -> list[int]:  # noqa: ANN401
    import pyarrow as pa

    if pa.types.is_binary(column.type):
        column = column.cast(pa.string())
    try:
        if not column.null_count and not pa.types.is_boolean(column.type):
            numbers: list[int] = column.cast(pa.int64()).to_pylist()
            return numbers
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    return _each(parse_size, column.to_pylist(), name)


def _times(column: Any, name: str) -> list[int]:  # noqa: ANN401
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("s", column.type.tz), safe=False).cast(pa.int64())
    if pa.types.is_integer(column.type) and not column.null_count:
        found: list[int] = column.cast(pa.int64()).to_pylist()
        if not found or (min(found) >= _OLDEST and max(found) < _AFTER_LAST):
            return found
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return _each(parse_time, column.to_pylist(), name)
    return _each(parse_time, _texts(column, name), name)


def _each(parse: Callable[[object, str], T], values: Iterable[object], name: str) -> list[T]:
    """Parse values one by one; record the position of a bad value in the error."""
    found: list[T] = []
    try:
        for value in values:
            found.append(parse(value, name))  # noqa: PERF401 - its length is in the error
    except BadValue as error:
        error.at = len(found)
        raise
    return found
