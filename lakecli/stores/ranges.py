"""Reading a part of an object as a stream, on every store."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Final, cast

from lakecli.stores.capabilities import OpensRanges
from lakecli.stores.streams import ReadStream

if TYPE_CHECKING:
    from lakecli.stores.base import ObjectStore


READ_SIZE: Final = 4 << 20
"""Bytes in one request to a store that does not stream ranges."""


def open_range(store: ObjectStore, key: str, *, start: int, length: int) -> BinaryIO:
    """Open bytes ``[start, start + length)`` of an object for one pass; the caller closes it.

    `OpensRanges` stores stream them by a single request that is not repeated; others are read
    piece by piece. Neither holds much in memory.

    Raises:
        ObjectNotFound: no such key.
        Unsupported: the server does not implement ranges.
    """
    if isinstance(store, OpensRanges):
        return store.open_range(key, start=start, length=length)
    return cast("BinaryIO", _Pieces(store, key, start, start + length))


class _Pieces(ReadStream):
    """A part of an object, read by several requests."""

    def __init__(self, store: ObjectStore, key: str, start: int, end: int) -> None:
        self._store = store
        self._key = key
        self._position = start
        self._end = end
        self._ahead = b""

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes; with -1 all that are left."""
        if size < 0:
            return b"".join(iter(lambda: self.read(READ_SIZE), b""))
        if not self._ahead and self._position < self._end:
            length = min(READ_SIZE, self._end - self._position)
            self._ahead = self._store.get(self._key, start=self._position, length=length)
            self._position += len(self._ahead)
        piece, self._ahead = self._ahead[:size], self._ahead[size:]
        return piece
