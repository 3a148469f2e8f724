"""An index of the data objects in a namespace: a listing of ``data/`` on disk, for fast look-ups.

::

    one record for each object, ordered by digest:
        digest  32 bytes: of the contents, for keys that lakecli made; else of the key
        size     8 bytes, big-endian

A table of 65,536 offsets holds where the digests with each two-byte prefix begin. So a look-up
reads a few hundred bytes once, and memory does not grow with the number of objects. lakeFS's keys
(``data/<partition>/<id>``) do not contain the digest of the contents. They have an index of their
own, which is sorted on disk.
"""

from __future__ import annotations

import os
import re
import tempfile
from array import array
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias

from blake3 import blake3

from lakecli.errors import LakeError
from lakecli.identity import h
from lakecli.layout import DATA, data_digest, data_key
from lakecli.objectstore.base import ObjectNotFound
from lakecli.progress import NO_PROGRESS, Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lakecli.objectstore.base import ObjectStore

_DIGEST: Final = 32
_RECORD: Final = _DIGEST + 8
_BUCKETS: Final = 1 << 16
_PIECE: Final = 4 << 20
_FLUSH: Final = 4096
_PARTS: Final = 256

_OLD_KEY: Final = re.compile(r"[0-9a-v]{20}|[0-9a-f]{32}")
"""Keys that old lakeFS servers wrote, directly in the namespace."""


class Hashed(NamedTuple):
    """A data object that was read.

    Attributes:
        what: its defect, or ``None``.
        size: bytes that were read.
    """

    key: str
    what: str | None
    size: int


class DataObject(NamedTuple):
    """A data object that lakecli named: its key and its size in bytes."""

    key: str
    size: int


class ListedPart(NamedTuple):
    """What one part of a listing of ``data/`` has.

    Attributes:
        number: of the part: all its digests precede those of the next one.
        own: the records of objects that lakecli named, ascending, with the same first byte.
        foreign: the records of all others, in any order.
    """

    number: int
    own: bytes
    foreign: bytes


Lister: TypeAlias = "Callable[[], Iterator[ListedPart] | None]"
"""Lists ``data/`` in parts, in any order; ``None``: it is too small for that."""

Hasher: TypeAlias = "Callable[[Iterator[DataObject]], Iterator[Hashed]]"
"""Reads data objects and reports their defects, in any order."""


def record_of(key: str, size: int) -> tuple[bool, bytes]:
    """Return whether lakecli named an object, and its record."""
    name = data_digest(key)
    digest = digest_of_key(key) if name is None else bytes.fromhex(name)
    return name is not None, digest + size.to_bytes(8)


def hash_objects(
    store: ObjectStore,
    objects: Iterable[DataObject],
    progress: Progress,
) -> Iterator[Hashed]:
    """Read data objects one by one, and compare their digests with their names."""
    for info in objects:
        yield check_object(store, info.key, progress)
        progress.advance(items=1)


def check_object(store: ObjectStore, key: str, progress: Progress = NO_PROGRESS) -> Hashed:
    """Read a data object and compare its digest with its name."""
    hasher = blake3()
    size = 0
    try:
        with store.open(key) as source:
            while piece := source.read(_PIECE):
                hasher.update(piece)
                size += len(piece)
                progress.advance(size=len(piece))
    except LakeError as error:
        return Hashed(key, f"cannot be read: {error.message}", size)
    if hasher.hexdigest() != data_digest(key):
        return Hashed(key, f"its bytes have another BLAKE3: {hasher.hexdigest()}", size)
    return Hashed(key, None, size)


class _Sizes:
    """Sizes by digest, on disk; digests are added in ascending order."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by `close`
        self._starts = array("Q")
        self._pending = bytearray()
        self.count = 0

    def add(self, digest: bytes, size: int) -> None:
        """Add an object."""
        self._fill_starts(int.from_bytes(digest[:2]))
        self._pending += digest + size.to_bytes(8)
        self.count += 1
        if len(self._pending) >= _FLUSH * _RECORD:
            self._file.write(self._pending)
            self._pending.clear()

    def extend(self, records: bytes) -> None:
        """Add the records of objects whose digests have the same first byte."""
        if not records:
            return
        counts = Counter(records[1::_RECORD])
        for second in sorted(counts):
            self._fill_starts(records[0] << 8 | second)
            self.count += counts[second]
        self._file.write(records)

    def records(self) -> Iterator[tuple[bytes, int]]:
        """Yield digests and sizes of the complete index, ascending."""
        for first in range(0, self.count, _FLUSH):
            found = os.pread(self._file.fileno(), _FLUSH * _RECORD, first * _RECORD)
            for at in range(0, len(found), _RECORD):
                yield found[at : at + _DIGEST], int.from_bytes(found[at + _DIGEST : at + _RECORD])

    def finish(self) -> None:
        """Complete the index."""
        self._file.write(self._pending)
        self._pending.clear()
        self._fill_starts(_BUCKETS)

    def find(self, digest: bytes) -> int | None:
        """Return an object's size, or ``None`` if it was not added."""
        bucket = int.from_bytes(digest[:2])
        first, last = self._starts[bucket], self._starts[bucket + 1]
        records = os.pread(self._file.fileno(), (last - first) * _RECORD, first * _RECORD)
        at = records.find(digest)
        while at > 0 and at % _RECORD:  # inside a record, not at its beginning
            at = records.find(digest, at + 1)
        return None if at < 0 else int.from_bytes(records[at + _DIGEST : at + _RECORD])

    def close(self) -> None:
        """Delete the index."""
        self._file.close()

    def _fill_starts(self, last: int) -> None:
        """Let the buckets up to `last` that have no start yet begin at the next record."""
        self._starts.extend(array("Q", [self.count]) * (last + 1 - len(self._starts)))


class _Unsorted:
    """Digests and sizes in any order, sorted in parts that fit into memory."""

    def __init__(self) -> None:
        self._files = [tempfile.TemporaryFile() for _ in range(_PARTS)]  # noqa: SIM115 - by `drain`

    def add(self, digest: bytes, size: int) -> None:
        """Add an object."""
        self._files[digest[0]].write(digest + size.to_bytes(8))

    def drain(self) -> Iterator[tuple[bytes, int]]:
        """Yield all records by ascending digest, and delete them."""
        for file in self._files:
            with file:
                file.seek(0)
                records = file.read()
            starts = range(0, len(records), _RECORD)
            for record in sorted(records[start : start + _RECORD] for start in starts):
                yield record[:_DIGEST], int.from_bytes(record[_DIGEST:])


class DataIndex:
    """The index; use it as a context manager, which deletes it at the end.

    Attributes:
        bytes_hashed: bytes that were read to compare digests with names.
    """

    def __init__(self) -> None:
        self._own = _Sizes()
        self._foreign = _Sizes()
        self._damaged: dict[bytes, str] = {}
        self._store: ObjectStore | None = None
        self.bytes_hashed = 0

    def __enter__(self) -> Self:
        """Return the index itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Delete it."""
        self._own.close()
        self._foreign.close()

    @property
    def count(self) -> int:
        """The number of objects below ``data/``."""
        return self._own.count + self._foreign.count

    def fill(
        self,
        store: ObjectStore,
        *,
        hash_data: bool,
        progress: Progress = NO_PROGRESS,
        hasher: Hasher | None = None,
        takes: Callable[[str], bool] | None = None,
        lister: Lister | None = None,
    ) -> Iterator[tuple[str, str]]:
        """List the data objects of a namespace; yield (key, defect) of those that are damaged.

        Args:
            store: the namespace.
            hash_data: read every object and compare its digest with its name. Objects of lakeFS,
                whose names are no digests, are compared with the checksums of their entries later.
            progress: counts the objects and bytes that are read.
            hasher: reads the objects; by default in this process, one by one.
            takes: returns whether the object of a digest is to be read; by default all are.
            lister: lists the objects in parts; by default this process lists them, one by one.
        """
        self._store = store
        parts = None if lister is None else lister()
        listed = self._listed(store) if parts is None else self._taken(parts)
        if not hash_data:
            for _ in listed:
                pass
            return
        wanted = (each for digest, each in listed if takes is None or takes(digest))
        found = hasher(wanted) if hasher else hash_objects(store, wanted, progress)
        for hashed in found:
            self.bytes_hashed += hashed.size
            if hashed.what is not None:
                self._damaged[bytes.fromhex(data_digest(hashed.key) or "")] = hashed.what
                yield hashed.key, hashed.what

    def _taken(self, parts: Iterator[ListedPart]) -> Iterator[tuple[str, DataObject]]:
        """Complete the index from parts, then yield every object that lakecli named."""
        unsorted = _Unsorted()
        early: dict[int, tuple[int, int]] = {}
        following = 0
        spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed below
        for part in parts:
            for at in range(0, len(part.foreign), _RECORD):
                end = at + _DIGEST
                size = int.from_bytes(part.foreign[end : at + _RECORD])
                unsorted.add(part.foreign[at:end], size)
            early[part.number] = spool.seek(0, os.SEEK_END), len(part.own)
            spool.write(part.own)
            while following in early:
                start, size = early.pop(following)
                spool.seek(start)
                self._own.extend(spool.read(size))
                following += 1
        spool.close()
        self._finish(unsorted)
        for digest, size in self._own.records():
            name = digest.hex()
            yield name, DataObject(data_key(name), size)

    def _listed(self, store: ObjectStore) -> Iterator[tuple[str, DataObject]]:
        """Yield every object that lakecli named, and its digest, and complete the index."""
        unsorted: _Unsorted | None = None
        for info in store.list(DATA):
            name = data_digest(info.key)
            if name is None:
                unsorted = unsorted or _Unsorted()
                unsorted.add(digest_of_key(info.key), info.size)
                continue
            self._own.add(bytes.fromhex(name), info.size)
            yield name, DataObject(info.key, info.size)
        self._finish(unsorted)

    def _finish(self, unsorted: _Unsorted | None) -> None:
        self._own.finish()
        for digest, size in unsorted.drain() if unsorted else ():
            self._foreign.add(digest, size)
        self._foreign.finish()

    def problem_of(self, key: str, size: int) -> str | None:
        """Return the defect of the object that an entry refers to, or ``None``.

        Args:
            key: a physical address inside the namespace.
            size: the size in the entry, in bytes.
        """
        name = data_digest(key)
        if name is not None:
            digest = bytes.fromhex(name)
            present = self._own.find(digest)
        elif key.startswith(DATA):
            digest = b""
            present = self._foreign.find(digest_of_key(key))
        elif _OLD_KEY.fullmatch(key):
            digest = b""
            present = self._ask(key)
        else:
            return "its physical address is no key of a data object"
        if present is None:
            return "missing"
        if present != size:
            return f"{present} bytes where the entry says {size}"
        return self._damaged.get(digest)

    def _ask(self, key: str) -> int | None:
        """Return the size of an object outside ``data/``, by one HEAD request."""
        if self._store is None:
            return None
        try:
            return self._store.head(key).size
        except ObjectNotFound:
            return None


def digest_of_key(key: str) -> bytes:
    """Return the digest that stands for the key of an object that lakeFS named."""
    return h(key.encode("utf-8", "surrogateescape"))
