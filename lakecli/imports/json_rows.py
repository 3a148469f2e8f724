"""Validate the values of a manifest in JSON lines, line by line."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, BinaryIO

from lakecli.errors import IntegrityError
from lakecli.imports.arrow import AFTER_LAST, LARGEST, NUMBER, OLDEST, Layout, not_times, seconds_of
from lakecli.imports.manifest_file import iter_json


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
