"""The data objects of lakeFS, in a namespace that was taken over from it.

They are listed apart from those of lakecli: a list of condemned ones has the digests of their
names, and the sweep finds the keys by listing again. In a small namespace all are one part. In a
large one there is a part for each 36 hours, as lakeFS names its partitions by descending time.
What old servers wrote directly into the namespace is a part, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.base.identity import h
from lakecli.base.layout import DATA, lakefs_object
from lakecli.engine.store_location import OpenStore, StoreLocation
from lakecli.gc.shared import LakeFsWrites
from lakecli.repository.contract import Repository
from lakecli.repository.lakefs.taken_over import CLOCKS, LAKEFS_DIGITS, TakenOver, written_at
from lakecli.stores.contract import ObjectInfo, Version

if TYPE_CHECKING:
    from lakecli.gc.mark import Work
    from lakecli.stores.contract import ObjectStore

PART: Final = "lakefs-"
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


class LakeFsPart(NamedTuple):
    """A part of the objects of lakeFS.

    Attributes:
        name: of its list of condemned objects.
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


class LakeFsListed(NamedTuple):
    """The objects of one part.

    Attributes:
        records: of the old ones: 32 bytes of digest of the name and 8 of size each, ascending.
        objects: number of all objects, young ones included.
        size: bytes of these.
        newest: the key of the object with the latest time in its name; ``""``: none has one.
        found: key and version of the old ones, in the order of `records`, if requested.
        later: number of objects that are younger than `LakeFsPart.until`.
    """

    records: bytes
    objects: int
    size: int
    newest: str
    found: tuple[tuple[str, Version], ...] = ()
    later: int = 0


def list_lakefs(part: LakeFsPart, *, location: StoreLocation | OpenStore) -> LakeFsListed:
    """List objects of lakeFS. Of several with one name the first counts, and the others stay."""
    old: dict[bytes, ObjectInfo] = {}
    names: set[bytes] = set()
    objects = size = later = 0
    newest = ("", datetime.min.replace(tzinfo=UTC))
    for info in _iter_part(location.store(), part.name):
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
    found = ((old[each].key, old[each].version) for each in sorted(old)) if part.keys else ()
    return LakeFsListed(records, objects, size, newest[0], tuple(found), later)


def _iter_part(store: ObjectStore, name: str) -> Iterator[ObjectInfo]:
    kind = name.removeprefix(PART)
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


def lakefs_parts(work: Work, taken: TakenOver) -> list[LakeFsPart]:
    """Return all parts of the objects of lakeFS."""
    parts = _parts_since(work, _FIRST)
    if taken.old_layout:
        parts.append(parts[0]._replace(name=PART + _OLD))
    return parts


def recent_parts(work: Work) -> list[LakeFsPart]:
    """Return the parts of what lakeFS may have written since a mark that may be swept now."""
    return _parts_since(work, work.times.cutoff - _AHEAD)


def _parts_since(work: Work, first: datetime) -> list[LakeFsPart]:
    """Return the parts of what was written since a time; in a small namespace, one with all."""
    names: Iterable[str] = [_ALL]
    if next(islice(work.repository.store.list(DATA), _FEW, None), None) is not None:
        names = _names_between(first, work.times.now + _AHEAD)
    return [lakefs_part(work, PART + name) for name in names]


def lakefs_part(work: Work, name: str, *, keys: bool = False) -> LakeFsPart:
    """Return a part of which only what is old enough, and in a dump's time, may be garbage."""
    until = inf if work.last_dump is None else work.last_dump.timestamp()
    return LakeFsPart(name, work.times.cutoff.timestamp(), keys, until)


def _names_between(first: datetime, last: datetime) -> Iterator[str]:
    """Yield the beginnings of the partitions that lakeFS named between two times."""
    low, high = (
        (_PARTITIONS_END - int(at.timestamp())) % (1 << 32) >> _PREFIX_SHIFT for at in (last, first)
    )
    for number in range(low, high + 1):
        shifts = range(5 * (_PREFIX_DIGITS - 1), -1, -5)
        yield "".join(LAKEFS_DIGITS[number >> shift & 31] for shift in shifts)


def check_stopped(repository: Repository, taken: TakenOver, key: str) -> None:
    """Refuse to delete objects of lakeFS if a data object shows that it goes on writing.

    Args:
        repository: the repository of the namespace.
        taken: when lakeFS was confirmed to have stopped.
        key: the object with the latest time in its name; ``""``: there is none.

    Raises:
        LakeFsWrites: it was written later.
    """
    name = lakefs_object(key)
    at = None if name is None else written_at(name)
    if at is not None:
        check_not_newer(repository, taken, key, at)


def check_not_newer(repository: Repository, taken: TakenOver, key: str, at: datetime) -> None:
    """Refuse to delete objects of lakeFS if one is younger than the confirmation.

    Raises:
        LakeFsWrites: it is.
    """
    if taken.stopped_at is not None and at > taken.stopped_at + CLOCKS:
        raise LakeFsWrites(repository, key, taken.stopped_at)
