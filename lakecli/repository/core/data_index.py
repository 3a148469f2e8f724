"""Which data objects a namespace holds: a listing of ``data/``, kept on disk and looked up fast.

::

    one record an object, in the listing's order, which is that of the digests:
        digest  32 bytes
        size     8 bytes, big-endian

A table of 65,536 offsets says where the digests begin that start with two given bytes, so that a
look-up reads a few hundred bytes once, and memory does not grow with the number of objects.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias

from blake3 import blake3

from lakecli.errors import LakeError
from lakecli.layout import DATA, data_digest
from lakecli.progress import NO_PROGRESS, Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lakecli.objectstore.base import ObjectInfo, ObjectStore

_DIGEST: Final = 32
_RECORD: Final = _DIGEST + 8
_BUCKETS: Final = 1 << 16
_PIECE: Final = 4 << 20
_FLUSH: Final = 4096


class Hashed(NamedTuple):
    """A data object that was read.

    Attributes:
        what: is wrong with it, or ``None``.
        size: bytes that were read.
    """

    key: str
    what: str | None
    size: int


Hasher: TypeAlias = "Callable[[Iterator[ObjectInfo]], Iterator[Hashed]]"
"""Reads data objects and tells what is wrong with them, in any order."""


def hash_objects(
    store: ObjectStore,
    objects: Iterable[ObjectInfo],
    progress: Progress,
) -> Iterator[Hashed]:
    """Read data objects, one by one, and compare them with their names."""
    for info in objects:
        yield check_object(store, info.key, progress)
        progress.advance(items=1)


def check_object(store: ObjectStore, key: str, progress: Progress = NO_PROGRESS) -> Hashed:
    """Read a data object and compare it with its name."""
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


class DataIndex:
    """The index; use it as a context manager, which deletes it in the end.

    Attributes:
        count: of the objects.
        bytes_hashed: read again to compare them with their names.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by __exit__
        self._starts = array("Q")
        self._damaged: dict[bytes, str] = {}
        self.count = 0
        self.bytes_hashed = 0

    def __enter__(self) -> Self:
        """Return the index itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Delete it."""
        self._file.close()

    def fill(
        self,
        store: ObjectStore,
        *,
        hash_data: bool,
        progress: Progress = NO_PROGRESS,
        hasher: Hasher | None = None,
        takes: Callable[[str], bool] | None = None,
    ) -> Iterator[tuple[str, str]]:
        """List a namespace's data objects; yield (key, what is wrong) of those that are damaged.

        Args:
            store: the namespace.
            hash_data: read every object and compare its digest with its name.
            progress: counts the objects and bytes that are read.
            hasher: reads the objects; in this process, one by one, by default.
            takes: given a digest, tells whether its object is to be read; all are by default.
        """
        if not hash_data:
            for _ in self._listed(store):
                pass
            return
        wanted = (info for digest, info in self._listed(store) if takes is None or takes(digest))
        found = hasher(wanted) if hasher else hash_objects(store, wanted, progress)
        for hashed in found:
            self.bytes_hashed += hashed.size
            if hashed.what is not None:
                self._damaged[bytes.fromhex(data_digest(hashed.key) or "")] = hashed.what
                yield hashed.key, hashed.what

    def _listed(self, store: ObjectStore) -> Iterator[tuple[str, ObjectInfo]]:
        """Yield every data object and its digest; when that ends, the index is complete."""
        pending = bytearray()
        for info in store.list(DATA):
            name = data_digest(info.key)
            if name is None:
                continue  # somebody else's object: ignored, never deleted, never a crash
            digest = bytes.fromhex(name)
            self._fill_starts(int.from_bytes(digest[:2]))
            pending += digest + info.size.to_bytes(8)
            self.count += 1
            if len(pending) >= _FLUSH * _RECORD:
                self._file.write(pending)
                pending.clear()
            yield name, info
        self._file.write(pending)
        self._fill_starts(_BUCKETS)

    def _fill_starts(self, last: int) -> None:
        """Let the buckets up to `last` that have no start yet begin at the next record."""
        self._starts.extend(array("Q", [self.count]) * (last + 1 - len(self._starts)))

    def problem_of(self, key: str, size: int) -> str | None:
        """Return what is wrong with the object that an entry refers to, or ``None``."""
        name = data_digest(key)
        if name is None:
            return "its physical address is no content address"
        digest = bytes.fromhex(name)
        bucket = int.from_bytes(digest[:2])
        first, last = self._starts[bucket], self._starts[bucket + 1]
        records = os.pread(self._file.fileno(), (last - first) * _RECORD, first * _RECORD)
        at = records.find(digest)
        while at > 0 and at % _RECORD:  # inside a record, not at its beginning
            at = records.find(digest, at + 1)
        if at < 0:
            return "missing"
        present = int.from_bytes(records[at + _DIGEST : at + _RECORD])
        if present != size:
            return f"{present} bytes where the entry says {size}"
        return self._damaged.get(digest)
