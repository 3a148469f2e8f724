"""Fetch a table's files through lakecli's stores, where Spark has no connector.

Rows contain the number of their file's directory, by which the driver joins the partition columns.
"""

from __future__ import annotations

import bz2
import gzip
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, cast

import pyarrow as pa

from lakecli.engine.store_location import StoreLocation
from lakecli.errors import NotFound, Unsupported
from lakecli.stores.contract import ObjectNotFound
from lakecli.stores.streams import Seekable

if TYPE_CHECKING:
    from concurrent.futures import Future

    from typing_extensions import Buffer

TASK_SIZE: Final = 32 << 20
"""Approximate bytes of the files that one task reads."""

OPEN_COST: Final = 1 << 20
"""Bytes that opening a file counts as."""


PIECE: Final = 1 << 20
LINES: Final = 10_000
"""Lines in a batch, at most."""

READ_AHEAD: Final = 1 << 20
"""Bytes fetched at a time, at least: a request alone takes about as long."""

WHOLE: Final = 4 << 20
"""Files up to this size are fetched by one request, however little is read of them."""

AT_ONCE: Final = 8
"""Small files that a task fetches at the same time, as each request takes a while."""

_BOM: Final = b"\xef\xbb\xbf"


class Remote(NamedTuple):
    """A file to read.

    Attributes:
        name: below the table's path.
        address: relative to the storage namespace, or a full URI.
        size: size in bytes.
        directory: number of the file's directory.
    """

    name: str
    address: str
    size: int
    directory: int


def gone(location: StoreLocation, file: Remote) -> NotFound:
    """Return the error of a file whose data object is missing."""
    where = file.address if "://" in file.address else f"{location.uri}/{file.address}"
    return NotFound(
        f"the data object of {file.name} is missing: {where}",
        hint="check the repository by fsck, which names all paths that need the object",
    )


class ObjectFile(Seekable):
    """An object as a seekable file, fetched in pieces of at least `READ_AHEAD` bytes."""

    def __init__(self, location: StoreLocation, file: Remote, data: bytes = b"") -> None:
        super().__init__(file.size)
        self._location = location
        self._file = file
        self._store, self._key = location.addresses().locate(file.address)
        self._ahead = data
        self._ahead_at = 0

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes from the position, or fewer at the end of the object."""
        left = max(0, self._file.size - self._position)
        size = left if size < 0 else min(size, left)
        if self._file.size <= WHOLE and not self._ahead:
            self._ahead = self._get(0, self._file.size)
        start = self._position - self._ahead_at
        if not 0 <= start <= start + size <= len(self._ahead):
            self._ahead = self._get(self._position, max(size, min(READ_AHEAD, left)))
            self._ahead_at, start = self._position, 0
        piece = self._ahead[start : start + size]
        self._position += len(piece)
        return piece

    def readinto(self, buffer: Buffer) -> int:
        """Fill a buffer, or less of it at the end of the object."""
        view = memoryview(buffer).cast("B")
        piece = self.read(len(view))
        view[: len(piece)] = piece
        return len(piece)

    def _get(self, start: int, size: int) -> bytes:
        try:
            return self._store.get(self._key, start=start, length=size)
        except ObjectNotFound:
            raise gone(self._location, self._file) from None


def fetched(location: StoreLocation, files: Sequence[Remote]) -> Iterator[ObjectFile]:
    """Yield files in order, while the small ones among the next few are fetched."""

    def fetch(file: Remote) -> ObjectFile:
        data = b""
        if file.size <= WHOLE:
            with ObjectFile(location, file) as whole:
                data = whole.read()
        return ObjectFile(location, file, data)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        waiting: deque[Future[ObjectFile]] = deque()
        for file in files:
            waiting.append(pool.submit(fetch, file))
            if len(waiting) > AT_ONCE:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def line_batches(
    location: StoreLocation, file: Remote, schema: pa.Schema, *, skip: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the lines of a text file that are not blank, except the first if `skip`."""
    waiting: list[bytes] = []
    for line in iter_lines(location, file):
        if not line.strip():
            continue
        if skip:
            skip = False
            continue
        waiting.append(line)
        if len(waiting) >= LINES:
            yield _lines(waiting, schema, file)
            waiting = []
    if waiting:
        yield _lines(waiting, schema, file)


def _lines(lines: list[bytes], schema: pa.Schema, file: Remote) -> pa.RecordBatch:
    arrays = [
        pa.array(lines, pa.binary()).view(pa.string()),
        pa.repeat(pa.scalar(file.directory, pa.int32()), len(lines)),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def iter_lines(location: StoreLocation, file: Remote) -> Iterator[bytes]:
    """Yield the lines of a text file, decompressed by the suffix of its name.

    Raises:
        Unsupported: the compression is not supported.
    """
    store, key = location.addresses().locate(file.address)
    try:
        opened = store.open(key)
    except ObjectNotFound:
        raise gone(location, file) from None
    with opened as packed:
        source = _unpacked(packed, file.name)
        rest = source.read(len(_BOM)).removeprefix(_BOM)
        while piece := source.read(PIECE):
            rest += piece
            # After a carriage return at the end a line feed may follow.
            *lines, rest = rest.splitlines(keepends=True)
            yield from (line.rstrip(b"\r\n") for line in lines)
        yield from rest.splitlines()


def _unpacked(source: BinaryIO, name: str) -> BinaryIO:
    suffix = name.rpartition("/")[2].rpartition(".")[2].lower() if "." in name else ""
    if suffix == "gz":
        return cast("BinaryIO", gzip.open(source))
    if suffix == "bz2":
        return cast("BinaryIO", bz2.open(source))
    if suffix in {"snappy", "lz4", "zst", "zstd", "deflate"}:
        raise Unsupported(
            f"{name} is compressed by {suffix}, which is not supported in a bucket",
            hint="use gz or bz2, or download the files and read them there",
        )
    return source


def tasks_of(files: Sequence[Remote]) -> list[list[Remote]]:
    """Return the files of each task."""
    tasks: list[list[Remote]] = []
    size = 0
    for file in files:
        if not tasks or size + file.size > TASK_SIZE:
            tasks.append([])
            size = 0
        tasks[-1].append(file)
        size += file.size + OPEN_COST
    return tasks


def serialised(schema: Any) -> bytes:  # noqa: ANN401 - an Arrow schema
    """Return a schema as bytes."""
    return bytes(schema.serialize())
