"""Multipart downloads: fetch large objects in parts, verify them, and resume killed downloads.

The SDKs can fetch parts, too, but they start over after a kill, and do not compare the bytes with
the digest that names the object.

`PartFetcher` fetches an object. Parts are fetched in any order, by any free thread. The parts that
are contiguous from the start are hashed while later parts are fetched, so that little is left to
hash at the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Final

from blake3 import blake3

from lakecli.base.identity import blake3_of
from lakecli.base.model import Entry
from lakecli.base.progress import Progress
from lakecli.errors import Unreachable
from lakecli.repository.contract import Repository
from lakecli.repository.reading.contents import damaged, digest_of, gone
from lakecli.repository.reading.recorded import PIECE, locate
from lakecli.repository.transfer.destination import Destination, Partial
from lakecli.repository.transfer.parallel import Workers, part_retries
from lakecli.stores.contract import ObjectNotFound, ObjectStore
from lakecli.stores.streams import open_range

SPAN: Final = 64 << 20
"""The largest number of bytes that one request fetches: several parts, each kept once complete."""

REQUESTS: Final = 4
"""An object is fetched in at least this many requests, if it has as many parts."""


@dataclass(frozen=True, slots=True)
class PartFetcher:
    """Fetches large objects; safe to share between threads.

    Attributes:
        workers: the threads of the command, which fetch the parts.
        part_size: the size of each part in bytes; the last part may be smaller.
        progress: counts the bytes of complete parts.
    """

    repository: Repository
    workers: Workers
    part_size: int
    progress: Progress

    def takes(self, entry: Entry) -> bool:
        """Return whether an object is fetched in parts: it is large, and its digest is known."""
        return entry.size > 2 * self.part_size and digest_of(entry) is not None

    def fetch(self, entry: Entry, destination: Destination, name: bytes, *, mtime: int) -> None:
        """Fetch an object to a file below a destination.

        Raises:
            NotFound: the data object is gone.
            IntegrityError: the object in the store is damaged; nothing was written.
            Unreachable: the store does not answer; the next run resumes the download.
            Unsupported: the server does not support range requests.
        """
        store, key = locate(self.repository, entry)
        try:
            found = store.head(key)
        except ObjectNotFound as error:
            raise gone(self.repository.uri, store, key) from error
        if found.size != entry.size:
            raise damaged(self.repository.uri, store, key)
        tag = blake3_of(f"{key} {entry.size} {self.part_size} ".encode() + name)[:16].hex().encode()
        with destination.partial(name, tag, size=entry.size) as partial:
            assembly = _Assembly(partial, entry.size, self.part_size)
            is_resumed = bool(assembly.complete)
            try:
                self._fill(store, key, assembly)
            except BaseException:
                if not assembly.complete:
                    partial.drop()
                raise
            if is_resumed and assembly.digest() != digest_of(entry):
                partial.clear()
                self.progress.advance(size=-entry.size)
                assembly = _Assembly(partial, entry.size, self.part_size)
                self._fill(store, key, assembly)
            if assembly.digest() != digest_of(entry):
                partial.drop()
                raise damaged(self.repository.uri, store, key)
            partial.finish(mtime=mtime)

    def _fill(self, store: ObjectStore, key: str, assembly: "_Assembly") -> None:
        self.progress.advance(size=assembly.size_of(assembly.complete))
        retries = part_retries(self.workers, self.repository.lake.runtime.random_number)
        fetch = partial(self._fetch, store, key, assembly)
        self.workers.share(assembly.spans(), lambda span: retries.call(partial(fetch, span)))

    def _fetch(self, store: ObjectStore, key: str, assembly: "_Assembly", span: range) -> None:
        """Fetch the missing parts of a span with one request."""
        missing = [number for number in span if number not in assembly.complete]
        if not missing:
            return  # an earlier attempt broke off after the last part
        position = missing[0] * self.part_size
        length = assembly.size_of(missing)
        with open_range(store, key, start=position, length=length) as source:
            for number in missing:
                end = position + assembly.size_of([number])
                while position < end and (piece := source.read(min(PIECE, end - position))):
                    self.workers.check()
                    self.progress.advance()
                    assembly.partial.write(piece, position)
                    position += len(piece)
                if position != end:
                    raise Unreachable(f"the answer ended early: {store.uri}/{key}")
                assembly.finished(number)
                self.progress.advance(size=assembly.size_of([number]))


class _Assembly:
    """The parts of one object, and the hash of the parts that are contiguous from the start."""

    def __init__(self, partial: Partial, size: int, part_size: int) -> None:
        self.partial = partial
        self.count = -(-size // part_size)
        self.complete = partial.complete_parts(self.count)
        self._size = size
        self._part_size = part_size
        self._hashing = Lock()
        self._hasher = blake3()
        self._hashed = 0

    def size_of(self, numbers: set[int] | list[int]) -> int:
        """Return the total size of some parts in bytes."""
        return sum(min(self._part_size, self._size - each * self._part_size) for each in numbers)

    def spans(self) -> Iterator[range]:
        """Yield ranges of missing parts; one request fetches each range."""
        most = max(1, min(SPAN, self._size // REQUESTS) // self._part_size)
        first = 0
        while first < self.count:
            end = first
            while end < self.count and end not in self.complete and end - first < most:
                end += 1
            if end > first:
                yield range(first, end)
            first = max(end, first + 1)

    def finished(self, number: int) -> None:
        """Record a complete part; hash the contiguous parts, unless another thread is hashing."""
        self.partial.mark(number)
        self.complete.add(number)
        if self._hashing.acquire(blocking=False):
            try:
                self._hash()
            finally:
                self._hashing.release()

    def digest(self) -> str:
        """Return the BLAKE3 of the contiguous parts, 64 hex digits."""
        with self._hashing:
            self._hash()
            return self._hasher.hexdigest()

    def _hash(self) -> None:
        while self._hashed in self.complete:
            position = self._hashed * self._part_size
            end = position + self.size_of([self._hashed])
            while position < end:
                piece = self.partial.read(position, min(PIECE, end - position))
                if not piece:
                    return  # another process has truncated the file
                self._hasher.update(piece)
                position += len(piece)
            self._hashed += 1
