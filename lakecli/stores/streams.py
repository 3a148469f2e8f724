"""Streams for the bodies of requests and responses, and reading and sending bodies in parts.

`open_range` reads a part of an object as a stream, on every store. `Seekable`, a stream of known
size, is the base of readers of objects and parts. `PieceReader` makes a stream of an iterator.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from errno import EAGAIN
from io import SEEK_CUR, SEEK_END, SEEK_SET, RawIOBase
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, BinaryIO, Final, TypeVar, cast

from lakecli.stores.capabilities import PART_SIZE, OpensRanges
from lakecli.stores.contract import ObjectStore

if TYPE_CHECKING:
    from concurrent.futures import Future

    from _typeshed import WriteableBuffer


class Seekable(RawIOBase):
    """A seekable stream of known size; subclasses implement `read_at`, or `read` for one pass.

    Args:
        size: size of the stream in bytes.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        """Return ``True``."""
        return True

    def seekable(self) -> bool:
        """Return ``True``."""
        return True

    def tell(self) -> int:
        """Return the position, from the beginning."""
        return self._position

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        """Move to a position, and return it."""
        base = {SEEK_SET: 0, SEEK_CUR: self._position, SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read_at(self, start: int, length: int) -> bytes:
        """Return up to `length` bytes from a position inside the stream."""
        raise NotImplementedError

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Read into `buffer`."""
        target = memoryview(buffer).cast("B")
        length = min(len(target), self._size - self._position)
        data = self.read_at(self._position, length) if length > 0 else b""
        target[: len(data)] = data
        self._position += len(data)
        return len(data)


Part = TypeVar("Part")
Answer = TypeVar("Answer")
Result = TypeVar("Result", bytes, int)

PART_WORKERS = 4
"""Number of parts that are sent at the same time; one more is being read, so five are in memory."""


def waited(read: Result | None) -> Result:
    """Return the result of reading from a stream.

    Raises:
        BlockingIOError: the result is ``None``: the stream has not ended, but does not wait for
            its next bytes.
    """
    if read is None:
        raise BlockingIOError(EAGAIN, "the stream is non-blocking, and has no data yet")
    return read


def read_exactly(body: BinaryIO, size: int) -> bytes:
    """Read `size` bytes, fewer only at the end of the stream.

    Raises:
        BlockingIOError: see `waited`.
    """
    data = waited(body.read(size))
    if len(data) == size or not data:
        return data
    pieces = [data]
    missing = size - len(data)
    while missing and (data := waited(body.read(missing))):
        pieces.append(data)
        missing -= len(data)
    return b"".join(pieces)


def batches(items: Iterable[Part], size: int) -> Iterator[list[Part]]:
    """Yield lists of `size` items; the last list may have fewer."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


def groups_of(
    items: Iterable[Part], size_of: Callable[[Part], int], *, most: int, count: float = inf
) -> Iterator[list[Part]]:
    """Yield lists of consecutive items of at most `most` bytes in total, or of one larger item.

    Args:
        count: largest number of items in a list.
    """
    group: list[Part] = []
    total = 0
    for item in items:
        size = size_of(item)
        if group and (len(group) >= count or total + size > most):
            yield group
            group, total = [], 0
        group.append(item)
        total += size
    if group:
        yield group


def parts_of(first: bytes, body: BinaryIO) -> Iterator[bytes]:
    """Yield the parts of a stream whose beginning, `first`, has already been read.

    The part size doubles after every 1,000 parts, so 10,000 parts have 8 TiB.
    """
    number = 1
    while first:
        yield first
        first = read_exactly(body, PART_SIZE << (number // 1_000))
        number += 1


def send_all(parts: Iterable[Part], send: Callable[[int, Part], Answer]) -> list[Answer]:
    """Send parts in parallel; return the results of `send` in the order of the parts.

    Args:
        parts: an iterable that is read as parts are sent, so that few parts are in memory.
        send: a function whose arguments are the number of a part, from 1, and the part.
    """
    from concurrent.futures import ThreadPoolExecutor

    sent: list[Answer] = []
    running: deque[Future[Answer]] = deque()
    with ThreadPoolExecutor(PART_WORKERS) as pool:
        for number, part in enumerate(parts, 1):
            if len(running) == PART_WORKERS:
                sent.append(running.popleft().result())
            running.append(pool.submit(send, number, part))
        return sent + [future.result() for future in running]


class ReadStream(RawIOBase):
    """A file that can be read once, from its beginning; subclasses implement `read`."""

    def readable(self) -> bool:
        """Return ``True``."""
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Read into `buffer`."""
        target = memoryview(buffer).cast("B")
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)


READ_SIZE: Final = 4 << 20
"""Bytes in one request to a store that cannot stream ranges."""


def open_range(store: ObjectStore, key: str, *, start: int, length: int) -> BinaryIO:
    """Open bytes ``[start, start + length)`` of an object for one pass; the caller closes it.

    A store with `OpensRanges` streams the bytes by a single request that is not repeated. Other
    stores are read piece by piece, by one request for each `READ_SIZE` bytes.

    Raises:
        ObjectNotFound: no such key.
        Unsupported: the server does not implement ranges.
    """
    if isinstance(store, OpensRanges):
        return store.open_range(key, start=start, length=length)
    return cast("BinaryIO", _Range(store, key, start, start + length))


class PieceStream(ReadStream):
    """A stream that is read piece by piece; subclasses implement `next_piece`.

    Attributes:
        ahead: bytes received from the store that the caller has not read yet.
    """

    ahead = memoryview(b"")

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes; with -1, all bytes that are left."""
        if size < 0:
            return b"".join(iter(lambda: self.read(READ_SIZE), b""))
        if not self.ahead:
            piece = self.next_piece()
            if len(piece) <= size:
                return piece
            self.ahead = memoryview(piece)
        data = bytes(self.ahead[:size])
        self.ahead = self.ahead[size:]
        return data

    def next_piece(self) -> bytes:
        """Return the next piece; ``b""`` at the end."""
        raise NotImplementedError


class _Range(PieceStream):
    """A range of an object, read by one request for each piece."""

    def __init__(self, store: ObjectStore, key: str, start: int, end: int) -> None:
        self._store = store
        self._key = key
        self._position = start
        self._end = end

    def next_piece(self) -> bytes:
        length = min(READ_SIZE, self._end - self._position)
        piece = self._store.get(self._key, start=self._position, length=length) if length else b""
        self._position += len(piece)
        return piece


class PieceReader(PieceStream):
    """A stream of an iterator's pieces that withholds the last piece until the iterator has ended.

    After the last piece, the iterator may still check all of the bytes. If this check raises an
    error, the last piece is never sent, so the server does not accept an incorrect body.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._next = next(pieces, None)

    def next_piece(self) -> bytes:
        """Return the next piece that is not empty; ``b""`` at the end."""
        piece = b""
        while not piece and self._next is not None:
            piece, self._next = self._next, next(self._pieces, None)
        return piece
