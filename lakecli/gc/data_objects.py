"""List the data objects of a namespace in parts: those of lakecli, and those of lakeFS.

An object that lakecli wrote has the digest in its key. For one of lakeFS, in a namespace that was
taken over from it, the digest is that of the name that `layout.lakefs_object` finds in its key: a
list of condemned ones has these digests, and the sweep finds the keys by listing again.

The parts of lakecli's objects are the prefixes of ``data/``, or in a small namespace all. Those of
lakeFS are apart. In a small namespace all are one part. In a large one there is a part for each 36
hours, as lakeFS names its partitions by descending time. What old servers wrote directly into the
namespace is a part, too.

A list of objects consists of records of `RECORD` bytes: the digest, and the size (8, big-endian).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, islice, repeat
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.identity import DIGEST_SIZE, h
from lakecli.base.layout import DATA, data_digest, data_key, lakefs_object
from lakecli.engine.store_location import OpenStore, StoreLocation, digits_for
from lakecli.gc.options import Work
from lakecli.repository.lakefs.kept_dumps import LAKEFS_DIGITS, written_at
from lakecli.stores.contract import ObjectInfo, Version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakecli.stores.contract import ObjectStore

DIGEST: Final = DIGEST_SIZE
RECORD: Final = DIGEST + 8
"""Bytes of a list's record."""

LAKEFS_PART: Final = "lakefs-"
_ALL: Final = "everywhere"
_OLD: Final = "outside"

_FEW: Final = 20_000
"""Objects below ``data/`` up to which one part lists all."""

_FIRST: Final = datetime(2020, 1, 1, tzinfo=UTC)
"""No lakeFS server named an object earlier."""

_PARTITIONS_END: Final = 64_060_588_800
"""The second in the year 4000 from which partitions are counted back."""

_PREFIX_DIGITS: Final = 3
_PREFIX_SHIFT: Final = 32 - 5 * _PREFIX_DIGITS
_AHEAD: Final = timedelta(days=2)
"""How long after the present a partition may be named, by a server's clock."""

Garbage = tuple[str, Version]
"""The key and the version of an object; ``""`` where the store deletes whatever is there."""


class DataPart(NamedTuple):
    """A part of the objects of lakecli.

    Attributes:
        prefix: prefix of the keys.
        before: unix seconds; objects that are not older are only counted.
        keys: whether to return the versions of the old objects; the keys follow from the digests.
    """

    prefix: str
    before: float
    keys: bool = False

    @property
    def name(self) -> str:
        """The name of its list of condemned objects: two hex digits, or ``all``."""
        return self.prefix.removeprefix(DATA).partition("/")[0] or "all"


class LakeFsPart(NamedTuple):
    """A part of the objects of lakeFS.

    Attributes:
        name: the name of its list of condemned objects.
        before: unix seconds; objects that are not older are only counted.
        keys: whether to return the keys and versions of the old objects.
        until: unix seconds; of younger objects, only the number is returned.
        is_later: return the younger ones as `records`, and no others.
    """

    name: str
    before: float
    keys: bool = False
    until: float = inf
    is_later: bool = False


ListingPart = DataPart | LakeFsPart


class PartListing(NamedTuple):
    """The objects of one part.

    Attributes:
        name: the name of the list of the part's condemned objects; see `marks`.
        records: records of the old objects, ascending.
        objects: number of all objects, young ones included.
        size: bytes of these.
        foreign: number of objects with names that lakecli does not use.
        newest: the key of the object of lakeFS with the latest time in its name; ``""``: none.
        later: number of objects of lakeFS that are younger than the last refs dump.
        keys: keys of the old objects, if requested, unless they follow from the digests.
        versions: versions of the same objects, if requested.
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
    """Return the parts of all objects that may be garbage: lakeFS's only if it has stopped."""
    # Objects with other names are not lakecli's, and are never garbage.
    is_large = digits_for(work.repository.store) > 0
    names = [f"{number:02x}" for number in range(256)] if is_large else ["all"]
    parts = [part_named(work, name) for name in names]
    if work.lakefs is not None:
        parts += _parts_since(work, _FIRST)
        if work.lakefs.old_layout:
            parts.append(part_named(work, LAKEFS_PART + _OLD))
    return parts


def recent_lakefs_parts(work: Work) -> list[ListingPart]:
    """Return the parts of what lakeFS may have written since a mark that may be swept now."""
    return _parts_since(work, work.times.cutoff - _AHEAD)


def _parts_since(work: Work, first: datetime) -> list[ListingPart]:
    """Return the parts of what lakeFS wrote since a time; in a small namespace, one with all."""
    names: Iterable[str] = [_ALL]
    if next(islice(work.repository.store.list(DATA), _FEW, None), None) is not None:
        names = _names_between(first, work.times.now + _AHEAD)
    return [part_named(work, LAKEFS_PART + name) for name in names]


def _names_between(first: datetime, last: datetime) -> Iterator[str]:
    """Yield the beginnings of the partitions that lakeFS named between two times."""
    low, high = (
        (_PARTITIONS_END - int(at.timestamp())) % (1 << 32) >> _PREFIX_SHIFT for at in (last, first)
    )
    for number in range(low, high + 1):
        shifts = range(5 * (_PREFIX_DIGITS - 1), -1, -5)
        yield "".join(LAKEFS_DIGITS[number >> shift & 31] for shift in shifts)


def part_named(work: Work, name: str, *, keys: bool = False) -> ListingPart:
    """Return the part with a name, of which only what is old enough may be garbage.

    Of lakeFS's objects, only those that are no younger than the last refs dump may be.

    Args:
        work: what the collection works with.
        name: the name of the list of its condemned objects.
        keys: whether to return what identifies each old object for its deletion.
    """
    before = work.times.cutoff.timestamp()
    if kind_of_part(name) == "data":
        return DataPart(DATA if name == "all" else f"{DATA}{name}/", before, keys)
    until = inf if work.last_dump is None else work.last_dump.timestamp()
    return LakeFsPart(name, before, keys, until)


def kind_of_part(name: str) -> str:
    """Return the kind of a part's objects: ``data`` or ``lakefs``; see `report.KINDS`."""
    return "lakefs" if name.startswith(LAKEFS_PART) else "data"


def list_part(part: ListingPart, *, location: StoreLocation | OpenStore) -> PartListing:
    """List the objects of one part."""
    store = location.store()
    return _list_lakefs(part, store) if isinstance(part, LakeFsPart) else _list_data(part, store)


def _list_data(part: DataPart, store: ObjectStore) -> PartListing:
    before = datetime.fromtimestamp(part.before, UTC)
    records = bytearray()
    versions: list[Version] = []
    objects = size = foreign = 0
    for info in store.list(part.prefix):
        digest = data_digest(info.key)
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


def _list_lakefs(part: LakeFsPart, store: ObjectStore) -> PartListing:
    """List objects of lakeFS. Of several with one name the first counts, and the others stay."""
    old: dict[bytes, ObjectInfo] = {}
    names: set[bytes] = set()
    objects = size = later = 0
    newest = ("", datetime.min.replace(tzinfo=UTC))
    for info in _iter_lakefs(store, part.name):
        name = lakefs_object(info.key)
        if name is None:
            continue
        objects += 1
        size += info.size
        at = written_at(name)
        if at is not None and at > newest[1]:
            newest = info.key, at
        digest, at_bucket = h(name.encode("ascii")), info.modified_at.timestamp()
        is_later = at_bucket > part.until
        later += is_later
        is_wanted = is_later if part.is_later else at_bucket < part.before and not is_later
        if digest not in names and is_wanted:
            old[digest] = info
        names.add(digest)
    records = b"".join(each + old[each].size.to_bytes(8) for each in sorted(old))
    found = [old[each] for each in sorted(old)] if part.keys else []
    return PartListing(
        part.name,
        records,
        objects,
        size,
        newest=newest[0],
        later=later,
        keys=tuple(info.key for info in found),
        versions=tuple(info.version for info in found),
    )


def _iter_lakefs(store: ObjectStore, name: str) -> Iterator[ObjectInfo]:
    kind = name.removeprefix(LAKEFS_PART)
    if kind == _ALL:
        return store.list(DATA)
    if kind == _OLD:
        return chain.from_iterable(map(store.list, _old_prefixes()))
    return store.list(DATA + kind)


def _old_prefixes() -> Iterator[str]:
    """Yield the prefixes of keys without a slash that begin as an ID, but none of ``data/``."""
    folder = DATA.rstrip("/")
    for length in range(len(folder) + 1):
        start = folder[:length]
        following = folder[length : length + 1]
        yield from (start + digit for digit in LAKEFS_DIGITS if digit != following)


def split(records: bytes) -> Iterator[bytes]:
    """Yield the records of a list."""
    for at in range(0, len(records), RECORD):
        yield records[at : at + RECORD]


def total_of(records: bytes) -> tuple[int, int]:
    """Return how many objects a list has, and their bytes."""
    size = sum(int.from_bytes(record[DIGEST:]) for record in split(records))
    return len(records) // RECORD, size


def garbage_of(records: bytes, keys: Sequence[str], versions: Sequence[str]) -> Iterator[Garbage]:
    """Yield the key and the version of each object that was listed with `keys`."""
    named = keys or (data_key(record[:DIGEST].hex()) for record in split(records))
    return zip(named, map(Version, versions) if versions else repeat(Version("")), strict=False)
