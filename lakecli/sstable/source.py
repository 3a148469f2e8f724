"""Sources of an SSTable's bytes: memory, or a file read at offsets."""

from __future__ import annotations

import os

from lakecli.typed import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self


class Source(Protocol):
    """Random access to the bytes of one file."""

    name: str
    """For error messages."""

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`, fewer if the file ends earlier."""

    def view(self, offset: int, length: int) -> memoryview:
        """Return the same as `read`, without a copy if the file is in memory."""

    def read_tail(self, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes, fewer if the file is shorter, and the file's size."""


class BytesSource:
    """A whole file in memory."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self._data = data

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`, fewer if the file ends earlier."""
        return self._data[offset : offset + length]

    def view(self, offset: int, length: int) -> memoryview:
        """Return the same as `read`, without a copy."""
        return memoryview(self._data)[offset : offset + length]

    def read_tail(self, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes, fewer if the file is shorter, and the file's size."""
        return self._data[max(0, len(self._data) - length) :], len(self._data)


class FileSource:
    """A local file, opened once and read at offsets; safe to share between threads.

    Args:
        path: of the file.
        name: for error messages; the path by default.

    Raises:
        OSError: the file cannot be opened. Reads raise it if the disk fails.
    """

    def __init__(self, path: str | Path, name: str = "") -> None:
        self.name = name or str(path)
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`, fewer if the file ends earlier."""
        return os.pread(self._descriptor, length, offset)

    def view(self, offset: int, length: int) -> memoryview:
        """Return the same as `read`."""
        return memoryview(self.read(offset, length))

    def read_tail(self, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes, fewer if the file is shorter, and the file's size."""
        size = os.fstat(self._descriptor).st_size
        offset = max(0, size - length)
        return self.read(offset, size - offset), size

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
