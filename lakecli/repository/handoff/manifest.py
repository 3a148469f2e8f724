"""Manifests: every link with path, size and checksum, for programs, and how they are read again.

As JSON a manifest is one object, written so that every object of its list ``objects`` is a line
of its own::

    {
    "manifest": 1,
    "repository": "lakefs://sales",
    "uuid": "…", "ref": "main", "commit_id": "…", "uncommitted": false, "prefix": "orders/",
    "created_at": "2026-03-01T12:00:00Z", "expires_at": "2026-03-02T00:00:00Z",
    "count": 2, "size": 12345,
    "objects": [
    {"path": "orders/1.csv", "size": 5, "checksum": "…", "url": "…", "expires_at": "…"},
    …
    ]}

As CSV its first line is ``# `` and the object above without ``objects``, the second one names the
columns. A value that a spreadsheet would take for a formula has ``'`` before it. Bytes of a path
that are not UTF-8 are surrogate escapes in JSON and themselves in CSV.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple, TextIO

from lakecli.base.ids import CommitId, RepositoryUuid
from lakecli.base.model import MAX_PATH_SIZE
from lakecli.base.parsing import Unparsable, parse_json
from lakecli.base.validation import Invalid, Record, identifier, moment, text, whole
from lakecli.errors import IntegrityError, UsageError
from lakecli.repository.handoff.links import Header, Link, Totals
from lakecli.repository.handoff.names import url_text

VERSION: Final = 1
COLUMNS: Final = ("path", "size", "checksum", "url", "expires_at")

_LIST: Final = '"objects": ['
_COMMENT: Final = "# "

_FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")
"""The beginning of a value that a spreadsheet takes for a formula, or that was escaped already."""


_quoted: Final = json.encoder.encode_basestring_ascii


@lru_cache(16)
def time_text(when: datetime) -> str:
    """Return a time as RFC 3339 writes it, in UTC."""
    return when.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _header_fields(header: Header, totals: Totals) -> dict[str, object]:
    return {
        "manifest": VERSION,
        "repository": header.repository,
        "uuid": header.uuid,
        "ref": header.ref,
        "commit_id": header.commit_id,
        "uncommitted": header.uncommitted,
        "prefix": os.fsdecode(header.prefix),
        "created_at": time_text(header.created_at),
        "expires_at": None if totals.expires_at is None else time_text(totals.expires_at),
        "count": totals.count,
        "size": totals.size,
    }


class JsonManifest:
    """Writes a manifest as JSON."""

    def __init__(self) -> None:
        self.left_out: list[tuple[bytes, str]] = []
        self._separator = ""

    def link(self, link: Link) -> bytes:
        """Return one object's line, with what separates it from the one before."""
        separator, self._separator = self._separator, ",\n"
        # What is plain in a URL is so in JSON, and this is seen in a third of the time.
        is_plain = url_text(link.url) == link.url
        url = f'"{link.url}"' if is_plain else _quoted(link.url)
        return (
            f'{separator}{{"path": {_quoted(os.fsdecode(link.path))}, "size": {link.size}, '
            f'"checksum": {_quoted(link.checksum)}, "url": {url}, '
            f'"expires_at": "{time_text(link.expires_at)}"}}'
        ).encode()

    def head(self, header: Header, totals: Totals) -> bytes:
        """Return everything before the list."""
        fields = _header_fields(header, totals).items()
        lines = [f"{json.dumps(name)}: {json.dumps(value)},\n" for name, value in fields]
        return f"{{\n{''.join(lines)}{_LIST}\n".encode()

    def tail(self, header: Header, totals: Totals) -> bytes:
        """Return the end of the list."""
        del header, totals
        return b"\n]}\n"


def _fields(link: Link) -> dict[str, object]:
    return {
        "path": os.fsdecode(link.path),
        "size": link.size,
        "checksum": link.checksum,
        "url": link.url,
        "expires_at": time_text(link.expires_at),
    }


class CsvManifest:
    """Writes a manifest as CSV, by the rules of RFC 4180."""

    def __init__(self) -> None:
        self.left_out: list[tuple[bytes, str]] = []

    def link(self, link: Link) -> bytes:
        """Return one row."""
        return _row(_fields(link).values())

    def head(self, header: Header, totals: Totals) -> bytes:
        """Return the comment and the names of the columns."""
        comment = json.dumps(_header_fields(header, totals))
        return f"{_COMMENT}{comment}\r\n".encode() + _row(COLUMNS)

    def tail(self, header: Header, totals: Totals) -> bytes:
        """Return nothing."""
        del header, totals
        return b""


def _row(values: Iterable[object]) -> bytes:
    line = io.StringIO(newline="")
    csv.writer(line).writerow(_defused(str(value)) for value in values)
    return line.getvalue().encode("utf-8", "surrogateescape")


def _defused(text: str) -> str:
    """Return a value that no spreadsheet runs as a formula; `_fused` is the inverse."""
    return f"'{text}" if _FORMULA.match(text) else text


def _fused(text: str) -> str:
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


class Source(NamedTuple):
    """The header of a manifest; see `links.Header`."""

    repository: str
    uuid: str
    ref: str
    commit_id: str
    prefix: bytes


class Item(NamedTuple):
    """One link of a manifest, without its URL."""

    path: bytes
    size: int
    checksum: str
    expires_at: datetime


_MAX_SIZE: Final = 256 << 20
"""The largest manifest, in bytes, that may have another layout than lakecli writes."""

_MAX_DIGITS: Final = 18
_size = whole(0, 10**_MAX_DIGITS)


def _number(value: object) -> int:
    """Parse a size, which is a string in CSV."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[: _MAX_DIGITS + 1])
    return _size(value)


_HEADER: Final = Record(
    {
        "repository": text(1024),
        "uuid": identifier(RepositoryUuid),
        "ref": text(4096),
        "commit_id": identifier(CommitId),
        "prefix": text(MAX_PATH_SIZE, has_nul=True),
    }
)

_ITEM: Final = Record(
    {
        "path": text(MAX_PATH_SIZE, has_nul=True),
        "size": _number,
        "checksum": text(4096),
        "expires_at": moment,
    }
)


class NotAManifest(UsageError):
    """The file is not a manifest."""


def read_manifest(file: TextIO) -> tuple[Source, Iterator[Item]]:
    """Read a manifest in JSON or CSV; its items are read one at a time, as they are consumed.

    Args:
        file: opened as UTF-8 with surrogate escapes, without translation of newlines.

    Raises:
        NotAManifest: the file is not a manifest, or is one of a later lakecli.
        IntegrityError: the manifest is damaged; the iterator raises it too.
    """
    start = file.read(1)
    while start.isspace():
        start = file.read(1)
    if start == _COMMENT.rstrip():
        fields, objects = _load(file.readline()), _csv_objects(file)
    elif start == "{":
        fields, objects = _read_json(start, file)
    else:
        raise NotAManifest(
            "not a manifest", hint="fs presign -r --manifest writes them, as .json or .csv"
        )
    if not isinstance(fields, dict) or fields.get("manifest") != VERSION:
        raise NotAManifest("not a manifest, or one of a later lakecli")
    try:
        head = _HEADER.read(fields)
    except Invalid as error:
        raise _damaged(f"its header is not complete: {error}") from None
    source = Source(**{**head, "prefix": os.fsencode(head["prefix"])})
    return source, _items(objects)


def _read_json(start: str, file: TextIO) -> tuple[Any, Iterator[Any]]:
    head = [start]
    for line in file:
        if line.rstrip() == _LIST:
            return _load(f"{''.join(head)}{_LIST}]}}"), _json_objects(file)
        head.append(line)
    # Another program has changed its layout.
    fields = _load("".join(head))
    objects = fields.get("objects") if isinstance(fields, dict) else None
    return fields, iter(objects if isinstance(objects, list) else ())


def _json_objects(file: TextIO) -> Iterator[Any]:
    for line in file:
        text = line.strip()
        if text == "]}":
            return
        if text:
            yield _load(text.removesuffix(","))
    raise _damaged("its end is missing")


def _csv_objects(file: TextIO) -> Iterator[Any]:
    try:
        for row in csv.DictReader(file, strict=True):
            yield {
                name: _fused(value) if isinstance(value, str) else value
                for name, value in row.items()
            }
    except csv.Error as error:
        raise _damaged(str(error)) from error


def _items(objects: Iterator[Any]) -> Iterator[Item]:
    for number, fields in enumerate(objects, 1):
        try:
            item = _ITEM.read(fields)
            yield Item(**{**item, "path": os.fsencode(item["path"])})
        except Invalid:
            # The message does not quote what was found: it may be a URL.
            raise _damaged(f"number {number} of its list is no object") from None


def _load(text: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return parse_json(text, max_size=_MAX_SIZE)
    except Unparsable as error:
        raise _damaged(str(error)) from error


def _damaged(what: str) -> IntegrityError:
    return IntegrityError(f"damaged manifest: {what}", hint="write it anew: lakecli fs presign -r")
