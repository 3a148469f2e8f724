"""The cache of one repository's SSTables in local files, up to a size.

Tables never change, so a cached file is never stale. Several processes share the directory: a table
appears by a rename and may be evicted at any moment. The least recently used tables go first.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from lakecli.committed import reads
from lakecli.directories import make_private
from lakecli.ids import HexId

if TYPE_CHECKING:
    from lakecli.committed.reads import Reads
    from lakecli.directories import StrPath

DEFAULT_SIZE_LIMIT = 1 << 30

_KEPT = 0.9
"""The part of the limit that an eviction leaves filled, so that not every table causes one."""


class SstableCache:
    """A directory of tables, each named by its ID. Safe to share between threads and processes.

    Its size is only approximate while several threads write.

    Args:
        directory: for one repository only, since tables of equal name may differ between
            repositories. Created on the first write.
        size_limit: of all files together, in bytes.
    """

    def __init__(self, directory: StrPath, *, size_limit: int = DEFAULT_SIZE_LIMIT) -> None:
        self._directory = os.fspath(directory)
        self._size_limit = size_limit
        self._size: int | None = None  # unknown until the directory was read once
        self._used: set[str] = set()

    def find(self, table_id: str) -> str | None:
        """Return the path of a table's file and mark it as used, or ``None``."""
        path = self._path(table_id)
        try:
            if table_id in self._used:
                return path if os.path.exists(path) else None
            os.utime(path)
        except OSError:
            return None
        self._used.add(table_id)
        return path

    def put(self, table_id: str, data: bytes) -> None:
        """Keep a table, and evict others if the limit is exceeded.

        A cache that cannot be written (full disk, no permission) keeps nothing and raises nothing.
        """
        path = self._path(table_id)
        if len(data) > self._size_limit:
            with suppress(OSError):
                self._evict(0)  # what a larger limit left
            return
        with suppress(OSError):
            make_private(self._directory)
            self._write(path, data)
            self._used.add(table_id)
            self._evict(len(data))

    def drop(self, table_id: str) -> None:
        """Forget a table."""
        path = self._path(table_id)
        self._used.discard(table_id)
        with suppress(OSError):
            os.unlink(path)

    def add_reads(self, counts: Reads) -> None:
        """Add to the counts of reads that are kept beside the tables; a failure loses them."""
        reads.add_reads(self._directory, counts)

    def _path(self, table_id: str) -> str:
        """Return the file of a table; only an ID is accepted, so no name can leave the directory.

        Raises:
            MalformedId: `table_id` is not an ID.
        """
        return os.path.join(self._directory, HexId(table_id))

    def _write(self, path: str, data: bytes) -> None:
        import tempfile  # takes milliseconds to import, and most commands cache nothing

        with tempfile.NamedTemporaryFile(dir=self._directory, prefix=".", delete=False) as file:
            temporary = os.path.join(self._directory, file.name)
            try:
                file.write(data)
                file.flush()
                os.replace(temporary, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise

    def _evict(self, added: int) -> None:
        if self._size is not None:
            self._size += added
            if self._size <= self._size_limit:
                return
        files = []
        total = 0
        with os.scandir(self._directory) as entries:
            for entry in entries:
                if entry.name == reads.FILE:
                    continue
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    files.append((status.st_mtime_ns, entry.name, status.st_size))
                    total += status.st_size
        if total > self._size_limit:
            files.sort()
            for _, name, size in files:
                if total <= self._size_limit * _KEPT:
                    break
                self._used.discard(name)
                with suppress(OSError):
                    os.unlink(os.path.join(self._directory, name))
                total -= size
        self._size = total


def size_of(directory: StrPath) -> int:
    """Return the bytes of the tables in the directory of a cache; 0 if it cannot be read."""
    total = 0
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                total += entry.stat().st_size
    return total
