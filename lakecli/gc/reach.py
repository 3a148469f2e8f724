"""Follow trees to their data objects, reading each distinct metarange and range once.

`read_trees` and `read_ranges` are the work that grows with the data: pure functions, for any
runner.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from lakecli.base.identity import h
from lakecli.base.layout import sstable_key
from lakecli.base.model import MetarangeId
from lakecli.committed.metaranges import check_kind, is_ours, load_metarange, range_id_of
from lakecli.committed.tree_store import MissingTable
from lakecli.engine.scratch import Kept, Scratch
from lakecli.engine.store_location import OpenStore, StoreLocation
from lakecli.gc.data_objects import DIGEST
from lakecli.gc.live import LiveSet
from lakecli.gc.options import Work
from lakecli.sstable.block import payload_of
from lakecli.sstable.reader import BytesSource, SSTable
from lakecli.stores.contract import ObjectNotFound
from lakecli.stores.streams import batches

PART_TABLES: Final = 8

_ADDRESS: Final = re.compile(rb"data/(?:[0-9a-f]{2}/[0-9a-f]{62}|[0-9a-v]{20}/[0-9a-v]{20})")
"""Addresses of objects that lakecli and lakeFS wrote, in full URIs too."""

_INLINE: Final = 4 << 10
"""Bytes of digests that are returned even where larger ones go to the namespace."""

_OWN_ADDRESS: Final = len("data/") + len("00/") + 62

_OLD_ADDRESS: Final = re.compile(rb"(?<=[\x14\x20/])(?=([0-9a-v]{20}))(?=([0-9a-f]{32}|))")
"""IDs that old lakeFS servers gave, after their length in a message or a slash in a URI."""


class TablesRead(NamedTuple):
    """What ranges or metaranges refer to.

    Attributes:
        references: digests of data objects, or IDs of ranges: 32 bytes each, in ascending order.
        entries: number of records in the tables.
        foreign: number of tables that lakecli did not write.
        missing: IDs of missing tables.
        kept: names the references of ranges where they are in the namespace, and not here.
    """

    references: bytes
    entries: int
    foreign: int
    missing: tuple[str, ...]
    kept: Kept | None = None


class Reach:
    """Reads trees and ranges, and records what they refer to.

    Args:
        work: what the collection works with; its progress counts the tables that are read.
        live: receives the data objects in use.

    Attributes:
        trees: hex IDs of the metaranges read.
        ranges: hex IDs of the ranges read.
        dumps: hex IDs of the tables of refs dumps that are kept.
        lost: metaranges and ranges that are missing.
        entries: number of entries in the ranges.
        foreign: number of tables that lakecli did not write.
    """

    def __init__(self, work: Work, live: LiveSet) -> None:
        self._work = work
        self._live = live
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
        for ids, read in self._read(read_trees, set(trees) - self.trees):
            for tree in read.missing:
                if must_exist and tree not in collected:
                    raise MissingTable(sstable_key(tree), self._work.repository.store.uri)
            self.trees.update(ids)
            wanted.update(_ids_of(read.references))
        lakefs = self._work.lakefs
        old_layout = lakefs is not None and lakefs.old_layout
        task = partial(
            read_ranges, must_exist=must_exist, old_layout=old_layout, scratch=self._live.scratch
        )
        for ids, read in self._read(task, wanted - self.ranges):
            self.ranges.update(ids)
            self.entries += read.entries
            self._live.add(read.references)
            if read.kept is not None:
                self._live.add_written(read.kept)

    def _read(
        self, task: Callable[..., TablesRead], ids: Collection[str]
    ) -> Iterator[tuple[Sequence[str], TablesRead]]:
        """Yield the parts of some tables as they are read; count what is missing or foreign."""
        work = self._work
        work.progress.expect(parts=len(ids))
        parts = batches(sorted(ids), PART_TABLES)
        for part, read in work.runner.run(partial(task, location=work.location), parts):
            self.lost.update(read.missing)
            self.foreign += read.foreign
            yield part, read
            work.progress.advance(parts=len(part))


def _ids_of(packed: bytes) -> Iterator[str]:
    """Yield packed IDs, of 32 bytes each, as hex."""
    for at in range(0, len(packed), DIGEST):
        yield packed[at : at + DIGEST].hex()


def read_trees(ids: Sequence[str], *, location: StoreLocation | OpenStore) -> TablesRead:
    """Read metaranges; some may be missing.

    Raises:
        IntegrityError: a table is damaged.
    """

    def ranges_in(tree: str, table: SSTable) -> Iterator[bytes]:
        values = load_metarange(MetarangeId(tree), table).values
        return (bytes.fromhex(range_id_of(value)) for value in values)

    read, found = _read(ids, location, ranges_in, must_exist=False)
    return read._replace(references=b"".join(sorted(found)))


def read_ranges(
    ids: Sequence[str],
    *,
    location: StoreLocation | OpenStore,
    must_exist: bool,
    old_layout: bool,
    scratch: Scratch | None = None,
) -> TablesRead:
    """Search ranges for everything that looks like the address of a data object.

    Values are not decoded: they contain the address verbatim, and text that only looks like one at
    most keeps an object that is garbage.

    Args:
        ids: IDs of the ranges.
        location: where to find the namespace.
        must_exist: whether a missing range is an error.
        old_layout: whether the namespace may have objects of old lakeFS servers outside ``data/``.
        scratch: where to write the digests; ``None``: they are returned.

    Raises:
        MissingTable: a range that must exist is missing.
        IntegrityError: a range is damaged.
    """

    def addresses(_id: str, table: SSTable) -> Iterator[bytes]:
        check_kind(table, "range")
        for number in range(table.block_count):
            payload = bytes(payload_of(table.stored_block(number)))
            yield from addresses_in(payload, old_layout=old_layout)

    read, found = _read(ids, location, addresses, must_exist=must_exist)
    digests = digests_of(found)
    if scratch is None or len(digests) <= _INLINE:
        return read._replace(references=digests)
    return read._replace(kept=scratch.write(digests))


def _read(
    ids: Sequence[str],
    location: StoreLocation | OpenStore,
    references_in: Callable[[str, SSTable], Iterator[bytes]],
    *,
    must_exist: bool,
) -> tuple[TablesRead, set[bytes]]:
    """Read tables; return the counts, and the distinct references in all of them."""
    store = location.store()
    found: set[bytes] = set()
    entries, foreign, missing = 0, 0, []
    for table_id in ids:
        key = sstable_key(table_id)
        try:
            table = SSTable(BytesSource(key, store.get(key)))
        except ObjectNotFound:
            if must_exist:
                raise MissingTable(key, store.uri) from None
            missing.append(table_id)
            continue
        found.update(references_in(table_id, table))
        entries += table.count
        foreign += not is_ours(table)
    return TablesRead(b"", entries, foreign, tuple(missing)), found


def digests_of(addresses: set[bytes]) -> bytes:
    """Return what a `DigestSet` has for objects, in ascending order."""
    own = [each for each in addresses if len(each) == _OWN_ADDRESS]
    joined = b"".join(sorted(own)).replace(b"data/", b"").replace(b"/", b"")
    digests = bytes.fromhex(joined.decode("ascii"))
    if len(own) == len(addresses):
        return digests
    size = DIGEST
    found = [digests[at : at + size] for at in range(0, len(digests), size)]
    found += [h(each) for each in addresses if len(each) != _OWN_ADDRESS]
    return b"".join(sorted(found))


def addresses_in(data: bytes, *, old_layout: bool = True) -> Iterator[bytes]:
    """Yield everything in encoded entries that looks like the address of a data object.

    Args:
        data: encoded entries.
        old_layout: look for IDs of old lakeFS servers too.
    """
    yield from _ADDRESS.findall(data)
    if old_layout:
        for ids in _OLD_ADDRESS.findall(data):
            yield from filter(None, ids)
