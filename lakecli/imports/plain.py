"""Read manifests in CSV or JSON lines without Arrow: slower, with the same results.

Validate the values of a manifest in JSON lines, line by line.

Read manifests in CSV or JSON lines without Arrow: slower, with the same result.

SQLite sorts the rows in a temporary database, which it deletes itself, so that memory does not grow
with the manifest.

Ranges of a text file that begin and end at line ends, so that tasks read one file together.

A line belongs to the range that its first byte is in. In CSV, a line end may be inside quotation
marks. A line with an odd number of them shows that, so reading such a range is an error, and the
file is read as a whole instead.
"""

from __future__ import annotations

import csv
import io
import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, BinaryIO, Final, NamedTuple

from lakecli.errors import IntegrityError, LakeError
from lakecli.imports.arrow import (
    AFTER_LAST,
    LARGEST,
    NUMBER,
    OLDEST,
    TRUE,
    Layout,
    not_times,
    seconds_of,
    unquoted,
)
from lakecli.imports.manifest_file import CSV, ManifestFile, iter_json, opened
from lakecli.imports.part import Task
from lakecli.imports.rows import ROWS_AT_ONCE, Failures, Rows
from lakecli.repository.reading.addresses import unpinned_bytes


def iter_rows(
    stream: BinaryIO, layout: Layout, columns: Sequence[str], *, start: int = 0
) -> Generator[dict[str, Any]]:
    """Yield the values of some columns: sizes and times as integers, all others as text.

    Args:
        stream: JSON lines.
        layout: names of the columns.
        columns: the columns that are needed.
        start: where the stream begins in its file, in bytes, for errors.

    Raises:
        IntegrityError: a line is no JSON object, or a value is missing, of another type, or out of
            bounds.
    """
    for number, fields in iter_json(stream):
        try:
            yield {name: _value(fields.get(name), name, layout) for name in columns}
        except IntegrityError as error:
            after = f" after byte {start}" if start else ""
            raise IntegrityError(
                f"line {number}{after}: {error.message}", hint=error.hint
            ) from error


def _value(value: object, name: str, layout: Layout) -> int | str | None:
    if value is None:
        if name == layout.content_type:
            return None
        raise IntegrityError(
            f"a value of column {name!r} is missing",
            hint="every object of a manifest needs all of path, physical_address, size, checksum",
        )
    if name == layout.size:
        return _size(value, name)
    if name == layout.mtime:
        return _seconds(value, name)
    if not isinstance(value, str) or not _is_text(value):
        raise IntegrityError(
            f"column {name!r} does not contain text: {str(value)[:40]!a}",
            hint="paths, addresses, checksums and content types are texts",
        )
    return value


def _is_text(value: str) -> bool:
    """Return whether a text consists of characters, and of surrogate escapes for other bytes."""
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _size(value: object, name: str) -> int:
    number: object = value
    is_whole = isinstance(value, float) and value.is_integer()
    if is_whole or (isinstance(value, str) and NUMBER.fullmatch(value.encode("utf-8", "replace"))):
        number = int(value)  # type: ignore[call-overload]
    if not isinstance(number, int) or isinstance(number, bool) or abs(number) > LARGEST:
        raise IntegrityError(
            f"column {name!r} does not contain integers: {str(value)[:40]!a}",
            hint="give sizes in bytes, as integers",
        )
    return number


def _seconds(value: object, name: str) -> int:
    if isinstance(value, str):
        return seconds_of([value.encode("utf-8", "backslashreplace")], name)[0]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise not_times(name, value)
    if not OLDEST <= value < AFTER_LAST:
        raise not_times(name, value)
    return int(value)


_CREATE: Final = (
    "CREATE TABLE rows (key BLOB, address BLOB, size INTEGER, checksum BLOB, seconds INTEGER, "
    "content_type BLOB)"
)
_INSERT: Final = "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)"
_SELECT: Final = (
    "SELECT key, address, size, checksum, seconds, content_type FROM rows ORDER BY key, rowid"
)


class PlainSource(NamedTuple):
    """All rows of a manifest in CSV or JSON lines, sorted here."""

    files: tuple[ManifestFile, ...]
    layout: Layout

    def rows(self, task: Task, failures: Failures) -> Iterator[Rows]:
        """Yield the objects, sorted by key.

        Raises:
            IntegrityError: a value is missing or malformed.
        """
        del failures
        with closing(sqlite3.connect("")) as store:
            store.execute(_CREATE)
            for file in self.files:
                store.executemany(_INSERT, _read(file, self.layout, now=task.seconds))
            found = store.execute(_SELECT)
            while batch := found.fetchmany(ROWS_AT_ONCE):
                keys, addresses, sizes, checksums, seconds, types = map(
                    list, zip(*batch, strict=True)
                )
                has_types = bool(self.layout.content_type)
                yield Rows(keys, addresses, sizes, checksums, seconds, types if has_types else None)

    def identity(self) -> list[Any]:
        """Return JSON values that change whenever the objects do."""
        return ["plain manifest", [list(file) for file in self.files], list(self.layout)]


def _read(file: ManifestFile, layout: Layout, *, now: int) -> Iterator[tuple[object, ...]]:
    with opened(file) as stream:
        columns = layout.columns()
        is_csv = file.kind == CSV
        found = _csv_records(stream, file) if is_csv else iter_rows(stream, layout, columns)
        with closing(found) as records:
            for number, record in enumerate(records, 1):
                try:
                    row = _row(record.get, layout, now=now)
                except IntegrityError as error:
                    what = f"row {number}: {error.message}"
                    raise IntegrityError(what, hint=error.hint) from error
                if row is not None:
                    yield row


def _csv_records(stream: Any, file: ManifestFile) -> Generator[dict[str, Any]]:  # noqa: ANN401
    text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
    reader = csv.reader(text, strict=True)
    names = list(file.names)
    try:
        for fields in reader:
            if not fields:
                continue
            if not names:
                names = fields
            elif len(fields) != len(names):
                raise IntegrityError(
                    f"line {reader.line_num} of {file.uri} has {len(fields)} values instead of "
                    f"{len(names)}",
                    hint="a manifest is Parquet, CSV with a line of names, or JSON lines",
                )
            else:
                yield dict(zip(names, fields, strict=True))
    except csv.Error as error:
        raise IntegrityError(f"cannot read {file.uri} as csv: {error}") from error
    finally:
        text.detach()  # the caller closes the stream


def _row(value: Callable[[str], Any], layout: Layout, *, now: int) -> tuple[object, ...] | None:
    """Return an object's row; ``None`` for an old version or a delete marker."""
    for name, wanted in ((layout.latest, True), (layout.deleted, False)):
        if name and (_bytes(value(name) or "").lower() == TRUE) is not wanted:
            return None
    key = _present(value, layout.path)
    if layout.is_quoted:
        (key,) = unquoted([key])
    if layout.address:
        address = _present(value, layout.address)
    else:
        bucket = _present(value, layout.bucket)
        address = unpinned_bytes(b"%b://%b/%b" % (layout.scheme.encode(), bucket, key))
    checksum = _present(value, layout.checksum).strip(b'"')
    content_type = _bytes(value(layout.content_type) or "") if layout.content_type else b""
    return (
        key,
        address,
        _number(value, layout.size),
        checksum,
        _time(value, layout, now),
        (content_type),
    )


def _bytes(value: object) -> bytes:
    return str(value).encode("utf-8", "surrogateescape")


def _present(value: Callable[[str], Any], name: str) -> bytes:
    found = value(name)
    if found is None:
        raise IntegrityError(
            f"a value of column {name!r} is missing",
            hint="every object of a manifest needs all of path, physical_address, size, checksum",
        )
    return _bytes(found)


def _number(value: Callable[[str], Any], name: str) -> int:
    text = _present(value, name)
    number = int(text) if NUMBER.fullmatch(text) else LARGEST + 1
    if abs(number) > LARGEST:
        shown = text[:40].decode("utf-8", "replace")
        raise IntegrityError(
            f"column {name!r} does not contain integers: {shown!r}",
            hint="give sizes in bytes, as integers",
        )
    return number


def _time(value: Callable[[str], Any], layout: Layout, now: int) -> int:
    if not layout.mtime:
        return now
    found = value(layout.mtime)
    if isinstance(found, int):
        return found  # of JSON, which is validated
    return seconds_of([_present(value, layout.mtime)], layout.mtime)[0]


RANGE: Final = 64 << 20
"""Bytes of a range; less for the last one of a file."""

_CHUNK: Final = 1 << 20


class QuotedLineEnds(LakeError):
    """A file of CSV has values with line ends, so it cannot be divided."""


class LineRange(NamedTuple):
    """The lines that begin from `start` up to `end`; the first byte of the file is at 0."""

    start: int
    end: int


def ranges_of(start: int, size: int) -> Iterator[LineRange]:
    """Yield the ranges of a file of some size, from a position where a line begins."""
    for low in range(start, size, RANGE):
        yield LineRange(low, min(low + RANGE, size))


class Lines(io.RawIOBase):
    """The lines of a range as a file.

    Args:
        stream: the whole file; it stays open.
        lines: the range.
        is_quoted: whether to refuse lines with an odd number of quotation marks.
    """

    def __init__(self, stream: BinaryIO, lines: LineRange, *, is_quoted: bool) -> None:
        self._chunks = _unbroken(_chunks(stream, lines)) if is_quoted else _chunks(stream, lines)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read into a buffer; see `io.RawIOBase`.

        Raises:
            QuotedLineEnds: a value contains a line end.
        """
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        size = min(len(view), len(self._rest))
        view[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _chunks(stream: BinaryIO, lines: LineRange) -> Iterator[bytes]:
    """Yield the bytes from the first line that begins in a range to the end of the last one."""
    # The byte before decides whether a line begins at a position.
    position = max(0, lines.start - 1)
    stream.seek(position)
    is_inside = lines.start == 0
    while chunk := stream.read(_CHUNK):
        after = position + len(chunk)
        begin = 0
        if not is_inside:
            begin = chunk.find(b"\n") + 1
            is_inside = begin > 0
            if is_inside and position + begin >= lines.end:
                return
        if is_inside:
            # The line whose end is at `end - 1` or later is the last one.
            last = chunk.find(b"\n", max(begin, lines.end - 1 - position))
            if after >= lines.end and last >= 0:
                yield chunk[begin : last + 1]
                return
            if begin < len(chunk):  # an empty chunk would look like the end
                yield chunk[begin:]
        position = after


def _unbroken(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield chunks unchanged.

    Raises:
        QuotedLineEnds: a line has an odd number of quotation marks.
    """
    odd = 0
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        odd += first.count(b'"')
        for line in others:
            if odd % 2:
                raise QuotedLineEnds("a value contains a line end")
            odd = line.count(b'"')
        yield chunk
    if odd % 2:
        raise QuotedLineEnds("a value contains a line end")
