"""Data objects: list them in parts, find their addresses in entries, and know which are in use.

There are objects of lakecli and of lakeFS.

An object that lakecli wrote has the digest in its key. For one of lakeFS, in a namespace that was
taken over from it, the digest is that of the name that `layout.lakefs_object` finds in its key: a
list of condemned ones has these digests, and the sweep finds the keys by listing again.

The parts of lakecli's objects are the prefixes of ``data/``, or in a small namespace all. Those of
lakeFS are apart. In a small namespace all are one part. In a large one there is a part for each 36
hours, as lakeFS names its partitions by descending time. What old servers wrote directly into the
namespace is a part, too.

A list of objects consists of records of `RECORD` bytes: the digest, and the size (8, big-endian).

Those in use are, in this process, a set of digests on disk, of any size: `DigestSet`. Digests are
divided among 256 files by their first byte. Look-ups come sorted, so that one file at a time is in
memory, as a set. `live_set` has the set on Spark.
"""

from __future__ import annotations

import re
import tempfile
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, islice, repeat
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

from lakecli.base.identity import h
from lakecli.base.layout import DATA, data_digest, data_key, lakefs_object
from lakecli.engine.runner import Location, digits_for
from lakecli.engine.scratch import Kept, Scratch
from lakecli.gc.policy import Work
from lakecli.gc.state import DIGEST, RECORD, Garbage, Marks, split, total_of
from lakecli.repository.lakefs.kept_dumps import LAKEFS_DIGITS, written_at
from lakecli.stores.contract import ObjectInfo, ObjectStore, Version

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
        name: the name of the list of the part's condemned objects; see `state.Marks`.
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
    is_large = digits_for(work.store) > 0
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
    if next(islice(work.store.list(DATA), _FEW, None), None) is not None:
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


def list_parts(
    work: Work, parts: Sequence[ListingPart]
) -> Iterator[tuple[ListingPart, PartListing]]:
    """List parts in tasks; yield each with its objects."""
    return work.run(list_part, parts)


def list_part(location: Location, part: ListingPart) -> PartListing:
    """List the objects of one part."""
    store = location.store()
    return _list_lakefs(store, part) if isinstance(part, LakeFsPart) else _list_data(store, part)


def _list_data(store: ObjectStore, part: DataPart) -> PartListing:
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


def _list_lakefs(store: ObjectStore, part: LakeFsPart) -> PartListing:
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


def garbage_of(records: bytes, keys: Sequence[str], versions: Sequence[str]) -> Iterator[Garbage]:
    """Yield the key and the version of each object that was listed with `keys`."""
    named = keys or (data_key(record[:DIGEST].hex()) for record in split(records))
    return zip(named, map(Version, versions) if versions else repeat(Version("")), strict=False)


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
    """The digests of the data objects in use; to be closed.

    Attributes:
        scratch: where tasks write the digests that they find; ``None``: they return them.
    """

    scratch: Scratch | None = None

    def close(self) -> None:  # noqa: B027 - one on Spark has nothing of its own
        """Delete what the set has stored on this machine."""

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
        self, work: Work, mark: str, parts: Sequence[ListingPart]
    ) -> Iterator[PartGarbage | None]:
        """Yield what of the condemned objects of some parts is still there, old and unreached.

        While that is still unknown, yield ``None`` every few seconds.

        Args:
            work: what the collection works with.
            mark: the name of the lists of condemned objects.
            parts: the parts to list again, with keys and versions.

        Raises:
            LostMarks: a list is missing or damaged.
        """


class DigestSet(LiveSet):
    """The set on the disk of this machine; its files are deleted at the end."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="lakecli-gc-")
        self._buckets = [bytearray() for _ in range(256)]
        self._buffered = 0
        self._loaded: tuple[int, frozenset[bytes]] | None = None

    def close(self) -> None:
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
        for _, listed in list_parts(work, parts):
            yield listed._replace(records=self.without(listed.records))

    def iter_garbage(
        self, work: Work, mark: str, parts: Sequence[ListingPart]
    ) -> Iterator[PartGarbage]:
        """List parts in tasks; see `LiveSet`. The first part is known soon."""
        for part, listed in list_parts(work, parts):
            condemned = Marks(work.store, mark).data(part.name)
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


_ADDRESS: Final = re.compile(rb"data/(?:[0-9a-f]{2}/[0-9a-f]{62}|[0-9a-v]{20}/[0-9a-v]{20})")
"""Addresses of objects that lakecli and lakeFS wrote, in full URIs too."""

_OWN_ADDRESS: Final = len("data/") + len("00/") + 62

_OLD_ADDRESS: Final = re.compile(rb"(?<=[\x14\x20/])(?=([0-9a-v]{20}))(?=([0-9a-f]{32}|))")
"""IDs that old lakeFS servers gave, after their length in a message or a slash in a URI."""


def digests_of(addresses: set[bytes]) -> bytes:
    """Return what a `DigestSet` has for objects, in ascending order."""
    own = [each for each in addresses if len(each) == _OWN_ADDRESS]
    joined = b"".join(sorted(own)).replace(b"data/", b"").replace(b"/", b"")
    digests = bytes.fromhex(joined.decode("ascii"))
    if len(own) == len(addresses):
        return digests
    found = [digests[at : at + DIGEST] for at in range(0, len(digests), DIGEST)]
    found += [h(each) for each in addresses if len(each) != _OWN_ADDRESS]
    return b"".join(sorted(found))


def digest_of_key(key: str) -> bytes | None:
    """Return what a `DigestSet` has for the key of a data object; ``None`` for other keys."""
    digest = data_digest(key)
    if digest is not None:
        return bytes.fromhex(digest)
    name = lakefs_object(key)
    return None if name is None else h(name.encode("ascii"))


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
