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
from typing import TYPE_CHECKING, Final, Self

from blake3 import blake3

from lakecli.errors import LakeError
from lakecli.layout import DATA, data_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakecli.objectstore.base import ObjectStore

_DIGEST: Final = 32
_RECORD: Final = _DIGEST + 8
_BUCKETS: Final = 1 << 16
_PIECE: Final = 4 << 20
_FLUSH: Final = 4096


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
        on_bytes: Callable[[int], None] | None = None,
        on_object: Callable[[], None] | None = None,
    ) -> Iterator[tuple[str, str]]:
        """List a namespace's data objects; yield (key, what is wrong) of those that are damaged.

        Args:
            store: the namespace.
            hash_data: read every object and compare its digest with its name.
            on_bytes: told the size of each piece read.
            on_object: called for each object that was read.
        """
        pending = bytearray()
        for info in store.list(DATA):
            name = data_digest(info.key)
            if name is None:
                continue  # somebody else's object: ignored, never deleted, never a crash
            digest = bytes.fromhex(name)
            while len(self._starts) <= int.from_bytes(digest[:2]):
                self._starts.append(self.count)
            pending += digest + info.size.to_bytes(8)
            self.count += 1
            if len(pending) >= _FLUSH * _RECORD:
                self._file.write(pending)
                pending.clear()
            if hash_data:
                what = self._compare(store, info.key, name, on_bytes)
                if on_object is not None:
                    on_object()
                if what is not None:
                    self._damaged[digest] = what
                    yield info.key, what
        self._file.write(pending)
        while len(self._starts) <= _BUCKETS:
            self._starts.append(self.count)

    def _compare(
        self, store: ObjectStore, key: str, digest: str, on_bytes: Callable[[int], None] | None
    ) -> str | None:
        hasher = blake3()
        try:
            with store.open(key) as source:
                while piece := source.read(_PIECE):
                    hasher.update(piece)
                    self.bytes_hashed += len(piece)
                    if on_bytes is not None:
                        on_bytes(len(piece))
        except LakeError as error:
            return f"cannot be read: {error.message}"
        if hasher.hexdigest() != digest:
            return f"its bytes have another BLAKE3: {hasher.hexdigest()}"
        return None

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
