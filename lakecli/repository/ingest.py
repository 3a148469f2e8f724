"""Bringing bytes into a storage namespace under the name of their contents.

An object that is there already, of the same name and size, is never sent again. Small files are
read once; large ones go into a local namespace in one pass that copies and hashes together, and
into a bucket in two: hash, then send while hashing again, so that a file which changes meanwhile
never lies under a wrong name.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from blake3 import blake3

from lakecli.errors import LakeError, LostRace, Unsupported
from lakecli.layout import data_key
from lakecli.objectstore.base import ABSENT, ConditionFailed, ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakecli.kv.file_hashes import FileKey
    from lakecli.objectstore.base import ObjectStore

SMALL: Final = 1 << 20
"""Files up to this size are read whole."""

PIECE: Final = 4 << 20
"""Larger ones are read in pieces of this size."""


class FileChanged(LostRace):
    """The file was written to while it was read; nothing of it was recorded."""


class SpecialFile(LakeError):
    """Neither a regular file nor, where links are followed, a link to one."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """What is now in the namespace: 64 hex digits of BLAKE3, the size, and the file's own time."""

    digest: str
    size: int
    mtime: int


def _fingerprint(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


class Ingest:
    """A batch of files on their way into one namespace; nothing is durable before `flush`.

    Args:
        store: the storage namespace.
        known: looks a file's digest up by its status, or returns ``None``.
        remember: is told each digest that had to be computed.
        follow: whether symbolic links stand for what they point to.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        known: Callable[[FileKey], str | None],
        remember: Callable[[FileKey, str], None],
        follow: bool = False,
    ) -> None:
        self._store = store
        self._batch = store.batch()
        self._known = known
        self._remember = remember
        self._flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        if not follow:
            self._flags |= os.O_NOFOLLOW

    def file(self, path: bytes, *, on_bytes: Callable[[int], None] | None = None) -> Ingested:
        """Bring in one file.

        Raises:
            FileChanged: it was written to meanwhile.
            SpecialFile: it is no regular file.
            OSError: it cannot be read.
        """
        descriptor = os.open(path, self._flags)
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                raise SpecialFile("not a regular file")
            if before.st_size <= SMALL:
                digest = self._small(descriptor, before)
            else:
                digest = self._large(descriptor, before, path, on_bytes)
            if _fingerprint(os.fstat(descriptor)) != _fingerprint(before):
                raise FileChanged("the file changed while it was read", hint="upload it again")
        finally:
            os.close(descriptor)
        return Ingested(digest, before.st_size, before.st_mtime_ns // 1_000_000_000)

    def _small(self, descriptor: int, status: os.stat_result) -> str:
        data = os.read(descriptor, SMALL + 1)
        if len(data) != status.st_size:
            raise FileChanged("the file changed while it was read", hint="upload it again")
        digest = blake3(data).hexdigest()
        self._batch.put_new(data_key(digest), data)
        return digest

    def _large(
        self,
        descriptor: int,
        status: os.stat_result,
        path: bytes,
        on_bytes: Callable[[int], None] | None,
    ) -> str:
        from lakecli.kv.file_hashes import FileKey

        key = FileKey(
            device=status.st_dev,
            inode=status.st_ino,
            path=os.path.abspath(path),
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            ctime_ns=status.st_ctime_ns,
        )
        digest = self._known(key)
        if digest is not None and self._present(digest, status.st_size):
            return digest
        with os.fdopen(os.dup(descriptor), "rb", buffering=0) as file:
            digest = self._spool(file, on_bytes) or self._send(file, status.st_size, on_bytes)
        self._remember(key, digest)
        return digest

    def stream(
        self, source: BinaryIO, *, on_bytes: Callable[[int], None] | None = None
    ) -> Ingested:
        """Bring in a stream of unknown length, such as standard input; it has no own time."""
        first = _read_fully(source, SMALL + 1)
        if len(first) <= SMALL:
            digest = blake3(first).hexdigest()
            self._batch.put_new(data_key(digest), first)
            return Ingested(digest, len(first), 0)
        whole = _Chained(first, source)
        counted = _Counted(on_bytes)
        spooled = self._spool(whole, counted)
        if spooled is not None:
            return Ingested(spooled, counted.total, 0)
        import tempfile

        with tempfile.TemporaryFile() as file:
            while piece := whole.read(PIECE):
                file.write(piece)
            size = file.tell()
            file.seek(0)
            return Ingested(self._send(file, size, on_bytes), size, 0)

    def _present(self, digest: str, size: int) -> bool:
        try:
            return self._store.head(data_key(digest)).size == size
        except ObjectNotFound:
            return False

    def _spool(
        self, source: BinaryIO | _Chained, on_bytes: Callable[[int], None] | None
    ) -> str | None:
        """Copy and hash in one pass where the store can rename afterwards."""
        try:
            temporary, target = self._batch.spool()
        except Unsupported:
            return None
        hasher = blake3()
        with target:
            while piece := source.read(PIECE):
                hasher.update(piece)
                target.write(piece)
                if on_bytes is not None:
                    on_bytes(len(piece))
        digest = hasher.hexdigest()
        self._batch.adopt(data_key(digest), temporary)
        return digest

    def _send(self, file: BinaryIO, size: int, on_bytes: Callable[[int], None] | None) -> str:
        hasher = blake3()
        while piece := file.read(PIECE):
            hasher.update(piece)
        digest = hasher.hexdigest()
        if self._present(digest, size):
            return digest
        file.seek(0)
        verifying = cast("BinaryIO", VerifyingReader(file, digest, size, on_bytes))
        with suppress(ConditionFailed):  # somebody else brought the same bytes meanwhile
            self._store.put(data_key(digest), verifying, ABSENT)
        return digest

    def flush(self) -> None:
        """Make everything brought in so far durable; only then may staging refer to it."""
        self._batch.flush()


class VerifyingReader:
    """A readable, rewindable file that refuses to hand out its last bytes if they are not `digest`.

    So a request that sends it can never complete with other contents than its name says.
    """

    def __init__(
        self, file: BinaryIO, digest: str, size: int, on_bytes: Callable[[int], None] | None = None
    ) -> None:
        self._file = file
        self._digest = digest
        self._size = size
        self._on_bytes = on_bytes
        self._hasher = blake3()
        self._position = 0

    def read(self, size: int = -1) -> bytes:
        """Read like a file.

        Raises:
            FileChanged: the bytes are not what the first reading saw.
        """
        piece = self._file.read(self._size - self._position if size < 0 else size)
        self._position += len(piece)
        self._hasher.update(piece)
        if self._position > self._size or (not piece and self._position < self._size):
            raise FileChanged("the file changed while it was sent", hint="upload it again")
        if self._position == self._size and self._hasher.hexdigest() != self._digest:
            raise FileChanged("the file changed while it was sent", hint="upload it again")
        if self._on_bytes is not None:
            self._on_bytes(len(piece))
        return piece

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Rewind; any other move only answers where the end is, as SDKs ask for the length."""
        if whence == os.SEEK_END:
            self._position = self._size + offset
            return self._position
        target = offset if whence == os.SEEK_SET else self._position + offset
        if target != 0:
            self._position = target
            return target
        self._file.seek(0)
        self._hasher = blake3()
        self._position = 0
        return 0

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seekable(self) -> bool:
        """Rewinding is possible."""
        return True

    def readable(self) -> bool:
        """Reading is possible."""
        return True


class _Chained:
    """Bytes already read from a stream, then the rest of it."""

    def __init__(self, first: bytes, rest: BinaryIO) -> None:
        self._first = first
        self._rest = rest

    def read(self, size: int) -> bytes:
        if self._first:
            piece, self._first = self._first[:size], self._first[size:]
            return piece
        return self._rest.read(size)


class _Counted:
    """Adds up what passes, and passes it on."""

    def __init__(self, then: Callable[[int], None] | None) -> None:
        self.total = 0
        self._then = then

    def __call__(self, count: int) -> None:
        self.total += count
        if self._then is not None:
            self._then(count)


def _read_fully(source: BinaryIO, size: int) -> bytes:
    pieces = []
    while size > 0 and (piece := source.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
