"""Sources of an SSTable's bytes: the protocol, and a whole file in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:

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
