"""Read manifests in CSV or JSON lines without Arrow: slower, with the same result.

SQLite sorts the rows in a temporary database, which it deletes itself, so that memory does not grow
with the manifest.
"""

from __future__ import annotations

import csv
import io
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any, Final, NamedTuple

from lakecli.errors import IntegrityError
from lakecli.imports.arrow import LARGEST, NUMBER, TRUE, Layout, seconds_of, unquoted
from lakecli.imports.json_rows import iter_rows
from lakecli.imports.manifest_file import CSV, ManifestFile, opened
from lakecli.imports.part import Task
from lakecli.imports.rows import ROWS_AT_ONCE, Failures, Rows
from lakecli.repository.reading.addresses import unpinned_bytes

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
