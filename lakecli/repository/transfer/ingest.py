"""Bringing files and streams into a storage namespace, under the digest of their contents.

An object that exists there under the same name and with the same size is not sent again. A small
file is read once. A large one is copied into a local namespace in one pass that also hashes it. For
a bucket it is read twice, once to hash it and once to send it; the second reading is verified, so
that a file which changes meanwhile is never stored under a wrong name.

`lakecli.repository.transfer.send` resumes an upload to a bucket that was killed. A copy into a
local namespace starts over, which costs less than verifying what was copied.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from blake3 import blake3

from lakecli.errors import LakeError, PermissionDenied, Unreachable
from lakecli.layout import data_key
from lakecli.objectstore.base import ANY, ObjectNotFound
from lakecli.objectstore.contents import put_content
from lakecli.objectstore.uri import is_local
from lakecli.progress import NO_PROGRESS, Progress
from lakecli.repository.transfer.parallel import Memory
from lakecli.repository.transfer.readers import (
    PIECE,
    VerifyingReader,
    changed,
    pieces_of,
    read_fully,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lakecli.kv.file_hashes import FileKey
    from lakecli.objectstore.base import Batch, ObjectStore
    from lakecli.repository.core.gc_guard import GcGuard
    from lakecli.repository.transfer.send import Sender

    _Done = tuple[str, bool]
    """A digest, and whether the namespace held, or may have held, the object before."""

SMALL: Final = 1 << 20
"""Bytes of the largest file that is read whole."""

SENT_AT_ONCE: Final = 40 << 20
"""Bytes that a store holds of a stream it sends: four parts in flight, and one being read."""

WRITE_BACK: Final = 64 << 20
"""Bytes of a large copy after which the system is asked to start writing them to disk."""


class SpecialFile(LakeError):
    """Not a regular file, nor a link to one where links are followed."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """An object that the namespace now holds.

    Attributes:
        digest: BLAKE3 of its contents, 64 hex digits.
        size: in bytes.
        mtime: modification time of the file, in unix seconds; 0 for a stream.
        found: whether the namespace held, or may have held, it before.
    """

    digest: str
    size: int
    mtime: int
    found: bool = False


def _fingerprint(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _seconds(status: os.stat_result) -> int:
    return status.st_mtime_ns // 1_000_000_000


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


class Ingest:
    """Brings files and streams into one namespace. Safe to share between threads.

    Objects are durable after `flush`. Entries may refer to them after `claim`.

    Args:
        store: the storage namespace.
        known: returns the digest of a file that was hashed before, or ``None``.
        remember: called with the digest of each large file that had to be hashed, and the time
            by `clock_ns` when hashing began.
        clock_ns: the present in unix nanoseconds.
        follow: follow symbolic links.
        sender: sends large files to a bucket in parts; ``None`` sends each in one call.
        memory: limits the bytes of files that are sent whole.
        progress: counts the bytes that the namespace holds. It is called often, also while a file
            is only read. An error that it raises ends the work on the file.
        guard: protects the objects from garbage collection; ``None`` if nothing will refer to
            them.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        known: Callable[[FileKey], str | None] = lambda _key: None,
        remember: Callable[[FileKey, str, int], None] = lambda _key, _digest, _hashed_at: None,
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
            expected: digest and size that the file probably has, because an earlier upload had
                them. If it has them and the namespace holds the object, nothing is written.

        Raises:
            FileChanged: the file was written to meanwhile.
            SpecialFile: it is not a regular file.
            OSError: it cannot be read.
        """
        with self._opened(path) as (descriptor, status, check):
            if status.st_size <= SMALL:
                digest, found = self._small(descriptor, status.st_size, expected)
            else:
                digest, found = self._large(
                    descriptor, status, path, expected=expected, check=check
                )
        return Ingested(digest, status.st_size, _seconds(status), found)

    def look(self, path: bytes) -> Ingested:
        """Return what `file` would bring in, without writing anything.

        Raises:
            SpecialFile: it is not a regular file.
            FileChanged: the file was written to meanwhile.
            OSError: it cannot be read.
        """
        with self._opened(path) as (descriptor, status, _):
            digest = None if status.st_size <= SMALL else self._known(_key_of(path, status))
            if digest is None:
                with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:
                    digest = self._hash(file)
        return Ingested(digest, status.st_size, _seconds(status))

    @contextmanager
    def _opened(self, path: bytes) -> Iterator[tuple[int, os.stat_result, Callable[[], None]]]:
        """Open a regular file; give a function too that raises `FileChanged` if it has changed."""
        descriptor = os.open(path, self._flags)
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                raise SpecialFile("not a regular file")

            def check() -> None:
                if _fingerprint(os.fstat(descriptor)) != _fingerprint(before):
                    raise changed("read")

            yield descriptor, before, check
            check()
        finally:
            os.close(descriptor)

    def _small(self, descriptor: int, size: int, expected: tuple[str, int] | None) -> _Done:
        # A file for a local namespace is written before the next one is read.
        with self._memory.held(size) if self._batch is None else nullcontext():
            data = os.read(descriptor, size + 1)
            if len(data) != size:
                raise changed("read")
            digest = blake3(data).hexdigest()
            known = expected == (digest, size) and self._present(digest, size)
            found = known or self._put(digest, data)
        self._progress.advance(size=size)
        return digest, found

    def _put(self, digest: str, data: bytes) -> bool:
        """Write an object; return whether it existed before."""
        key = data_key(digest)
        if self._batch is None:
            return not put_content(self._store, key, data)
        # Whether it existed matters only to a namespace with garbage collection.
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
                recognised = self._recognise(file, size, expected)
                digest = recognised or self._copy_or_send(file, size, check)
            found = True
        self._remember(key, digest, hashed_at)
        return digest, found

    def _recognise(self, file: BinaryIO, size: int, expected: tuple[str, int] | None) -> str | None:
        """Return the expected digest if the file has it and a local namespace the object."""
        if self._batch is None or expected is None or expected[1] != size:
            return None
        digest = self._hash(file)
        if digest == expected[0] and self._present(digest, size):
            self._progress.advance(size=size)
            return digest
        file.seek(0)
        return None

    def stream(self, source: BinaryIO) -> Ingested:
        """Bring in a stream of unknown length, such as standard input."""
        first = read_fully(source, SMALL + 1)
        if len(first) <= SMALL:
            digest = blake3(first).hexdigest()
            found = self._put(digest, first)
            self._progress.advance(size=len(first))
            return Ingested(digest, len(first), 0, found)
        pieces = chain([first], pieces_of(source))
        if self._batch is not None:
            digest, size = self._copy(pieces, self._batch)
            return Ingested(digest, size, 0, found=True)
        import tempfile

        with tempfile.TemporaryFile() as file:
            file.writelines(pieces)
            size = file.tell()
            file.seek(0)
            digest = self._copy_or_send(cast("BinaryIO", file), size)
            return Ingested(digest, size, 0, found=True)

    def _copy_or_send(
        self, file: BinaryIO, size: int, check: Callable[[], None] = lambda: None
    ) -> str:
        if self._batch is not None:
            return self._copy(pieces_of(file), self._batch)[0]
        if self._sender is None:
            return self._send(file, size)
        contents = self._sender.read(file, size)
        self._sender.send(file.fileno(), contents, check=check)
        return contents.digest

    def _copy(self, pieces: Iterable[bytes | memoryview], batch: Batch) -> tuple[str, int]:
        """Copy and hash in one pass; a rename at the end gives the name. Return digest and size."""
        temporary, target = batch.spool()
        hasher = blake3()
        size = 0
        with target:
            for piece in pieces:
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
        """Make an error of the namespace's disk another one than that of an unreadable source."""
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
            # Every writer of this key writes the same bytes, so the write needs no condition, and
            # each part may be sent again.
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
            # Without permission to list, a store answers 403 for an absent object.
            return False

    def flush(self) -> None:
        """Make everything brought in so far durable; call `claim` next."""
        if self._batch is not None:
            self._batch.flush()

    def claim(self, ingested: Iterable[Ingested]) -> None:
        """Protect durable objects from garbage collection, so that entries may refer to them.

        Raises:
            Swept: some have been collected meanwhile.
            SweepRunning: a collection takes too long.
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
    """Ask the disk to start with what was written, instead of with everything at the end."""
    target.flush()
    with suppress(AttributeError, OSError):  # a hint, which some platforms do not have
        os.posix_fadvise(target.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
