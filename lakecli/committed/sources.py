"""Where the bytes of one table come from: a file of this machine, or an object of the bucket."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lakecli.errors import IntegrityError
from lakecli.objectstore.base import ObjectNotFound

if TYPE_CHECKING:
    from pathlib import Path

    from lakecli.objectstore.base import ObjectStore


class MissingTable(IntegrityError):
    """A tree names a range or metarange that its namespace does not hold."""

    def __init__(self, key: str, uri: str) -> None:
        super().__init__(
            f"missing from {uri}: {key}",
            hint="`lakecli fsck lakefs://REPOSITORY` names the commits and paths it holds",
        )


class PathSource:
    """A table in a file that is opened anew for every read: thousands may be in use at a time.

    Args:
        name: for error messages.
        path: of the file.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path = path

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`, less where the file ends earlier."""
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, length, offset)
        finally:
            os.close(descriptor)

    def read_tail(self, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes, less where the file is shorter, and the file's size."""
        size = self._path.stat().st_size
        offset = max(0, size - length)
        return self.read(offset, size - offset), size


class RemoteSource:
    """A table read from the bucket piece by piece.

    Args:
        store: the bucket.
        key: of the object.
        size: of the object, in bytes.
    """

    def __init__(self, store: ObjectStore, key: str, *, size: int) -> None:
        self.name = key
        self._store = store
        self._size = size

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`, less where the object ends earlier."""
        try:
            return self._store.get(self.name, start=offset, length=length)
        except ObjectNotFound:
            raise MissingTable(self.name, self._store.uri) from None

    def read_tail(self, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes, less where the object is shorter, and its size."""
        offset = max(0, self._size - length)
        return self.read(offset, self._size - offset), self._size
