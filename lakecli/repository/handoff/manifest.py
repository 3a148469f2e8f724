"""Manifests: lists of links with path, size and checksum, as JSON, as CSV and as a web page.

JSON and CSV are for programs. `read_manifest` reads them, and `check` finds out which URLs have
expired, and which objects have changed. The page has a link to each object; its program,
``download_all.js``, makes an archive of all objects.

A JSON manifest is one JSON object. Each element of its list ``objects`` is on a separate line::

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

The first line of a CSV manifest is ``# `` and the same JSON object without ``objects``; the second
line names the columns. A value that a spreadsheet would take for a formula has ``'`` before it.
Bytes of a path that are not UTF-8 are written as surrogate escapes in JSON and unchanged in CSV.
"""

import csv
import io
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from html import escape
from itertools import tee
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, ClassVar, Final, NamedTuple, Self, TextIO

from lakecli.base.ids import CommitId, RepositoryUuid
from lakecli.base.model import MAX_PATH_SIZE, Entry
from lakecli.base.parsing import RecordLines, Unparsable, parse_json
from lakecli.base.validation import Invalid, Record, identifier, moment, text, whole
from lakecli.errors import IntegrityError, Refused, UsageError
from lakecli.repository.contract import Repository
from lakecli.repository.handoff import links, page
from lakecli.repository.reading.reader import open_reader

VERSION: Final = 1
COLUMNS: Final = ("path", "size", "checksum", "url", "expires_at")

_LIST: Final = '"objects": ['
_COMMENT: Final = "# "

_FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")
"""The beginning of a value that a spreadsheet takes for a formula, or that is already escaped."""


@lru_cache(16)
def time_text(when: datetime) -> str:
    """Format a time by RFC 3339, in UTC."""
    return when.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _header_fields(header: links.Header, totals: links.Totals) -> dict[str, object]:
    fields = {"manifest": VERSION, **header._asdict()}
    fields |= {"prefix": os.fsdecode(header.prefix), "created_at": time_text(header.created_at)}
    del fields["title"], fields["sender"]
    end = None if totals.expires_at is None else time_text(totals.expires_at)
    return {**fields, "expires_at": end, "count": totals.count, "size": totals.size}


IN_MEMORY: Final = 16 << 20
"""The largest number of bytes of link texts that a document keeps in memory."""


class Document:
    """A document that lists links, written while they are signed. Use it as a context manager.

    The head of the document needs facts that are known only at the end, such as the first expiry.
    So the text of the links is buffered: in memory, or in a temporary file if it is large.

    Attributes:
        left_out: (path, reason) of each link whose name is not allowed by the format or by file
            systems. The document omits these links, or lists them as failures.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.left_out: list[tuple[bytes, str]] = []
        self._links = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - closed by `__exit__`

    def __enter__(self) -> Self:
        """Return the document."""
        return self

    def __exit__(self, *_: object) -> None:
        """Delete the temporary file."""
        self._links.close()

    def add(self, link: links.ObjectLink) -> None:
        """Add one link; call this for each link, in path order."""
        self._links.write(self.link(link))

    def write(self, target: BinaryIO, header: links.Header, totals: links.Totals) -> None:
        """Write the document to a file; call this once, after all links were added."""
        target.write(self.head(header, totals))
        self._links.seek(0)
        shutil.copyfileobj(self._links, target, 1 << 20)
        target.write(self.tail())

    def link(self, link: links.ObjectLink) -> bytes:
        """Return the text of one link."""
        raise NotImplementedError

    def head(self, header: links.Header, totals: links.Totals) -> bytes:
        """Return the beginning of the document; called after all links were added."""
        raise NotImplementedError

    def tail(self) -> bytes:
        """Return the end of the document."""
        return b""


class JsonManifest(Document):
    """A manifest as JSON."""

    suffixes = (".json",)

    def __init__(self) -> None:
        super().__init__()
        self._separator = ""

    def link(self, link: links.ObjectLink) -> bytes:
        """Return one object's line, preceded by the separator from the previous line."""
        separator, self._separator = self._separator, ",\n"
        return f"{separator}{json.dumps(_fields(link))}".encode()

    def head(self, header: links.Header, totals: links.Totals) -> bytes:
        """Return everything before the list."""
        fields = _header_fields(header, totals).items()
        lines = [f"{json.dumps(name)}: {json.dumps(value)},\n" for name, value in fields]
        return f"{{\n{''.join(lines)}{_LIST}\n".encode()

    def tail(self) -> bytes:
        """Return the end of the list."""
        return b"\n]}\n"


def _fields(link: links.ObjectLink) -> dict[str, object]:
    fields = {name: getattr(link, name) for name in COLUMNS}
    return fields | {"path": os.fsdecode(link.path), "expires_at": time_text(link.expires_at)}


class CsvManifest(Document):
    """A manifest as CSV, by the rules of RFC 4180."""

    suffixes = (".csv",)

    def link(self, link: links.ObjectLink) -> bytes:
        """Return one row."""
        return _row(_fields(link).values())

    def head(self, header: links.Header, totals: links.Totals) -> bytes:
        """Return the comment and the names of the columns."""
        comment = json.dumps(_header_fields(header, totals))
        return f"{_COMMENT}{comment}\r\n".encode() + _row(COLUMNS)


def _row(values: Iterable[object]) -> bytes:
    line = io.StringIO(newline="")
    csv.writer(line).writerow(_defused(str(value)) for value in values)
    return line.getvalue().encode("utf-8", "surrogateescape")


def _defused(text: str) -> str:
    """Escape a value that a spreadsheet would take for a formula; `_fused` is the inverse."""
    return f"'{text}" if _FORMULA.match(text) else text


def _fused(value: object) -> object:
    """Remove the apostrophe that `_defused` has put before a formula; return all else unchanged."""
    is_escaped = isinstance(value, str) and value.startswith("'") and _FORMULA.match(value)
    return str(value)[1:] if is_escaped else value


class ManifestHeader(NamedTuple):
    """The header of a manifest; see `links.Header`."""

    repository: str
    uuid: str
    ref: str
    commit_id: str
    prefix: bytes


class ListedLink(NamedTuple):
    """One link of a manifest, without its URL."""

    path: bytes
    size: int
    checksum: str
    expires_at: datetime


_MAX_SIZE: Final = 256 << 20
"""The largest size in bytes of a JSON manifest that another program has reformatted."""

_MAX_DIGITS: Final = 18
_size = whole(0, 10**_MAX_DIGITS)


def _number(value: object) -> int:
    """Parse the size of an object, which is a string in a CSV manifest."""
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
    """The file is not a manifest that this version of lakecli can read."""


def read_manifest(file: TextIO) -> tuple[ManifestHeader, Iterator[ListedLink]]:
    """Read a JSON or CSV manifest; its links are parsed one at a time, while the caller iterates.

    Args:
        file: a file opened as UTF-8 with surrogate escapes, without translation of newlines.

    Raises:
        NotAManifest: the file is not a manifest, or a later version of lakecli wrote it.
        IntegrityError: the manifest is damaged; the iterator raises it too.
    """
    start = file.read(1)
    while start.isspace():
        start = file.read(1)
    try:
        if start == _COMMENT.rstrip():
            fields, objects = parse_json(next(RecordLines(file), "")), _csv_objects(file)
        elif start == "{":
            fields, objects = _read_json(start, file)
        else:
            hint = "write one, as .json or .csv: `fs presign -r PATH --manifest FILE`"
            raise NotAManifest("not a manifest", hint=hint)
    except Unparsable as error:
        raise _damaged(str(error)) from error
    if not isinstance(fields, dict) or fields.get("manifest") != VERSION:
        raise NotAManifest("not a manifest, or one of a later lakecli")
    try:
        head = _HEADER.read(fields)
    except Invalid as error:
        raise _damaged(f"its header is not complete: {error}") from None
    source = ManifestHeader(**{**head, "prefix": os.fsencode(head["prefix"])})
    return source, _items(objects)


def _read_json(start: str, file: TextIO) -> tuple[Any, Iterator[Any]]:
    head = [start]
    for line in RecordLines(file, _MAX_SIZE):
        if line.rstrip() == _LIST:
            return parse_json(f"{''.join(head)}{_LIST}]}}"), _json_objects(file)
        head.append(line)
    # Another program has reformatted the manifest.
    fields = parse_json("".join(head), max_size=_MAX_SIZE)
    objects = fields.get("objects") if isinstance(fields, dict) else None
    return fields, iter(objects if isinstance(objects, list) else ())


def _json_objects(file: TextIO) -> Iterator[Any]:
    lines = RecordLines(file)
    for line in lines:
        lines.end_record()
        text = line.strip()
        if text == "]}":
            return
        if text:
            yield parse_json(text.removesuffix(","))
    raise _damaged("its end is missing")


def _csv_objects(file: TextIO) -> Iterator[Any]:
    lines = RecordLines(file)
    try:
        for row in csv.DictReader(lines, strict=True):
            lines.end_record()
            yield {name: _fused(value) for name, value in row.items()}
    except csv.Error as error:
        raise _damaged(str(error)) from error


def _items(objects: Iterator[Any]) -> Iterator[ListedLink]:
    number = 1
    try:
        for number, fields in enumerate(objects, 1):  # noqa: B007 - for the error
            item = _ITEM.read(fields)
            yield ListedLink(**{**item, "path": os.fsencode(item["path"])})
    except Invalid:
        # The message does not quote the value, which may be a secret URL.
        raise _damaged(f"number {number} of its list is not an object") from None
    except Unparsable as error:
        raise _damaged(str(error)) from error


def _damaged(what: str) -> IntegrityError:
    hint = "write it anew: `fs presign -r PATH --manifest FILE`"
    return IntegrityError(f"damaged manifest: {what}", hint=hint)


_ONE_EXPIRY: Final = ".u { display: none }"
"""CSS that hides the column of expiries: all links expire at the time in the page's head."""

_SHORT_ID: Final = 12


class HtmlManifest(Document):
    """A page with a row for each object."""

    suffixes = (".html", ".htm")

    def __init__(self) -> None:
        super().__init__()
        self._origins: set[str] = set()

    def link(self, link: links.ObjectLink) -> bytes:
        """Return one row."""
        self._origins.add(page.origin_of(link.url))
        name = escape(links.readable(link.name or link.path))
        encoded = " data-encoded" if link.encoding else ""
        kind = "" if links.is_blake3(link.checksum) else "ETag "
        if link.encoding:  # a browser saves the object decoded
            kind = f"{kind}of the {page.escaped(link.encoding)} form: "
        return (
            f'<tr><td><a href="{escape(links.url_text(link.url))}" '
            f'download="{_file_name(link.name)}" data-size="{link.size}"{encoded}>'
            f"<bdi>{name}</bdi></a></td>"
            f'<td class="n" title="{link.size} bytes">{page.shown_size(link.size)}</td>'
            f'<td class="n u">{page.utc(link.expires_at)}</td>'
            f'<td class="c">{kind}{page.escaped(link.checksum)}</td></tr>\n'
        ).encode()

    def head(self, header: links.Header, totals: links.Totals) -> bytes:
        """Return everything before the first row."""
        place = f"{header.repository}/{header.ref}/{os.fsdecode(header.prefix)}"
        title = page.escaped(header.title or place)
        is_one_expiry = totals.expires_at == totals.last_expires_at
        end = ""
        if totals.expires_at is not None:
            end = f" {'They work' if is_one_expiry else 'The first works'} until "
            end += f"{page.utc(totals.expires_at)}."
        counted = "1 object" if totals.count == 1 else f"{totals.count:,} objects"
        id_ = page.escaped(header.commit_id)
        head = page.head(title, self._origins, _PROGRAM, style=_ONE_EXPIRY if is_one_expiry else "")
        text = page.resource("manifest.html").format(
            counted=counted,
            size=page.shown_size(totals.size),
            commit=f'<span title="{id_}">{id_[:_SHORT_ID]}</span>',
            uncommitted=" with uncommitted changes" if header.uncommitted else "",
            sender=f" by {page.escaped(header.sender)}" if header.sender else "",
            signed=page.utc(header.created_at),
            end=end,
        )
        return (head + text).encode()

    def tail(self) -> bytes:
        """Return everything after the last row."""
        return f"</tbody>\n</table>\n{page.tail(_PROGRAM)}".encode()


_PROGRAM: Final = page.resource("download_all.js")


def _file_name(name: bytes) -> str:
    """Return the file name to suggest for a download; directories are removed from it."""
    shown = links.readable(name.removesuffix(b"/").rpartition(b"/")[2])
    return escape(shown.replace("\\", "_"))


FORMATS: Final[Mapping[str, type[Document]]] = {
    "json": JsonManifest,
    "csv": CsvManifest,
    "html": HtmlManifest,
}
"""The document class for the name of each format."""


def format_of(file: Path) -> type[Document]:
    """Return the document class for the suffix of a manifest's file name.

    Raises:
        UsageError: no format has this suffix.
    """
    for format_ in FORMATS.values():
        if file.suffix.lower() in format_.suffixes:
            return format_
    known = ", ".join(suffix for format_ in FORMATS.values() for suffix in format_.suffixes)
    hint = f"one of {known}, or say which: `format=NAME`"
    raise UsageError(f"the suffix of {file.name!r} is of no format", hint=hint)


class LinkState(StrEnum):
    """How an object has changed since the manifest was written."""

    SAME = "same"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class LinkFinding:
    """The check of one object of a manifest.

    Attributes:
        state: state of the object since the URL was signed: same, changed or removed.
        expires_at: time when the URL expires or expired.
        left: the time until the URL expires; negative if it has expired.
    """

    path: bytes
    state: LinkState
    expires_at: datetime
    left: timedelta

    @property
    def is_expired(self) -> bool:
        """Whether the URL has expired."""
        return self.left.total_seconds() <= 0

    @property
    def seconds_left(self) -> int:
        """Seconds until the URL expires; negative if it has expired."""
        return int(self.left.total_seconds())


def check(
    repository: Repository, source: ManifestHeader, items: Iterable[ListedLink], *, now: datetime
) -> Iterator[LinkFinding]:
    """Yield the state of each object, in the manifest's order, without reading from a store.

    Raises:
        Refused: the manifest is of another repository that has the same name.
        NotFound: the ref does not exist any more.
    """
    if source.uuid != repository.record.uuid:
        hint = "check it on the machine where it was written"
        raise Refused(f"the manifest is of another repository than {repository.uri}", hint=hint)
    listed, asked = tee(items)
    with open_reader(repository, source.ref) as reader:
        present = reader.stat_many(item.path for item in asked)
        for item, entry in zip(listed, present, strict=True):
            ends = item.expires_at
            yield LinkFinding(item.path, _state(entry, item), ends, ends - now)


def _state(entry: Entry | None, item: ListedLink) -> LinkState:
    if entry is None:
        return LinkState.REMOVED
    is_same = (entry.checksum, entry.size) == (item.checksum, item.size)
    return LinkState.SAME if is_same else LinkState.CHANGED
