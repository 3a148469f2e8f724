"""The work of garbage collection that grows with the data: pure functions, for any runner."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.identity import h
from lakecli.base.layout import data_digest, sstable_key
from lakecli.base.model import MetarangeId
from lakecli.committed.cache import MissingTable, RemoteSource
from lakecli.committed.metaranges import check_kind, is_ours, load_metarange, range_id_of
from lakecli.engine.scratch import Kept, Scratch
from lakecli.engine.store_location import OpenStore, StoreLocation
from lakecli.errors import IntegrityError
from lakecli.gc.live import DIGEST
from lakecli.sstable.block import payload_of
from lakecli.sstable.reader import BytesSource, Table
from lakecli.stores.contract import ObjectNotFound, Version

if TYPE_CHECKING:
    from lakecli.stores.contract import ObjectStore

_ADDRESS: Final = re.compile(rb"data/(?:[0-9a-f]{2}/[0-9a-f]{62}|[0-9a-v]{20}/[0-9a-v]{20})")
"""Addresses of objects that lakecli and lakeFS wrote, in full URIs too."""

_INLINE: Final = 4 << 10
"""Bytes of digests that are returned even where larger ones go to the namespace."""

_OWN_ADDRESS: Final = len("data/") + len("00/") + 62

_OLD_ADDRESS: Final = re.compile(rb"(?<=[\x14\x20/])(?=([0-9a-v]{20}))(?=([0-9a-f]{32}|))")
"""IDs that old lakeFS servers gave, after their length in a message or a slash in a URI."""


class Tables(NamedTuple):
    """Some ranges or metaranges to read.

    Attributes:
        ids: IDs of the tables.
        must_exist: whether a missing table is an error.
        old_layout: whether the namespace may have objects of old lakeFS servers outside ``data/``.
    """

    ids: tuple[str, ...]
    must_exist: bool
    old_layout: bool = False


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


class Kind(NamedTuple):
    """The kind of a table: ``ranges``, ``metaranges`` or another; and whether lakecli wrote it."""

    id: str
    kind: str
    ours: bool


class DataPart(NamedTuple):
    """A part of ``data/`` to list.

    Attributes:
        prefix: prefix of the keys.
        before: unix seconds; objects that are not older are only counted.
        versions: whether to return the versions of the old objects.
    """

    prefix: str
    before: float
    versions: bool = False


class DataListed(NamedTuple):
    """Data objects that are old enough.

    Attributes:
        records: 32 bytes of digest and 8 of size each, ascending.
        objects: number of all objects of lakecli, young ones included.
        size: bytes of these.
        foreign: number of objects with names that lakecli does not use.
        versions: versions of the objects in `records`, in their order, if requested.
    """

    records: bytes
    objects: int
    size: int
    foreign: int
    versions: tuple[Version, ...] = ()


def read_trees(part: Tables, *, location: StoreLocation | OpenStore) -> TablesRead:
    """Read metaranges.

    Raises:
        MissingTable: a table that must exist is missing.
        IntegrityError: a table is damaged.
    """

    def ranges_in(tree: str, table: Table) -> Iterator[bytes]:
        values = load_metarange(MetarangeId(tree), table).values
        return (bytes.fromhex(range_id_of(value)) for value in values)

    read, found = _read(part, location, ranges_in)
    return read._replace(references=b"".join(sorted(found)))


def read_ranges(
    part: Tables, *, location: StoreLocation | OpenStore, scratch: Scratch | None = None
) -> TablesRead:
    """Search ranges for everything that looks like the address of a data object.

    Values are not decoded: they contain the address verbatim, and text that only looks like one at
    most keeps an object that is garbage.

    Args:
        part: the ranges.
        location: where to find the namespace.
        scratch: where to write the digests; ``None``: they are returned.

    Raises:
        MissingTable: a table that must exist is missing.
        IntegrityError: a table is damaged.
    """

    def addresses(_id: str, table: Table) -> Iterator[bytes]:
        check_kind(table, "range")
        for number in range(table.block_count):
            payload = bytes(payload_of(table.stored_block(number)))
            yield from addresses_in(payload, old_layout=part.old_layout)

    read, found = _read(part, location, addresses)
    digests = digests_of(found)
    if scratch is None or len(digests) <= _INLINE:
        return read._replace(references=digests)
    return read._replace(kept=scratch.write(digests))


def _read(
    part: Tables,
    location: StoreLocation | OpenStore,
    references_in: Callable[[str, Table], Iterator[bytes]],
) -> tuple[TablesRead, set[bytes]]:
    """Read tables; return the counts, and the distinct references in all of them."""
    found: set[bytes] = set()
    entries, foreign, missing = 0, 0, []
    for table_id in part.ids:
        table = _open(table_id, location.store(), must_exist=part.must_exist)
        if table is None:
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


def _open(table_id: str, store: ObjectStore, *, must_exist: bool) -> Table | None:

    key = sstable_key(table_id)
    try:
        return Table(BytesSource(key, store.get(key)))
    except ObjectNotFound:
        if must_exist:
            raise MissingTable(key, store.uri) from None
        return None


def read_kinds(
    part: Sequence[tuple[str, int]], *, location: StoreLocation | OpenStore
) -> list[Kind]:
    """Return the kinds of tables by their properties; one that cannot be read is not lakecli's.

    Args:
        part: IDs and sizes in bytes.
        location: where to find the namespace.
    """
    found = []
    for table_id, size in part:
        source = RemoteSource(location.store(), sstable_key(table_id), size=size)
        try:
            table = Table(source)
        except IntegrityError:
            found.append(Kind(table_id, "", ours=False))
            continue
        kind = table.properties.get("type", b"").decode("ascii", "replace")
        found.append(Kind(table_id, kind, is_ours(table)))
    return found


def list_data(part: DataPart, *, location: StoreLocation | OpenStore) -> DataListed:
    """List data objects."""
    before = datetime.fromtimestamp(part.before, UTC)
    records = bytearray()
    versions: list[Version] = []
    objects = size = foreign = 0
    for info in location.store().list(part.prefix):
        digest = data_digest(info.key)
        if digest is None:
            foreign += 1
            continue
        objects += 1
        size += info.size
        if info.modified_at < before:
            records += bytes.fromhex(digest) + info.size.to_bytes(8)
            if part.versions:
                versions.append(info.version)
    return DataListed(bytes(records), objects, size, foreign, tuple(versions))
