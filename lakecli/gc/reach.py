"""Follow trees to their data objects, reading each distinct metarange and range once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from lakecli.base.layout import sstable_key
from lakecli.base.progress import Progress
from lakecli.committed.cache import MissingTable
from lakecli.engine.runner import Runner
from lakecli.engine.store_location import OpenStore, StoreLocation
from lakecli.gc.live import DigestSet
from lakecli.gc.tasks import Tables, TablesRead, read_ranges, read_trees

if TYPE_CHECKING:
    from lakecli.gc.joined import JoinedSet

T = TypeVar("T")

PART_TABLES: Final = 8
ID: Final = 32


class Reach:
    """Reads trees and ranges, and records what they refer to.

    Args:
        location: where parts find the namespace.
        runner: reads the tables.
        live: receives the data objects in use.
        old_layout: whether the namespace may have objects of old lakeFS servers outside ``data/``.
        progress: counts the tables that are read.

    Attributes:
        trees: hex IDs of the metaranges read.
        ranges: hex IDs of the ranges read.
        dumps: hex IDs of the tables of refs dumps that are kept.
        lost: metaranges and ranges that are missing.
        entries: number of entries in the ranges.
        foreign: number of tables that lakecli did not write.
    """

    def __init__(
        self,
        location: StoreLocation | OpenStore,
        runner: Runner,
        live: DigestSet | JoinedSet,
        *,
        progress: Progress,
        old_layout: bool,
    ) -> None:
        self._old_layout = old_layout
        self._location = location
        self._runner = runner
        self._live = live
        self._progress = progress
        self.trees: set[str] = set()
        self.ranges: set[str] = set()
        self.dumps: frozenset[str] = frozenset()
        self.lost: set[str] = set()
        self.entries = 0
        self.foreign = 0

    @property
    def tables(self) -> set[str]:
        """The hex IDs of all tables that are in use."""
        return self.trees.union(self.ranges, self.dumps)

    def follow(
        self,
        trees: Collection[str],
        ranges: Collection[str] = (),
        *,
        must_exist: bool,
        collected: Collection[str] = (),
    ) -> None:
        """Read metaranges and ranges that were not read yet.

        Args:
            trees: metaranges, whose ranges are read too.
            ranges: additional ranges.
            must_exist: whether a missing table is an error.
            collected: metaranges that may be missing even so, as a collection deleted them.

        Raises:
            MissingTable: a table is missing.
            IntegrityError: a table is damaged.
        """
        wanted: set[str] = set(ranges)
        for part, read in self._read(read_trees, set(trees) - self.trees, must_exist=False):
            for tree in read.missing:
                if must_exist and tree not in collected:
                    raise MissingTable(sstable_key(tree), self._location.store().uri)
            self.trees.update(part.ids)
            wanted.update(ids_of(read.references))
        task = partial(read_ranges, scratch=self._live.scratch)
        for part, read in self._read(task, wanted - self.ranges, must_exist=must_exist):
            self.ranges.update(part.ids)
            self.entries += read.entries
            self._live.take(read)

    def _read(
        self, task: Callable[..., TablesRead], ids: Collection[str], *, must_exist: bool
    ) -> Iterator[tuple[Tables, TablesRead]]:
        """Yield the parts of some tables as they are read; count what is missing or foreign."""
        self._progress.expect(parts=len(ids))
        parts = (
            Tables(tuple(each), must_exist, self._old_layout)
            for each in batches(sorted(ids), PART_TABLES)
        )
        for part, read in self._runner.run(partial(task, location=self._location), parts):
            self.lost.update(read.missing)
            self.foreign += read.foreign
            yield part, read
            self._progress.advance(parts=len(part.ids))


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield items in lists of `size`; the last list may be shorter."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


def ids_of(packed: bytes) -> Iterator[str]:
    """Yield packed IDs, of 32 bytes each, as hex."""
    for at in range(0, len(packed), ID):
        yield packed[at : at + ID].hex()


def pack_ids(ids: Iterable[str]) -> bytes:
    """Return hex IDs as 32 bytes each, in ascending order."""
    return b"".join(bytes.fromhex(each) for each in sorted(ids))
