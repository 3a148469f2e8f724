"""The parts of ``fsck`` that grow with the data: hashing data objects, and reading ranges.

A part reads ranges and returns those without problems, with the references of their entries, which
the driver looks up in its index of data objects. The driver reads ranges with problems again
itself, so the findings and their order are the same with any runner.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.committed.check import Problem, check_range
from lakecli.layout import DATA, data_digest, data_key
from lakecli.pipeline.data_prefixes import LEAST_DIGITS, digits_for
from lakecli.pipeline.imports.listing import list_between
from lakecli.pipeline.store_location import StoreLocation, location_for
from lakecli.progress import NO_PROGRESS, Progress
from lakecli.repository.check.thoroughness import Sound
from lakecli.repository.core import outside
from lakecli.repository.core.data_index import Hashed, ListedPart, check_object, record_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakecli.committed.metaranges import RangeRecord
    from lakecli.committed.tree_store import TreeStore
    from lakecli.model import RangeId
    from lakecli.pipeline.runner import Runner
    from lakecli.pipeline.store_location import OpenStore
    from lakecli.repository.core.data_index import DataIndex, DataObject
    from lakecli.repository.core.lake import Repository

PART_OBJECTS: Final = 500
PART_BYTES: Final = 256 << 20
"""Limits of one part; a larger data object is the only one of its part."""

PART_RANGES: Final = 8
AFTER_DATA: Final = DATA.removesuffix("/") + "0"
"""The first key after all that begin with ``data/``."""

_REFERENCE: Final = 40
"""Bytes of a reference: the digest and the size of a data object."""


class Read(NamedTuple):
    """A range without problems.

    Attributes:
        entries: number of entries.
        outside: number of entries with bytes outside the namespace, by place.
        references: of all other entries, 32 bytes of digest and 8 of size each.
    """

    id: RangeId
    entries: int
    outside: dict[str, int]
    references: bytes


class RunnerBulk:
    """Runs the parts of a check by a runner; see `lakecli.repository.check.thoroughness.Bulk`.

    Args:
        repository: to check.
        runner: runs the parts.
        progress: counts the objects and bytes that are hashed; on executors, part by part.
        reads_ranges: whether the runner reads ranges; otherwise the check itself does.
    """

    def __init__(
        self,
        repository: Repository,
        runner: Runner,
        *,
        progress: Progress,
        reads_ranges: bool,
    ) -> None:
        self._location = StoreLocation.of(repository)
        self._runner = runner
        self._progress = progress
        self._is_here = runner.name == "local"
        self._namespace = location_for(repository, runner)
        self._reads_ranges = reads_ranges

    def list_objects(self) -> Iterator[ListedPart] | None:
        """List ``data/`` by the runner, unless it has few objects or the runner is no Spark."""
        digits = digits_for(self._namespace.store()) if self._reads_ranges else 0
        if not digits:
            return None
        return self._listed(digits)

    def _listed(self, digits: int) -> Iterator[ListedPart]:
        parts = 1 << 4 * digits
        task = partial(list_part, digits=digits, location=self._namespace)
        self._progress.expect(parts=parts)
        for _, part in self._runner.run(task, range(parts)):
            yield part
            self._progress.advance(parts=1)

    def hash_objects(self, objects: Iterator[DataObject]) -> Iterator[Hashed]:
        """Read data objects and compare them with their names, in any order."""
        task = partial(
            hash_part,
            location=self._namespace,
            progress=self._progress if self._is_here else NO_PROGRESS,
        )
        for _, results in self._runner.run(task, _object_parts(objects)):
            for hashed in results:
                if not self._is_here:
                    self._progress.advance(items=1, size=hashed.size)
                yield hashed

    def sound_ranges(
        self, records: Iterator[RangeRecord], index: DataIndex
    ) -> Mapping[RangeId, Sound]:
        """Return those of some ranges that have no problems."""
        if not self._reads_ranges:
            return {}
        sound: dict[RangeId, Sound] = {}
        parts = iter(lambda: tuple(islice(records, PART_RANGES)), ())
        task = partial(read_part, location=self._location)
        for _, results in self._runner.run(task, parts):
            for read in results:
                if all(index.problem_of(key, size) is None for key, size in _references(read)):
                    sound[read.id] = Sound(read.entries, read.outside)
        return sound


def list_part(number: int, *, digits: int, location: StoreLocation | OpenStore) -> ListedPart:
    """List one part of ``data/``: an interval of keys, so that no key is left out.

    Args:
        number: of the part.
        digits: number of hex digits that divide the parts.
        location: of the namespace.
    """
    low = _first_key(number, digits) if number else DATA
    high = _first_key(number + 1, digits) if number + 1 < 1 << 4 * digits else AFTER_DATA
    own, foreign = bytearray(), bytearray()
    for info, _ in list_between(location.store(), low, high):
        is_own, record = record_of(info.key, info.size)
        if is_own:
            own += record
        else:
            foreign += record
    return ListedPart(number, bytes(own), bytes(foreign))


def _first_key(number: int, digits: int) -> str:
    """Return the first key of a part."""
    text = f"{number:0{digits}x}"
    return f"{DATA}{text[:LEAST_DIGITS]}/{text[LEAST_DIGITS:]}"


def hash_part(
    keys: tuple[str, ...],
    *,
    location: StoreLocation | OpenStore,
    progress: Progress = NO_PROGRESS,
) -> list[Hashed]:
    """Read some data objects and compare them with their names.

    Args:
        keys: of the objects.
        location: of the namespace.
        progress: counts the objects and bytes, where the part runs in this process.
    """
    found = []
    for key in keys:
        found.append(check_object(location.store(), key, progress))
        progress.advance(items=1)
    return found


def read_part(records: tuple[RangeRecord, ...], *, location: StoreLocation) -> list[Read]:
    """Verify some ranges; leave out those with problems."""
    trees = location.trees()
    return [read for record in records if (read := _read(trees, record)) is not None]


def _read(trees: TreeStore, record: RangeRecord) -> Read | None:
    entries = 0
    places: dict[str, int] = {}
    references = bytearray()
    for item in check_range(trees, record):
        if isinstance(item, Problem):
            return None
        entries += 1
        if "://" in item.physical_address:
            outside.count(places, outside.place_of(item.physical_address))
            continue
        digest = data_digest(item.physical_address)
        if digest is None or not 0 <= item.size < 1 << 64:
            return None
        references += bytes.fromhex(digest) + item.size.to_bytes(8)
    return Read(record.id, entries, places, bytes(references))


def _references(read: Read) -> Iterator[tuple[str, int]]:
    for start in range(0, len(read.references), _REFERENCE):
        reference = read.references[start : start + _REFERENCE]
        yield data_key(reference[:32].hex()), int.from_bytes(reference[32:])


def _object_parts(objects: Iterator[DataObject]) -> Iterator[tuple[str, ...]]:
    keys: list[str] = []
    size = 0
    for info in objects:
        if keys and (len(keys) == PART_OBJECTS or size + info.size > PART_BYTES):
            yield tuple(keys)
            keys, size = [], 0
        keys.append(info.key)
        size += info.size
    if keys:
        yield tuple(keys)
