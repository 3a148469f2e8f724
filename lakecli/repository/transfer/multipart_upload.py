"""Multipart uploads: send large files in parts, resume killed uploads, abort abandoned ones.

The SDKs can send parts, too, but they start over after a kill, and do not compare the bytes with
the digest that names the object.

`Sender` sends a file. It reads the file twice: first to hash the file and each part, then to send
the parts, each of which is hashed again. So the parts can be sent in any order, and an upload of a
file that changes meanwhile is never completed. The upload is recorded in the local store before its
first part is sent: the next run with the same contents asks the bucket which parts have arrived,
and sends the missing parts.

Stores keep and bill the parts of an upload until it is completed or aborted. `drop_leftovers`
aborts abandoned uploads, at most once a day: an upload of another machine if no part has arrived
for a day, and an upload of this machine if no part has arrived for a week. Only keys of data
objects are considered.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from threading import Lock
from typing import BinaryIO, Final, cast

import google_crc32c
from blake3 import blake3

from lakecli.base.layout import DATA, data_digest, data_key
from lakecli.base.progress import Progress
from lakecli.errors import LakeError, PermissionDenied, Unreachable
from lakecli.kv import unfinished_uploads
from lakecli.repository.contract import Repository
from lakecli.repository.reading.recorded import PIECE, Hasher
from lakecli.repository.transfer.parallel import Workers, part_retries
from lakecli.repository.transfer.walk import FileChanged, changed, has_changed
from lakecli.stores import capabilities
from lakecli.stores.capabilities import PART_SIZE, PartUploads, UploadedPart, UploadId
from lakecli.stores.contract import size_of
from lakecli.stores.streams import PieceReader, Seekable

SEARCH_INTERVAL: Final = timedelta(days=1)
"""The time between two searches, and the age of an abandoned upload of another machine."""

PATIENCE: Final = timedelta(days=7)
"""The age of an abandoned upload of this machine: the time since its last part arrived."""

MOST_LEFTOVERS: Final = 1_000
"""The largest number of uploads that one search considers."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a file and its digest at the first reading; `start` and `size` are in bytes."""

    number: int
    start: int
    size: int
    digest: bytes
    crc32c: int = 0


class SectionReader(Seekable):
    """A stream of a part of a file; if the part has changed, its last bytes are withheld.

    If the stream is read again from the beginning, it is verified again.
    """

    def __init__(
        self, descriptor: int, section: Section, workers: Workers, progress: Progress
    ) -> None:
        super().__init__(section.size)
        self._descriptor = descriptor
        self._section = section
        self._workers = workers
        self._progress = progress
        self._pieces = PieceReader(iter(()))
        self._read_to = 0

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes.

        Raises:
            FileChanged: the bytes differ from those of the first reading.
        """
        if self._position >= self._section.size or not size:
            return b""
        if not self._position:
            self._pieces = PieceReader(self._verified())
        elif self._position != self._read_to:
            raise ValueError("a part is read from its beginning to its end")
        data = self._pieces.read(size)
        self._position = self._read_to = self._position + len(data)
        return data

    def _verified(self) -> Iterator[bytes]:
        """Yield the pieces of the part; raise `FileChanged` at the end if the digest differs."""
        hasher, section = blake3(), self._section
        for start in range(0, section.size, PIECE):
            self._workers.check()
            self._progress.advance()
            length = min(PIECE, section.size - start)
            piece = os.pread(self._descriptor, length, section.start + start)
            if len(piece) != length:
                raise changed("sent")
            hasher.update(piece)
            yield piece
        if hasher.digest() != section.digest:
            raise changed("sent")


@dataclass(frozen=True, slots=True)
class FileContents:
    """The digests of a file at the first reading; `digest` is its BLAKE3 in 64 hex digits."""

    digest: str
    size: int
    part_size: int
    sections: list[Section]


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends large files into one namespace; safe to share between threads.

    Attributes:
        workers: the threads of the command, which send the parts.
        progress: counts the bytes of the parts that were sent.
    """

    repository: Repository
    uploads: PartUploads
    workers: Workers
    progress: Progress
    _at_work: dict[str, Lock] = field(default_factory=dict)

    def takes(self, size: int) -> bool:
        """Return whether a file of `size` bytes is large enough to be sent in parts."""
        return size > PART_SIZE

    def read(self, file: BinaryIO, size: int, digests: Hasher) -> FileContents:
        """Read and hash `size` bytes of a file from its current position, before it is sent.

        Raises:
            FileChanged: the file has another size.
        """
        part_size = capabilities.part_size_of(size, PART_SIZE)
        sections = []
        for number, start in enumerate(range(0, size, part_size), 1):
            left = length = min(part_size, size - start)
            hasher, crc32c = blake3(), 0
            while left:
                piece = file.read(min(PIECE, left))
                if not piece:
                    raise changed("read")
                self.workers.check()
                digests.update(piece)
                hasher.update(piece)
                crc32c = google_crc32c.extend(crc32c, piece)
                left -= len(piece)
                self.progress.advance()
            sections.append(Section(number, start, length, hasher.digest(), crc32c))
        if file.read(1):
            raise changed("read")
        return FileContents(digests.hexdigest(), size, part_size, sections)

    def send(self, descriptor: int, contents: FileContents, *, status: os.stat_result) -> None:
        """Send a file, unless the namespace has an object with its contents.

        Args:
            status: the status of the file before `read`.

        Raises:
            FileChanged: the file was written to since `read`.
            Unreachable: the store cannot be reached or has lost parts; the next run can resume.
        """
        # `setdefault` is atomic. A thread with the same contents waits, and then finds the object.
        with self._at_work.setdefault(contents.digest, Lock()):
            if self._is_present(contents):
                self.progress.advance(size=contents.size)
                if self._find(contents.digest):  # a process was killed after completing the upload
                    self._forget(contents.digest)
                return
            try:
                self._upload(descriptor, contents, status)
            except capabilities.UploadNotFound:
                # Another process completed the upload, or the store dropped it: start over once.
                self._forget(contents.digest)
                if self._is_present(contents):
                    return
                try:
                    self._upload(descriptor, contents, status)
                except capabilities.UploadNotFound as error:
                    raise Unreachable(f"the store has lost parts: {error.message}") from error

    def _upload(self, descriptor: int, contents: FileContents, status: os.stat_result) -> None:
        key = data_key(contents.digest)
        upload, arrived = self._resume(contents) or self._begin(contents)
        missing = [each for each in contents.sections if each.number not in arrived]
        self.progress.advance(size=contents.size - sum(section.size for section in missing))
        retries = part_retries(self.workers, self.repository.lake.runtime.random_number)

        def send(section: Section) -> None:
            def put() -> UploadedPart:
                # Each attempt gets a new reader, which hashes the part from its beginning.
                reader = SectionReader(descriptor, section, self.workers, self.progress)
                body = cast("BinaryIO", reader)
                number, crc32c = section.number, section.crc32c
                return self.uploads.put_part(key, upload, number, body, crc32c=crc32c)

            # No two threads send the same part, so none writes the same item.
            arrived[section.number] = retries.call(put)
            self.progress.advance(size=section.size)

        try:
            self.workers.share(missing, send)
            if has_changed(descriptor, status):
                raise changed("read")
        except FileChanged:
            with suppress(LakeError):
                self.uploads.abort(key, upload)
            self._forget(contents.digest)
            raise
        parts = [arrived[section.number] for section in contents.sections]
        # Every writer of this key joins the same bytes, so no condition is needed.
        self.uploads.complete(key, upload, parts)
        self._forget(contents.digest)

    def _resume(self, contents: FileContents) -> tuple[UploadId, dict[int, UploadedPart]] | None:
        """Return the unfinished upload of these contents, and the parts that arrived intact.

        Raises:
            UploadNotFound: the upload was completed just now, or the store deleted it.
        """
        begun = self._find(contents.digest)
        if begun is None or begun.part_size != contents.part_size:
            return None
        upload = UploadId(begun.upload)
        sections = {section.number: section for section in contents.sections}
        try:
            listed = list(self.uploads.parts(data_key(contents.digest), upload))
        except PermissionDenied:
            return None
        right = {}
        for part in listed:
            section = sections.get(part.number)
            if section and part.size == section.size and part.crc32c in (None, section.crc32c):
                right[part.number] = part
        return upload, right

    def _begin(self, contents: FileContents) -> tuple[UploadId, dict[int, UploadedPart]]:
        upload, lake = self.uploads.start(data_key(contents.digest)), self.repository.lake
        begun = (contents.digest, upload, contents.part_size, lake.runtime.now())
        with lake.kv.write() as txn:
            transfer = unfinished_uploads.UnfinishedTransfer(*begun)
            unfinished_uploads.put_transfer(txn, self.repository.key, transfer)
        return upload, {}

    def _find(self, digest: str) -> unfinished_uploads.UnfinishedTransfer | None:
        with self.repository.lake.kv.read() as txn:
            return unfinished_uploads.find_transfer(txn, self.repository.key, digest)

    def _forget(self, digest: str) -> None:
        with self.repository.lake.kv.write() as txn:
            unfinished_uploads.delete_transfer(txn, self.repository.key, digest)

    def _is_present(self, contents: FileContents) -> bool:
        return size_of(self.repository.store, data_key(contents.digest)) == contents.size


def drop_leftovers(repository: Repository, uploads: PartUploads) -> None:
    """Abort abandoned uploads in a repository's namespace, at most once a day.

    Errors of the store are ignored, because the next search may succeed.
    """
    now = repository.lake.runtime.now()
    with repository.lake.kv.read() as txn:
        looked = unfinished_uploads.looked_at(txn, repository.key)
    if looked is not None and now - looked < SEARCH_INTERVAL:
        return
    with repository.lake.kv.write() as txn:
        unfinished_uploads.set_looked_at(txn, repository.key, now)
    with suppress(LakeError):
        _drop(repository, uploads, now)


def _drop(repository: Repository, uploads: PartUploads, now: datetime) -> None:
    with repository.lake.kv.read() as txn:
        recorded = unfinished_uploads.iter_transfers(txn, repository.key)
        mine = {each.upload: each for each in recorded}
    there = capabilities.store_time(repository.store) or now  # this machine's clock may be wrong
    alive = set()
    for found in islice(uploads.iter_unfinished(DATA), MOST_LEFTOVERS):
        if data_digest(found.key) is None:
            continue
        begun = mine.get(found.id)
        patience = SEARCH_INTERVAL if begun is None else PATIENCE
        if _is_old(uploads, found, there - patience):
            uploads.abort(found.key, found.id)
        else:
            alive.add(found.id)
    # The store may not list a younger upload yet.
    gone = [each for upload, each in mine.items() if upload not in alive]
    if old := [each.digest for each in gone if now - each.started_at > PATIENCE]:
        with repository.lake.kv.write() as txn:
            for digest in old:
                unfinished_uploads.delete_transfer(txn, repository.key, digest)


def _is_old(uploads: PartUploads, found: capabilities.UnfinishedUpload, before: datetime) -> bool:
    """Return whether no part of an upload has arrived since a time."""
    if found.started_at > before:
        return False
    try:
        changed_at = uploads.changed_at(found.key, UploadId(found.id))
    except capabilities.UploadNotFound:
        return False
    return changed_at is None or changed_at <= before
