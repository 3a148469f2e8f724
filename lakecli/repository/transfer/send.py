"""Sending a large file to a bucket in parts, and resuming after a kill.

The file is read twice: first to hash the whole and every part, then to send it, when each part is
hashed again. So no part is sent with other bytes than the name of the object promises, whatever the
order of the parts, and an upload of a file that changes meanwhile is never completed.

An upload is recorded in the local store before its first part. The next run with the same contents
asks the bucket which parts have arrived, and sends the others.

Aborting abandoned uploads in parts, at most once a day.

Stores keep and bill the parts of an upload until it is completed or aborted. An upload is abandoned
if another machine began it and it has received no part for a day, or if this machine began it and
it has received none for a week. Only keys of data objects are considered.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from threading import Lock
from typing import BinaryIO, Final, cast

import google_crc32c
from blake3 import blake3

from lakecli.base.layout import DATA, data_digest, data_key
from lakecli.base.progress import Progress
from lakecli.base.retry import Retries
from lakecli.errors import LakeError, PermissionDenied, Unreachable
from lakecli.kv import transfers
from lakecli.repository.contract import Repository
from lakecli.repository.transfer.expected import Digests
from lakecli.repository.transfer.parallel import Memory, Workers
from lakecli.repository.transfer.readers import PIECE, FileChanged, changed
from lakecli.stores.base import ANY, ObjectNotFound
from lakecli.stores.capabilities import PART_SIZE, uploads_of
from lakecli.stores.seekable import Seekable
from lakecli.stores.uploads import (
    Part,
    UnfinishedUpload,
    UploadId,
    UploadNotFound,
    Uploads,
    part_size_of,
)

MOST_IN_MEMORY: Final = 16 << 20
"""Bytes of the largest part that is read whole; a larger one is read while it is sent."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a file, as first read; `start` and `size` are in bytes."""

    number: int
    start: int
    size: int
    digest: bytes
    crc32c: int


@dataclass(frozen=True, slots=True)
class Contents:
    """A file, as first read; `digest` is its BLAKE3 in 64 hex digits."""

    digest: str
    size: int
    part_size: int
    sections: list[Section]


def read_contents(
    file: BinaryIO,
    size: int,
    *,
    smallest: int = PART_SIZE,
    progress: Progress,
    digests: Digests | None = None,
) -> Contents:
    """Read and hash `size` bytes of a file from its position.

    Args:
        file: the file.
        size: its size, in bytes.
        smallest: bytes of a part, unless the file needs larger ones.
        progress: called for each piece that was read.
        digests: computes the digests of the whole file.

    Raises:
        FileChanged: the file has another size.
    """
    part_size = part_size_of(size, smallest)
    whole = digests or Digests(None, size)
    sections = []
    for number, start in enumerate(range(0, size, part_size), 1):
        left = length = min(part_size, size - start)
        hasher, crc32c = blake3(), 0
        while left:
            piece = file.read(min(PIECE, left))
            if not piece:
                raise changed("read")
            whole.update(piece)
            hasher.update(piece)
            crc32c = google_crc32c.extend(crc32c, piece)
            left -= len(piece)
            progress.advance()
        sections.append(Section(number, start, length, hasher.digest(), crc32c))
    if file.read(1):
        raise changed("read")
    return Contents(whole.hexdigest(), size, part_size, sections)


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends large files into one namespace; safe to share between threads.

    Attributes:
        repository: of the namespace.
        uploads: uploads in parts into the namespace.
        workers: the threads of the command, which send the parts.
        retries: of each part.
        memory: limits the bytes of parts in flight.
        part_size: of all but huge objects, in bytes.
        progress: counts the bytes of each part that has arrived. It is called often, so that it
            can interrupt the work.
    """

    repository: Repository
    uploads: Uploads
    workers: Workers
    retries: Retries
    memory: Memory
    part_size: int
    progress: Progress
    _lock: Lock = field(default_factory=Lock)
    _at_work: dict[str, Lock] = field(default_factory=dict)

    def read(self, file: BinaryIO, size: int, digests: Digests) -> Contents:
        """Read and hash a file before it is sent."""
        return read_contents(
            file, size, smallest=self.part_size, progress=self.progress, digests=digests
        )

    def send(self, descriptor: int, contents: Contents, *, check: Callable[[], None]) -> None:
        """Send a file, unless the namespace holds its contents.

        Args:
            descriptor: of the open file.
            contents: returned by `read`.
            check: raises `FileChanged` if the file was written to.

        Raises:
            FileChanged: the file was written to since `read`.
            Unreachable: the store does not accept it; the next run can resume.
        """
        with self._only_one(contents.digest):
            if self._is_present(contents):
                self.progress.advance(size=contents.size)
                if self._find(contents.digest):  # a process was killed after completing it
                    self._forget(contents.digest)
                return
            try:
                self._upload(descriptor, contents, check)
            except UploadNotFound:
                # Another process completed it, or the store dropped it: look, and start over once.
                self._forget(contents.digest)
                if self._is_present(contents):
                    return
                try:
                    self._upload(descriptor, contents, check)
                except UploadNotFound as error:
                    raise Unreachable(f"the store has lost parts: {error.message}") from error

    def _upload(self, descriptor: int, contents: Contents, check: Callable[[], None]) -> None:
        key = data_key(contents.digest)
        upload, arrived = self._resume(contents) or self._begin(contents)
        missing = [each for each in contents.sections if each.number not in arrived]
        self.progress.advance(size=contents.size - sum(section.size for section in missing))

        def send(section: Section) -> None:
            with self._body(descriptor, section) as body:
                # No two threads send the same part, so none writes the same item.
                arrived[section.number] = self.retries.call(
                    lambda: self.uploads.put_part(
                        key, upload, section.number, _rewound(body), crc32c=section.crc32c
                    )
                )
            self.progress.advance(size=section.size)

        try:
            self.workers.share(missing, send)
            check()
        except FileChanged:
            with suppress(LakeError):
                self.uploads.abort(key, upload)
            self._forget(contents.digest)
            raise
        parts = [arrived[section.number] for section in contents.sections]
        # Every writer of this key joins the same bytes, so no condition is needed.
        self.uploads.complete(key, upload, parts, ANY)
        self._forget(contents.digest)

    def _resume(self, contents: Contents) -> tuple[UploadId, dict[int, Part]] | None:
        """Return the unfinished upload of these contents, and its parts that are correct."""
        begun = self._find(contents.digest)
        if begun is None or begun.part_size != contents.part_size:
            return None
        upload = UploadId(begun.upload)
        sections = {section.number: section for section in contents.sections}
        try:
            listed = list(self.uploads.parts(data_key(contents.digest), upload))
        except (UploadNotFound, PermissionDenied):
            return None
        right = {}
        for part in listed:
            section = sections.get(part.number)
            if section and part.size == section.size and part.crc32c in (None, section.crc32c):
                right[part.number] = part
        return upload, right

    def _begin(self, contents: Contents) -> tuple[UploadId, dict[int, Part]]:
        key = data_key(contents.digest)
        upload = self.uploads.start(key)
        repository = self.repository
        begun = transfers.UnfinishedTransfer(
            contents.digest, upload, contents.part_size, repository.lake.now()
        )
        with repository.lake.kv.write() as txn:
            transfers.put(txn, repository.key, begun)
        return upload, {}

    def _find(self, digest: str) -> transfers.UnfinishedTransfer | None:
        with self.repository.lake.kv.read() as txn:
            return transfers.find(txn, self.repository.key, digest)

    def _forget(self, digest: str) -> None:
        with self.repository.lake.kv.write() as txn:
            transfers.delete(txn, self.repository.key, digest)

    @contextmanager
    def _body(self, descriptor: int, section: Section) -> Iterator[bytes | SectionReader]:
        """Give the bytes of a part, or a stream of them if memory is short."""
        if section.size <= MOST_IN_MEMORY:
            with self.memory.held_if_free(section.size) as is_held:
                if is_held:
                    yield _read_section(descriptor, section)
                    return
        yield SectionReader(descriptor, section, progress=self.progress)

    def _is_present(self, contents: Contents) -> bool:
        try:
            return self.repository.store.head(data_key(contents.digest)).size == contents.size
        except ObjectNotFound:
            return False

    @contextmanager
    def _only_one(self, digest: str) -> Iterator[None]:
        """Send files of the same contents one after the other: the second finds the object."""
        with self._lock:
            mine = self._at_work.setdefault(digest, Lock())
        with mine:
            yield


def _read_section(descriptor: int, section: Section) -> bytes:
    data = os.pread(descriptor, section.size, section.start)
    if blake3(data).digest() != section.digest:
        raise changed("sent")
    return data


def _rewound(body: bytes | SectionReader) -> bytes | BinaryIO:
    if isinstance(body, bytes):
        return body
    body.seek(0)
    return cast("BinaryIO", body)


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
        left = self._section.size - self._position
        if left <= 0 or not size:
            return b""
        at = self._position - self._ahead_at
        if not 0 <= at < len(self._ahead):
            self._read_ahead()
            at = 0
        piece = self._ahead[at : at + (left if size < 0 else size)]
        self._position += len(piece)
        if size < 0 and len(piece) < left:
            return piece + self.read()
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


INTERVAL: Final = timedelta(days=1)
"""Time between two searches, and until an upload of another machine is abandoned."""

PATIENCE: Final = timedelta(days=7)
"""Time until an upload of this machine is abandoned."""

MOST: Final = 1_000
"""Most uploads considered in one search."""


def drop_leftovers(repository: Repository) -> int:
    """Abort abandoned uploads in a repository's namespace, unless this was done within a day.

    Errors of the store are ignored, because the next search may succeed.

    Returns:
        The number of aborted uploads.
    """
    uploads = uploads_of(repository.store)
    if uploads is None:
        return 0
    now = repository.lake.now()
    with repository.lake.kv.read() as txn:
        looked = transfers.looked_at(txn, repository.key)
    if looked is not None and now - looked < INTERVAL:
        return 0
    with repository.lake.kv.write() as txn:
        transfers.set_looked_at(txn, repository.key, now)
    try:
        return _drop(repository, uploads, now)
    except LakeError:
        return 0


def _drop(repository: Repository, uploads: Uploads, now: datetime) -> int:
    with repository.lake.kv.read() as txn:
        mine = {each.upload: each for each in transfers.iterate(txn, repository.key)}
    dropped = 0
    alive = set()
    for found in islice(uploads.iter_unfinished(DATA), MOST):
        if data_digest(found.key) is None:
            continue
        begun = mine.get(found.id)
        patience = INTERVAL if begun is None else PATIENCE
        if _is_left_over(uploads, found, now - patience):
            uploads.abort(found.key, found.id)
            dropped += 1
        else:
            alive.add(found.id)
    _forget(repository, [each for upload, each in mine.items() if upload not in alive], now)
    return dropped


def _is_left_over(uploads: Uploads, found: UnfinishedUpload, before: datetime) -> bool:
    if found.started_at > before:
        return False
    try:
        changed_at = uploads.changed_at(found.key, UploadId(found.id))
    except UploadNotFound:
        return False
    return changed_at is None or changed_at <= before


def _forget(
    repository: Repository, gone: list[transfers.UnfinishedTransfer], now: datetime
) -> None:
    """Forget uploads that the store does not list; a young one may not be listed yet."""
    old = [each.digest for each in gone if now - each.started_at > PATIENCE]
    if old:
        with repository.lake.kv.write() as txn:
            for digest in old:
                transfers.delete(txn, repository.key, digest)
