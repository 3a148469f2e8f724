"""Write files and streams into a storage namespace, under the digest of their contents.

lakecli names its own objects by their BLAKE3. If the namespace already has an object of that name
and size, the contents are not sent again. For an object that lakeFS uploaded, only the MD5 in its
entry is known. If the branch has such an object at the path of a file, and the MD5s are equal, the
file is not sent, either. `ExpectedObject` is the object that a branch has at the path of a file,
and `Digests` recognises its contents.

A small file is read once. A large file is copied into a local namespace in one pass that also
hashes it. For a bucket, a large file is read twice: first to hash it, then to send it. The second
reading is verified, so that a file that changes meanwhile is never stored under a wrong name.

`lakecli.repository.transfer.multipart_upload` resumes a killed upload to a bucket. A killed copy
into a local namespace starts over, which costs less than verifying the copied bytes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from io import FileIO
from itertools import chain, compress
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, cast

from blake3 import blake3

from lakecli.base.identity import hashes, is_md5
from lakecli.base.ids import DataDigest
from lakecli.base.layout import data_key
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.base.temporary_files import temporary_space
from lakecli.errors import LakeError, PermissionDenied, Unreachable, Unsupported
from lakecli.kv import file_digests
from lakecli.kv.file_digests import FileKey
from lakecli.repository.contract import OwnLake, Repository
from lakecli.repository.reading.lakefs_digests import LakeFsHasher
from lakecli.repository.reading.recorded import PIECE
from lakecli.repository.transfer.parallel import Memory, Workers
from lakecli.repository.transfer.walk import OpenFile, SmallFile, changed
from lakecli.stores.capabilities import uploads_of
from lakecli.stores.contract import ANY, Guard, ObjectNotFound, ObjectStore, put_content
from lakecli.stores.local.batch import LocalBatch
from lakecli.stores.local.files import sync_all_published
from lakecli.stores.streams import PieceReader, read_exactly, waited
from lakecli.stores.uri import is_local, parse

if TYPE_CHECKING:
    from lakecli.repository.transfer.multipart_upload import Sender


SMALL: Final = 1 << 20
"""The size in bytes of the largest file that is read as a whole."""

TINY: Final = 1 << 14
"""The size in bytes of the largest file that waits in memory to be written with other files."""

COPY_PIECE: Final = 4 << 20
"""Bytes that are copied at a time from a file to a local namespace."""

WRITE_BACK: Final = 64 << 20
"""The number of copied bytes after which the system is asked to start writing them to disk."""

SENT_AT_ONCE: Final = 40 << 20
"""The bytes of a stream that a store has in memory: four parts being sent, and one being read."""


class ExpectedObject(NamedTuple):
    """The object that a branch has at the path to which a file is uploaded.

    Attributes:
        digest: the BLAKE3 of the object's bytes in 64 hex digits; if it is unknown, the MD5 that
            lakeFS recorded, in 32 hex digits. In that case the caller has checked that the object
            can be read.
        size: the size of the object's contents in bytes.
    """

    digest: str
    size: int


def needs_md5(expected: ExpectedObject | None, size: int | None) -> bool:
    """Return whether the MD5 of contents is needed to compare them with the expected object.

    Args:
        size: the size of the contents in bytes; ``None`` if unknown.
    """
    return expected is not None and is_md5(expected.digest) and size in {None, expected.size}


class Digests:
    """Computes the BLAKE3 of contents; also their MD5, if the expected object has no BLAKE3.

    Args:
        size: the size of the contents in bytes, if known. If it differs from the expected size, no
            MD5 is computed.
    """

    def __init__(self, expected: ExpectedObject | None, size: int | None = None) -> None:
        self._blake3 = blake3()
        self._expected = expected
        self._size = 0
        self._md5 = None
        if expected is not None and needs_md5(expected, size):
            self._md5 = LakeFsHasher(expected.size)

    def update(self, data: bytes | memoryview) -> None:
        """Add bytes of the contents."""
        self._size += len(data)
        self._blake3.update(data)
        if self._md5 is not None:
            self._md5.update(data)

    def hexdigest(self) -> DataDigest:
        """Return the BLAKE3."""
        return DataDigest(self._blake3.hexdigest())

    def are_expected(self) -> bool:
        """Return whether the contents have the MD5 that lakeFS recorded."""
        if self._md5 is None or self._expected is None or self._size != self._expected.size:
            return False
        return self._md5.has(self._expected.digest)


class Ingested(NamedTuple):
    """An object that is in the namespace now.

    Attributes:
        digest: the BLAKE3 of the object's contents, 64 hex digits.
        size: the size of the object's contents in bytes.
        is_kept: whether the contents have the MD5 of the expected object. Then nothing was written,
            and the namespace may have no object named by `digest`.
        status: the status of the file when it was opened; ``None`` for a stream, and for a file of
            `Ingest.together`.
        modified: the modification time of the file in unix seconds, if `status` is ``None``.
    """

    digest: str
    size: int
    is_kept: bool = False
    status: os.stat_result | None = None
    modified: int = 0

    @property
    def mtime(self) -> int:
        """The modification time of the file, in unix seconds; 0 for a stream."""
        return self.modified if self.status is None else self.status.st_mtime_ns // 1_000_000_000


class Ingest:
    """Writes files and streams into one namespace. Safe to share between threads.

    `flush` makes the objects durable and claims them.

    Args:
        repository: the repository whose local store remembers the digests of large files, so that
            an unchanged file is not read again, and unfinished uploads, so that they can be
            resumed. With ``None``, nothing is remembered, and each file is sent in one call.
        memory: limits the bytes of files that are read and sent whole, for all writers that share
            it; ``None``: a limit for this writer alone.

    Attributes:
        workers: the threads that read files and send their parts; if a thread fails, the work on
            large files ends.
        written: keys of objects that were written since the last `flush` and did not exist before.
    """

    def __init__(
        self,
        store: ObjectStore,
        guard: Guard,
        *,
        repository: Repository | None = None,
        progress: Progress = NO_PROGRESS,
        parallelism: int = 1,
        memory: Memory | None = None,
    ) -> None:
        self.written: set[str] = set()
        self._store = store
        self._guard = guard
        # If no garbage was ever collected, it does not matter which objects existed before.
        self._looks = guard.begin()
        self._is_local = is_local(store.uri)
        self._batch = cast("LocalBatch", store.batch()) if self._is_local else None
        self._unsynced: list[str] = []
        self._lake = None if repository is None else repository.lake
        self._hashed: list[tuple[FileKey, str, int]] = []
        self._progress = progress
        self.workers = Workers(parallelism)
        self._memory = memory or Memory()
        self._sender: Sender | None = None
        if repository is not None and (uploads := uploads_of(store)) is not None:
            from lakecli.repository.transfer.multipart_upload import Sender

            self._sender = Sender(repository, uploads, self.workers, progress)

    def file(self, file: OpenFile, *, expected: ExpectedObject | None = None) -> Ingested:
        """Write one file; the result is valid only if closing the file raises no error.

        Args:
            expected: the object that the branch has at the path; the file probably has the same
                contents. If so, and the object exists under its BLAKE3 or is known by its MD5,
                nothing is written.

        Raises:
            FileChanged: the file was written to meanwhile.
            OSError: the file cannot be read.
        """
        is_small = file.status.st_size <= SMALL
        done = self._read(file, expected) if is_small else self._large(file, expected)
        return done._replace(status=file.status)

    def together(self, files: Sequence[SmallFile]) -> list[Ingested | None]:
        """Write many small files whose contents were read before.

        Returns:
            For each file, the object; ``None`` if the file must be written separately.
        """
        if self._batch is None:
            return [None] * len(files)
        contents = [data for data, _ in files]
        digests = list(map(DataDigest.of_bytes, hashes(contents)))
        keys = list(map(data_key, digests))
        new = {key for key in keys if self._looks and self._store.local_path(key) is None}
        written = self._batch.put_contents(keys, contents)
        self.written |= new.intersection(compress(keys, written))
        self._progress.advance(size=sum(map(len, compress(contents, written))))
        return [
            Ingested(digest, len(data), modified=seconds) if is_written else None
            for digest, (data, seconds), is_written in zip(digests, files, written, strict=True)
        ]

    def _read(self, file: OpenFile, expected: ExpectedObject | None) -> Ingested:
        """Write one file, which is read into memory as a whole."""
        size = file.status.st_size
        # A batch writes one file at a time, so only few wait in memory.
        with self._memory.held(size) if self._batch is None else nullcontext():
            data = os.read(file.descriptor, size + 1)
            if len(data) != size:
                raise changed("read")
            done = self._bytes(data, expected)
        self._progress.advance(size=size)
        return done

    def _bytes(self, data: bytes, expected: ExpectedObject | None) -> Ingested:
        digests = Digests(expected, len(data))
        digests.update(data)
        done = Ingested(digests.hexdigest(), len(data), is_kept=digests.are_expected())
        if not done.is_kept and not self._has_expected(expected, done.digest, done.size):
            self._put(done.digest, data)
        return done

    def _has_expected(self, expected: ExpectedObject | None, digest: str, size: int) -> bool:
        """Return whether contents have the expected BLAKE3 and size, and the object exists."""
        return expected == ExpectedObject(digest, size) and self.has(digest, size)

    def _put(self, digest: str, data: bytes) -> None:
        key = data_key(digest)
        if self._batch is None:
            is_new = put_content(self._store, key, data)
        else:
            is_new = self._looks and self._store.local_path(key) is None
            self._batch.put_content(key, data)
        if is_new:
            self.written.add(key)

    def _large(self, opened: OpenFile, expected: ExpectedObject | None) -> Ingested:
        key = _key_of(opened)
        size = opened.status.st_size
        # Only the BLAKE3 of a file is remembered; to compute its MD5, the file must be read.
        known = None if needs_md5(expected, size) else _remembered_digest(self._lake, key)
        if known is not None and self.has(known, size):
            self._progress.advance(size=size)
            return Ingested(known, size)
        hashed_at = 0 if self._lake is None else int(self._lake.runtime.clock().timestamp() * 10**9)
        if (sender := self._sender) is not None and not sender.takes(size):
            done = self._read(opened, expected)
        else:
            with os.fdopen(os.dup(opened.descriptor), "rb", buffering=0) as file:
                done = self._whole_file(file, opened.status, expected)
        self._hashed.append((key, done.digest, hashed_at))
        return done

    def _whole_file(
        self, file: BinaryIO, status: os.stat_result, expected: ExpectedObject | None
    ) -> Ingested:
        """Copy or send a file, unless it has the expected contents."""
        size = status.st_size
        if self._batch is None:
            return self._send(file, status, Digests(expected, size))
        if expected is not None and expected.size == size:
            digests = Digests(expected, size)
            digest = _hash(file, digests, self.workers, self._progress)
            is_kept = digests.are_expected()
            if is_kept or self._has_expected(expected, digest, size):
                self._progress.advance(size=size)
                return Ingested(digest, size, is_kept=is_kept)
            file.seek(0)
        return self._copy(_pieces_of(file), self._batch, Digests(None))

    def stream(self, source: BinaryIO, *, expected: ExpectedObject | None = None) -> Ingested:
        """Write a stream of unknown length, such as standard input."""
        first = read_exactly(source, SMALL + 1)
        if len(first) <= SMALL:
            done = self._bytes(first, expected)
            self._progress.advance(size=len(first))
            return done
        pieces = chain([first], _pieces_of(source))
        if self._batch is not None:
            return self._copy(pieces, self._batch, Digests(expected))
        import tempfile

        with tempfile.TemporaryFile() as file:
            with temporary_space():
                file.writelines(pieces)
                file.seek(0)
            return self._whole_file(cast("BinaryIO", file), os.fstat(file.fileno()), expected)

    def known(self, pieces: Iterator[bytes], digest: str, size: int) -> Ingested:
        """Write an object whose digest is known, in one pass.

        Args:
            pieces: the bytes of the object. The iterator must raise an error after the last piece
                if the bytes do not have the digest.
        """
        if size <= SMALL:
            with self._memory.held(size):
                self._put(digest, b"".join(pieces))
            self._progress.advance(size=size)
            return Ingested(digest, size)
        if self._batch is not None:
            return self._copy(pieces, self._batch, Digests(None))
        reader = cast("BinaryIO", PieceReader(self._counted(pieces)))
        with self._memory.held(min(size, SENT_AT_ONCE)):
            # Every writer of this key writes the same bytes, so the write needs no condition, and
            # each part may be sent again.
            self._store.put(data_key(digest), reader, ANY)
        return Ingested(digest, size)

    def _counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.workers.check()
            self._progress.advance(size=len(piece))
            yield piece

    def _copy(
        self, pieces: Iterable[bytes | memoryview], batch: LocalBatch, digests: Digests
    ) -> Ingested:
        """Copy and hash the bytes in one pass; at the end, rename the file to the object's name."""
        temporary, target = batch.spool()
        size = 0
        try:
            with target:
                for piece in pieces:
                    self.workers.check()
                    digests.update(piece)
                    with self._writing():
                        target.write(piece)
                        if size // WRITE_BACK != (size + len(piece)) // WRITE_BACK:
                            _start_writing(target)
                    size += len(piece)
                    self._progress.advance(size=len(piece))
                with self._writing():
                    _start_writing(target)
        except BaseException:
            with suppress(LakeError):  # the first error is the one to report
                batch.discard(temporary)
            raise
        digest = digests.hexdigest()
        if digests.are_expected():
            return Ingested(digest, size, is_kept=True)  # the copy is removed with the batch
        batch.adopt(data_key(digest), temporary)
        return Ingested(digest, size)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Raise `Unreachable` if the namespace's disk fails; other errors are not changed."""
        try:
            yield
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            what = f"cannot write into {self._store.uri}: {reason}"
            hint = "free some space and repeat the command; nothing was half-written"
            raise Unreachable(what, hint=hint) from error

    def _send(self, file: BinaryIO, status: os.stat_result, digests: Digests) -> Ingested:
        """Hash a file, then send it to a bucket; the second reading is verified."""
        size = status.st_size
        sender = self._sender
        if sender is not None and not sender.takes(size):
            sender = None
        contents = None if sender is None else sender.read(file, size, digests)
        digest = contents.digest if contents else _hash(file, digests, self.workers, self._progress)
        if digests.are_expected():
            self._progress.advance(size=size)
            return Ingested(digest, size, is_kept=True)
        if sender is not None and contents is not None:
            try:
                sender.send(file.fileno(), contents, status=status)
                return Ingested(digest, size)
            except Unsupported:
                self._sender = None  # this server has no multipart uploads
        if self.has(digest, size):
            self._progress.advance(size=size)
        else:
            file.seek(0)
            self.known(verified(file, digest), digest, size)
        return Ingested(digest, size)

    def has(self, digest: str, size: int) -> bool:
        """Return whether the namespace has an object of this BLAKE3 and size; do not read it."""
        try:
            is_present = self._store.head(data_key(digest)).size == size
        except (ObjectNotFound, PermissionDenied):
            # Without permission to list, a store answers 403 for an absent object.
            return False
        if is_present and self._is_local:
            self._unsynced.append(data_key(digest))
        return is_present

    def flush(self, ingested: Collection[Ingested] = ()) -> None:
        """Make all written objects durable, and claim the objects to which entries will refer.

        Existing objects are made durable as well, because another process may not have synced them
        yet. The digests of large files are remembered.

        Args:
            ingested: the objects to claim. Objects with `is_kept` are left out; the caller claims
                them. Objects that are not in `written` are claimed as existing objects.

        Raises:
            Swept: garbage collection has deleted some of these objects since.
        """
        if self._batch is not None:
            self._batch.flush()
        unsynced, self._unsynced = self._unsynced, []
        if unsynced:
            sync_all_published(parse(self._store.uri).path, unsynced)
        hashed, self._hashed = self._hashed, []
        if hashed and self._lake is not None:
            with self._lake.kv.write() as txn:
                file_digests.remember_digests(txn, hashed)
        written, self.written = self.written, set()
        keys = {data_key(each.digest) for each in ingested if not each.is_kept}
        if keys:
            self._guard.settle(found=keys - written, written=keys & written)


def look(
    file: OpenFile,
    *,
    expected: ExpectedObject | None = None,
    lake: OwnLake | None = None,
    progress: Progress = NO_PROGRESS,
    workers: Workers | None = None,
) -> Ingested:
    """Hash a file, and return the result that `Ingest.file` would return; write nothing.

    Args:
        progress: its `advance` is called without a count while the file is read.
        workers: the threads of the command; if a thread fails, the reading ends.
    """
    size = file.status.st_size
    digests = Digests(expected, size)
    digest = None
    if size > SMALL and not needs_md5(expected, size):
        digest = _remembered_digest(lake, _key_of(file))
    if digest is None:
        with os.fdopen(file.descriptor, "rb", buffering=0, closefd=False) as contents:
            digest = _hash(contents, digests, workers or Workers(1), progress)
    return Ingested(digest, size, is_kept=digests.are_expected(), status=file.status)


def _hash(file: BinaryIO, digests: Digests, workers: Workers, progress: Progress) -> str:
    while piece := file.read(PIECE):
        workers.check()
        digests.update(piece)
        progress.advance()
    return digests.hexdigest()


def _remembered_digest(lake: OwnLake | None, key: FileKey) -> str | None:
    """Return the digest of a file that was hashed before, or ``None``."""
    if lake is None:
        return None
    with lake.kv.read() as txn:
        return file_digests.find_digest(txn, key)


def _key_of(file: OpenFile) -> FileKey:
    status, path = file.status, os.path.abspath(file.path)
    times = status.st_mtime_ns, status.st_ctime_ns
    return FileKey(status.st_dev, status.st_ino, path, status.st_size, *times)


def _pieces_of(source: BinaryIO) -> Iterator[bytes | memoryview]:
    """Yield the contents of a stream; each piece is valid until the next piece is requested."""
    if isinstance(source, FileIO):
        buffer = memoryview(bytearray(COPY_PIECE))
        while size := waited(source.readinto(buffer)):
            yield buffer[:size]
        return
    while piece := waited(source.read(PIECE)):
        yield piece


def verified(file: BinaryIO, digest: str) -> Iterator[bytes]:
    """Yield the pieces of a file.

    Raises:
        FileChanged: raised after the last piece, if the bytes have another digest.
    """
    hasher = blake3()
    while piece := file.read(PIECE):
        hasher.update(piece)
        yield piece
    if hasher.hexdigest() != digest:
        raise changed("sent")


def _start_writing(target: BinaryIO) -> None:
    """Ask the system to start writing to disk now, instead of writing everything at the end."""
    target.flush()
    advise = getattr(os, "posix_fadvise", None)  # macOS has none
    if advise is not None:
        with suppress(OSError):  # the system may ignore the advice
            advise(target.fileno(), 0, 0, _DONT_NEED)


_DONT_NEED: Final = getattr(os, "POSIX_FADV_DONTNEED", 0)
