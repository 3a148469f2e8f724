"""Bodies of requests to and responses of Google Cloud Storage."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO

from lakecli.errors import IntegrityError
from lakecli.stores.contract import ConditionFailed, ObjectNotFound
from lakecli.stores.streams import ReadStream, read_exactly

if TYPE_CHECKING:
    from lakecli.stores.gs.client import ObjectPiece

READ_SIZE = 4 << 20
"""Bytes in one request of a stream, which it holds in memory."""


class ObjectStream(ReadStream):
    """An object as a file: read piece by piece, all of one generation, verified at its end.

    Args:
        name: for messages.
        read_piece: reads bytes ``[start, end)`` of a generation, or of the current one; called for
            the first piece at once, then for one after the other.
        find_generation: called if a large object comes without its generation.
        generation: to read; ``None`` for the current one.

    Raises:
        ObjectNotFound: no such object.
    """

    def __init__(
        self,
        name: str,
        *,
        read_piece: Callable[[int, int, int | None], ObjectPiece],
        find_generation: Callable[[], int],
        generation: int | None = None,
    ) -> None:
        from google_crc32c import Checksum

        self._name = name
        self._read_piece = read_piece
        self._offset = 0
        self._sum: Any = Checksum()  # type: ignore[no-untyped-call]
        first = read_piece(0, READ_SIZE, generation)
        self._generation = generation or first.generation
        if self._generation is None and len(first.data) == READ_SIZE:
            # The next pieces must be of the same generation, so read this one by its generation.
            self._generation = find_generation()
            first = read_piece(0, READ_SIZE, self._generation)
        self._expected = first.crc32c
        self._piece = memoryview(b"")
        self._is_last = False
        self._take(first)

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes, or all that are left.

        Raises:
            Unreachable: the connection broke, again and again.
            IntegrityError: the bytes do not have the checksum that the store keeps.
            ConditionFailed: another object has this name by now.
        """
        if size < 0:
            return b"".join(iter(lambda: self.read(READ_SIZE), b""))
        if not self._piece and not self._is_last:
            self._take(self._next_piece())
        data = bytes(self._piece[:size])
        self._piece = self._piece[size:]
        return data

    def _next_piece(self) -> ObjectPiece:
        try:
            return self._read_piece(self._offset, self._offset + READ_SIZE, self._generation)
        except ObjectNotFound:
            raise ConditionFailed(f"object was replaced while it was read: {self._name}") from None

    def _take(self, piece: ObjectPiece) -> None:
        self._piece = memoryview(piece.data)
        self._offset += len(piece.data)
        self._sum.update(piece.data)
        self._is_last = len(piece.data) < READ_SIZE
        actual = b64encode(self._sum.digest()).decode()
        if self._is_last and self._expected and self._expected != actual:
            raise IntegrityError(
                f"received other bytes than their checksum says: {self._name}",
                hint="repeat the command; if it happens again, suspect the network in between",
            )


class CountedStream:
    """A body of unknown size as the SDK uploads it: with a position, and read in whole chunks.

    Args:
        first: bytes that were read from the body.
        rest: the body after them.
    """

    def __init__(self, first: bytes, rest: BinaryIO) -> None:
        self._first = first
        self._rest = rest
        self._position = 0
        self.is_exhausted = False

    def tell(self) -> int:
        """Return how much has been read."""
        return self._position

    def read(self, size: int) -> bytes:
        """Read `size` bytes, fewer only at the end."""
        data, self._first = self._first[:size], self._first[size:]
        if len(data) < size:
            data += read_exactly(self._rest, size - len(data))
        self._position += len(data)
        self.is_exhausted = len(data) < size
        return data
