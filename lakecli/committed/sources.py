"""Sources of a table's bytes: a local file, or an object in the bucket."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lakecli.errors import IntegrityError
from lakecli.objectstore.base import ObjectNotFound

if TYPE_CHECKING:
    from lakecli.objectstore.base import ObjectStore


class MissingTable(IntegrityError):
    """A tree refers to a range or metarange that is not in its namespace."""

    def __init__(self, key: str, uri: str) -> None:
        super().__init__(
            f"missing from {uri}: {key}",
            hint="`lakecli fsck lakefs://REPOSITORY` names the commits and paths it holds, or "
            "counts it among what retention rules let go",
        )


class PathSource:
    """A table in a local file, opened anew for every read: thousands may be in use at a time.

    Args:
        name: for error messages.
        path: of the file.
    """

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self._path = path

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`, fewer if the file ends earlier."""
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, length, offset)
        finally:
            os.close(descriptor)

    def view(self, offset: int, length: int) -> memoryview:
        """Return the same as `read`."""
        return memoryview(self.read(offset, length))

    def read_tail(self, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes, fewer if the file is shorter, and the file's size."""
        size = os.stat(self._path).st_size
        offset = max(0, size - length)
        return self.read(offset, size - offset), size


class RemoteSource:
    """A table in the bucket, read by ranges of bytes.

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
        """Return `length` bytes from `offset`, fewer if the object ends earlier."""
        try:
            return self._store.get(self.name, start=offset, length=length)
        except ObjectNotFound:
            raise MissingTable(self.name, self._store.uri) from None

    def view(self, offset: int, length: int) -> memoryview:
        """Return the same as `read`."""
        return memoryview(self.read(offset, length))

    def read_tail(self, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes, fewer if the object is shorter, and its size."""
        offset = max(0, self._size - length)
        return self.read(offset, self._size - offset), self._size
