"""The work that grows with the data: list data objects, and read trees and ranges.

The functions that take a `Work` run tasks on its runner. A task is a function of a location and a
part, and can run anywhere.

There are data objects of lakecli and of lakeFS. The key of an object of lakecli contains its
digest. The key of an object of lakeFS, in a namespace that was taken over, does not. Such an object
is identified by the digest of its name, which `layout.lakefs_object` finds in the key. A list of
condemned objects of lakeFS has these digests, and the sweep finds the keys by listing again.

The data objects of lakecli are divided into parts by the prefixes of ``data/``; a small namespace
has one part. The objects of lakeFS have parts of their own: one in a small namespace; in a large
namespace one for each 36 hours, because lakeFS names its partitions by descending time. The objects
that old servers wrote outside ``data/`` are another part.

A list of objects consists of records of `RECORD` bytes: the digest, and the size (8, big-endian).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, islice
from typing import Final, NamedTuple, TypeAlias, TypeVar

from lakecli.base import identity, layout
from lakecli.base.model import MetarangeId
from lakecli.committed.metaranges import check_kind, is_ours, load_metarange, range_id_of
from lakecli.committed.tree_store import MissingTable, RemoteSource
from lakecli.engine.runner import Location, digits_for
from lakecli.engine.scratch import Kept, Scratch
from lakecli.errors import IntegrityError
from lakecli.gc.policy import LakeFsAhead, Work, check_not_newer
from lakecli.gc.state import DIGEST, split
from lakecli.repository.lakefs.kept_dumps import LAKEFS_DIGITS, LastDump, written_at
from lakecli.sstable import block, directory
from lakecli.sstable.reader import BytesSource, SSTable
from lakecli.stores.contract import ObjectInfo, ObjectNotFound, ObjectStore, Version, get_bounded
from lakecli.stores.streams import batches

P = TypeVar("P")
R = TypeVar("R")

LAKEFS_PART: Final = "lakefs-"
"""The beginning of the name of each part of lakeFS's objects."""

_ALL: Final = "everywhere"
"""The rest of the name of the part that has all objects of lakeFS below ``data/``."""

_OLD: Final = "outside"
"""The rest of the name of the part that has the objects of old servers outside ``data/``."""

_FEW: Final = 20_000
"""Maximum number of objects below ``data/`` for which one part lists all objects of lakeFS."""

_FIRST: Final = datetime(2020, 1, 1, tzinfo=UTC)
"""A time before any lakeFS server named an object."""

_PARTITIONS_END: Final = 64_060_588_800
"""The unix second in the year 4000 from which lakeFS counts its partitions back."""

_PREFIX_DIGITS: Final = 3
"""Number of characters of a partition's name that a part has in common; each stands for 5 bits."""

_PREFIX_SHIFT: Final = 32 - 5 * _PREFIX_DIGITS
"""Number of low bits of the 32-bit time in a partition's name that these characters do not have."""

_AHEAD: Final = timedelta(days=2)
"""How far in the future the time in a partition's name may be, if a server's clock was wrong."""


def _run(work: Work, task: Callable[[Location, P], R], parts: Sequence[P]) -> Iterator[tuple[P, R]]:
    """Run a task on the namespace for each part; count the finished parts."""
    work.progress.expect(parts=len(parts))
    location = work.runner.location_of(work.repository)
    for each in work.runner.run(partial(task, location), parts):
        yield each
        work.progress.advance(parts=1)


class ListingPart(NamedTuple):
    """A part of the data objects of lakecli or of lakeFS.

    Attributes:
        name: the name of the part's list of condemned objects. For objects of lakecli, the name is
            two hex digits, or ``all``.
        before: time in unix seconds; objects written at or after this time are only counted.
        keys: whether to return the versions of the old objects, and the keys if they are lakeFS's;
            the keys of lakecli's objects follow from the digests.
        prefix: the prefix of the keys of lakecli's objects; ``""`` for objects of lakeFS.
        last_dump: time of the last refs dump; objects that lakeFS wrote later are only counted.
        is_later: whether `records` has only the objects that lakeFS wrote after `last_dump`.
    """

    name: str
    before: float
    keys: bool = False
    prefix: str = ""
    last_dump: LastDump | None = None
    is_later: bool = False


class PartListing(NamedTuple):
    """The objects of one part.

    Attributes:
        name: the name of the list of the part's condemned objects; see `state.Marks`.
        records: records of the old objects, ascending.
        objects: number of all objects, including young objects.
        size: total size of all objects in bytes.
        foreign: number of objects with names that lakecli does not use.
        newest: the key of lakeFS's object with the latest time in its name; ``""`` if there is
            none.
        later: number of objects of lakeFS that are younger than the last refs dump.
        keys: keys of the old objects, if requested; empty if they follow from the digests.
        versions: versions of the old objects, if requested.
    """

    name: str
    records: bytes
    objects: int
    size: int
    foreign: int = 0
    newest: str = ""
    later: int = 0
    keys: tuple[str, ...] = ()
    versions: tuple[Version, ...] = ()


def all_parts(work: Work) -> list[ListingPart]:
    """Return the parts of all objects that may be garbage; lakeFS's only if lakeFS has stopped."""
    # Objects with other names are not lakecli's, and are never garbage.
    is_large = digits_for(work.store) > 0
    names = [f"{number:02x}" for number in range(256)] if is_large else ["all"]
    parts = [part_named(work, name) for name in names]
    if work.lakefs is not None:
        parts += _parts_since(work, _FIRST)
        if work.lakefs.old_layout:
            parts.append(part_named(work, LAKEFS_PART + _OLD))
    return parts


def recent_lakefs_parts(work: Work) -> list[ListingPart]:
    """Return the parts of objects that lakeFS may have written since the cutoff."""
    return _parts_since(work, work.times.cutoff - _AHEAD)


def _parts_since(work: Work, first: datetime) -> list[ListingPart]:
    """Return the parts of objects that lakeFS wrote since `first`; one part if they are few."""
    names: Iterable[str] = [_ALL]
    if next(islice(work.store.list(layout.DATA), _FEW, None), None) is not None:
        names = _names_between(first, work.times.now + _AHEAD)
    return [part_named(work, LAKEFS_PART + name) for name in names]


def _names_between(first: datetime, last: datetime) -> Iterator[str]:
    """Yield the first characters of the partitions that lakeFS named between two times."""
    times = int(last.timestamp()), int(first.timestamp())
    low, high = ((_PARTITIONS_END - at) % (1 << 32) >> _PREFIX_SHIFT for at in times)
    for number in range(low, high + 1):
        shifts = range(5 * (_PREFIX_DIGITS - 1), -1, -5)
        yield "".join(LAKEFS_DIGITS[number >> shift & 31] for shift in shifts)


def part_named(work: Work, name: str, *, keys: bool = False) -> ListingPart:
    """Return the part with a name; only objects older than the cutoff may be garbage.

    Objects of lakeFS that are younger than the last refs dump are never garbage.

    Args:
        keys: whether to return the fields that a deletion of the old objects needs.
    """
    before = work.times.cutoff.timestamp()
    if kind_of_part(name) == "lakefs":
        return ListingPart(name, before, keys, last_dump=work.last_dump)
    prefix = layout.DATA if name == "all" else f"{layout.DATA}{name}/"
    return ListingPart(name, before, keys, prefix)


def kind_of_part(name: str) -> str:
    """Return the kind of a part's objects: ``data`` or ``lakefs``; see `report.KINDS`."""
    return "lakefs" if name.startswith(LAKEFS_PART) else "data"


def list_parts(
    work: Work, parts: Sequence[ListingPart]
) -> Iterator[tuple[ListingPart, PartListing]]:
    """List parts in tasks; yield each part with its objects."""
    return _run(work, list_part, parts)


def list_part(location: Location, part: ListingPart) -> PartListing:
    """List the objects of one part; this function is the task that a runner runs."""
    return (_list_data if part.prefix else _list_lakefs)(location.store(), part)


def _list_data(store: ObjectStore, part: ListingPart) -> PartListing:
    before = datetime.fromtimestamp(part.before, UTC)
    records = bytearray()
    versions: list[Version] = []
    objects = size = foreign = 0
    for info in store.list(part.prefix):
        digest = layout.data_digest(info.key)
        if digest is None:
            foreign += 1
            continue
        objects += 1
        size += info.size
        if info.modified_at < before:
            records += bytes.fromhex(digest) + info.size.to_bytes(8)
            if part.keys:
                versions.append(info.version)
    return PartListing(part.name, bytes(records), objects, size, foreign, versions=tuple(versions))


def _list_lakefs(store: ObjectStore, part: ListingPart) -> PartListing:
    """List objects of lakeFS.

    If several objects have the same name, only the first may be garbage, and the others are kept.
    """
    old: dict[bytes, ObjectInfo] = {}
    names: set[bytes] = set()
    objects = size = later = 0
    newest = ("", datetime.min.replace(tzinfo=UTC))
    for info in _iter_lakefs(store, part.name):
        name = layout.lakefs_object(info.key)
        if name is None:
            continue
        objects += 1
        size += info.size
        at = written_at(name)
        if at is not None and at > newest[1]:
            newest = info.key, at
        digest, at_bucket = identity.blake3_of(name.encode("ascii")), info.modified_at
        is_later = part.last_dump is not None and part.last_dump.is_before(at_bucket, at)
        later += is_later
        is_old = at_bucket.timestamp() < part.before
        is_wanted = is_later if part.is_later else is_old and not is_later
        if digest not in names and is_wanted:
            old[digest] = info
        names.add(digest)
    records = b"".join(each + old[each].size.to_bytes(8) for each in sorted(old))
    found = [old[each] for each in sorted(old)] if part.keys else []
    keys, versions = tuple(info.key for info in found), tuple(info.version for info in found)
    return PartListing(part.name, records, objects, size, 0, newest[0], later, keys, versions)


def _iter_lakefs(store: ObjectStore, name: str) -> Iterator[ObjectInfo]:
    kind = name.removeprefix(LAKEFS_PART)
    if kind == _ALL:
        return store.list(layout.DATA)
    if kind == _OLD:
        return chain.from_iterable(map(store.list, _old_prefixes()))
    return store.list(layout.DATA + kind)


def _old_prefixes() -> Iterator[str]:
    """Yield prefixes that together match all keys outside ``data/`` that begin like a lakeFS ID."""
    folder = layout.DATA.rstrip("/")
    for length in range(len(folder) + 1):
        start = folder[:length]
        following = folder[length : length + 1]
        yield from (start + digit for digit in LAKEFS_DIGITS if digit != following)


_ADDRESS: Final = re.compile(rb"data/(?:[0-9a-f]{2}/[0-9a-f]{62}|[0-9a-v]{20}/[0-9a-v]{20})")
"""Matches the address of an object of lakecli or lakeFS, also within a full URI."""

_OWN_ADDRESS: Final = len("data/") + len("00/") + 62

_OLD_ADDRESS: Final = re.compile(rb"(?<=[\x14\x20/])(?=([0-9a-v]{20}))(?=([0-9a-f]{32}|))")
"""Matches the ID of an object of an old lakeFS server.

The ID follows its length in a Protocol Buffers message, or a slash in a URI.
"""


def digests_of(addresses: set[bytes]) -> bytes:
    """Return the digests by which a `DigestSet` identifies objects at addresses, ascending."""
    own = [each for each in addresses if len(each) == _OWN_ADDRESS]
    joined = b"".join(sorted(own)).replace(b"data/", b"").replace(b"/", b"")
    digests = bytes.fromhex(joined.decode("ascii"))
    if len(own) == len(addresses):
        return digests
    found = [*split(digests, DIGEST)]
    found += [identity.blake3_of(each) for each in addresses if len(each) != _OWN_ADDRESS]
    return b"".join(sorted(found))


def digest_of_key(key: str) -> bytes | None:
    """Return the digest that identifies a data object in a `DigestSet`; ``None`` for other keys."""
    if (digest := layout.data_digest(key)) is not None:
        return bytes.fromhex(digest)
    name = layout.lakefs_object(key)
    return None if name is None else identity.blake3_of(name.encode("ascii"))


def addresses_in(data: bytes, *, old_layout: bool = True) -> Iterator[bytes]:
    """Yield each part of encoded entries that looks like the address of a data object.

    Args:
        old_layout: also look for IDs that old lakeFS servers gave to objects.
    """
    yield from _ADDRESS.findall(data)
    if old_layout:
        for ids in _OLD_ADDRESS.findall(data):
            yield from filter(None, ids)


KINDS_OF_TABLES: Final = {"ranges": "range", "metaranges": "metarange"}
"""The kind of garbage in `report.KINDS`, by the type in a table's properties."""

_PART_KINDS: Final = 64
"""Number of tables whose kind one task reads."""

_PART_TABLES: Final = 8
"""Number of trees or ranges that one task reads."""

_INLINE: Final = 4 << 10
"""Maximum bytes of digests that a task returns if it can write to a scratch prefix instead."""


class TablesRead(NamedTuple):
    """The references in some ranges or metaranges.

    Attributes:
        references: digests of data objects, or IDs of ranges: 32 bytes each, in ascending order.
        entries: number of records in the tables.
        foreign: number of tables that lakecli did not write.
        missing: IDs of tables that do not exist.
        kept: the file in the namespace that contains the references; `references` is empty then.
    """

    references: bytes
    entries: int
    foreign: int
    missing: tuple[str, ...]
    kept: Kept | None = None


def iter_trees(work: Work, ids: Iterable[str]) -> Iterator[tuple[Sequence[str], TablesRead]]:
    """Read metaranges in tasks; yield the IDs of each task, and the references that it found."""
    return _run(work, read_trees, list(batches(sorted(ids), _PART_TABLES)))


def read_trees(location: Location, ids: Sequence[str]) -> TablesRead:
    """Read metaranges, and return the IDs of their ranges; missing ones are in `missing`."""

    def ranges_in(tree: str, table: SSTable) -> Iterator[bytes]:
        values = load_metarange(MetarangeId(tree), table).values
        return (bytes.fromhex(range_id_of(value)) for value in values)

    read, found = _read(location.store(), ids, ranges_in, must_exist=False)
    return read._replace(references=b"".join(sorted(found)))


def iter_ranges(
    work: Work, ids: Iterable[str], *, must_exist: bool, scratch: Scratch | None
) -> Iterator[tuple[Sequence[str], TablesRead]]:
    """Read ranges in tasks; yield the IDs of each task, and the references that it found."""
    old_layout = work.lakefs is not None and work.lakefs.old_layout
    task = partial(read_ranges, must_exist=must_exist, old_layout=old_layout, scratch=scratch)
    return _run(work, task, list(batches(sorted(ids), _PART_TABLES)))


def read_ranges(
    location: Location,
    ids: Sequence[str],
    *,
    must_exist: bool,
    old_layout: bool,
    scratch: Scratch | None = None,
) -> TablesRead:
    """Search ranges for every text that looks like the address of a data object.

    Values are not decoded, since they contain the address verbatim. The worst consequence of a text
    that only looks like an address is that an object that is garbage is kept.

    Args:
        ids: hex IDs of ranges.
        must_exist: whether to raise `MissingTable` if a range is missing.
        old_layout: whether the namespace may have objects of old lakeFS servers outside ``data/``.
        scratch: the prefix to write many digests to; ``None`` to return all of them.

    Raises:
        MissingTable: a range that must exist is missing.
        IntegrityError: a range is damaged.
    """

    def addresses(_id: str, table: SSTable) -> Iterator[bytes]:
        check_kind(table, "range")
        for number in range(table.block_count):
            payload = block.payload_of(table.stored_block(number))
            yield from addresses_in(payload, old_layout=old_layout)

    read, found = _read(location.store(), ids, addresses, must_exist=must_exist)
    digests = digests_of(found)
    if scratch is None or len(digests) <= _INLINE:
        return read._replace(references=digests)
    return read._replace(kept=scratch.write(digests))


References: TypeAlias = Callable[[str, SSTable], Iterator[bytes]]
"""A function that yields the references in a table, given its ID and the open table."""


def _read(
    store: ObjectStore, ids: Sequence[str], references_in: References, *, must_exist: bool
) -> tuple[TablesRead, set[bytes]]:
    """Read tables; return the counts, and the distinct references in all of them."""
    found: set[bytes] = set()
    entries, foreign, missing = 0, 0, []
    for table_id in ids:
        key = layout.sstable_key(table_id)
        try:
            table = SSTable(BytesSource(key, get_bounded(store, key, layout.MAX_TABLE_SIZE)))
        except ObjectNotFound:
            if must_exist:
                raise MissingTable(key, store.uri) from None
            missing.append(table_id)
            continue
        found.update(references_in(table_id, table))
        entries += table.count
        foreign += not is_ours(table)
    return TablesRead(b"", entries, foreign, tuple(missing)), found


class TableInfo(NamedTuple):
    """A listed range or metarange; `is_old` tells whether it was written before the cutoff."""

    size: int
    is_old: bool
    version: Version
    modified_at: datetime


def kinds_of(
    work: Work, tables: dict[str, TableInfo], ids: Collection[str], *, renewed: Collection[str] = ()
) -> dict[str, str]:
    """Return ``ranges`` or ``metaranges`` for each table that may be garbage.

    Tables of lakeFS may be garbage if lakeFS has stopped.

    Args:
        tables: the listed tables, by hex ID.
        renewed: hex IDs of tables whose date a writer of lakecli has renewed.

    Raises:
        LakeFsWrites: lakeFS wrote a table after it was confirmed to have stopped.
        LakeFsAhead: lakeFS wrote a table after the last refs dump.
    """
    sizes = ((each, tables[each].size) for each in sorted(ids))
    found = {}
    for _, kinds in _run(work, read_kinds, list(batches(sizes, _PART_KINDS))):
        for each in kinds:
            if not each.ours and work.lakefs is not None and each.kind in KINDS_OF_TABLES:
                key, at = layout.SSTABLES + each.id, tables[each.id].modified_at
                check_not_newer(work, key, at)
                dumped = work.last_dump
                if dumped is not None and dumped.is_before(at, None) and each.id not in renewed:
                    raise LakeFsAhead(work, key, dumped)
            elif not each.ours:
                continue
            found[each.id] = each.kind
    return found


class TableKind(NamedTuple):
    """The kind of a table (``ranges``, ``metaranges`` or another), and whether lakecli wrote it."""

    id: str
    kind: str
    ours: bool


def read_kinds(location: Location, part: Sequence[tuple[str, int]]) -> list[TableKind]:
    """Return the kinds of tables by their properties; an unreadable table is not lakecli's.

    Objects that are larger than any table are left out without reading them.
    """
    found = []
    for table_id, size in part:
        if size > layout.MAX_TABLE_SIZE:
            continue
        source = RemoteSource(location.store(), layout.sstable_key(table_id), size=size)
        try:
            table = directory.Directory(source)
        except IntegrityError:
            found.append(TableKind(table_id, "", ours=False))
            continue
        kind = table.properties.get("type", b"").decode("ascii", "replace")
        found.append(TableKind(table_id, kind, is_ours(table)))
    return found
