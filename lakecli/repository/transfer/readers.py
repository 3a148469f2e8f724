"""Reading what is brought in: whole, in pieces, copied into a directory, and verified.

A large file is copied into a namespace in a directory, and hashed in the same pass. What is sent to
a bucket is verified while it is sent. An upload may expect the object that the branch has at the
path: `Digests` recognises its contents.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, Self

from blake3 import blake3

from lakecli.base.identity import is_md5
from lakecli.base.ids import DataDigest
from lakecli.base.progress import Progress
from lakecli.errors import LakeError, LostRace, Unreachable
from lakecli.stores.streams import Seekable

if TYPE_CHECKING:
    from lakecli.stores.contract import WriteBatch


PIECE: Final = 1 << 20
"""Bytes read at a time."""

COPY_PIECE: Final = 4 << 20
"""Bytes copied at a time from a file to a local namespace."""

WRITE_BACK: Final = 64 << 20
"""Bytes of a large copy after which the system is asked to start writing them to disk."""


class FileChanged(LostRace):
    """The file was written to while it was read; nothing of it was recorded."""


def changed(what: str) -> FileChanged:
    """Return the error of a file that changed while it was `what`."""
    return FileChanged(f"the file changed while it was {what}", hint="upload it again")


class SpecialFile(LakeError):
    """Not a regular file, nor a link to one where links are followed."""


class FileStamp(NamedTuple):
    """What tells whether a file is still the one that was seen."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        """Return the state in a result of `os.stat`."""
        return cls(
            status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        )


class OpenFile:
    """A regular file, open for reading; `with` closes it and checks that it has not changed.

    Attributes:
        descriptor: of the file.
        status: of the file when it was opened.

    Raises:
        SpecialFile: it is not a regular file.
        FileChanged: at the end of the block, if the file was written to meanwhile.
        OSError: it cannot be opened.
    """

    __slots__ = ("descriptor", "status")

    def __init__(
        self, path: bytes, flags: int, opener: Callable[[bytes, int], int] = os.open
    ) -> None:
        self.descriptor = opener(path, flags)
        self.status = os.fstat(self.descriptor)
        if not stat.S_ISREG(self.status.st_mode):
            os.close(self.descriptor)
            raise SpecialFile("not a regular file")

    def check(self) -> None:
        """Check that the file has not changed.

        Raises:
            FileChanged: it has.
        """
        now, before = os.fstat(self.descriptor), self.status
        if (
            now.st_mtime_ns != before.st_mtime_ns
            or now.st_ctime_ns != before.st_ctime_ns
            or now.st_size != before.st_size
        ):
            raise changed("read")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.check()
        finally:
            os.close(self.descriptor)


def read_whole(descriptor: int, size: int) -> bytes:
    """Read a small file of a known size.

    Raises:
        FileChanged: it has another size by now.
    """
    data = os.read(descriptor, size + 1)
    if len(data) != size:
        raise changed("read")
    return data


def read_fully(source: BinaryIO, size: int) -> bytes:
    """Read `size` bytes, fewer only at the end of the stream."""
    pieces = []
    while size > 0 and (piece := source.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def pieces_of(source: BinaryIO) -> Iterator[bytes | memoryview]:
    """Yield the contents of a stream; a piece is valid until the next one is drawn.

    A file is read into whole pages of memory, from which the disk can write directly.
    """
    if isinstance(source, FileIO):
        buffer = memoryview(mmap.mmap(-1, COPY_PIECE))
        while size := source.readinto(buffer):
            yield buffer[:size]
        return
    while piece := source.read(PIECE):
        yield piece


def copy_pieces(
    pieces: Iterable[bytes | memoryview],
    batch: WriteBatch,
    digests: Digests,
    *,
    uri: str,
    progress: Progress,
) -> tuple[str, int]:
    """Copy pieces to a temporary object of a batch; return its name and its size.

    Args:
        pieces: the contents.
        batch: of the namespace.
        digests: receive the contents.
        uri: of the namespace, for errors.
        progress: counts the bytes.
    """
    temporary, target = batch.spool()
    size = 0
    with target:
        for piece in pieces:
            digests.update(piece)
            with _writing(uri):
                target.write(piece)
                if size // WRITE_BACK != (size + len(piece)) // WRITE_BACK:
                    _start_writing(target)
            size += len(piece)
            progress.advance(size=len(piece))
        with _writing(uri):
            _start_writing(target)
    return temporary, size


@contextmanager
def _writing(uri: str) -> Iterator[None]:
    """Make an error of the namespace's disk another one than that of an unreadable source."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Unreachable(
            f"cannot write into {uri}: {reason}",
            hint="free some space and repeat the command; nothing was half-written",
        ) from error


def _start_writing(target: BinaryIO) -> None:
    """Ask the disk to start with what was written, instead of with everything at the end."""
    target.flush()
    advise = getattr(os, "posix_fadvise", None)  # macOS has none
    if advise is not None:
        with suppress(OSError):  # a hint
            advise(target.fileno(), 0, 0, _DONT_NEED)


_DONT_NEED: Final = getattr(os, "POSIX_FADV_DONTNEED", 0)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a file, as first read; `start` and `size` are in bytes."""

    number: int
    start: int
    size: int
    digest: bytes
    crc32c: int = 0


class SectionReader(Seekable):
    """A part of a file as a stream, which withholds its last bytes if any have changed.

    Reading again from the beginning hashes again.
    """

    def __init__(self, descriptor: int, section: Section, *, progress: Progress) -> None:
        super().__init__(section.size)
        self._descriptor = descriptor
        self._section = section
        self._progress = progress
        self._hashed = 0
        self._hasher = blake3()
        self._ahead = b""
        self._ahead_at = 0

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes.

        Raises:
            FileChanged: the bytes differ from those of the first reading.
        """
        if size < 0:
            return b"".join(iter(lambda: self.read(PIECE), b""))
        if self._position >= self._section.size or not size:
            return b""
        at = self._position - self._ahead_at
        if not 0 <= at < len(self._ahead):
            self._read_ahead()
            at = 0
        piece = self._ahead[at : at + size]
        self._position += len(piece)
        return piece

    def _read_ahead(self) -> None:
        self._progress.advance()
        length = min(PIECE, self._section.size - self._position)
        piece = os.pread(self._descriptor, length, self._section.start + self._position)
        if len(piece) != length:
            raise changed("sent")
        if not self._position:
            self._hasher, self._hashed = blake3(), 0
        if self._position != self._hashed:
            raise ValueError("a part is read from its beginning to its end")
        self._hasher.update(piece)
        self._hashed += length
        if self._hashed == self._section.size and self._hasher.digest() != self._section.digest:
            raise changed("sent")
        self._ahead, self._ahead_at = piece, self._position


class PieceReader:
    """A stream of pieces, which holds the last one back until the pieces have ended.

    So no request can complete with bytes that turn out wrong behind the last piece.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._buffer = b""
        self._at = 0
        self._next = next(pieces, None)

    def read(self, size: int = -1) -> bytes:
        """Read like a file, once, from beginning to end; fewer bytes come only at the end."""
        read = []
        while size and (self._at < len(self._buffer) or self._next is not None):
            if self._at == len(self._buffer):
                self._buffer, self._at = self._next or b"", 0
                self._next = next(self._pieces, None)
            end = len(self._buffer) if size < 0 else self._at + size
            piece = self._buffer[self._at : end]
            self._at += len(piece)
            size = max(size - len(piece), 0) if size >= 0 else size
            read.append(piece)
        return b"".join(read)


class ExpectedObject(NamedTuple):
    """The object that a branch has where a file is uploaded.

    Attributes:
        digest: the BLAKE3 of its bytes in 64 hex digits, or their MD5 in 32.
        size: in bytes.
        exists: says whether the object of an MD5 is in its store, with this size.
    """

    digest: str
    size: int
    exists: Callable[[], bool] = lambda: False

    @property
    def md5(self) -> str:
        """The MD5, or ``""`` if the BLAKE3 is known."""
        return self.digest if is_md5(self.digest) else ""

    def is_blake3(self, digest: str, size: int) -> bool:
        """Return whether this is the object of a BLAKE3."""
        return (self.digest, self.size) == (digest, size)


def needs_md5(expected: ExpectedObject | None, size: int | None) -> bool:
    """Return whether the MD5 of contents of a size must be computed; ``None``: any size."""
    return expected is not None and bool(expected.md5) and size in {None, expected.size}


class Digests:
    """Computes the BLAKE3 of contents, and their MD5 if an object is expected by it.

    Args:
        expected: the object whose contents are expected.
        size: of the contents, in bytes, if it is known: the MD5 is not computed in vain.
    """

    def __init__(self, expected: ExpectedObject | None, size: int | None = None) -> None:
        self._blake3 = blake3()
        self._expected = expected
        self._size = 0
        self._md5 = None
        if needs_md5(expected, size):
            from hashlib import md5  # takes milliseconds to import

            self._md5 = md5(usedforsecurity=False)

    def update(self, data: bytes | memoryview) -> None:
        """Add bytes."""
        self._size += len(data)
        self._blake3.update(data)
        if self._md5 is not None:
            self._md5.update(data)

    def hexdigest(self) -> DataDigest:
        """Return the BLAKE3."""
        return DataDigest(self._blake3.hexdigest())

    def are_expected(self) -> bool:
        """Return whether the contents are those expected by their MD5, and their object exists."""
        expected = self._expected
        return (
            self._md5 is not None
            and expected is not None
            and (self._md5.hexdigest(), self._size) == (expected.md5, expected.size)
            and expected.exists()
        )
