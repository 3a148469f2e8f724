"""An index of the data objects in a namespace: a listing of ``data/`` on disk, for fast look-ups.

::

    one record for each object, ordered by digest:
        digest  32 bytes: of the contents, for keys that lakecli made; else of the key
        size     8 bytes, big-endian

A table of 65,536 offsets holds where the digests with each two-byte prefix begin. So a look-up
reads a few hundred bytes once, and memory does not grow with the number of objects. lakeFS's keys
(``data/<partition>/<id>``) do not contain the digest of the contents. They have an index of their
own, which is sorted on disk.

A store or a file system that fails to list something says nothing about it. What would be deleted
because it is not listed is therefore listed again, if more than a tenth is missing: see
`is_much_less`.
"""

from __future__ import annotations

import os
import re
import tempfile
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias

from blake3 import blake3

from lakecli.base.identity import DIGEST_SIZE, h
from lakecli.base.layout import DATA, data_digest
from lakecli.base.progress import NO_PROGRESS, Progress
from lakecli.errors import LakeError
from lakecli.stores.contract import ObjectNotFound

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

_DIGEST: Final = DIGEST_SIZE
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


Hasher: TypeAlias = "Callable[[Iterator[DataObject]], Iterator[Hashed]]"
"""Reads data objects and reports their defects, in any order."""


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


class ObjectIndex(ABC):
    """The data objects of a namespace, in which a check looks up what entries refer to.

    Use it as a context manager, which releases its resources at the end.

    Attributes:
        bytes_hashed: bytes that were read to compare digests with names.
    """

    def __init__(self) -> None:
        self._damaged: dict[bytes, str] = {}
        self._store: ObjectStore | None = None
        self.bytes_hashed = 0

    def __enter__(self) -> Self:
        """Return the index itself."""
        return self

    def __exit__(self, *_: object) -> None:  # noqa: B027 - an index may have nothing to release
        """Do nothing."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of objects below ``data/``."""

    @abstractmethod
    def fill(
        self,
        store: ObjectStore,
        *,
        hash_data: bool,
        progress: Progress = NO_PROGRESS,
        hasher: Hasher | None = None,
        takes: Callable[[str], bool] | None = None,
    ) -> Iterator[tuple[str, str]]:
        """Find the data objects of a namespace; yield (key, defect) of those that are damaged.

        Args:
            store: the namespace.
            hash_data: read every object and compare its digest with its name. Objects of lakeFS,
                whose names are no digests, are compared with the checksums of their entries later.
            progress: counts the objects and bytes that are read.
            hasher: reads the objects; by default in this process, one by one.
            takes: returns whether the object of a digest is to be read; by default all are.
        """

    def problem_of(self, key: str, size: int) -> str | None:
        """Return the defect of the object that an entry refers to, or ``None``.

        Args:
            key: a physical address inside the namespace.
            size: the size in the entry, in bytes.
        """
        name = data_digest(key)
        if name is not None:
            digest = bytes.fromhex(name)
            present = self._find(key, digest, size, is_own=True)
        elif key.startswith(DATA):
            digest = b""
            present = self._find(key, digest_of_key(key), size, is_own=False)
        elif is_old_key(key):
            digest = b""
            present = None if self._store is None else size_of(self._store, key)
        else:
            return "its physical address is no key of a data object"
        if present is None:
            return "missing"
        if present != size:
            return f"{present} bytes where the entry says {size}"
        return self._damaged.get(digest)

    @abstractmethod
    def _find(self, key: str, digest: bytes, size: int, *, is_own: bool) -> int | None:
        """Return the size of an object, or ``None`` if it does not exist.

        Args:
            key: of the object, below ``data/``.
            digest: in the key, or of the key.
            size: that is expected.
            is_own: whether the digest is in the key.
        """

    def _note_damage(self, hashed: Hashed) -> tuple[str, str]:
        """Record the defect of an object; return its key and the defect."""
        what = hashed.what or ""
        self._damaged[bytes.fromhex(data_digest(hashed.key) or "")] = what
        return hashed.key, what


class DataIndex(ObjectIndex):
    """The index of one listing, on disk."""

    def __init__(self) -> None:
        super().__init__()
        self._own = _Sizes()
        self._foreign = _Sizes()

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
    ) -> Iterator[tuple[str, str]]:
        """List the data objects of a namespace; see `ObjectIndex.fill`."""
        self._store = store
        listed = self._listed(store)
        if not hash_data:
            for _ in listed:
                pass
            return
        wanted = (each for digest, each in listed if takes is None or takes(digest))
        found = hasher(wanted) if hasher else hash_objects(store, wanted, progress)
        for hashed in found:
            self.bytes_hashed += hashed.size
            if hashed.what is not None:
                yield self._note_damage(hashed)

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

    def _find(self, key: str, digest: bytes, size: int, *, is_own: bool) -> int | None:
        del key, size
        return (self._own if is_own else self._foreign).find(digest)


def is_old_key(key: str) -> bool:
    """Return whether a key is one of old lakeFS servers: outside ``data/``, so not in the index."""
    return _OLD_KEY.fullmatch(key) is not None


def size_of(store: ObjectStore, key: str) -> int | None:
    """Return the size of an object by one request; ``None`` if it does not exist."""
    try:
        return store.head(key).size
    except ObjectNotFound:
        return None


def digest_of_key(key: str) -> bytes:
    """Return the digest that stands for the key of an object that lakeFS named."""
    return h(key.encode("utf-8", "surrogateescape"))


def is_much_less(found: int, before: int) -> bool:
    """Return whether more than a tenth of what was there before was not found."""
    return found * 10 < before * 9
