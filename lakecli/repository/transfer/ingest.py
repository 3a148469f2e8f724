"""Bringing bytes into a storage namespace under the name of their contents.

An object that is there already, of the same name and size, is never sent again. Small files are
read once; large ones go into a local namespace in one pass that copies and hashes together, and
into a bucket in two: hash, then send while hashing again, so that a file which changes meanwhile
never lies under a wrong name. What that is cut off by a kill,
`lakecli.repository.transfer.send` goes on with; a copy into a local namespace begins anew, which
costs less than to check what was copied.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from blake3 import blake3

from lakecli.errors import LakeError, LostRace, PermissionDenied, Unreachable
from lakecli.layout import data_key
from lakecli.objectstore.base import ANY, ObjectNotFound
from lakecli.objectstore.contents import put_content
from lakecli.objectstore.uri import is_local
from lakecli.progress import NO_PROGRESS, Progress
from lakecli.repository.transfer.parallel import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lakecli.kv.file_hashes import FileKey
    from lakecli.objectstore.base import Batch, ObjectStore
    from lakecli.repository.core.gc_guard import GcGuard
    from lakecli.repository.transfer.send import Sender

    _Done = tuple[str, bool]
    """The digest of something in the namespace, and whether it was, or may have been, there."""

SMALL: Final = 1 << 20
"""Files up to this size are read whole."""

PIECE: Final = 1 << 20
"""Larger ones are read in pieces of this size."""

SENT_AT_ONCE: Final = 40 << 20
"""Memory that a store takes for one stream it sends: four parts in flight, and one being read."""

COPY_PIECE: Final = 4 << 20
"""And large files that are copied on this machine in pieces of this size."""

WRITE_BACK: Final = 64 << 20
"""Bytes after which the system is told to get a large copy onto the disk."""


class FileChanged(LostRace):
    """The file was written to while it was read; nothing of it was recorded."""


class SpecialFile(LakeError):
    """Neither a regular file nor, where links are followed, a link to one."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """What is now in the namespace.

    Attributes:
        digest: 64 hex digits of BLAKE3.
        size: in bytes.
        mtime: the file's own time.
        found: whether it was, or may have been, there before.
    """

    digest: str
    size: int
    mtime: int
    found: bool = False


def _fingerprint(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _key_of(path: bytes, status: os.stat_result) -> FileKey:
    from lakecli.kv.file_hashes import FileKey

    return FileKey(
        device=status.st_dev,
        inode=status.st_ino,
        path=os.path.abspath(path),
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
    )


def changed(what: str) -> FileChanged:
    """Return the error of a file that changed while it was `what`."""
    return FileChanged(f"the file changed while it was {what}", hint="upload it again")


class Ingest:
    """Files on their way into one namespace; nothing is durable before `flush`.

    Nothing may refer to them before `claim`. Safe to share between threads.

    Args:
        store: the storage namespace.
        known: looks a file's digest up by its status, or returns ``None``.
        remember: is told each digest of a large file that had to be computed, and when that
            began, by `clock_ns`.
        clock_ns: unix nanoseconds.
        follow: whether symbolic links stand for what they point to.
        sender: of large files into a bucket in parts; ``None`` sends each by one call.
        memory: holds the files that are sent whole.
        progress: counts the bytes that are in the namespace. It is called often, also while a file
            is only read; an error that it raises ends the work on the file.
        guard: keeps garbage collection from what is brought in; ``None`` where nothing will refer
            to it.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        known: Callable[[FileKey], str | None],
        remember: Callable[[FileKey, str, int], None],
        clock_ns: Callable[[], int] = lambda: 0,
        follow: bool = False,
        sender: Sender | None = None,
        memory: Memory | None = None,
        progress: Progress = NO_PROGRESS,
        guard: GcGuard | None = None,
    ) -> None:
        self._guard = guard
        if guard is not None:
            guard.begin()
        self._store = store
        self._batch: Batch | None = store.batch() if is_local(store.uri) else None
        self._known = known
        self._remember = remember
        self._clock_ns = clock_ns
        self._progress = progress
        self._sender = sender
        self._memory = memory or Memory()
        self._whole = SMALL if sender is None else max(SMALL, sender.part_size)
        self._flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        if not follow:
            self._flags |= os.O_NOFOLLOW

    def file(self, path: bytes, *, expected: tuple[str, int] | None = None) -> Ingested:
        """Bring in one file.

        Args:
            path: of the file.
            expected: digest and size that it will probably have, from the last time: where it
                has, nothing is written that is there already.

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

            def check() -> None:
                if _fingerprint(os.fstat(descriptor)) != _fingerprint(before):
                    raise changed("read")

            if before.st_size <= SMALL:
                digest, found = self._small(descriptor, before.st_size, expected)
            else:
                digest, found = self._large(
                    descriptor, before, path, expected=expected, check=check
                )
            check()
        finally:
            os.close(descriptor)
        return Ingested(digest, before.st_size, before.st_mtime_ns // 1_000_000_000, found)

    def look(self, path: bytes) -> Ingested:
        """Tell what `file` would bring in, without writing anything.

        Raises:
            SpecialFile: it is no regular file.
            FileChanged: it was written to meanwhile.
            OSError: it cannot be read.
        """
        descriptor = os.open(path, self._flags)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                raise SpecialFile("not a regular file")
            key = _key_of(path, before)
            digest = None if before.st_size <= SMALL else self._known(key)
            if digest is None:
                digest = self._hash(file)
                if _fingerprint(os.fstat(descriptor)) != _fingerprint(before):
                    raise changed("read")
        return Ingested(digest, before.st_size, before.st_mtime_ns // 1_000_000_000)

    def _small(self, descriptor: int, size: int, expected: tuple[str, int] | None) -> _Done:
        if self._batch is None:
            with self._memory.held(size):
                done = self._read_and_put(descriptor, size, expected)
        else:  # written before the next one is read
            done = self._read_and_put(descriptor, size, expected)
        self._progress.advance(size=size)
        return done

    def _read_and_put(self, descriptor: int, size: int, expected: tuple[str, int] | None) -> _Done:
        data = os.read(descriptor, size + 1)
        if len(data) != size:
            raise changed("read")
        digest = blake3(data).hexdigest()
        if expected != (digest, size) or not self._present(digest, size):
            return digest, self._put(digest, data)
        return digest, True

    def _put(self, digest: str, data: bytes) -> bool:
        """Write an object; return whether it was there already."""
        key = data_key(digest)
        if self._batch is None:
            return not put_content(self._store, key, data)
        # Only where garbage is collected does it matter.
        asks = self._guard is not None and self._guard.is_active
        found = asks and self._store.local_path(key) is not None
        self._batch.put_content(key, data)
        return found

    def _large(
        self,
        descriptor: int,
        status: os.stat_result,
        path: bytes,
        *,
        expected: tuple[str, int] | None,
        check: Callable[[], None],
    ) -> _Done:
        key = _key_of(path, status)
        size = status.st_size
        known = self._known(key)
        if known is not None and self._present(known, size):
            self._progress.advance(size=size)
            return known, True
        hashed_at = self._clock_ns()
        if size <= self._whole:
            digest, found = self._small(descriptor, size, expected)
        else:
            with os.fdopen(os.dup(descriptor), "rb", buffering=0) as file:
                digest, found = self._transfer(file, size, expected, check), True
        self._remember(key, digest, hashed_at)
        return digest, found

    def _transfer(
        self,
        file: BinaryIO,
        size: int,
        expected: tuple[str, int] | None,
        check: Callable[[], None],
    ) -> str:
        if self._batch is not None and expected and expected[1] == size:
            digest = self._recognise(file, expected)
            if digest is not None:
                return digest
        return self._copy_or_send(file, size, check)

    def _recognise(self, file: BinaryIO, expected: tuple[str, int]) -> str | None:
        """Return the expected digest if the file has it and the namespace holds it."""
        digest, size = expected
        if self._hash(file) == digest and self._present(digest, size):
            self._progress.advance(size=size)
            return digest
        file.seek(0)
        return None

    def stream(self, source: BinaryIO) -> Ingested:
        """Bring in a stream of unknown length, such as standard input; it has no own time."""
        first = _read_fully(source, SMALL + 1)
        if len(first) <= SMALL:
            digest = blake3(first).hexdigest()
            found = self._put(digest, first)
            self._progress.advance(size=len(first))
            return Ingested(digest, len(first), 0, found)
        whole = _Chained(first, source)
        if self._batch is not None:
            digest, size = self._copy(whole, self._batch)
            return Ingested(digest, size, 0, found=True)
        import tempfile

        with tempfile.TemporaryFile() as file:
            while piece := whole.read(PIECE):
                file.write(piece)
            size = file.tell()
            file.seek(0)
            digest = self._copy_or_send(cast("BinaryIO", file), size)
            return Ingested(digest, size, 0, found=True)

    def _copy_or_send(
        self, file: BinaryIO, size: int, check: Callable[[], None] = lambda: None
    ) -> str:
        if self._batch is not None:
            return self._copy(file, self._batch)[0]
        if self._sender is None:
            return self._send(file, size)
        contents = self._sender.read(file, size)
        self._sender.send(file.fileno(), contents, check=check)
        return contents.digest

    def _copy(self, source: BinaryIO | _Chained, batch: Batch) -> tuple[str, int]:
        """Copy and hash in one pass: the name is known at the end, and given by a rename."""
        temporary, target = batch.spool()
        hasher = blake3()
        size = 0
        with target:
            for piece in _pieces_of(source):
                hasher.update(piece)
                with self._writing():
                    target.write(piece)
                    if size // WRITE_BACK != (size + len(piece)) // WRITE_BACK:
                        _start_writing(target)
                size += len(piece)
                self._progress.advance(size=len(piece))
            with self._writing():
                _start_writing(target)
        digest = hasher.hexdigest()
        batch.adopt(data_key(digest), temporary)
        return digest, size

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Tell a full disk below the namespace from a source that cannot be read."""
        try:
            yield
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise Unreachable(
                f"cannot write into {self._store.uri}: {reason}",
                hint="free some space and repeat the command; nothing was half-written",
            ) from error

    def _send(self, file: BinaryIO, size: int) -> str:
        digest = self._hash(file)
        if self._present(digest, size):
            self._progress.advance(size=size)
            return digest
        file.seek(0)
        verifying = cast("BinaryIO", VerifyingReader(file, digest, size, self._progress))
        with self._memory.held(SENT_AT_ONCE):
            # Whoever writes this key writes these bytes, so no condition has to hold, and every
            # part may be sent again.
            self._store.put(data_key(digest), verifying, ANY)
        return digest

    def _hash(self, file: BinaryIO) -> str:
        hasher = blake3()
        while piece := file.read(PIECE):
            hasher.update(piece)
            self._progress.advance()
        return hasher.hexdigest()

    def _present(self, digest: str, size: int) -> bool:
        try:
            return self._store.head(data_key(digest)).size == size
        except (ObjectNotFound, PermissionDenied):
            # Who may not list a bucket may not know either what is missing there; writing tells.
            return False

    def flush(self) -> None:
        """Make everything brought in so far durable; then `claim` what is referred to."""
        if self._batch is not None:
            self._batch.flush()

    def claim(self, ingested: Iterable[Ingested]) -> None:
        """Keep garbage collection from what is durable; only then may staging refer to it.

        Raises:
            Swept: some of it has been collected meanwhile.
            SweepRunning: a collection goes on for too long.
        """
        if self._guard is None:
            return
        found: list[str] = []
        written: list[str] = []
        for each in ingested:
            (found if each.found else written).append(data_key(each.digest))
        if found or written:
            self._guard.settle(found=found, written=written)


def _start_writing(target: BinaryIO) -> None:
    """Let the disk begin with what was written, instead of all at once at the end."""
    target.flush()
    with suppress(AttributeError, OSError):  # a hint, and not known on every platform
        os.posix_fadvise(target.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class VerifyingReader:
    """A stream that refuses to hand out its last bytes if all of them are not `digest`.

    So a request that sends it can never complete with other contents than its name says.
    """

    def __init__(self, file: BinaryIO, digest: str, size: int, progress: Progress) -> None:
        self._file = file
        self._digest = digest
        self._left = size
        self._progress = progress
        self._hasher = blake3()

    def read(self, size: int = -1) -> bytes:
        """Read like a file, once from its beginning to its end.

        Raises:
            FileChanged: the bytes are not what the first reading saw.
        """
        piece = self._file.read(self._left if size < 0 else size)
        self._hasher.update(piece)
        if len(piece) > self._left or (size and not piece and self._left):
            raise changed("sent")
        self._left -= len(piece)
        if not self._left and self._hasher.hexdigest() != self._digest:
            raise changed("sent")
        self._progress.advance(size=len(piece))
        return piece


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


def _pieces_of(source: BinaryIO | _Chained) -> Iterator[bytes | memoryview]:
    """Yield what a stream gives; pieces of a file are overwritten by the next one.

    These lie in whole pages of memory, so that the disk can take them from there.
    """
    if isinstance(source, FileIO):
        import mmap

        buffer = memoryview(mmap.mmap(-1, COPY_PIECE))
        while size := source.readinto(buffer):
            yield buffer[:size]
        return
    while piece := source.read(PIECE):
        yield piece


def _read_fully(source: BinaryIO, size: int) -> bytes:
    pieces = []
    while size > 0 and (piece := source.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
