"""The data objects in use: in this process, a set of digests on disk, of any size.

Digests are divided among 256 files by their first byte. Look-ups come sorted, so that one file at a
time is in memory, as a set. `joined` has the set on Spark.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Self

from lakecli.engine.scratch import Kept, Scratch
from lakecli.gc.data_objects import (
    DIGEST,
    RECORD,
    Garbage,
    ListingPart,
    PartListing,
    garbage_of,
    list_part,
    split,
    total_of,
)
from lakecli.gc.marks import Marks
from lakecli.gc.options import Work

_BUFFERED: Final = 32 << 20


class PartGarbage(NamedTuple):
    """The condemned objects of one part that are still there and still unreached.

    Attributes:
        name: the name of the part.
        spared: number of condemned objects that are in use.
        objects: number of objects that are garbage.
        size: bytes of these.
        garbage: the same objects; to be iterated once.
    """

    name: str
    spared: int
    objects: int
    size: int
    garbage: Iterable[Garbage]


class LiveSet(ABC):
    """The digests of the data objects in use, as a context manager.

    Attributes:
        added: number of digests added, duplicates included.
        scratch: where tasks write the digests that they find; ``None``: they return them.
    """

    scratch: Scratch | None = None

    def __init__(self) -> None:
        self.added = 0

    def __enter__(self) -> Self:
        """Return the set itself."""
        return self

    @abstractmethod
    def __exit__(self, *_: object) -> None:
        """Delete what the set has stored."""

    @abstractmethod
    def add(self, digests: bytes) -> None:
        """Add digests of 32 bytes each, ascending."""

    def add_written(self, kept: Kept) -> None:
        """Add digests that a task has written to `scratch`."""
        raise NotImplementedError

    @abstractmethod
    def iter_unreached(self, work: Work, parts: Sequence[ListingPart]) -> Iterator[PartListing]:
        """List parts; yield each with the records of those old objects that are not in use."""

    @abstractmethod
    def iter_garbage(
        self, work: Work, marks: Marks, parts: Sequence[ListingPart], *, beat: Callable[[], None]
    ) -> Iterator[PartGarbage]:
        """Yield what of the condemned objects of some parts is still there, old and unreached.

        Args:
            work: what the collection works with.
            marks: the lists of condemned objects.
            parts: the parts to list again, with keys and versions.
            beat: called every few seconds while nothing can be deleted yet.

        Raises:
            LostMarks: a list is missing or damaged.
        """


class DigestSet(LiveSet):
    """The set on the disk of this machine; its files are deleted at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory(prefix="lakecli-gc-")
        self._buckets = [bytearray() for _ in range(256)]
        self._buffered = 0
        self._loaded: tuple[int, frozenset[bytes]] | None = None

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

    def iter_unreached(self, work: Work, parts: Sequence[ListingPart]) -> Iterator[PartListing]:
        """List parts in tasks; see `LiveSet`."""
        work.progress.expect(parts=len(parts))
        for _, listed in work.runner.run(partial(list_part, location=work.location), parts):
            yield listed._replace(records=self.without(listed.records))
            work.progress.advance(parts=1)

    def iter_garbage(
        self, work: Work, marks: Marks, parts: Sequence[ListingPart], *, beat: Callable[[], None]
    ) -> Iterator[PartGarbage]:
        """List parts in tasks; see `LiveSet`."""
        del beat  # the first part can be deleted soon
        work.progress.expect(parts=len(parts))
        for part, listed in work.runner.run(partial(list_part, location=work.location), parts):
            condemned = marks.data(part.name)
            unreached = self.without(condemned)
            wanted = {record[:DIGEST] for record in split(unreached)}
            garbage = garbage_of(listed.records, listed.keys, listed.versions)
            found = {
                record: each
                for record, each in zip(split(listed.records), garbage, strict=True)
                if record[:DIGEST] in wanted
            }
            spared = (len(condemned) - len(unreached)) // RECORD
            total = total_of(b"".join(found))
            yield PartGarbage(part.name, spared, *total, list(found.values()))
            work.progress.advance(parts=1)
