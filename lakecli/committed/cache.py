"""The cache of one repository's SSTables in local files, with a size limit.

The directory also contains the outlines of metaranges. Tables never change, so a cached file is
never stale. Several processes share the directory: a process adds a table by a rename, and may
evict any table at any moment. The least recently used files are evicted first.

The directory also records how many reads of trees each tier answered (memory, the disk on this
machine, or the bucket), so that `lakecli doctor` can show the counts of all processes. A process
adds its counts when it closes its repository. The counts are not flushed to disk, so a crash of the
machine may lose some of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from math import inf
from struct import Struct
from time import monotonic
from typing import Final, Literal

from blake3 import blake3

from lakecli.base.directories import StrPath, make_private
from lakecli.base.identity import DIGEST_SIZE
from lakecli.base.ids import HexId
from lakecli.base.temporary_files import replacing

DEFAULT_SIZE_LIMIT = 1 << 30

_MARK_AGAIN = 60
"""Seconds after which another use of a table is marked, which other processes evict by."""

_KEPT = 0.9
"""Fraction of the limit that an eviction leaves in use, so that the next table evicts nothing."""


class SstableCache:
    """A directory of tables, each named by its ID. Safe to share between threads and processes.

    The size limit is only approximate while several threads write.

    Args:
        directory: a directory for this repository only, since tables of equal name may differ
            between repositories. It is created on the first write.
        size_limit: the largest total size of the files, in bytes.
        secret: a function that returns the 32-byte key that authenticates outlines: an outline is
            trusted only if this home wrote it. Other writers of the directory must not know the
            key. ``None``: no outlines are kept.
    """

    def __init__(
        self,
        directory: StrPath,
        *,
        size_limit: int = DEFAULT_SIZE_LIMIT,
        secret: Callable[[], bytes | None] = lambda: None,
    ) -> None:
        self._directory = os.fspath(directory)
        self._size_limit = size_limit
        self._secret = secret
        self._size: int | None = None  # unknown until the directory was read once
        self._used: dict[str, float] = {}
        """When this process last marked a table as used."""

    def find_outline(self, table_id: str) -> Outlined | None:
        """Return the stored outline of a metarange and mark it as used, or return ``None``."""
        path = self._path(table_id) + OUTLINE_SUFFIX
        with suppress(OSError):
            os.utime(path)
            return read_outline(path, self._secret())
        return None

    def put_outline(self, table_id: str, outline: Outlined) -> None:
        """Write the outline of a metarange; the metarange itself need not be in the cache."""
        path = self._path(table_id) + OUTLINE_SUFFIX
        secret = self._secret()
        if secret is not None:
            self._write(path, *_sealed(path, outline, secret))

    def find(self, table_id: str) -> str | None:
        """Return the path of a table's file and mark it as used, or ``None``."""
        path = self._path(table_id)
        try:
            if monotonic() < self._used.get(table_id, -inf) + _MARK_AGAIN:
                return path if os.path.exists(path) else None
            os.utime(path)
        except OSError:
            return None
        self._used[table_id] = monotonic()
        return path

    def put(self, table_id: str, data: bytes) -> None:
        """Keep a table, and evict the least recently used files if the limit is exceeded.

        If the cache cannot be written (full disk, no permission), the table is not kept, and no
        error is raised.
        """
        if self._write(self._path(table_id), data):
            self._used[table_id] = monotonic()

    def drop(self, table_id: str) -> None:
        """Remove a table from the cache."""
        path = self._path(table_id)
        self._used.pop(table_id, None)
        with suppress(OSError):
            os.unlink(path)

    def add_reads(self, reads: Reads) -> None:
        """Add to the recorded counts of reads; if the write fails, the counts are lost."""
        if not any(reads.values()):
            return
        file = os.path.join(self._directory, READS_FILE)
        record = _RECORD.pack(*map(reads.__getitem__, _TIERS))
        with suppress(OSError):
            make_private(self._directory)
            with open(file, "ab", buffering=0, opener=partial(os.open, mode=0o600)) as counts:
                counts.write(record)
                size = os.fstat(counts.fileno()).st_size
            if size >= _MAX_SIZE:
                total = kept_reads(self._directory)
                with replacing(file, is_durable=False) as written:
                    written.write(_RECORD.pack(*total.values()))

    def _write(self, path: str, *parts: bytes) -> bool:
        """Write a file of the cache, evicting other files; return whether the file was written."""
        size = sum(map(len, parts))
        if size > self._size_limit:
            with suppress(OSError):
                self._evict(0)  # the directory may be full from the time of a larger limit
            return False
        is_written = False
        with suppress(OSError):
            make_private(self._directory)
            with replacing(path, is_durable=False) as file:
                file.writelines(parts)
            is_written = True
            self._evict(size)
        return is_written

    def _path(self, table_id: str) -> str:
        """Return the path of a table's file; only IDs are accepted, so no path can leave the cache.

        Raises:
            MalformedId: `table_id` is not an ID.
        """
        return os.path.join(self._directory, HexId(table_id))

    def _evict(self, added: int) -> None:
        if self._size is not None:
            self._size += added
            if self._size <= self._size_limit:
                return
        found = ((name, status) for name, status in _files(self._directory) if name != READS_FILE)
        files = [(status.st_mtime_ns, name, status.st_size) for name, status in found]
        total = sum(size for _, _, size in files)
        if total > self._size_limit:
            for _, name, size in sorted(files):
                if total <= self._size_limit * _KEPT:
                    break
                self._used.pop(name, None)
                with suppress(OSError):
                    os.unlink(os.path.join(self._directory, name))
                total -= size
        self._size = total


Outlined = tuple[bytes, bytes]
"""An outline in two parts, as `lakecli.committed.outline` encodes it."""


def read_outline(path: str, secret: bytes | None) -> Outlined | None:
    """Return the outline in a file of the cache, or ``None`` if this home did not write the file.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb", buffering=0) as file:
        seal, size = file.read(DIGEST_SIZE), file.read(_SIZE.size)
        if secret is None or len(size) < _SIZE.size:
            return None
        first = file.read(min(*_SIZE.unpack(size), os.fstat(file.fileno()).st_size))
        found = first, file.read()
    return found if next(_sealed(path, found, secret)) == seal else None


def _sealed(path: str, outline: Outlined, secret: bytes) -> Iterator[bytes]:
    """Yield the parts of an outline's file; the first is a BLAKE3 digest keyed with `secret`."""
    parts = _SIZE.pack(len(outline[0])), *outline
    digest = blake3(os.path.basename(path).encode(), key=secret)
    for part in parts:
        digest.update(part)
    yield digest.digest()
    yield from parts


def size_of(directory: StrPath) -> int:
    """Return the total size of the files in a cache directory; 0 if it cannot be read."""
    with suppress(OSError):
        return sum(status.st_size for _, status in _files(directory))
    return 0


def _files(directory: StrPath) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the name and the status of each file of a cache directory."""
    with os.scandir(directory) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                yield entry.name, entry.stat()


Tier = Literal["memory", "disk", "bucket"]
Reads = dict[Tier, int]

MEMORY: Final = "memory"
DISK: Final = "disk"
"""The tier of the cached files, or of the files of a namespace that is a local directory."""
BUCKET: Final = "bucket"

_TIERS: Final[tuple[Tier, ...]] = (MEMORY, DISK, BUCKET)
"""The tiers in the order in which a record lists their counts."""

OUTLINE_SUFFIX: Final = ".outline1"
"""Suffix of the file name of an outline, after the metarange's ID; 1 is the format's version."""

READS_FILE: Final = ".reads"
"""The name of the file in a cache directory that counts reads."""

_SIZE: Final = Struct("<Q")
_RECORD: Final = Struct("<3Q")
_MAX_SIZE: Final = _RECORD.size << 10
_MOST: Final = (1 << 64) - 1


def kept_reads(directory: StrPath) -> Reads:
    """Return the read counts that a cache directory records; all are 0 if they cannot be read."""
    data = b""
    with suppress(OSError), open(os.path.join(directory, READS_FILE), "rb") as file:
        data = file.read(2 * _MAX_SIZE)
    whole = len(data) - len(data) % _RECORD.size
    columns = zip(*_RECORD.iter_unpack(data[:whole]), strict=True)
    totals = [min(sum(column), _MOST) for column in columns] or [0] * len(_TIERS)
    return dict(zip(_TIERS, totals, strict=True))


def reads_text(reads: Reads) -> str:
    """Return counts of reads as text: ``5 (3 from memory, 1 from disk, 1 from the bucket)``."""
    total = sum(reads.values())
    if not total:
        return "0"
    here = f"{reads[MEMORY]:,} from memory, {reads[DISK]:,} from disk"
    return f"{total:,} ({here}, {reads[BUCKET]:,} from the bucket)"
