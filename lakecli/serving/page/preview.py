"""Preview of an object: a table, text or an image, depending on its contents.

At most `MOST_READ` bytes are read, or `MOST_OF_PARQUET` of a Parquet file. Nothing is executed: an
image is recognized by its first bytes, never by its path or content type, and SVG is shown as text.
"""

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from textwrap import fill
from typing import Any, Final, NamedTuple

from lakecli.base.content_types import content_type_of
from lakecli.base.model import Entry
from lakecli.errors import LakeError, install_command
from lakecli.repository.contract import Repository
from lakecli.repository.reading.recorded import locate
from lakecli.serving.reading import read_part
from lakecli.stores.contract import ObjectStore
from lakecli.stores.streams import Seekable

MOST_READ: Final = 100 << 10
MOST_ROWS: Final = 200
MOST_COLUMNS: Final = 50
MOST_OF_PARQUET: Final = 4 << 20
"""The maximum number of bytes that are read from a Parquet file, whose pages may be large."""

MOST_OF_IMAGE: Final = 16 << 20
"""The maximum size of an image that is shown, in bytes."""

_LONGEST_CELL: Final = 200
_DUMPED: Final = 256
_IMAGE: Final = re.compile(
    rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|.{8}WEBPVP8|.{4}ftypavif", re.DOTALL
)
"""The beginning of an image in PNG, JPEG, GIF, WebP or AVIF."""

_GZIP: Final = b"\x1f\x8b"
_SEPARATORS: Final = {"text/csv": ",;\t|", "text/tab-separated-values": "\t"}
_LIST: Final = ("application/json", "application/geo+json", "application/x-ipynb+json")


class Preview(NamedTuple):
    """The preview of an object.

    Attributes:
        note: a sentence on the kind of the preview, or the reason why there is none.
        text: the preview of an object that is not a table or an image.
        rows: the rows of a table; the first row has the names of the columns.
        image: whether the object is an image that may be shown.
        hint: the remedy if there is no preview, or ``None``.
    """

    note: str
    text: str = ""
    rows: Sequence[Sequence[str]] = ()
    image: bool = False
    hint: str | None = None


def preview(repository: Repository, path: bytes, entry: Entry) -> Preview:
    """Return the preview of an object; if it cannot be read, the preview has the error as note."""
    try:
        if not entry.size:
            return Preview("The object is empty.")
        data = b"".join(read_part(repository, entry, 0, min(entry.size, MOST_READ)))
        if data.startswith(b"PAR1"):
            return _of_parquet(*locate(repository, entry), entry.size)
    except LakeError as error:
        return Preview(f"It cannot be read: {error.message}.", hint=error.hint)
    if _IMAGE.match(data):
        if entry.size > MOST_OF_IMAGE:
            return Preview("The image is too large to be shown here.")
        return Preview("", image=True)
    is_whole = len(data) == entry.size
    if data.startswith(_GZIP):
        data, is_whole = _unpacked(data, is_whole=is_whole)
        path = path.removesuffix(b".gz")
    return _of_bytes(path, entry, data, is_whole=is_whole)


def _unpacked(data: bytes, *, is_whole: bool) -> tuple[bytes, bool]:
    """Return the first `MOST_READ` decompressed bytes of gzip data, and whether they are all.

    Args:
        data: one or more gzip members, the last of which may be cut off.
        is_whole: whether `data` is the whole object.
    """
    found = b""
    with suppress(EOFError, OSError, zlib.error), gzip.open(io.BytesIO(data)) as file:
        while piece := file.read1(MOST_READ + 1 - len(found)):
            found += piece
        return found[:MOST_READ], is_whole and len(found) <= MOST_READ
    return found or data, False


def _of_bytes(path: bytes, entry: Entry, data: bytes, *, is_whole: bool) -> Preview:
    if (text := _as_text(data, is_whole=is_whole)) is None:
        lines = fill(data[:_DUMPED].hex(" "), width=47)  # 16 bytes each
        return Preview("Not text: the first bytes, in hexadecimal digits.", lines)
    named, recorded = content_type_of(path), entry.content_type.partition(";")[0].strip().lower()
    kind = named if named in _SEPARATORS or named in _LIST else recorded
    if kind in _SEPARATORS and (rows := _of_csv(text, _SEPARATORS[kind], is_whole=is_whole)):
        return rows
    if kind in _LIST and is_whole and "\n" not in text.strip():
        laid_out, encoder = "", json.JSONEncoder(indent=2, ensure_ascii=False)
        with suppress(ValueError, RecursionError):
            for piece in encoder.iterencode(json.loads(text)):
                laid_out += piece
                if len(laid_out) > 4 * MOST_READ:  # indentation may multiply the size
                    break
            else:
                return Preview("JSON, laid out for reading.", laid_out)
    return Preview("" if is_whole else f"The first {len(data):,} bytes.", text)


def _as_text(data: bytes, *, is_whole: bool) -> str | None:
    if b"\0" in data:
        return None
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(data, final=is_whole)
    except UnicodeDecodeError:
        return None


def _of_csv(text: str, separators: str, *, is_whole: bool) -> Preview | None:
    head = text.partition("\n")[0]
    separator = max(separators, key=head.count)
    try:
        rows = list(islice(csv.reader(io.StringIO(text), delimiter=separator), MOST_ROWS + 2))
    except csv.Error:
        return None
    if not is_whole and len(rows) < MOST_ROWS + 2:
        del rows[-1:]  # the last row is cut off
    return _table(rows, is_all=is_whole and len(rows) <= MOST_ROWS + 1)


def _table(rows: Sequence[Sequence[str]], *, is_all: bool, of: str = "") -> Preview | None:
    width = max(map(len, rows), default=0)
    if not width:
        return None
    shown = [
        [cell[:_LONGEST_CELL] + "…" * (len(cell) > _LONGEST_CELL) for cell in row[:MOST_COLUMNS]]
        + [""] * (min(width, MOST_COLUMNS) - len(row))
        for row in rows[: MOST_ROWS + 1]
        if row
    ]
    lines = len(shown) - 1
    note = f"{lines:,} row{'s' * (lines != 1)}" if is_all else f"The first {lines:,} rows{of}"
    columns = f"; {MOST_COLUMNS} of {width:,} columns" if width > MOST_COLUMNS else ""
    return Preview(f"{note}{columns}.", rows=shown)


class _Window(Seekable):
    """An object of a store as a file, from which at most `MOST_OF_PARQUET` bytes can be read."""

    def __init__(self, store: ObjectStore, key: str, size: int) -> None:
        super().__init__(size)
        self._get, self._left = partial(store.get, key), MOST_OF_PARQUET

    def read_at(self, start: int, length: int) -> bytes:
        self._left -= length
        if self._left < 0:
            raise OSError("its pages are too large for a preview")
        return self._get(start=start, length=length)


def _of_parquet(store: ObjectStore, key: str, size: int) -> Preview:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        how = install_command("executor")
        return Preview("Parquet: to see its rows here, pyarrow has to be installed.", hint=how)
    try:
        file = parquet.ParquetFile(_Window(store, key, size), buffer_size=64 << 10,
                                   pre_buffer=False)  # fmt: skip
        total, schema = file.metadata.num_rows, file.schema_arrow
        batch = next(file.iter_batches(MOST_ROWS, columns=schema.names[:MOST_COLUMNS]), None)
        columns = [] if batch is None else [map(_cell, column) for column in batch.columns]
        rows = [list(schema.names), *(list(row) for row in zip(*columns, strict=True))]
    except (pa.ArrowException, OSError, ValueError, LookupError, OverflowError) as error:
        return Preview(f"Parquet that cannot be read: {error}.")
    is_all = len(rows) - 1 == total
    return _table(rows, is_all=is_all, of=f" of {total:,}") or Preview("Parquet without columns.")


def _cell(value: Any) -> str:  # noqa: ANN401 - Arrow's scalars
    with suppress(ValueError, OverflowError):  # Python's datetime cannot represent every time
        value = value.as_py()
    return "" if value is None else str(value)
