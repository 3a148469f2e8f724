"""Bringing files and streams into a storage namespace, under the digest of their contents.

An object that exists there under the same name and with the same size is not sent again; nor is a
file that has the MD5 of an object of lakeFS that the branch has at its path. lakecli names its own
objects by their BLAKE3; of an object that lakeFS uploaded whole only the MD5 is known, which its
entry records.

A small file is read once. A large one is copied into a local namespace in one pass that also hashes
it. For a bucket it is read twice, once to hash it and once to send it; the second reading is
verified, so that a file which changes meanwhile is never stored under a wrong name.

`lakecli.repository.transfer.parts` resumes an upload to a bucket that was killed. A copy into a
local namespace starts over, which costs less than verifying what was copied.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, cast

from lakecli.base.layout import data_key
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.errors import PermissionDenied
from lakecli.kv.local_files import FileKey
from lakecli.repository.transfer.parallel import Memory
from lakecli.repository.transfer.readers import (
    PIECE,
    Digests,
    ExpectedObject,
    OpenFile,
    PieceReader,
    Section,
    SectionReader,
    copy_pieces,
    needs_md5,
    pieces_of,
    read_fully,
    read_whole,
)
from lakecli.stores.contract import ANY, ObjectNotFound, put_content
from lakecli.stores.local.files import sync_all_published
from lakecli.stores.uri import is_local, parse

if TYPE_CHECKING:
    from lakecli.repository.contract import ObjectGuard
    from lakecli.repository.transfer.parts import Sender
    from lakecli.stores.contract import ObjectStore, WriteBatch


SMALL: Final = 1 << 20
"""Bytes of the largest file that is read whole."""

SENT_AT_ONCE: Final = 40 << 20
"""Bytes that a store holds of a stream it sends: four parts in flight, and one being read."""


def _seconds(status: os.stat_result) -> int:
    return status.st_mtime_ns // 1_000_000_000


def _key_of(path: bytes, status: os.stat_result) -> FileKey:

    return FileKey(
        device=status.st_dev,
        inode=status.st_ino,
        path=os.path.abspath(path),
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
    )


class Ingested(NamedTuple):
    """An object that the namespace now holds.

    Attributes:
        digest: BLAKE3 of its contents, 64 hex digits.
        size: in bytes.
        mtime: modification time of the file, in unix seconds; 0 for a stream.
        found: whether the namespace held, or may have held, it before.
        is_kept: the contents are those of the expected object by its MD5, so nothing was brought
            in, and the namespace may have no object named by `digest`.
    """

    digest: str
    size: int
    mtime: int = 0
    found: bool = False
    is_kept: bool = False


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
        memory: limits the bytes of files that are sent whole, which several threads may do.
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
        guard: ObjectGuard | None = None,
    ) -> None:
        self._guard = guard
        if guard is not None:
            guard.begin()
        self._store = store
        self._is_local = is_local(store.uri)
        self._batch = store.batch() if self._is_local else None
        self._unsynced: list[str] = []
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

    def file(
        self,
        path: bytes,
        *,
        expected: ExpectedObject | None = None,
        opener: Callable[[bytes, int], int] = os.open,
    ) -> Ingested:
        """Bring in one file.

        Args:
            path: of the file.
            expected: the object whose contents the file probably has, because the branch has it
                at the path. If the file has them and the object exists, nothing is written.
            opener: opens the path with some flags, as `os.open` does.

        Raises:
            FileChanged: the file was written to meanwhile.
            SpecialFile: it is not a regular file.
            OSError: it cannot be read.
        """
        with OpenFile(path, self._flags, opener) as file:
            if file.status.st_size > SMALL:
                done = self._large(file, path, expected)
            else:
                done = self._read(file, expected)
        return done._replace(mtime=_seconds(file.status))

    def _read(self, file: OpenFile, expected: ExpectedObject | None) -> Ingested:
        """Bring in one file that is read whole."""
        size = file.status.st_size
        with self._memory.held(size):
            done = self._bytes(read_whole(file.descriptor, size), expected)
        self._progress.advance(size=size)
        return done

    def look(
        self,
        path: bytes,
        *,
        expected: ExpectedObject | None = None,
        opener: Callable[[bytes, int], int] = os.open,
    ) -> Ingested:
        """Return what `file` would bring in, without writing anything.

        Raises:
            SpecialFile: it is not a regular file.
            FileChanged: the file was written to meanwhile.
            OSError: it cannot be read.
        """
        with OpenFile(path, self._flags, opener) as opened:
            status = opened.status
            size = status.st_size
            digests = Digests(expected, size)
            digest = None
            if size > SMALL and not needs_md5(expected, size):
                digest = self._known(_key_of(path, status))
            if digest is None:
                with os.fdopen(opened.descriptor, "rb", buffering=0, closefd=False) as file:
                    digest = self._hash(file, digests)
        return Ingested(digest, size, _seconds(status), is_kept=digests.are_expected())

    def _bytes(self, data: bytes, expected: ExpectedObject | None) -> Ingested:
        size = len(data)
        digests = Digests(expected, size)
        digests.update(data)
        digest = digests.hexdigest()
        if digests.are_expected():
            return Ingested(digest, size, is_kept=True)
        is_expected = expected is not None and expected.is_blake3(digest, size)
        known = is_expected and self.has(digest, size)
        return Ingested(digest, size, found=known or self._put(digest, data))

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

    def _large(self, opened: OpenFile, path: bytes, expected: ExpectedObject | None) -> Ingested:
        key = _key_of(path, opened.status)
        size = opened.status.st_size
        # Only the BLAKE3 of a file is remembered; for its MD5 it is read.
        known = None if needs_md5(expected, size) else self._known(key)
        if known is not None and self.has(known, size):
            self._progress.advance(size=size)
            return Ingested(known, size, found=True)
        hashed_at = self._clock_ns()
        if size <= self._whole:
            done = self._read(opened, expected)
        else:
            with os.fdopen(os.dup(opened.descriptor), "rb", buffering=0) as file:
                done = self._whole_file(file, size, expected, opened.check)
        self._remember(key, done.digest, hashed_at)
        return done

    def _whole_file(
        self,
        file: BinaryIO,
        size: int,
        expected: ExpectedObject | None,
        check: Callable[[], None] = lambda: None,
    ) -> Ingested:
        """Copy or send a file, unless it has the expected contents."""
        if self._batch is None:
            return self._send(file, size, Digests(expected, size), check)
        recognised = self._recognise(file, size, expected)
        return recognised or self._copy(pieces_of(file), self._batch, Digests(None))

    def _recognise(
        self, file: BinaryIO, size: int, expected: ExpectedObject | None
    ) -> Ingested | None:
        """Return the expected contents if the file has them and their object exists."""
        if expected is None or expected.size != size:
            return None
        digests = Digests(expected, size)
        digest = self._hash(file, digests)
        is_kept = digests.are_expected()
        if is_kept or (expected.is_blake3(digest, size) and self.has(digest, size)):
            self._progress.advance(size=size)
            return Ingested(digest, size, found=not is_kept, is_kept=is_kept)
        file.seek(0)
        return None

    def stream(self, source: BinaryIO, *, expected: ExpectedObject | None = None) -> Ingested:
        """Bring in a stream of unknown length, such as standard input.

        Args:
            source: the stream, read to its end.
            expected: as for `file`.
        """
        first = read_fully(source, SMALL + 1)
        if len(first) <= SMALL:
            done = self._bytes(first, expected)
            self._progress.advance(size=len(first))
            return done
        pieces = chain([first], pieces_of(source))
        if self._batch is not None:
            return self._copy(pieces, self._batch, Digests(expected))
        import tempfile

        with tempfile.TemporaryFile() as file:
            file.writelines(pieces)
            size = file.tell()
            file.seek(0)
            return self._whole_file(cast("BinaryIO", file), size, expected)

    def known(self, pieces: Iterator[bytes], digest: str, size: int) -> Ingested:
        """Bring in an object whose digest is known, in one pass.

        Args:
            pieces: its bytes; must raise an error behind the last piece if they have another
                digest.
            digest: BLAKE3 of its contents, 64 hex digits.
            size: in bytes.
        """
        key = data_key(digest)
        if size <= self._whole:
            with self._memory.held(size):
                found = self._put(digest, b"".join(pieces))
            self._progress.advance(size=size)
            return Ingested(digest, size, found=found)
        if self._batch is not None:
            return self._copy(pieces, self._batch, Digests(None))
        reader = cast("BinaryIO", PieceReader(self._counted(pieces)))
        with self._memory.held(SENT_AT_ONCE):
            self._store.put(key, reader, ANY)  # every writer of this key writes the same bytes
        return Ingested(digest, size, found=True)

    def _counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._progress.advance(size=len(piece))
            yield piece

    def _copy(
        self, pieces: Iterable[bytes | memoryview], batch: WriteBatch, digests: Digests
    ) -> Ingested:
        """Copy and hash in one pass; a rename at the end gives the name."""
        temporary, size = copy_pieces(
            pieces, batch, digests, uri=self._store.uri, progress=self._progress
        )
        digest = digests.hexdigest()
        if digests.are_expected():
            return Ingested(digest, size, is_kept=True)  # the copy is removed with the batch
        batch.adopt(data_key(digest), temporary)
        return Ingested(digest, size, found=True)

    def _send(
        self, file: BinaryIO, size: int, digests: Digests, check: Callable[[], None]
    ) -> Ingested:
        contents = None if self._sender is None else self._sender.read(file, size, digests)
        digest = self._hash(file, digests) if contents is None else contents.digest
        if digests.are_expected():
            self._progress.advance(size=size)
            return Ingested(digest, size, is_kept=True)
        if self._sender is not None and contents is not None:
            self._sender.send(file.fileno(), contents, check=check)
            return Ingested(digest, size, found=True)
        if self.has(digest, size):
            self._progress.advance(size=size)
            return Ingested(digest, size, found=True)
        whole = Section(1, 0, size, bytes.fromhex(digest))
        verified = cast("BinaryIO", SectionReader(file.fileno(), whole, progress=self._progress))
        with self._memory.held(SENT_AT_ONCE):
            # Every writer of this key writes the same bytes, so the write needs no condition, and
            # each part may be sent again.
            self._store.put(data_key(digest), verified, ANY)
        self._progress.advance(size=size)
        return Ingested(digest, size, found=True)

    def _hash(self, file: BinaryIO, digests: Digests) -> str:
        while piece := file.read(PIECE):
            digests.update(piece)
            self._progress.advance()
        return digests.hexdigest()

    def has(self, digest: str, size: int) -> bool:
        """Tell whether the namespace has an object, by its BLAKE3; it may be damaged."""
        try:
            is_present = self._store.head(data_key(digest)).size == size
        except (ObjectNotFound, PermissionDenied):
            # Without permission to list, a store answers 403 for an absent object.
            return False
        if is_present and self._is_local:
            self._unsynced.append(data_key(digest))
        return is_present

    def flush(self) -> None:
        """Make everything brought in so far durable; call `claim` next.

        So are objects that were present: another process may not have synced them yet.
        """
        if self._batch is not None:
            self._batch.flush()
        unsynced, self._unsynced = self._unsynced, []
        if unsynced:
            sync_all_published(parse(self._store.uri).path, unsynced)

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
            if not each.is_kept:
                (found if each.found else written).append(data_key(each.digest))
        if found or written:
            self._guard.settle(found=found, written=written)
