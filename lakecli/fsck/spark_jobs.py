"""The jobs of `fsck` on Spark: looking references up, and comparing lakeFS's objects.

To look references up, executors read ranges and list objects, and Spark joins both by name. A
reference and its object have the same name: a flag and a digest. The flag tells whether the digest
is that of the object's contents or, for lakeFS's objects, that of its key. The join keeps only rows
whose object is missing or has another size. A row without a name has the counts of a range or of a
listing; such rows are kept, too.

To compare lakeFS's objects with the checksums of their entries, Spark removes duplicate rows of all
ranges. So each object is read once for each different checksum in its entries, however many commits
share it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from lakecli.base.identity import DIGEST_SIZE, blake3_of
from lakecli.base.layout import DATA, data_digest
from lakecli.base.progress import Progress
from lakecli.committed import metaranges, tree_store
from lakecli.committed.check import Problem, check_range
from lakecli.engine import errors_as_json, spark_joins, spark_runner
from lakecli.engine.runner import StoreLocation
from lakecli.engine.scratch import Kept, Scratch, load_value
from lakecli.engine.spark_joins import Batches, arrow_batches
from lakecli.fsck.hashing import PART_OBJECTS, LakeFsContents, bounds_of, compare_contents
from lakecli.imports.bucket import list_between
from lakecli.repository.reading.outside_counts import count_place, place_of_address
from lakecli.repository.stored_objects import is_old_key
from lakecli.stores.contract import size_of

REFERENCES: Final = "part int, number int, name binary, size bigint, stat binary"
OBJECTS: Final = "object binary, present bigint, listed binary"
LEFT: Final = ("part", "number", "name", "present", "stat", "listed")
"""The columns of the rows that the join leaves."""

RESULT_RANGES: Final = 64
"""Number of ranges whose results form one part of the job."""

DAMAGED: Final = -1
"""A value that stands for the size of an object that was read and found to be damaged."""

_NO_SIZE: Final = -2
_MOST: Final = 1 << 63
_NAME: Final = 1 + DIGEST_SIZE
_FACT: Final = _NAME + 8
_INLINE: Final = 1 << 10
"""Maximum bytes of a range's `facts` in its result; larger `facts` are written to the bucket."""


class Checking(NamedTuple):
    """The values that the tasks of a job need on the executors.

    Attributes:
        scratch: the prefix for large results; ``None`` if all results go through Spark.
        nonce: a random text that identifies the errors of this job.
        compares: whether the driver compares the contents of lakeFS's objects with their entries.
            If so, it must read the ranges that refer to such objects.
        damaged: keys outside ``data/`` of objects whose contents differ from an entry.
    """

    location: StoreLocation
    scratch: Scratch | None
    nonce: str
    compares: bool
    damaged: frozenset[str] = frozenset()


class ToRead(NamedTuple):
    """The ranges or staged entries from which one task yields references.

    Attributes:
        first: number of the first range; the other ranges have the following numbers.
        staged: references of staged entries, which the driver found; if given, there are no ranges.
        contents: the contents of lakeFS's objects in the staged entries.
    """

    first: int
    ranges: tuple[metaranges.RangeRecord, ...]
    staged: tuple[tuple[bytes, int], ...] = ()
    contents: tuple[LakeFsContents, ...] = ()


class RangeResult(NamedTuple):
    """The result of checking a range.

    Attributes:
        entries: number of readable entries.
        outside: number of entries whose objects are outside the namespace, by bucket or directory.
        facts: names and actual sizes of the objects that are missing or differ in size from their
            entries; if these are large, the name of the result in the scratch prefix.
        is_sound: whether the driver need not read the range.
    """

    number: int
    entries: int
    outside: Mapping[str, int]
    facts: bytes | Kept
    is_sound: bool


class LookupResult(NamedTuple):
    """The results of checking some ranges.

    Attributes:
        objects: number of listed objects below ``data/`` that this part of the job has counted.
    """

    objects: int
    ranges: list[RangeResult]


def name_of(key: str) -> bytes | None:
    """Return an object's name for the join; ``None`` if the object is not below ``data/``."""
    digest = data_digest(key)
    if digest is not None:
        return b"\1" + bytes.fromhex(digest)
    return b"\0" + blake3_of(_encoded(key)) if key.startswith(DATA) else None


def reference(address: str, size: int) -> tuple[bytes, int] | None:
    """Return a reference as name and size; ``None`` if its object is not below ``data/``."""
    name = name_of(address)
    return None if name is None else (name, size if 0 <= size < _MOST else _NO_SIZE)


def read_references(batches: Batches, *, checking: Checking) -> Batches:
    """Check ranges on an executor; yield a row for each reference, and one of counts per range."""

    def rows_of(_number: int, body: bytes) -> Batches:
        part: ToRead = load_value(body)
        if part.staged:
            yield from _reference_rows(part.first, part.staged, [0, {}, True])
        for number, record in enumerate(part.ranges, part.first):
            yield from _reference_rows(number, *_check(checking.location.trees(), record, checking))

    return spark_joins.carrying(batches, rows_of, checking.nonce)


def _check(
    trees: tree_store.TreeStore, record: metaranges.RangeRecord, checking: Checking
) -> tuple[set[tuple[bytes, int]], list[Any]]:
    """Return the distinct references of a range, and its counts."""
    entries = 0
    places: dict[str, int] = {}
    trust = checking.location.trust()
    is_sound = True
    found: set[tuple[bytes, int]] = set()
    for item in check_range(trees, record):
        if isinstance(item, Problem):
            is_sound = False
            continue
        entries += 1
        address = item.physical_address
        if "://" in address:
            count_place(places, place_of_address(trust, address))
            continue
        named = reference(address, item.size)
        if named is not None:
            found.add(named)
        elif not is_old_key(address) or size_of(checking.location.store(), address) != item.size:
            is_sound = False
        if address in checking.damaged or (checking.compares and data_digest(address) is None):
            is_sound = False
    return found, [entries, places, is_sound]


def list_objects(batches: Batches, *, digits: int, checking: Checking) -> Batches:
    """List parts of ``data/`` on an executor; yield a row for each object, and a count per part."""

    def rows_of(number: int) -> Batches:
        count = 0
        listed = list_between(checking.location.store(), *bounds_of(number, digits))
        rows = ((name_of(info.key), info.size, None) for info, _ in listed)
        for batch in arrow_batches(OBJECTS, rows):
            count += len(batch)
            yield batch
        yield from arrow_batches(OBJECTS, [(None, None, spark_joins.as_stat([count]))])

    return spark_joins.carrying(batches, rows_of, checking.nonce)


def keep_left(batches: Batches, *, checking: Checking) -> Batches:
    """Yield the result of a part from the rows that the join has left, ordered by range."""
    part = None
    objects = 0
    ranges: list[RangeResult] = []
    for number, rows in groupby(spark_joins.rows_in(batches), key=itemgetter(1)):
        counts: tuple[int, dict[str, int], bool] = 0, {}, True
        is_intact = True
        facts = bytearray()
        for part, _, name, present, stat, listed in rows:  # noqa: B007 - the same in all rows
            if listed is not None:
                objects += json.loads(listed)[0]
            elif stat is not None:
                counts = json.loads(stat)
            else:
                is_intact = False
                if present != DAMAGED:
                    size = DAMAGED if present is None else present
                    facts += name + size.to_bytes(8, signed=True)
        if number is not None:
            entries, places, is_sound = counts
            with errors_as_json.carrying_errors(checking.nonce):
                kept = checking.scratch and checking.scratch.keep(bytes(facts), above=_INLINE)
            found = kept or bytes(facts)
            ranges.append(RangeResult(number, entries, places, found, is_sound and is_intact))
    if part is not None:
        result = LookupResult(objects, ranges)
        yield from spark_joins.result_rows(part, result, checking.scratch, checking.nonce)


def facts_in(body: bytes) -> dict[bytes, int | None]:
    """Decode `RangeResult.facts`: sizes of objects by name; ``None`` for missing objects."""
    found: dict[bytes, int | None] = {}
    for at in range(0, len(body), _FACT):
        size = int.from_bytes(body[at + _NAME : at + _FACT], signed=True)
        found[body[at : at + _NAME]] = None if size < 0 else size
    return found


def _reference_rows(number: int, found: Iterable[tuple[bytes, int]], stat: list[Any]) -> Batches:
    part = number // RESULT_RANGES
    names = ((part, number, name, size, None) for name, size in found)
    counts = (part, number, None, None, spark_joins.as_stat(stat))
    return arrow_batches(REFERENCES, chain(names, [counts]))


_IS_LEFT: Final = (
    "stat IS NOT NULL OR listed IS NOT NULL"
    " OR name IS NOT NULL AND (present IS NULL OR present <> size)"
)


class Lookup(NamedTuple):
    """The references to look up.

    Attributes:
        last: number of the last range.
        entries: approximate number of references.
        digits: number of hex digits that divide ``data/`` for its listing.
        damaged: names of damaged objects.
    """

    parts: Sequence[ToRead]
    last: int
    entries: int
    digits: int
    damaged: Sequence[bytes]


def look_up(
    runner: spark_runner.SparkRunner, lookup: Lookup, checking: Checking, *, progress: Progress
) -> Iterator[LookupResult]:
    """Look references up on Spark; yield the results, ascending by range."""
    listings = 1 << 4 * lookup.digits
    joins = spark_joins.partitions_of(lookup.entries)
    keeping = lookup.last // RESULT_RANGES + 1
    read = partial(read_references, checking=checking)
    references = spark_joins.frame_by_part(runner, read, lookup.parts, REFERENCES)
    list_part = partial(list_objects, digits=lookup.digits, checking=checking)
    objects = spark_joins.frame_by_number(runner, list_part, listings, OBJECTS)
    if lookup.damaged:
        import pyarrow as pa

        rows = arrow_batches(OBJECTS, ((name, DAMAGED, None) for name in lookup.damaged))
        objects = objects.union(runner.session.createDataFrame(pa.Table.from_batches(rows)))
    from pyspark.sql.functions import col

    both = references.repartition(joins, "name").join(
        objects.repartition(joins, "object"), col("name") == col("object"), "full_outer"
    )
    left = both.where(_IS_LEFT).selectExpr("coalesce(part, 0) AS part", *LEFT[1:])
    placed = left.repartitionById(keeping, "part").sortWithinPartitions("number")
    results = spark_joins.results_of(
        runner,
        placed.mapInArrow(partial(keep_left, checking=checking), spark_joins.RESULT),
        nonce=checking.nonce,
        progress=progress,
        tasks=len(lookup.parts) + listings + joins + keeping,
    )
    yield from filter(None, results)


RECORDED: Final = "key binary, size bigint, checksum binary"
"""The columns of `LakeFsContents`; keys and checksums may have any bytes."""


class Differing(NamedTuple):
    """The result of one task that compares objects of lakeFS.

    Attributes:
        size: number of bytes that the task read.
        defects: the defects by key and checksum.
    """

    size: int
    defects: dict[tuple[str, str], str]


def compare_all(
    runner: spark_runner.SparkRunner,
    parts: Sequence[ToRead],
    objects: int,
    checking: Checking,
    *,
    progress: Progress,
) -> Iterator[Differing]:
    """Compare objects of lakeFS with the entries of all ranges.

    Args:
        objects: number of objects that lakeFS wrote below ``data/``.
    """
    tasks = min(spark_joins.MAX_PARTITIONS, 1 + objects // PART_OBJECTS)
    read = partial(read_recorded, checking=checking)
    recorded = spark_joins.frame_by_part(runner, read, parts, RECORDED)
    once = recorded.repartition(tasks, "key", "size", "checksum").distinct()
    results = spark_joins.results_of(
        runner,
        once.mapInArrow(partial(compare_some, checking=checking), spark_joins.RESULT),
        nonce=checking.nonce,
        progress=progress,
        tasks=len(parts) + tasks,
    )
    yield from filter(None, results)


def recorded_by(address: str, size: int, checksum: str) -> LakeFsContents | None:
    """Return the contents that an entry records for an object of lakeFS; ``None`` for others."""
    is_lakefs = data_digest(address) is None and (address.startswith(DATA) or is_old_key(address))
    return LakeFsContents(address, size, checksum) if is_lakefs and 0 <= size < _MOST else None


def read_recorded(batches: Batches, *, checking: Checking) -> Batches:
    """Read ranges on an executor; yield the descriptions of lakeFS's objects in their entries."""

    def rows_of(_number: int, body: bytes) -> Batches:
        part: ToRead = load_value(body)
        yield from _recorded_rows(part.contents)
        for record in part.ranges:
            items = check_range(checking.location.trees(), record)
            entries = (each for each in items if not isinstance(each, Problem))
            found = (recorded_by(*entry[1:4]) for entry in entries)
            yield from _recorded_rows({each for each in found if each is not None})

    return spark_joins.carrying(batches, rows_of, checking.nonce)


def _recorded_rows(recorded: Iterable[LakeFsContents]) -> Batches:
    rows = ((_encoded(key), size, _encoded(checksum)) for key, size, checksum in recorded)
    return arrow_batches(RECORDED, rows)


def compare_some(batches: Batches, *, checking: Checking) -> Batches:
    """Compare objects on an executor with their entries; yield the result of the task.

    An object that is missing or has another size is not read; the lookup of references reports it.
    """
    read, defects = 0, {}
    store = checking.location.store()
    with errors_as_json.carrying_errors(checking.nonce):
        for key, size, checksum in spark_joins.rows_in(batches):
            recorded = LakeFsContents(_decoded(key), size, _decoded(checksum))
            if size_of(store, recorded.key) != size:
                continue
            compared = compare_contents(checking.location.uri, store, recorded)
            read += compared.size
            if compared.what is not None:
                defects[recorded.key, recorded.checksum] = compared.what
    number, result = spark_joins.task_number(), Differing(read, defects)
    yield from spark_joins.result_rows(number, result, checking.scratch, checking.nonce)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")
