"""Parts of objects that are uploaded in parts, until they are joined.

In a directory, all parts of an upload are in one temporary file, each at the place that it has if
all parts before it have the size of the first one. That is so for nearly all uploads, so joining
them moves no bytes. Parts of another size, and parts that are sent again, are copied once more.

In a bucket, parts are those of the bucket's own multipart upload, under a key for incoming objects.

Both hash the parts in their order while further parts arrive, as far as none is missing.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, Protocol

import google_crc32c
from blake3 import blake3

from lakecli.base.layout import data_key, incoming_key
from lakecli.base.temporary_files import temporary_space
from lakecli.errors import LakeError, Unreachable
from lakecli.repository.transfer.parallel import Workers, part_retries
from lakecli.serving.writes import BranchWriter, Deposited, Intake
from lakecli.stores.capabilities import PartUploads, UploadedPart, UploadId, uploads_of
from lakecli.stores.contract import ANY
from lakecli.stores.local.batch import LocalBatch
from lakecli.stores.local.files import write_all

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository

PIECE: Final = 1 << 20
"""Bytes that are read and hashed at a time."""

MOST_WAITING: Final = 64
"""The most parts that wait for an earlier one to be hashed; with more, the object is read again."""


class ArrivedPart(NamedTuple):
    """A part that has arrived.

    Attributes:
        tag: its ETag without quotes; another one each time that a part is sent.
        file: the temporary file that has it, in a directory.
        offset: where it begins in the file.
        sent: the part of the bucket's upload.
    """

    number: int
    size: int
    tag: str
    file: str = ""
    offset: int = 0
    sent: UploadedPart | None = None


class Storage(Protocol):
    """Where the parts of one upload are. Safe to share between threads."""

    def add(self, number: int, size: int, pieces: Iterable[bytes], tag: str) -> ArrivedPart:
        """Store a part.

        Args:
            size: the number of bytes; the iterator raises an error if there are more or fewer.
        """

    def advance(self, find: Callable[[int], ArrivedPart | None]) -> None:
        """Hash the parts that follow each other from the first one on.

        Args:
            find: returns the part of a number, if it has arrived.
        """

    def join(self, parts: Sequence[ArrivedPart], writer: BranchWriter) -> Deposited:
        """Join parts in the given order; the storage is used up then."""

    def discard(self) -> None:
        """Remove all parts; parts that are stored after that remain."""


def storage_of(repository: Repository, batch_of: Callable[[Repository], LocalBatch]) -> Storage:
    """Return a new storage in the namespace of a repository.

    Args:
        batch_of: returns the batch for temporary files in a directory.
    """
    uploads = uploads_of(repository.store)
    if uploads is None:
        return FileParts(repository, batch_of(repository))
    return BucketParts(repository, uploads)


class _Digest:
    """The BLAKE3 of parts in their order, as far as they have arrived."""

    def __init__(self, read: Callable[[ArrivedPart], Iterator[bytes] | None]) -> None:
        self._read = read
        self._lock = Lock()
        self._hasher = blake3()
        self._tags: list[str] = []

    def advance(self, find: Callable[[int], ArrivedPart | None]) -> None:
        """Hash what follows, unless another thread does."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            while (part := find(len(self._tags) + 1)) is not None and self._add(part):
                pass
        finally:
            self._lock.release()

    def of(self, parts: Sequence[ArrivedPart]) -> str | None:
        """Return the digest of parts, or ``None`` if some of them can no longer be read."""
        with self._lock:
            if [part.tag for part in parts[: len(self._tags)]] != self._tags:
                self._hasher, self._tags = blake3(), []
            if all(self._add(part) for part in parts[len(self._tags) :]):
                return self._hasher.hexdigest()
            return None

    def _add(self, part: ArrivedPart) -> bool:
        pieces = self._read(part)
        if pieces is None:
            return False
        hasher = self._hasher.copy()
        for piece in pieces:
            hasher.update(piece)
        self._hasher = hasher
        self._tags.append(part.tag)
        return True


class _Durable(Intake):
    """Stands for objects that are durable and claimed already."""

    def __init__(self) -> None:
        self.is_broken = False

    def settle(self, deposited: Iterable[Deposited]) -> None:
        """Do nothing."""


class FileParts:
    """The parts of an upload into a directory."""

    def __init__(self, repository: Repository, batch: LocalBatch) -> None:
        self._repository = repository
        self._batch = batch
        self._lock = Lock()  # of the attributes below
        self._files: set[str] = set()
        self._main = ""
        self._stride = 0
        self._slots: set[int] = set()
        self._digest = _Digest(self._read)

    def add(self, number: int, size: int, pieces: Iterable[bytes], tag: str) -> ArrivedPart:
        """See `Storage.add`."""
        name, offset = self._place(number, size)
        try:
            with self._open(name) as file:
                os.lseek(file.fileno(), offset, os.SEEK_SET)
                for piece in pieces:
                    write_all(file.fileno(), piece)
        except BaseException:
            self._give_back(name, number)
            raise
        return ArrivedPart(number, size, tag, name, offset)

    def _place(self, number: int, size: int) -> tuple[str, int]:
        with self._lock:
            # The part that arrives first may be the last one of the object, which is shorter.
            if not self._main or (size > self._stride and len(self._slots) <= 1):
                self._main, self._stride, self._slots = self._new_file(), max(size, 1), set()
            if size <= self._stride and number not in self._slots:
                self._slots.add(number)
                return self._main, (number - 1) * self._stride
            return self._new_file(), 0

    def _new_file(self) -> str:
        name, file = self._batch.spool()
        file.close()
        self._files.add(name)
        return name

    def _give_back(self, name: str, number: int) -> None:
        with self._lock:
            if name == self._main:
                self._slots.discard(number)
            else:
                self._drop(name)

    def _drop(self, name: str) -> None:
        self._files.discard(name)
        with suppress(LakeError):
            self._batch.discard(name)

    @contextmanager
    def _open(self, name: str) -> Iterator[BinaryIO]:
        try:
            opened = self._batch.reopen(name)
        except ValueError:  # an error came after it had got its final name
            raise Unreachable("a part of the upload is gone", hint="begin it again") from None
        with opened as file:
            try:
                yield file
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise Unreachable(
                    f"cannot write into {self._repository.store.uri}: {reason}",
                    hint="free some space and send the part again",
                ) from error

    def advance(self, find: Callable[[int], ArrivedPart | None]) -> None:
        """See `Storage.advance`."""
        self._digest.advance(find)

    def _read(self, part: ArrivedPart) -> Iterator[bytes]:
        with self._open(part.file) as file:
            file.seek(part.offset)
            left = part.size
            while left:
                piece = file.read(min(PIECE, left))
                if not piece:
                    raise Unreachable("a part of the upload is gone", hint="begin it again")
                left -= len(piece)
                yield piece

    def join(self, parts: Sequence[ArrivedPart], writer: BranchWriter) -> Deposited:
        """See `Storage.join`."""
        del writer
        digest = self._digest.of(parts)
        assert digest is not None
        name, size = self._assembled(parts)
        key, store = data_key(digest), self._repository.store
        is_new = store.local_path(key) is None
        self._batch.adopt(key, name)
        self._batch.flush()
        keys = {key}
        self._repository.guard.settle(
            found=set() if is_new else keys, written=keys if is_new else set()
        )
        with self._lock:
            self._files.discard(name)
        self.discard()
        return Deposited(key, digest, size, _Durable())

    def _assembled(self, parts: Sequence[ArrivedPart]) -> tuple[str, int]:
        """Return the file that has all parts at their places, and its size."""
        misplaced: list[tuple[ArrivedPart, int]] = []
        size = 0
        for part in parts:
            if (part.file, part.offset) != (self._main, size):
                misplaced.append((part, size))
            size += part.size
        target = self._main
        if any(part.file == target for part, _ in misplaced):
            with self._lock:
                target = self._new_file()
            offsets = [size - sum(part.size for part in parts[at:]) for at in range(len(parts))]
            misplaced = list(zip(parts, offsets, strict=True))
        with self._open(target) as file:
            for part, offset in misplaced:
                file.seek(offset)
                for piece in self._read(part):
                    write_all(file.fileno(), piece)
            file.truncate(size)
        return target, size

    def discard(self) -> None:
        """See `Storage.discard`."""
        with self._lock:
            for name in list(self._files):
                self._drop(name)


class BucketParts:
    """The parts of an upload into a bucket."""

    def __init__(self, repository: Repository, uploads: PartUploads) -> None:
        self._repository = repository
        self._uploads = uploads
        self._key = incoming_key(repository.lake.runtime.new_id().hex())
        self._lock = Lock()  # of the attributes below
        self._upload: UploadId | None = None
        self._is_joined = False
        self._waiting: dict[str, BinaryIO] = {}
        self._digest = _Digest(self._read)

    def add(self, number: int, size: int, pieces: Iterable[bytes], tag: str) -> ArrivedPart:
        """See `Storage.add`."""
        with self._lock:
            if self._upload is None:
                self._upload = self._uploads.start(self._key)
            upload = self._upload
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it was hashed
        try:
            crc32c = 0
            for piece in pieces:
                with temporary_space():
                    file.write(piece)
                crc32c = google_crc32c.extend(crc32c, piece)

            def put() -> UploadedPart:
                file.seek(0)
                return self._uploads.put_part(self._key, upload, number, file, crc32c=crc32c)

            random = self._repository.lake.runtime.random_number
            sent = part_retries(Workers(1), random).call(put)
        except BaseException:
            file.close()
            raise
        with self._lock:
            self._waiting[tag] = file
            while len(self._waiting) > MOST_WAITING:
                self._waiting.pop(next(iter(self._waiting))).close()
        return ArrivedPart(number, size, tag, sent=sent)

    def advance(self, find: Callable[[int], ArrivedPart | None]) -> None:
        """See `Storage.advance`."""
        self._digest.advance(find)

    def _read(self, part: ArrivedPart) -> Iterator[bytes] | None:
        with self._lock:
            file = self._waiting.pop(part.tag, None)
        return None if file is None else _contents(file)

    def join(self, parts: Sequence[ArrivedPart], writer: BranchWriter) -> Deposited:
        """See `Storage.join`."""
        assert self._upload is not None
        if not self._is_joined:  # taking it over may have failed after that
            sent = [part.sent for part in parts if part.sent is not None]
            self._uploads.complete(self._key, self._upload, sent, ANY)
            self._is_joined = True
        digest = self._digest.of(parts)
        if digest is None:
            hasher = blake3()
            with self._repository.store.open(self._key) as source:
                while piece := source.read(PIECE):
                    hasher.update(piece)
            digest = hasher.hexdigest()
        self.discard()
        return writer.take_over(self._key, digest, sum(part.size for part in parts))

    def discard(self) -> None:
        """See `Storage.discard`."""
        with self._lock:
            for file in self._waiting.values():
                file.close()
            self._waiting.clear()
            upload = None if self._is_joined else self._upload
        if upload is not None:
            with suppress(LakeError):
                self._uploads.abort(self._key, upload)


def _contents(file: BinaryIO) -> Iterator[bytes]:
    with file:
        file.seek(0)
        while piece := file.read(PIECE):
            yield piece
