"""Read data objects and compare them with their names, in parts of bounded size.

The names of objects that lakeFS wrote are not digests. The contents of these objects are compared
with the checksum of an entry. A matching checksum proves that the contents are right; a different
one does not prove that they are damaged.

In this process a part is a list of keys. For executors a part is an interval of keys: one task
lists a part of ``data/`` and divides it into intervals; other tasks list the intervals again and
read their objects.
"""

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final, NamedTuple

from lakecli.base.layout import DATA, data_digest
from lakecli.base.model import Entry
from lakecli.base.progress import Progress
from lakecli.base.validation import EARLIEST
from lakecli.engine.runner import LEAST_DIGITS, Location, Runner
from lakecli.errors import LakeError
from lakecli.imports.bucket import list_between
from lakecli.repository.reading import contents, lakefs_digests
from lakecli.repository.stored_objects import Hashed, check_object
from lakecli.stores import contract, streams

PART_OBJECTS: Final = 500
PART_BYTES: Final = 256 << 20
"""Maximum number (`PART_OBJECTS`) and total size in bytes (`PART_BYTES`) of a part's objects.

An object that is larger than `PART_BYTES` is a part of its own.
"""

AFTER_DATA: Final = DATA.removesuffix("/") + "0"
"""The first key after all keys that begin with ``data/``."""


class ObjectInterval(NamedTuple):
    """The interval of keys from which one task reads data objects.

    Attributes:
        low: the first key.
        high: the first key after the interval.
        size: total size of the objects in bytes.
    """

    low: str
    high: str
    objects: int
    size: int


class Hashing(NamedTuple):
    """The selection of data objects to read.

    Attributes:
        share: the share of the objects to read, from 0 to 1.
        offset: a number from 0 to 1 that determines which objects are in the share.
    """

    location: Location
    share: float = 1.0
    offset: float = 0.0

    def takes(self, key: str) -> bool:
        """Return whether to read an object; objects that lakecli did not write are not read."""
        digest = data_digest(key)
        if digest is None:
            return False
        return (int(digest[:12], 16) / 16**12 + self.offset) % 1 < self.share


def bounds_of(number: int, digits: int) -> tuple[str, str]:
    """Return the first key of a part of ``data/``, and the first key after the part.

    The parts are adjacent intervals of keys, so that every key is in exactly one.

    Args:
        number: the number of the part, from 0.
        digits: number of leading hex digits by which ``data/`` is divided; 0 for a single part.
    """
    texts = (f"{each:0{digits}x}" for each in (number, number + 1))
    low, high = (f"{DATA}{text[:LEAST_DIGITS]}/{text[LEAST_DIGITS:]}" for text in texts)
    return low if number else DATA, high if number + 1 < 1 << 4 * digits else AFTER_DATA


def divide_part(number: int, *, digits: int, hashing: Hashing) -> tuple[list[ObjectInterval], int]:
    """Divide one part of ``data/``, numbered as in `bounds_of`, into intervals of bounded size.

    Returns:
        The intervals to read, and the number of objects that lakecli did not write.
    """
    low, end = bounds_of(number, digits)
    found: list[ObjectInterval] = []
    objects = size = others = 0
    for info, _ in list_between(hashing.location.store(), low, end):
        others += data_digest(info.key) is None
        if not hashing.takes(info.key):
            continue
        if objects and (objects == PART_OBJECTS or size + info.size > PART_BYTES):
            found.append(ObjectInterval(low, info.key, objects, size))
            low, objects, size = info.key, 0, 0
        objects += 1
        size += info.size
    if objects:
        found.append(ObjectInterval(low, end, objects, size))
    return found, others


def hash_interval(interval: ObjectInterval, *, hashing: Hashing) -> list[Hashed]:
    """Read the data objects of an interval and compare them with their names.

    Returns:
        One result for all intact objects, with their total size, then one for each damaged object.
    """
    found, store = [Hashed(interval.low, None, 0)], hashing.location.store()
    for info, _ in list_between(store, interval.low, interval.high):
        if not hashing.takes(info.key):
            continue
        hashed = check_object(store, info.key)
        if hashed.what is None:
            found[0] = found[0]._replace(size=found[0].size + hashed.size)
        else:
            found.append(hashed)
    return found


def hash_objects(
    runner: Runner, hashing: Hashing, listed: Iterable[contract.ObjectInfo], progress: Progress
) -> Iterator[Hashed]:
    """Read data objects in this process and compare them with their names, in any order."""
    store = hashing.location.store()

    def hash_part(infos: list[contract.ObjectInfo]) -> list[Hashed]:
        found = []
        for info in infos:
            found.append(check_object(store, info.key, progress))
            progress.advance(items=1)
        return found

    wanted = (info for info in listed if hashing.takes(info.key))
    parts = streams.groups_of(wanted, attrgetter("size"), most=PART_BYTES, count=PART_OBJECTS)
    for _, results in runner.run(hash_part, parts):
        yield from results


class LakeFsContents(NamedTuple):
    """The contents of an object that lakeFS wrote, as an entry describes them.

    Attributes:
        size: the size in bytes.
        checksum: the checksum that lakeFS recorded; see `lakefs_digests`.
    """

    key: str
    size: int
    checksum: str


UNVERIFIED: Final = "cannot be verified"
"""The defect of an object that has the recorded size, but not the recorded checksum."""


def compare_contents(uri: str, store: contract.ObjectStore, recorded: LakeFsContents) -> Hashed:
    """Read an object of lakeFS, and compare it with its entry.

    Returns:
        The result; its defect is `UNVERIFIED` if the contents do not match the checksum.
    """
    key, size, checksum = recorded
    hasher = lakefs_digests.LakeFsHasher(size)
    read = 0
    try:
        for piece in contents.read_located(uri, store, key, Entry(key, size, checksum, EARLIEST)):
            hasher.update(piece)
            read += len(piece)
    except LakeError as error:
        return Hashed(key, f"cannot be read: {error.message}", read)
    return Hashed(key, None if hasher.has(checksum) else UNVERIFIED, read)
