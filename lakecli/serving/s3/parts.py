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
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple
from weakref import WeakKeyDictionary

import google_crc32c
from blake3 import blake3

from lakecli.base.layout import data_key, incoming_key
from lakecli.base.model import NO_METADATA
from lakecli.base.temporary_files import temporary_space
from lakecli.errors import LakeError, Unreachable
from lakecli.repository.transfer.parallel import Workers, part_retries
from lakecli.serving.s3 import checksums
from lakecli.serving.s3.errors import S3Error
from lakecli.serving.writes import BranchWriter, Deposited, Intake
from lakecli.stores.capabilities import PartUploads, UploadedPart, UploadId, uploads_of
from lakecli.stores.contract import ANY
from lakecli.stores.local.batch import LocalBatch
from lakecli.stores.local.files import write_all

if TYPE_CHECKING:
    from datetime import datetime

    from lakecli.repository.contract import Repository
    from lakecli.serving.s3.objects import CopySource

PIECE: Final = 1 << 20
"""Bytes that are read and hashed at a time."""

MOST_WAITING: Final = 64
"""The most parts that wait for an earlier one to be hashed; with more, the object is read again."""


_WHOLE: Final = ""
"""Stands for the tag of all parts together, once they are joined."""


class UploadPart(NamedTuple):
    """A part of an upload.

    Attributes:
        tag: its ETag without quotes; another one each time that a part is sent.
        checksums: base64 by algorithm.
        source: the object that has its bytes, from `start` on; ``None``: they have arrived.
    """

    number: int
    size: int
    tag: str
    modified_at: datetime
    checksums: Mapping[str, str] = NO_METADATA
    source: CopySource | None = None
    start: int = 0


class Storage(ABC):
    """Where the parts of one upload are. Safe to share between threads.

    Args:
        algorithms: the checksums of the object to compute; see `checksums.ALGORITHMS`.
    """

    def __init__(self, repository: Repository, algorithms: Sequence[str]) -> None:
        self._repository = repository
        self._algorithms = algorithms
        self._lock = Lock()  # of the attributes of subclasses
        self._hashing = Lock()  # of the attributes below
        self._restart()

    def _restart(self) -> None:
        self._hasher = blake3()
        self._sums = {name: checksums.ALGORITHMS[name]() for name in self._algorithms}
        self._tags: list[str] = []

    @abstractmethod
    def add(self, part: UploadPart, pieces: Iterable[bytes]) -> None:
        """Store a part; the iterator raises an error if there are more or fewer bytes."""

    @abstractmethod
    def join(
        self, parts: Sequence[UploadPart], writer: BranchWriter, expected: Mapping[str, str]
    ) -> Deposited:
        """Join parts in the given order; the storage is used up then.

        Args:
            expected: checksums of the object, base64 by algorithm.

        Raises:
            S3Error: the object has another checksum.
        """

    @abstractmethod
    def discard(self) -> None:
        """Remove all parts; parts that are stored after that remain."""

    @abstractmethod
    def _read(self, part: UploadPart) -> Iterator[bytes] | None:
        """Return the bytes of a part, or ``None`` if they can no longer be read."""

    def advance(self, parts: Mapping[int, UploadPart]) -> None:
        """Hash the parts that follow each other from the first one on, unless a thread does."""
        if self._hashing.acquire(blocking=False):
            try:
                while (part := parts.get(len(self._tags) + 1)) is not None:
                    if part.source is not None or not self._hash(part):
                        break
            finally:
                self._hashing.release()

    def _hash(self, part: UploadPart) -> bool:
        pieces = self._read(part)
        if pieces is None:
            return False
        try:
            for piece in pieces:
                for hasher in (self._hasher, *self._sums.values()):
                    hasher.update(piece)
        except BaseException:
            self._restart()
            raise
        self._tags.append(part.tag)
        return True

    def _digest(self, parts: Sequence[UploadPart], expected: Mapping[str, str]) -> str | None:
        """Return the digest of parts, or ``None`` if some of them can no longer be read."""
        with self._hashing:
            if [part.tag for part in parts[: len(self._tags)]] != self._tags:
                self._restart()
            if not all(self._hash(part) for part in parts[len(self._tags) :]):
                return None
            for name in self._sums.keys() & expected.keys():
                if checksums.encoded(self._sums[name].digest()) != expected[name]:
                    raise S3Error("BadDigest", f"the object has another checksum: {name}")
            return self._hasher.hexdigest()


def storage_of(repository: Repository, algorithms: Sequence[str]) -> Storage:
    """Return a new storage in the namespace of a repository."""
    uploads = uploads_of(repository.store)
    if uploads is None:
        return FileParts(repository, algorithms)
    return BucketParts(repository, algorithms, uploads)


class _Durable(Intake):
    """Stands for objects that are durable and claimed already."""

    def __init__(self) -> None:
        self.is_broken = False

    def settle(self, deposited: Iterable[Deposited]) -> None:
        """Do nothing."""


_batches: WeakKeyDictionary[object, LocalBatch] = WeakKeyDictionary()
"""The temporary files of each directory; a batch for each upload would need too many files."""

_adding: Final = Lock()


class FileParts(Storage):
    """The parts of an upload into a directory."""

    def __init__(self, repository: Repository, algorithms: Sequence[str]) -> None:
        super().__init__(repository, algorithms)
        store = repository.store
        with _adding:
            batch = _batches.get(store) or store.batch()
            assert isinstance(batch, LocalBatch)
            self._batch = _batches[store] = batch
        self._files: set[str] = set()
        self._places: dict[str, tuple[str, int]] = {}
        """The file and the offset of each part, by its tag."""
        self._main = ""
        self._stride = 0
        self._slots: set[int] = set()

    def add(self, part: UploadPart, pieces: Iterable[bytes]) -> None:
        """See `Storage.add`."""
        name, offset = self._place(part)
        try:
            with self._open(name) as file:
                os.lseek(file.fileno(), offset, os.SEEK_SET)
                for piece in pieces:
                    write_all(file.fileno(), piece)
        except BaseException:
            with self._lock:
                if name == self._main:
                    self._slots.discard(part.number)
                else:
                    self._drop(name)
            raise
        self._places[part.tag] = name, offset

    def _place(self, part: UploadPart) -> tuple[str, int]:
        with self._lock:
            # The part that arrives first may be the last one of the object, which is shorter.
            if not self._main or (part.size > self._stride and len(self._slots) <= 1):
                self._main, self._stride, self._slots = self._new_file(), max(part.size, 1), set()
            if part.size <= self._stride and part.number not in self._slots:
                self._slots.add(part.number)
                return self._main, (part.number - 1) * self._stride
            return self._new_file(), 0

    def _new_file(self) -> str:
        name, file = self._batch.spool()
        file.close()
        self._files.add(name)
        return name

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

    def _read(self, part: UploadPart) -> Iterator[bytes]:
        name, offset = self._places[part.tag]
        with self._open(name) as file:
            file.seek(offset)
            left = part.size
            while left:
                piece = file.read(min(PIECE, left))
                if not piece:
                    raise Unreachable("a part of the upload is gone", hint="begin it again")
                left -= len(piece)
                yield piece

    def join(
        self, parts: Sequence[UploadPart], writer: BranchWriter, expected: Mapping[str, str]
    ) -> Deposited:
        """See `Storage.join`."""
        del writer
        digest = self._digest(parts, expected)
        assert digest is not None
        name, size = self._assembled(parts)
        key, store = data_key(digest), self._repository.store
        written = {key} if store.local_path(key) is None else set[str]()
        self._batch.adopt(key, name)
        self._batch.flush()
        self._repository.guard.settle(found={key} - written, written=written)
        self._files.discard(name)
        self.discard()
        return Deposited(key, digest, size, _Durable())

    def _assembled(self, parts: Sequence[UploadPart]) -> tuple[str, int]:
        """Return the file that has all parts at their places, and its size."""
        offsets: dict[str, int] = {}
        size = 0
        for part in parts:
            offsets[part.tag] = size
            size += part.size
        target = self._main
        moved = [part for part in parts if self._places[part.tag] != (target, offsets[part.tag])]
        if any(self._places[part.tag][0] == target for part in moved):
            with self._lock:
                target, moved = self._new_file(), list(parts)
        with self._open(target) as file:
            for part in moved:
                file.seek(offsets[part.tag])
                for piece in self._read(part):
                    write_all(file.fileno(), piece)
            file.truncate(size)
        return target, size

    def discard(self) -> None:
        """See `Storage.discard`."""
        with self._lock:
            for name in list(self._files):
                self._drop(name)


class BucketParts(Storage):
    """The parts of an upload into a bucket."""

    def __init__(
        self, repository: Repository, algorithms: Sequence[str], uploads: PartUploads
    ) -> None:
        super().__init__(repository, algorithms)
        self._uploads = uploads
        self._key = incoming_key(repository.lake.runtime.new_id().hex())
        self._upload: UploadId | None = None
        self._is_joined = False
        self._sent: dict[str, UploadedPart] = {}
        self._waiting: dict[str, BinaryIO] = {}

    def add(self, part: UploadPart, pieces: Iterable[bytes]) -> None:
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
                return self._uploads.put_part(self._key, upload, part.number, file, crc32c=crc32c)

            random = self._repository.lake.runtime.random_number
            self._sent[part.tag] = part_retries(Workers(1), random).call(put)
        except BaseException:
            file.close()
            raise
        with self._lock:
            self._waiting[part.tag] = file
            while len(self._waiting) > MOST_WAITING:
                self._waiting.pop(next(iter(self._waiting))).close()

    def _read(self, part: UploadPart) -> Iterator[bytes] | None:
        if part.tag == _WHOLE:
            return _contents(self._repository.store.open(self._key))
        with self._lock:
            file = self._waiting.pop(part.tag, None)
        if file is not None:
            file.seek(0)
        return None if file is None else _contents(file)

    def join(
        self, parts: Sequence[UploadPart], writer: BranchWriter, expected: Mapping[str, str]
    ) -> Deposited:
        """See `Storage.join`."""
        assert self._upload is not None
        digest = self._digest(parts, expected)
        if not self._is_joined:  # taking it over may have failed after that
            sent = [self._sent[part.tag] for part in parts]
            self._uploads.complete(self._key, self._upload, sent, ANY)
            self._is_joined = True
        if digest is None:
            digest = self._digest([parts[0]._replace(tag=_WHOLE)], expected)
        assert digest is not None
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
        while piece := file.read(PIECE):
            yield piece
