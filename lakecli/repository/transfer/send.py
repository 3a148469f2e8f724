"""Sending a large file to a bucket in parts, and going on where a killed process stopped.

The file is read twice: once to learn its name and the digest of every part, and once to send it,
when each part is hashed again. So a part is never sent with other bytes than the name promises,
in whatever order parts travel, and a file that changes meanwhile completes nothing.

An upload that was begun is noted in the local store before its first part; the next run with the
same contents asks the store which parts have arrived and sends the others.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import google_crc32c
from blake3 import blake3

from lakecli.errors import LakeError, PermissionDenied, Unreachable
from lakecli.kv import transfers
from lakecli.layout import data_key
from lakecli.objectstore.base import ANY, ObjectNotFound
from lakecli.objectstore.seekable import Seekable
from lakecli.objectstore.uploads import PART_SIZE, UploadId, UploadNotFound, part_size_of
from lakecli.repository.transfer.readers import PIECE, FileChanged, changed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakecli.kv.env import LocalStore
    from lakecli.objectstore.base import ObjectStore
    from lakecli.objectstore.uploads import Part, Uploads
    from lakecli.progress import Progress
    from lakecli.repository.core.lake import Repository
    from lakecli.repository.transfer.parallel import Memory, Workers
    from lakecli.retry import Retries

MOST_IN_MEMORY: Final = 16 << 20
"""Larger parts are read from the file while they are sent."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a file as the first reading saw it; `start` and `size` are in bytes."""

    number: int
    start: int
    size: int
    digest: bytes
    crc32c: int


@dataclass(frozen=True, slots=True)
class Contents:
    """What the first reading saw: the BLAKE3 of the whole in 64 hex digits, and all parts."""

    digest: str
    size: int
    part_size: int
    sections: list[Section]


def read_contents(
    file: BinaryIO, size: int, *, smallest: int = PART_SIZE, progress: Progress
) -> Contents:
    """Read a file of `size` bytes from where it stands.

    Raises:
        FileChanged: it has another size.
    """
    part_size = part_size_of(size, smallest)
    whole = blake3()
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


class Transfers:
    """What the local store knows of the uploads of one repository. Safe between threads."""

    def __init__(self, repository: Repository) -> None:
        self._kv: LocalStore = repository.lake.kv
        self._key = repository.key
        self._now = repository.lake.now

    def find(self, digest: str) -> transfers.UnfinishedTransfer | None:
        """Return the upload of these contents that was begun before, if there is one."""
        with self._kv.read() as txn:
            return transfers.find(txn, self._key, digest)

    def begin(self, digest: str, upload: UploadId, *, part_size: int) -> None:
        """Note an upload durably."""
        begun = transfers.UnfinishedTransfer(digest, upload, part_size, self._now())
        with self._kv.write() as txn:
            transfers.put(txn, self._key, begun)

    def end(self, digest: str) -> None:
        """Forget an upload."""
        with self._kv.write() as txn:
            transfers.delete(txn, self._key, digest)


class Sender:
    """Sends large files into one namespace; safe to share between threads.

    Args:
        store: the namespace.
        uploads: its uploads in parts.
        known: those that were begun.
        workers: who send parts, all of one command.
        retries: how often to try each part.
        memory: holds the parts in flight.
        part_size: of all but huge objects.
        progress: counts the bytes of each part that is in the store. It is called often, so that
            it can interrupt the work.
    """

    def __init__(
        self,
        store: ObjectStore,
        uploads: Uploads,
        *,
        known: Transfers,
        workers: Workers,
        retries: Retries,
        memory: Memory,
        part_size: int,
        progress: Progress,
    ) -> None:
        self._store = store
        self._uploads = uploads
        self._known = known
        self._workers = workers
        self._retries = retries
        self._memory = memory
        self._progress = progress
        self.part_size = part_size
        self._lock = Lock()
        self._at_work: dict[str, Lock] = {}

    def read(self, file: BinaryIO, size: int) -> Contents:
        """Read a file for the first time."""
        return read_contents(file, size, smallest=self.part_size, progress=self._progress)

    def send(self, descriptor: int, contents: Contents, *, check: Callable[[], None]) -> None:
        """Send a file unless the namespace holds its contents.

        Args:
            descriptor: of the opened file.
            contents: as `read` saw them.
            check: raises `FileChanged` if the file is not what it was.

        Raises:
            FileChanged: the file is not what the first reading saw.
            Unreachable: the store does not take it; another run can go on.
        """
        with self._only_one(contents.digest):
            if self._is_present(contents):
                self._progress.advance(size=contents.size)
                if self._known.find(contents.digest):  # killed right after it was completed
                    self._known.end(contents.digest)
                return
            try:
                self._upload(descriptor, contents, check)
            except UploadNotFound:
                # Somebody completed it, or the store has dropped it: look, and begin anew once.
                self._known.end(contents.digest)
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
        self._progress.advance(size=contents.size - sum(section.size for section in missing))

        def send(section: Section) -> None:
            with self._body(descriptor, section) as body:
                # The parts of one upload are numbered, so no two threads write the same item.
                arrived[section.number] = self._retries.call(
                    lambda: self._uploads.put_part(
                        key, upload, section.number, _rewound(body), crc32c=section.crc32c
                    )
                )
            self._progress.advance(size=section.size)

        try:
            self._workers.share(missing, send)
            check()
        except FileChanged:
            with suppress(LakeError):
                self._uploads.abort(key, upload)
            self._known.end(contents.digest)
            raise
        parts = [arrived[section.number] for section in contents.sections]
        # Whoever completes this key joins these bytes, so no condition has to hold.
        self._uploads.complete(key, upload, parts, ANY)
        self._known.end(contents.digest)

    def _resume(self, contents: Contents) -> tuple[UploadId, dict[int, Part]] | None:
        """Return an upload begun before and the parts of it that are right."""
        begun = self._known.find(contents.digest)
        if begun is None or begun.part_size != contents.part_size:
            return None
        upload = UploadId(begun.upload)
        sections = {section.number: section for section in contents.sections}
        try:
            listed = list(self._uploads.parts(data_key(contents.digest), upload))
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
        upload = self._uploads.start(key)
        self._known.begin(contents.digest, upload, part_size=contents.part_size)
        return upload, {}

    @contextmanager
    def _body(self, descriptor: int, section: Section) -> Iterator[bytes | SectionReader]:
        """Give a part's bytes, or where memory is short, a stream of them."""
        if section.size <= MOST_IN_MEMORY:
            with self._memory.held_if_free(section.size) as is_held:
                if is_held:
                    yield _read_section(descriptor, section)
                    return
        yield SectionReader(descriptor, section, progress=self._progress)

    def _is_present(self, contents: Contents) -> bool:
        try:
            return self._store.head(data_key(contents.digest)).size == contents.size
        except ObjectNotFound:
            return False

    @contextmanager
    def _only_one(self, digest: str) -> Iterator[None]:
        """Let files of the same contents follow each other: the later ones find it there."""
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
    """A part of a file as a stream, which does not give its last bytes if any have changed.

    Hashing begins again at its beginning.
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
            FileChanged: the bytes are not what the first reading saw.
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
