"""Unfinished uploads: stores their parts, and joins them.

If the namespace is a directory, the parts of an upload are written to one temporary file. The
offset of a part is computed as if all parts before it had the size of the largest part so far. This
is true for nearly all uploads, and then joining the parts moves no data. Otherwise, as after a part
that is larger or uploaded again, the parts are copied when the upload is completed.

If the namespace is a bucket, each part is sent to a multipart upload of the bucket, under a key for
incoming objects. When the digest is known, the bucket copies the joined object to its final key
(`take_over`). If the process is killed, garbage collection deletes incoming objects and aborts
unfinished uploads.

In both cases, parts are hashed in order while other parts arrive, up to the first missing part. A
part that is copied from another object is only recorded, and read when the upload is completed. If
the client sends a checksum of the object, the object is read again.
"""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from io import FileIO
from itertools import accumulate, chain
from secrets import token_hex
from threading import Lock
from time import time_ns
from typing import BinaryIO, Final, NamedTuple
from weakref import WeakKeyDictionary

import google_crc32c
from blake3 import blake3

from lakecli.base.layout import data_key, incoming_key
from lakecli.base.model import NO_METADATA
from lakecli.base.temporary_files import temporary_space
from lakecli.errors import LakeError, Unreachable
from lakecli.repository.contract import Repository
from lakecli.repository.transfer.parallel import Workers, part_retries
from lakecli.serving.reading import PIECE, read_part
from lakecli.serving.s3 import checksums
from lakecli.serving.s3.call import Call
from lakecli.serving.s3.errors import S3Error
from lakecli.serving.s3.objects import CopySource, properties_of
from lakecli.stores.capabilities import UploadedPart, UploadId, UploadNotFound, uploads_of
from lakecli.stores.contract import size_of
from lakecli.stores.local.batch import LocalBatch
from lakecli.stores.local.files import write_all

MOST_WAITING: Final = 64
"""The maximum number of parts that wait for an earlier part to be hashed.

If there are more, the complete object is read again to be hashed.
"""

Joined = tuple[str, str, int]
"""The address, digest and size of an object, which is durable but not yet claimed."""

Sums = Mapping[str, str]
"""Checksums in base64, by algorithm; see `checksums.ALGORITHMS`."""


class UploadPart(NamedTuple):
    """A part of an upload.

    Attributes:
        number: the part number, from 1.
        tag: the ETag without quotes; a part that is sent again gets a new one.
        serial: ascends with the beginning of the requests.
        source: the object that the part is copied from; ``None`` if the client sent the data.
        start: the offset of the part in `source`.
    """

    number: int
    size: int
    tag: str
    modified_at: datetime
    serial: int
    checksums: Sums = NO_METADATA
    source: CopySource | None = None
    start: int = 0


Parts = Sequence[UploadPart]


def no_such_upload() -> S3Error:
    """Return the error for an upload that does not exist or is finished."""
    return S3Error("NoSuchUpload", "the upload does not exist, was completed, or was aborted")


class Upload(ABC):
    """An unfinished upload. Safe to share between threads."""

    def __init__(self, call: Call, path: bytes, repository: Repository) -> None:
        self.started_at = call.context.clock()
        self.id = f"{time_ns():016x}{token_hex(8)}"  # so IDs sort by age, as S3 lists uploads
        self.bucket, self.key = call.bucket, call.key
        self.properties = properties_of(call.headers, path)
        self.parts: dict[int, UploadPart] = {}
        self.completing = Lock()
        self._repository = repository
        self._joined: Joined | None = None
        self._asked: list[str] = []
        """The tags of the only parts that can still be joined; empty until that is decided."""
        self._copied: set[str] = set()
        """The tags of the parts copied from objects that are stored already."""
        self._is_ended = False
        self._lock = Lock()  # of the attributes of subclasses
        self._hashing = Lock()  # of the attributes below
        self._hasher = blake3()
        self._tags: list[str] = []
        """The tags of the parts that were hashed, in order."""

    @abstractmethod
    def store(self, part: UploadPart, pieces: Iterable[bytes]) -> None:
        """Store the data of a part; `pieces` raises an error if it is not `part.size` bytes."""

    @abstractmethod
    def _read(self, part: UploadPart) -> Iterator[bytes] | None:
        """Return the data of a part, or ``None`` if it can no longer be read."""

    @abstractmethod
    def _join(self, parts: Parts, sums: Sums) -> Joined:
        """Join stored parts; see `join`."""

    @abstractmethod
    def _discard(self) -> None:
        """Remove all stored parts; if a part is stored afterwards, call this method again."""

    def record(self, part: UploadPart) -> None:
        """Record a stored part, or a part copied from an object; replace a part of the same number.

        A part whose request began later is not replaced: a client that repeats a request knows only
        the tag in the response to the second one.

        Raises:
            S3Error: NoSuchUpload; the upload was completed or aborted.
        """
        if self._is_ended or self._joined is not None:
            self._discard()
            raise no_such_upload()
        other = self.parts.get(part.number)
        if other is None or other.serial < part.serial:
            self.parts[part.number] = part
        if self._hashing.acquire(blocking=False):
            try:
                while following := self.parts.get(len(self._tags) + 1):
                    if following.source is not None or not self._hash(following):
                        break
            finally:
                self._hashing.release()

    def join(self, parts: Parts, sums: Sums) -> Joined:
        """Join parts in the given order, and return the object; no part can be recorded after that.

        Args:
            sums: the checksums that the object must have.

        Raises:
            S3Error: the object has another checksum; or other parts were joined before; or the
                upload was aborted.
        """
        if self._is_ended:
            raise no_such_upload()
        tags = [part.tag for part in parts]
        if self._asked not in ([], tags):
            raise S3Error("InvalidPart", "the upload was completed before, with other parts")
        if self._joined is None:
            for part in parts:
                if part.source is not None and part.tag not in self._copied:
                    repository, entry = part.source.repository, part.source.entry
                    self.store(part, read_part(repository, entry, part.start, part.size))
                    self._copied.add(part.tag)
            self._joined = self._join(parts, sums)
            self._asked = tags
            self._discard()
        return self._joined

    def end(self) -> None:
        """Remove the stored parts; no part can be recorded after that."""
        self._is_ended = True
        self._discard()

    def _hash(self, part: UploadPart) -> bool:
        pieces = self._read(part)
        if pieces is None:
            return False
        hasher = self._hasher.copy()
        for piece in pieces:
            hasher.update(piece)
        self._hasher = hasher
        self._tags.append(part.tag)
        return True

    def _digest(self, parts: Parts) -> str | None:
        """Return the digest of the joined parts, or ``None`` if the joined object must be read.

        It must if other parts were hashed, or a part can no longer be read.
        """
        with self._hashing:
            count = len(self._tags)
            is_begun = [part.tag for part in parts[:count]] == self._tags
            is_whole = is_begun and all(map(self._hash, parts[count:]))
            return self._hasher.hexdigest() if is_whole else None


def _digest_of(pieces: Iterable[bytes], sums: Sums) -> str:
    """Return the digest of an object.

    Raises:
        S3Error: BadDigest; the object has another checksum than one of `sums`.
    """
    whole = blake3()
    hashers = {name: checksums.ALGORITHMS[name]() for name in sums}
    for piece in pieces:
        for hasher in (whole, *hashers.values()):
            hasher.update(piece)
    for name, text in sums.items():
        if checksums.encoded(hashers[name].digest()) != text:
            raise S3Error("BadDigest", f"the object has another checksum: {name}")
    return whole.hexdigest()


def new_upload(call: Call, path: bytes) -> Upload:
    """Return a new upload of an object to the bucket of a request."""
    repository = call.context.served.repository(call.bucket)
    kind = FileUpload if uploads_of(repository.store) is None else BucketUpload
    return kind(call, path, repository)


_batches: WeakKeyDictionary[object, LocalBatch] = WeakKeyDictionary()
"""The batch of temporary files of each store; a batch per upload would open too many files."""

_adding: Final = Lock()
_publishing: Final = Lock()


class FileUpload(Upload):
    """An upload to a namespace that is a directory."""

    def __init__(self, call: Call, path: bytes, repository: Repository) -> None:
        super().__init__(call, path, repository)
        store = repository.store
        with _adding:
            batch = _batches.get(store) or store.batch()
            assert isinstance(batch, LocalBatch)
            self._batch = _batches[store] = batch
        self._files: list[str] = []
        self._main = ""
        self._stride = 0
        self._taken: set[tuple[str, int]] = set()
        """The file and the offset of each part, including parts that still arrive."""
        self._places: dict[str, tuple[str, int]] = {}
        """The file and the offset of each stored part, by the tag of the part."""

    def store(self, part: UploadPart, pieces: Iterable[bytes]) -> None:
        """See `Upload.store`."""
        name, offset = place = self._place(part)
        try:
            with self._batch.reopen(name) as file:
                file.seek(offset)
                for piece in pieces:
                    write_all(file.fileno(), piece)
        except BaseException:
            self._taken.remove(place)
            raise
        self._places[part.tag] = place

    def _place(self, part: UploadPart) -> tuple[str, int]:
        with self._lock:
            # The part that arrives first may be the last of the object, which is shorter.
            if not self._main or part.size > self._stride:
                self._main, self._stride = self._new_file(), part.size
            place = self._main, (part.number - 1) * self._stride
            if place in self._taken:
                place = self._new_file(), 0
            self._taken.add(place)
            return place

    def _new_file(self) -> str:
        name, file = self._batch.spool()
        file.close()
        self._files.append(name)
        return name

    def _read(self, part: UploadPart) -> Iterator[bytes]:
        name, offset = self._places[part.tag]
        with self._batch.reopen(name) as file:
            file.seek(offset)
            yield from _contents(file, part.size)

    def _join(self, parts: Parts, sums: Sums) -> Joined:
        digest = None if sums else self._digest(parts)
        if digest is None:
            digest = _digest_of(chain.from_iterable(map(self._read, parts)), sums)
        name, size = self._assembled(parts)
        key = data_key(digest)
        with _publishing:  # a flush that fails drops all files of the batch
            self._batch.adopt(key, name)
            self._batch.flush()
        return key, digest, size

    def _assembled(self, parts: Parts) -> tuple[str, int]:
        """Return the name and size of a file with all parts in order."""
        *offsets, size = accumulate((part.size for part in parts), initial=0)
        with self._lock:
            name, self._main = self._main, ""  # a part that arrives from now on is not written here
        is_arriving = len(self._taken) > len(self._places)
        in_place = [(name, offset) for offset in offsets]
        is_moved = is_arriving or [self._places[part.tag] for part in parts] != in_place
        if is_moved:
            name = self._new_file()
        with self._batch.reopen(name) as file:
            for part in parts if is_moved else ():
                for piece in self._read(part):
                    write_all(file.fileno(), piece)
            file.truncate(size)
        return name, size

    def _discard(self) -> None:
        with self._lock:
            for name in self._files:
                with suppress(LakeError):
                    self._batch.discard(name)


class BucketUpload(Upload):
    """An upload to a namespace in a bucket."""

    def __init__(self, call: Call, path: bytes, repository: Repository) -> None:
        super().__init__(call, path, repository)
        uploads = uploads_of(repository.store)
        assert uploads is not None
        self._uploads = uploads
        self._key = incoming_key(repository.lake.runtime.new_id().hex())
        self._upload: UploadId | None = None
        self._is_complete = False
        self._sent: dict[str, UploadedPart] = {}
        self._waiting: dict[str, BinaryIO] = {}

    def store(self, part: UploadPart, pieces: Iterable[bytes]) -> None:
        """See `Upload.store`."""
        with self._lock:
            if self._upload is None:
                self._upload = self._uploads.start(self._key)
            upload = self._upload
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed after hashing
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
        with self._lock:
            file = self._waiting.pop(part.tag, None)
        if file is not None:
            file.seek(0)
        return None if file is None else _contents(file, part.size)

    def _join(self, parts: Parts, sums: Sums) -> Joined:
        assert self._upload is not None
        store, size = self._repository.store, sum(part.size for part in parts)
        digest = None if sums else self._digest(parts)
        if not self._is_complete:  # a retry, after `take_over` failed, finds it complete
            self._asked = [part.tag for part in parts]
            try:
                sent = [self._sent[tag] for tag in self._asked]
                self._uploads.complete(self._key, self._upload, sent)
            except UploadNotFound:  # it may be complete, and the bucket's first response was lost
                if size_of(store, self._key) != size:
                    raise
            self._is_complete = True
        if digest is None:
            digest = _digest_of(_contents(store.open(self._key), size), sums)
        return take_over(self._repository, self._key, digest, size), digest, size

    def _discard(self) -> None:
        with self._lock:
            for file in self._waiting.values():
                file.close()
            self._waiting.clear()
        if self._upload is not None and self._joined is None:
            with suppress(LakeError):
                if self._is_complete:
                    self._repository.store.delete([self._key])
                else:
                    self._uploads.abort(self._key, self._upload)


def take_over(repository: Repository, key: str, digest: str, size: int) -> str:
    """Copy an object from an incoming key to the key of its digest, and return that key.

    The incoming key is deleted. If the key of the digest already has an object of this size,
    nothing is copied.
    """
    store, address = repository.store, data_key(digest)
    claimed = repository.guard.claim([address])  # so that it is not collected as garbage
    found = size_of(store, address) if claimed is None else claimed.get(address)
    if found != size:
        store.copy(key, address)
    with suppress(LakeError):  # garbage collection deletes it later
        store.delete([key])
    return address


def _contents(file: BinaryIO | FileIO, size: int) -> Iterator[bytes]:
    with file:
        while size:
            piece = file.read(min(PIECE, size))
            if not piece:
                raise Unreachable("a part of the upload is gone", hint="begin it again")
            size -= len(piece)
            yield piece
