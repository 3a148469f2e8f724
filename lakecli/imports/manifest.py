"""Manifests as a source: lists of objects in Parquet, CSV or JSON lines, one row per object.

================  ====================================  =========================================
column            also called                           holds
================  ====================================  =========================================
path              key                                   path below the destination
physical_address  address, uri, url                     URI of the object: s3://BUCKET/KEY, …
size              size_bytes                            size in bytes
checksum          etag, e_tag                           text that changes with the contents
mtime             last_modified, modified_at            RFC 3339 or unix seconds (default: now)
content_type      mime_type                             content type (default: none)
================  ====================================  =========================================

Column names are case-insensitive; other columns are ignored. CSV has the names in its first line.
Rows may have any order, but a Parquet file whose row groups are sorted by path is not sorted again.
"""

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, partial
from io import BufferedReader
from itertools import chain, islice, pairwise, product
from operator import attrgetter
from pathlib import Path
from textwrap import shorten
from typing import Any, BinaryIO, Final, NamedTuple, cast

from lakecli.base.model import NO_ACCOUNT, Account
from lakecli.engine.runner import Runner, open_by_uri
from lakecli.errors import IntegrityError, NotFound, Unsupported, UsageError, install_command
from lakecli.imports import manifest_rows, model
from lakecli.imports.manifest_rows import MAX_TEXT_SIZE, BadValue, Layout
from lakecli.repository.reading.addresses import split_address
from lakecli.stores import streams
from lakecli.stores.contract import ConditionFailed, ObjectInfo, ObjectStore
from lakecli.stores.local.files import version_of

PARQUET, CSV, JSON_LINES = "parquet", "csv", "jsonl"

KINDS: Final = {".parquet": PARQUET, ".csv": CSV, ".jsonl": JSON_LINES, ".ndjson": JSON_LINES}
"""The kind of a manifest by the suffix of its name."""

NAMES: Final = {
    "path": ("path", "key"),
    "address": ("physical_address", "address", "uri", "url"),
    "size": ("size", "size_bytes"),
    "checksum": ("checksum", "etag", "e_tag"),
    "mtime": ("mtime", "last_modified", "modified_at"),
    "content_type": ("content_type", "mime_type"),
}
REQUIRED: Final = ("path", "address", "size", "checksum")

ROWS_PER_PART: Final = 262_144
"""Maximum number of rows of a part, unless a single row group has more."""

ROW_SIZE: Final = 150
"""Approximate bytes of a row of text that is not compressed."""

GZIP_ROW_SIZE: Final = 25
"""Approximate bytes of a row of text that is compressed by gzip."""

FOOTERS_AT_ONCE: Final = 16
"""Number of Parquet files whose footers are read at the same time."""

READ_AHEAD: Final = 4 << 20
"""Size of the buffer, in bytes, of an object that is read with ranged requests."""


class ManifestFile(NamedTuple):
    """One file of a manifest.

    Attributes:
        kind: `PARQUET`, `CSV` or `JSON_LINES`.
        version: the version that is read; another version is an error. ``""``: unknown.
        names: column names of a CSV file without a line of names.
        md5: the MD5 that an inventory states, or ``""``.
    """

    uri: str
    kind: str
    version: str
    size: int
    is_gzip: bool = False
    names: tuple[str, ...] = ()
    account: Account = NO_ACCOUNT
    md5: str = ""

    @property
    def rows(self) -> int:
        """Number of rows of a text file, estimated by its size."""
        return self.size // (GZIP_ROW_SIZE if self.is_gzip else ROW_SIZE)


class ManifestPiece(NamedTuple):
    """Some rows of a manifest: a text file, or row groups of a Parquet file."""

    file: ManifestFile
    layout: Layout
    groups: tuple[int, ...] = ()

    def rows(self, now: int) -> Iterator[model.Rows]:
        """Yield the objects, in the order of the file.

        Args:
            now: the modification time for objects whose time is not in the manifest, in unix
                seconds.

        Raises:
            IntegrityError: a value is missing or malformed; the error names its row.
        """
        if self.file.kind == PARQUET:
            before = 0
            for batch in self._batches(self.layout.columns()):
                try:
                    yield manifest_rows.rows_of_parquet(batch, self.layout, now=now)
                except BadValue as error:
                    row = f"row {before + error.at + 1} of row group {self.groups[0]}"
                    raise IntegrityError(f"{row}: {error.message}", hint=error.hint) from error
                before += batch.num_rows
            return
        with opened(self.file) as stream:
            if self.file.kind == CSV:
                found = manifest_rows.csv_records(stream, self.file.names)
            else:
                found = manifest_rows.json_records(stream)
            yield from manifest_rows.rows_of_records(found, self.layout, now=now)

    def iter_keys(self) -> Iterator[list[bytes]]:
        """Yield the keys of the rows; for Parquet, also of old versions and delete markers."""
        if self.file.kind == PARQUET:
            for batch in self._batches([self.layout.path]):
                yield manifest_rows.keys_of(batch, self.layout)
        else:
            yield from (rows.keys for rows in self.rows(0))

    def _batches(self, columns: list[str]) -> Iterator[Any]:
        from pyarrow.parquet import ParquetFile

        with opened(self.file) as stream:
            open_parquet = partial(ParquetFile, stream, pre_buffer=False)
            plain = open_parquet()
            leaves = {plain.schema.column(at).path for at in range(len(plain.schema))}
            flat = [name for name in columns if name in leaves]  # nested columns are refused later
            looked = open_parquet(metadata=plain.metadata, read_dictionary=flat)
            for number, name in product(self.groups, flat):
                _check_dictionary(looked, number, name, self.file.uri)
            yield from plain.iter_batches(model.ROWS_AT_ONCE, list(self.groups), columns)

    def identity(self) -> list[Any]:
        """Return JSON values that change whenever the rows change."""
        return [list(self.file), list(self.layout), list(self.groups)]


def _check_dictionary(parquet: Any, group: int, column: str, uri: str) -> None:  # noqa: ANN401
    """Refuse a Parquet file if a dictionary in it has a text that is too long.

    With a dictionary, a few bytes can repeat the text in many rows.
    """
    try:
        for batch in islice(parquet.iter_batches(1, [group], [column]), 1):
            manifest_rows.check_dictionaries(batch)
    except OSError as error:
        # Arrow cannot return delta-encoded values as a dictionary. If the file is damaged, reading
        # its rows fails, too.
        if error.errno is not None:
            raise
    except BadValue as error:
        message = f"{uri}: row group {group}: {error.message}"
        raise IntegrityError(message, hint=error.hint) from error


class PiecesSource(NamedTuple):
    """Consecutive pieces of a sorted manifest, as the source of a part."""

    pieces: tuple[ManifestPiece, ...]

    def rows(self, task: model.Task, failures: model.Failures) -> Iterator[model.Rows]:
        """Yield the objects, without checking their order."""
        del failures
        return chain.from_iterable(piece.rows(task.seconds) for piece in self.pieces)

    def identity(self) -> list[Any]:
        """Return JSON values that change whenever the objects change."""
        return ["manifest", [piece.identity() for piece in self.pieces]]


class Manifest(NamedTuple):
    """A manifest: files that list objects."""

    files: tuple[ManifestFile, ...]
    layout: Layout

    @property
    def is_parquet(self) -> bool:
        """Whether the files are in Parquet, so that the number of rows is known."""
        return not self.files or self.files[0].kind == PARQUET

    @property
    def size(self) -> int:
        """Total size of the files in bytes."""
        return sum(file.size for file in self.files)

    def estimate(self) -> int:
        """Return the number of rows of Parquet files; for text files, estimate it from their size.

        If a Parquet file claims more rows than it has bytes, the number of bytes is used.
        """
        return min(self.size, sum(rows for _, rows in self.pieces()))

    def known_rows(self) -> int | None:
        """Return the number of objects; ``None`` for text files, or if rows may be old versions."""
        has_all = self.is_parquet and not (self.layout.latest or self.layout.deleted)
        return self.estimate() if has_all else None

    def pieces(self) -> list[tuple[ManifestPiece, int]]:
        """Return pieces that can be read in parallel, each with its approximate number of rows."""
        if self.is_parquet:
            return [(group.piece, group.rows) for group in groups_of(self.files, self.layout)]
        return [(ManifestPiece(file, self.layout), file.rows) for file in self.files]

    def plan(self, task: model.Task, runner: Runner, high: bytes | None) -> model.Parts:
        """Yield the parts that cover all keys from the prefix up to `high`, in order.

        Raises:
            NotSorted: the manifest is text, or its row groups are not sorted by key.
        """
        del runner
        if not self.is_parquet:
            raise model.NotSorted("the manifest may not be sorted by key")
        return plan_groups(groups_of(self.files, self.layout), task.prefix, high)

    def origin(self) -> str:
        """Return a digest that changes whenever the objects change."""
        return model.digest_of([[list(file) for file in self.files], list(self.layout)])


class RowGroup(NamedTuple):
    """A row group: its piece, number of rows and, if there are statistics, first and last key."""

    piece: ManifestPiece
    rows: int
    first: bytes | None
    last: bytes | None


@lru_cache(maxsize=2)
def groups_of(files: tuple[ManifestFile, ...], layout: Layout) -> tuple[RowGroup, ...]:
    """Return the row groups of Parquet files, in the files' order; read each footer once.

    Raises:
        UsageError: a file lacks a column that the other files have.
        IntegrityError: a file is not a Parquet file.
    """
    with ThreadPoolExecutor(min(FOOTERS_AT_ONCE, len(files) or 1)) as pool:
        return tuple(chain.from_iterable(pool.map(partial(_groups_of_file, layout), files)))


def _groups_of_file(layout: Layout, file: ManifestFile) -> list[RowGroup]:
    from pyarrow.parquet import ParquetFile

    groups = []
    with opened(file) as stream:
        parquet = ParquetFile(stream)
        names = parquet.schema_arrow.names
        wanted = set(layout.columns())
        if not wanted <= set(names):
            lacking = ", ".join(sorted(wanted - set(names)))
            raise UsageError(f"{file.uri} lacks the column {lacking} that other files have")
        _check_unique(names, wanted, file.uri)
        metadata = parquet.metadata
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            first = last = None
            for leaf in map(group.column, range(group.num_columns)):
                if (
                    leaf.path_in_schema.partition(".")[0] in wanted
                    and leaf.total_uncompressed_size > (group.num_rows + 1) * MAX_TEXT_SIZE
                ):
                    raise IntegrityError(
                        f"{file.uri}: column {leaf.path_in_schema!r} of row group {number} has "
                        f"{leaf.total_uncompressed_size:,} bytes for {group.num_rows:,} rows",
                        hint=f"a text of a manifest has at most {MAX_TEXT_SIZE:,} bytes",
                    )
                if leaf.path_in_schema == layout.path and leaf.physical_type == "BYTE_ARRAY":
                    statistics = leaf.statistics
                    if statistics is not None and statistics.has_min_max:
                        first, last = statistics.min_raw, statistics.max_raw
            piece = ManifestPiece(file, layout, (number,))
            groups.append(RowGroup(piece, group.num_rows, first, last))
    return groups


def _check_unique(names: Sequence[str], wanted: Iterable[str], what: str) -> None:
    for name in wanted:
        if name and names.count(name) > 1:
            hint = "leave out all but one of them"
            raise UsageError(f"{what} has several columns of the name {name!r}", hint=hint)


def plan_groups(groups: Sequence[RowGroup], prefix: bytes, high: bytes | None) -> model.Parts:
    """Yield parts of consecutive row groups; raise `NotSorted` if the groups are not in order."""
    groups = [group for group in groups if group.rows]
    for group, following in pairwise(groups):
        if group.last is None or following.first is None or group.last >= following.first:
            raise model.NotSorted("the row groups are not sorted by key")
    parts = list(streams.groups_of(groups, attrgetter("rows"), most=ROWS_PER_PART)) or [[]]
    starts = [prefix + (part[0].first or b"") for part in parts[1:]]
    for part, low, end in zip(parts, [prefix, *starts], [*starts, high], strict=True):
        pieces = tuple(group.piece for group in part)
        yield model.ImportPart(low, end, PiecesSource(pieces))


def manifest_of(files: Sequence[ManifestFile], uri: str) -> Manifest:
    """Return the manifest that consists of some files.

    Raises:
        UsageError: there is no file, or a required column is missing.
        IntegrityError: a file cannot be read.
        Unsupported: the files are in Parquet, and Arrow is not installed.
    """
    if not files:
        hint = "name a file or directory of Parquet, CSV or JSON lines"
        raise UsageError(f"no manifest at {uri}", hint=hint)
    first = files[0]
    if first.kind == PARQUET:
        check_arrow(first.uri)
    with opened(first) as stream:
        if first.kind == PARQUET:
            from pyarrow.parquet import ParquetFile

            names = ParquetFile(stream).schema_arrow.names
        elif first.kind == CSV:
            names = manifest_rows.csv_names(stream)
        else:
            names = manifest_rows.json_names(stream)
    layout = layout_of(names, first.uri)
    if first.kind == JSON_LINES and not layout.content_type:
        # Spark leaves out fields that are null, and only a later object may have a content type.
        layout = layout._replace(content_type=NAMES["content_type"][0])
    return Manifest(tuple(files), layout)


def layout_of(names: Iterable[str], what: str) -> Layout:
    """Return the layout of a manifest from the names of its columns.

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
            hint=f"it has {shorten(', '.join(names), 1_000) or 'no columns'}; "
            f"required are {', '.join(NAMES[field][0] for field in REQUIRED)}",
        )
    _check_unique(names, found.values(), what)
    return Layout(**found)  # type: ignore[arg-type]  # the others have defaults


def check_arrow(uri: str) -> None:
    """Raise `Unsupported` if Arrow, which reads Parquet, is not installed."""
    try:
        import pyarrow  # noqa: F401, ICN001 - tests the installation
    except ImportError:
        raise Unsupported(
            f"reading Parquet needs pyarrow, which is not installed: {uri}",
            hint=f"{install_command('spark')}; or use a manifest in CSV or JSON lines",
        ) from None


def file_at(uri: str, account: Account) -> ManifestFile | None:
    """Return the file at a URI as a file of a manifest; ``None`` if the file does not exist.

    The kind of the file is ``""`` if the suffix of its name is unknown.
    """
    bucket, key = split_address(uri)
    try:
        info = open_by_uri(bucket, account=account).head(key)
    except NotFound:
        return None
    return _file_of(uri, info, account)


def files_below(uri: str, account: Account) -> list[ManifestFile]:
    """Return the files of a manifest in a directory or below a prefix, as Spark writes them.

    Raises:
        UsageError: there are files of several kinds.
    """
    files = [
        _file_of(f"{uri.rstrip('/')}/{info.key}", info, account)
        for info in open_by_uri(uri, account=account).list()
        if info.size and not info.key.rpartition("/")[2].startswith(("_", "."))
    ]
    files = [file for file in files if file.kind]
    kinds = {file.kind for file in files}
    if len(kinds) > 1:
        raise UsageError(f"the manifest has files of several kinds: {', '.join(sorted(kinds))}")
    return files


def _file_of(uri: str, info: ObjectInfo, account: Account) -> ManifestFile:
    is_gzip = uri.endswith(".gz")
    version = str(info.version)
    return ManifestFile(uri, kind_of(uri), version, info.size, is_gzip=is_gzip, account=account)


def kind_of(name: str) -> str:
    """Return the kind of a manifest by the suffix of its name; ``""`` if the suffix is unknown."""
    plain = name.removesuffix(".gz")
    for suffix, kind in KINDS.items():
        if plain.endswith(suffix) and (plain == name or kind != PARQUET):
            return kind
    return ""


@contextmanager
def opened(file: ManifestFile) -> Iterator[BinaryIO]:
    """Open a file of a manifest; translate errors of Arrow and gzip about its contents.

    Raises:
        ObjectNotFound: the file does not exist.
        IntegrityError: the file is not of its kind, damaged, or another version than `file`.
    """
    problems: tuple[type[Exception], ...] = (OSError, zlib.error, EOFError)
    if file.kind == PARQUET:
        import pyarrow as pa

        problems = (OSError, pa.ArrowException)
    stream = open_object(file.uri, file.account, version=file.version)
    try:
        yield cast("BinaryIO", gzip.GzipFile(fileobj=stream)) if file.is_gzip else stream
    except problems as error:
        if getattr(error, "errno", None) is not None:
            raise  # errors of Arrow and gzip about the contents have no error number
        lines = str(error).splitlines()
        raise IntegrityError(
            f"cannot read {file.uri} as {file.kind}: {lines[0] if lines else 'it ends too soon'}",
            hint="a manifest is Parquet, CSV with a line of names, or JSON lines",
        ) from error
    finally:
        stream.close()


def open_object(uri: str, account: Account = NO_ACCOUNT, *, version: str = "") -> BinaryIO:
    """Open an object or a file at a URI, for reading at any position.

    Args:
        version: the version that the object must have; ``""``: any version.

    Raises:
        ObjectNotFound: the object does not exist.
        IntegrityError: the object has another version; later reads raise it, too.
    """
    bucket, key = split_address(uri)
    store = open_by_uri(bucket, account=account)
    path = store.local_path(key)
    if path is None:
        return BufferedReader(_RangedReads(store, key, uri, version), READ_AHEAD)
    file = Path(path).open("rb")  # noqa: SIM115 - the caller closes it
    # Machines that share a directory may have different inodes, the middle part of a version.
    if version and version_of(os.fstat(file.fileno())).split("-")[::2] != version.split("-")[::2]:
        file.close()
        raise _changed(uri)
    return file


def _changed(uri: str) -> IntegrityError:
    return IntegrityError(
        f"the manifest changed while it was read: {uri}",
        hint="nothing was imported; repeat it when the manifest is complete",
    )


class _RangedReads(streams.Seekable):
    """One version of an object that is read with ranged requests."""

    def __init__(self, store: ObjectStore, key: str, uri: str, version: str) -> None:
        info = store.head(key)
        if version and info.version != version:
            raise _changed(uri)
        super().__init__(info.size)
        self._store = store
        self._key = key
        self._uri = uri
        self._tag = info.etag or str(info.version)

    def read_at(self, start: int, length: int) -> bytes:
        try:
            return self._store.get(self._key, start=start, length=length, matching=self._tag)
        except ConditionFailed:
            raise _changed(self._uri) from None
