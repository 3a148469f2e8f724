"""Bodies on their way to and from S3."""

from __future__ import annotations

from io import SEEK_CUR, SEEK_END, SEEK_SET, RawIOBase
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from botocore.response import StreamingBody

    from lakecli.objectstore.s3_errors import Translator

PART_SIZE = 8 << 20
"""Of the first thousand parts; doubled every thousand, so that 10,000 parts hold 8 TiB."""

SPOOL_SIZE = 1 << 20


def read_exactly(body: BinaryIO, size: int) -> bytes:
    """Read `size` bytes, fewer only at the end of the stream."""
    data = body.read(size)
    if len(data) == size or not data:
        return data
    pieces = [data]
    missing = size - len(data)
    while missing and (data := body.read(missing)):
        pieces.append(data)
        missing -= len(data)
    return b"".join(pieces)


def size_left(body: BinaryIO) -> int | None:
    """Return how much a stream still holds, or ``None`` if it cannot seek."""
    if not getattr(body, "seekable", bool)():
        return None
    here = body.seek(0, SEEK_CUR)
    size = body.seek(0, SEEK_END) - here
    body.seek(here, SEEK_SET)
    return size


def spooled(body: BinaryIO) -> BinaryIO:
    """Copy a stream to a temporary file, so that it can be sent by one request."""
    from shutil import copyfileobj
    from tempfile import TemporaryFile

    file = TemporaryFile()  # noqa: SIM115 - the caller closes it
    copyfileobj(body, file, SPOOL_SIZE)
    file.seek(0)
    return cast("BinaryIO", file)


class AnswerStream(RawIOBase):
    """The body of an answer as a file."""

    def __init__(self, body: StreamingBody, translator: Translator, full: str) -> None:
        self._body = body
        self._translator = translator
        self._full = full

    def readable(self) -> bool:
        """Return ``True``."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes, fewer only at the end.

        Raises:
            Unreachable: the connection broke.
            IntegrityError: the bytes do not have the checksum that the store sent with them.
        """
        with self._translator.translated(self._full):
            return cast("bytes", self._body.read(None if size < 0 else size))

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read into `buffer`."""
        target = memoryview(buffer).cast("B")
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Give up the connection."""
        if not self.closed:
            self._body.close()
        super().close()
