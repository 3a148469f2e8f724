"""Compare listings of data objects with those in use: in this process, or by joins on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from lakecli.base.layout import DATA, data_key
from lakecli.engine.store_location import OpenStore, StoreLocation
from lakecli.gc.lakefs import LakeFsPart, list_lakefs
from lakecli.gc.live import DIGEST, RECORD, DigestSet, split, total_of
from lakecli.gc.marks import Marks
from lakecli.gc.tasks import DataPart, list_data
from lakecli.stores.contract import Version

if TYPE_CHECKING:
    from lakecli.gc.joined import JoinedSet
    from lakecli.gc.mark import Work

Garbage = tuple[str, Version]
"""The key and the version of an object; ``""`` where the store deletes whatever is there."""

AnyPart = DataPart | LakeFsPart


class Listed(NamedTuple):
    """A part of the listing of data objects.

    Attributes:
        name: of the list of the part's condemned objects; see `marks`.
        records: of old objects: 32 bytes of digest and 8 of size each, ascending.
        objects: number of all objects, young ones included.
        size: bytes of these.
        foreign: number of objects with names that lakecli does not use.
        newest: the key of the object of lakeFS with the latest time in its name; ``""``: none.
        later: number of objects of lakeFS that are younger than the last refs dump.
    """

    name: str
    records: bytes
    objects: int
    size: int
    foreign: int
    newest: str
    later: int = 0


class Found(NamedTuple):
    """The condemned objects of one part that are still there and still unreached.

    Attributes:
        name: of the part.
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


def part_name(part: AnyPart) -> str:
    """Return the name of a part's list: two hex digits, ``all``, or that of a part of lakeFS."""
    if isinstance(part, LakeFsPart):
        return part.name
    return part.prefix.removeprefix(DATA).partition("/")[0] or "all"


def part_of(name: str, before: float, *, keys: bool = False) -> DataPart:
    """Return the part of the listing of lakecli's objects with a name.

    Args:
        name: of its list of condemned objects.
        before: unix seconds; younger objects are only counted.
        keys: whether to return what identifies each old object for its deletion.
    """
    return DataPart(DATA if name == "all" else f"{DATA}{name}/", before, keys)


def list_part(part: AnyPart, *, location: StoreLocation | OpenStore) -> Listed:
    """List the objects of one part."""
    name = part_name(part)
    if isinstance(part, LakeFsPart):
        of_lakefs = list_lakefs(part, location=location)
        counts = of_lakefs.objects, of_lakefs.size, 0, of_lakefs.newest, of_lakefs.later
        return Listed(name, of_lakefs.records, *counts)
    own = list_data(part, location=location)
    return Listed(name, own.records, own.objects, own.size, own.foreign, "")


def list_keys(
    part: AnyPart, *, location: StoreLocation | OpenStore
) -> tuple[bytes, Sequence[str], Sequence[str]]:
    """Return records, keys and versions of the old objects of one part.

    Keys are left out where they follow from the digests, versions where they were not requested.
    """
    if isinstance(part, LakeFsPart):
        found = list_lakefs(part, location=location)
        keys, versions = [key for key, _ in found.found], [version for _, version in found.found]
        return found.records, keys, versions
    own = list_data(part, location=location)
    return own.records, (), own.versions


def iter_unreached(
    work: Work, live: DigestSet | JoinedSet, parts: Sequence[AnyPart]
) -> Iterator[Listed]:
    """List parts; yield each with the records of those old objects that are not in use."""
    if not isinstance(live, DigestSet):
        yield from live.iter_unreached(work, parts)
        return
    work.progress.expect(parts=len(parts))
    for _, listed in work.runner.run(partial(list_part, location=work.location), parts):
        yield listed._replace(records=live.without(listed.records))
        work.progress.advance(parts=1)


def iter_found(
    work: Work,
    live: DigestSet | JoinedSet,
    marks: Marks,
    parts: Sequence[AnyPart],
    *,
    beat: Callable[[], None],
) -> Iterator[Found]:
    """Yield what of the condemned objects of some parts is still there, old and unreached.

    Args:
        work: what the collection works with.
        live: the objects in use.
        marks: the lists of condemned objects.
        parts: to list again, with keys and versions.
        beat: called every few seconds while nothing can be deleted yet.

    Raises:
        LostMarks: a list is missing or damaged.
    """
    if not isinstance(live, DigestSet):
        yield from live.iter_found(work, marks, parts, beat=beat)
        return
    work.progress.expect(parts=len(parts))
    for part, listed in work.runner.run(partial(list_keys, location=work.location), parts):
        name = part_name(part)
        condemned = marks.data(name)
        unreached = live.without(condemned)
        wanted = {record[:DIGEST] for record in split(unreached)}
        found = {
            record: one
            for record, one in zip(split(listed[0]), garbage_of(*listed), strict=True)
            if record[:DIGEST] in wanted
        }
        spared = (len(condemned) - len(unreached)) // RECORD
        yield Found(name, spared, *total_of(b"".join(found)), list(found.values()))
        work.progress.advance(parts=1)


def garbage_of(records: bytes, keys: Sequence[str], versions: Sequence[str]) -> Iterator[Garbage]:
    """Yield the key and the version of each object that `list_keys` returned."""
    named = keys or (data_key(record[:DIGEST].hex()) for record in split(records))
    return zip(named, map(Version, versions) if versions else repeat(Version("")), strict=False)
