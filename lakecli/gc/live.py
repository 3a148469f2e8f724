"""The data objects in use: a set of digests on disk, of any size.

An object that lakecli wrote has the digest in its key. For one of lakeFS it is the digest of the
name that `layout.lakefs_object` finds in its key.

Digests are divided among 256 files by their first byte. Look-ups come sorted, so that one file at a
time is in memory, as a set.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from lakecli.base.identity import DIGEST_SIZE

if TYPE_CHECKING:
    from lakecli.gc.tasks import TablesRead

DIGEST: Final = DIGEST_SIZE
RECORD: Final = DIGEST + 8
"""Bytes of a list's record: the digest and the size (8, big-endian) of an object."""

_BUFFERED: Final = 32 << 20


class DigestSet:
    """A set of digests; use it as a context manager, which deletes the files at the end.

    Attributes:
        added: number of digests added, duplicates included.
        scratch: ``None``: tasks return the digests that they find.
    """

    scratch: None = None

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="lakecli-gc-")
        self._buckets = [bytearray() for _ in range(256)]
        self._buffered = 0
        self._loaded: tuple[int, frozenset[bytes]] | None = None
        self.added = 0

    def __enter__(self) -> Self:
        """Return the set itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Delete the files."""
        self._directory.cleanup()

    def add(self, digests: bytes) -> None:
        """Add digests of 32 bytes each, ascending."""
        count = len(digests) // DIGEST
        start = 0
        while start < count:
            first = digests[start * DIGEST]
            end = bisect_right(
                range(count), first, lo=start, key=lambda number: digests[number * DIGEST]
            )
            self._buckets[first] += digests[start * DIGEST : end * DIGEST]
            start = end
        self.added += count
        self._buffered += len(digests)
        self._loaded = None
        if self._buffered >= _BUFFERED:
            self._write()

    def take(self, read: TablesRead) -> None:
        """Add the references of ranges that were read."""
        self.add(read.references)

    def _write(self) -> None:
        for number, bucket in enumerate(self._buckets):
            if bucket:
                with self._path(number).open("ab") as file:
                    file.write(bucket)
                bucket.clear()
        self._buffered = 0

    def _path(self, number: int) -> Path:
        return Path(self._directory.name, f"{number:02x}")

    def _load(self, number: int) -> frozenset[bytes]:
        if self._loaded is None or self._loaded[0] != number:
            path = self._path(number)
            data = path.read_bytes() if path.exists() else b""
            data += self._buckets[number]
            found = frozenset(data[at : at + DIGEST] for at in range(0, len(data), DIGEST))
            self._loaded = number, found
        return self._loaded[1]

    def without(self, records: bytes) -> bytes:
        """Return the records, of `RECORD` bytes each, whose digests are not in the set."""
        kept = [record for record in split(records) if record[:DIGEST] not in self._load(record[0])]
        return b"".join(kept)


def split(records: bytes) -> Iterator[bytes]:
    """Yield the records of a list."""
    for at in range(0, len(records), RECORD):
        yield records[at : at + RECORD]


def total_of(records: bytes) -> tuple[int, int]:
    """Return how many objects a list has, and their bytes."""
    size = sum(int.from_bytes(record[DIGEST:]) for record in split(records))
    return len(records) // RECORD, size
