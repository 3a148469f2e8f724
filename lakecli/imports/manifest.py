"""Manifests as a source: lists of objects in Parquet, CSV or JSON lines, one row per object.

================  ====================================  =========================================
column            also called                           holds
================  ====================================  =========================================
path              key                                   path below the destination
physical_address  address, uri, url                     URI of the object: s3://BUCKET/KEY, …
size              size_bytes                            bytes
checksum          etag, e_tag                           changes with the contents
mtime             last_modified, modified_at            optional: RFC 3339 or unix seconds; now
content_type      mime_type                             optional: none
================  ====================================  =========================================

Column names are case-insensitive; other columns are ignored. CSV has the names in its first line.
Rows may have any order, but a Parquet file whose row groups are sorted by path is not sorted again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from io import BufferedReader
from itertools import chain, pairwise
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar

from lakecli.errors import IntegrityError, UsageError
from lakecli.imports import plain
from lakecli.imports.arrow import BadValue, Layout, keys_of, normalised, rows_of
from lakecli.imports.manifest_file import CSV, PARQUET, ManifestFile, csv_header, opened
from lakecli.imports.part import NotSorted, Part, Task
from lakecli.imports.plain import LineRange, Lines, iter_rows, ranges_of
from lakecli.imports.rows import ROWS_AT_ONCE, Failures, Rows

T = TypeVar("T")

ROWS_PER_PART: Final = 262_144
FOOTERS_AT_ONCE: Final = 16
"""Parquet files whose footers are read at the same time."""

CSV_BLOCK: Final = 4 << 20

NAMES: Final = {
    "path": ("path", "key"),
    "address": ("physical_address", "address", "uri", "url"),
    "size": ("size", "size_bytes"),
    "checksum": ("checksum", "etag", "e_tag"),
    "mtime": ("mtime", "last_modified", "modified_at"),
    "content_type": ("content_type", "mime_type"),
}
REQUIRED: Final = ("path", "address", "size", "checksum")


class Piece(NamedTuple):
    """Some of a manifest's rows.

    Attributes:
        file: the file.
        layout: names of its columns.
        groups: row groups of a Parquet file.
        lines: the lines of a text file; ``None``: all.
        names: names of the columns, for lines of CSV.
    """

    file: ManifestFile
    layout: Layout
    groups: tuple[int, ...] = ()
    lines: LineRange | None = None
    names: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Size in bytes of the text."""
        return self.file.size if self.lines is None else self.lines.end - self.lines.start

    def read(self, *, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield batches of the file's columns."""
        with opened(self.file) as whole:
            stream = whole
            if self.lines is not None:
                lines = Lines(whole, self.lines, is_quoted=self.file.kind == CSV)
                stream = BufferedReader(lines, CSV_BLOCK)
            if self.file.kind == PARQUET:
                from pyarrow.parquet import ParquetFile

                yield from ParquetFile(stream, pre_buffer=False).iter_batches(
                    ROWS_AT_ONCE,
                    row_groups=list(self.groups),
                    columns=list(columns or self.layout.columns()),
                )
            elif self.file.kind == CSV:
                names = self.names or self.file.names
                yield from _read_csv(stream, names, columns or self.layout.columns())
            else:
                start = 0 if self.lines is None else self.lines.start
                wanted = columns or self.layout.columns()
                yield from _read_json(iter_rows(stream, self.layout, wanted, start=start), wanted)

    def batches(self, now: int) -> Iterator[Any]:
        """Yield the objects in the columns of `arrow.schema`, in the order of the file."""
        yield from self._each(lambda batch: normalised(batch, self.layout, now=now))

    def iter_keys(self) -> Iterator[list[bytes]]:
        """Yield the keys of all rows, including old versions and delete markers."""
        yield from self._each(lambda batch: keys_of(batch, self.layout), [self.layout.path])

    def _each(
        self, convert: Callable[[Any], T], columns: Sequence[str] | None = None
    ) -> Iterator[T]:
        """Yield what each batch becomes; errors name the row."""
        before = 0
        for batch in self.read(columns=columns):
            if batch.num_rows:
                try:
                    found = convert(batch)
                except BadValue as error:
                    row = f"row {before + error.at + 1}{self._where()}"
                    raise IntegrityError(f"{row}: {error.message}", hint=error.hint) from error
                yield found
            before += batch.num_rows

    def _where(self) -> str:
        """Return where the rows begin, if that is not at the beginning of the file."""
        if self.groups:
            return f" of row group {self.groups[0]}"
        return f" after byte {self.lines.start}" if self.lines and self.lines.start else ""

    def identity(self) -> list[Any]:
        """Return JSON values that change whenever the rows do."""
        lines = [] if self.lines is None else [list(self.lines)]
        return [list(self.file), list(self.layout), list(self.groups), *lines]


class PiecesSource(NamedTuple):
    """Consecutive pieces of a sorted manifest."""

    pieces: tuple[Piece, ...]

    def rows(self, task: Task, failures: Failures) -> Iterator[Rows]:
        """Yield the objects, without checking their order."""
        del failures
        for piece in self.pieces:
            yield from map(rows_of, piece.batches(task.seconds))

    def identity(self) -> list[Any]:
        """Return JSON values that change whenever the objects do."""
        return ["manifest", [piece.identity() for piece in self.pieces]]


class Group(NamedTuple):
    """A row group: its piece, number of rows, and first and last key if the file states them."""

    piece: Piece
    rows: int
    first: bytes | None
    last: bytes | None


def layout_of(names: Iterable[str], what: str) -> Layout:
    """Return the layout of a manifest by the names of its columns.

    Args:
        names: names of the columns.
        what: name of the file, for the error.

    Raises:
        UsageError: a required column is missing.
    """
    names = list(names)
    present = {name.lower(): name for name in reversed(names)}
    found = {
        field: next((present[alias] for alias in aliases if alias in present), "")
        for field, aliases in NAMES.items()
    }
    missing = [NAMES[field][0] for field in REQUIRED if not found[field]]
    if missing:
        raise UsageError(
            f"{what} lacks the column {' and the column '.join(missing)}",
            hint=f"it has {', '.join(names) or 'no columns'}; "
            f"required are {', '.join(NAMES[field][0] for field in REQUIRED)}",
        )
    return Layout(
        path=found["path"],
        address=found["address"],
        size=found["size"],
        checksum=found["checksum"],
        mtime=found["mtime"],
        content_type=found["content_type"],
    )


def parquet_names(file: ManifestFile) -> list[str]:
    """Return the names of the columns of a Parquet file.

    Raises:
        IntegrityError: it is not a Parquet file.
    """
    from pyarrow.parquet import ParquetFile

    with opened(file) as stream:
        names: list[str] = ParquetFile(stream).schema_arrow.names
        return names


@lru_cache(maxsize=2)
def groups_of(files: tuple[ManifestFile, ...], layout: Layout) -> tuple[Group, ...]:
    """Return the row groups of Parquet files, in the files' order; footers are read once.

    Raises:
        UsageError: a file lacks a column that the others have.
        IntegrityError: it is not a Parquet file.
    """
    with ThreadPoolExecutor(min(FOOTERS_AT_ONCE, len(files) or 1)) as pool:
        return tuple(chain.from_iterable(pool.map(partial(_groups_of_file, layout), files)))


def _groups_of_file(layout: Layout, file: ManifestFile) -> list[Group]:
    from pyarrow.parquet import ParquetFile

    groups = []
    with opened(file) as stream:
        parquet = ParquetFile(stream)
        names = parquet.schema_arrow.names
        if not set(layout.columns()) <= set(names):
            lacking = ", ".join(sorted(set(layout.columns()) - set(names)))
            raise UsageError(f"{file.uri} lacks the column {lacking} that other files have")
        metadata = parquet.metadata
        column = names.index(layout.path)
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            statistics = group.column(column).statistics
            has_both = statistics is not None and statistics.has_min_max
            groups.append(
                Group(
                    Piece(file, layout, (number,)),
                    group.num_rows,
                    _bytes(statistics.min) if has_both else None,
                    _bytes(statistics.max) if has_both else None,
                )
            )
    return groups


def divided(file: ManifestFile, layout: Layout) -> list[Piece]:
    """Return pieces of a text file that tasks can read at the same time."""
    if file.is_gzip or file.size <= plain.RANGE:
        return [Piece(file, layout)]
    start, names = 0, file.names
    if file.kind == CSV and not names:
        start, names = csv_header(file)
    return [Piece(file, layout, (), lines, names) for lines in ranges_of(start, file.size)]


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def plan_groups(groups: Sequence[Group], prefix: bytes, high: bytes | None) -> Iterator[Part]:
    """Yield parts made of consecutive row groups.

    Raises:
        NotSorted: the row groups are not sorted by key, or overlap.
    """
    groups = [group for group in groups if group.rows]
    firsts = [group.first for group in groups]
    lasts = [group.last for group in groups]
    if len(groups) > 1:
        for last, following in pairwise(range(len(groups))):
            end, start = lasts[last], firsts[following]
            if end is None or start is None or end >= start:
                raise NotSorted("the row groups are not sorted by key")
    low = prefix
    taken: list[Piece] = []
    count = 0
    for number, group in enumerate(groups):
        if count and count + group.rows > ROWS_PER_PART:
            first = firsts[number]
            assert first is not None  # there are several groups
            yield Part(low, prefix + first, PiecesSource(tuple(taken)))
            low, taken, count = prefix + first, [], 0
        taken.append(group.piece)
        count += group.rows
    yield Part(low, high, PiecesSource(tuple(taken)))


def _read_csv(stream: BinaryIO, names: Sequence[str], columns: Sequence[str]) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv

    options = csv.ConvertOptions(
        column_types=dict.fromkeys(columns, pa.binary()),
        include_columns=list(columns),
        check_utf8=False,
        strings_can_be_null=False,
    )
    yield from csv.open_csv(
        stream,
        read_options=csv.ReadOptions(
            block_size=CSV_BLOCK, column_names=list(names) or None, use_threads=False
        ),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=options,
    )


def _read_json(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> Iterator[Any]:
    import pyarrow as pa

    taken: list[dict[str, Any]] = []

    def batch() -> Any:  # noqa: ANN401
        return pa.RecordBatch.from_pydict(
            {name: _column([item.get(name) for item in taken]) for name in columns}
        )

    for item in rows:
        taken.append(item)
        if len(taken) >= ROWS_AT_ONCE:
            yield batch()
            taken.clear()
    if taken:
        yield batch()


def _column(values: list[Any]) -> Any:  # noqa: ANN401
    """Return values as a column; text is encoded as in lakecli's own JSON."""
    import pyarrow as pa

    if any(isinstance(value, str) for value in values):
        return pa.array(
            [
                value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
                for value in values
            ],
            pa.binary(),
        )
    return pa.array(values)
