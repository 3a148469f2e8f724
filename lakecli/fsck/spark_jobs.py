"""The jobs of `fsck` on Spark: looking references up, and comparing lakeFS's objects.

To look references up, executors read ranges and list objects, and Spark joins both by name. A
reference and its object have the same name. The name consists of a flag whether the object's digest
is that of its contents, and the digest. The join keeps only rows whose object is missing or has
another size. A row without a name has the counts of a range or of a listing. It matches no other
row, and is kept, too.

To compare lakeFS's objects with the checksums of their entries, Spark removes equal rows of all
ranges. So each object is read once for each different checksum in its entries, however many commits
share it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

from lakecli.base.identity import DIGEST_SIZE, blake3_of
from lakecli.base.layout import DATA, data_digest
from lakecli.base.progress import Progress
from lakecli.committed.check import Problem, check_range
from lakecli.committed.metaranges import RangeRecord
from lakecli.committed.tree_store import TreeStore
from lakecli.engine import spark_joins
from lakecli.engine.errors_as_json import carried
from lakecli.engine.runner import StoreLocation
from lakecli.engine.scratch import Kept, Scratch, load_value
from lakecli.engine.spark_runner import SparkRunner
from lakecli.errors import LakeError
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
"""Used instead of the size of an object that was read and is damaged."""

_NO_SIZE: Final = -2
_MOST: Final = 1 << 63
_NAME: Final = 1 + DIGEST_SIZE
_FACT: Final = _NAME + 8
_BATCH: Final = 65_536
_INLINE: Final = 1 << 10
"""Maximum bytes of a range's facts in its result; larger facts are written to the bucket."""


class Checking(NamedTuple):
    """The values that the tasks of a job need on the executors.

    Attributes:
        scratch: where large results are written; ``None``: all results go through Spark.
        nonce: a text that marks the errors of this job.
        compares: whether the driver compares the contents of lakeFS's objects with their entries.
            Then it has to read the ranges that refer to such objects.
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
    ranges: tuple[RangeRecord, ...]
    staged: tuple[tuple[bytes, int], ...] = ()
    contents: tuple[LakeFsContents, ...] = ()


class RangeResult(NamedTuple):
    """The result of checking a range.

    Attributes:
        entries: number of readable entries.
        outside: number of entries with bytes outside the namespace, by bucket or directory.
        facts: names and actual sizes of the objects that are missing or have another size than the
            entries say; if large, the name under which these were written to the bucket.
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
    """Return the name by which an object is joined; ``None`` if it is not below ``data/``."""
    digest = data_digest(key)
    if digest is not None:
        return b"\1" + bytes.fromhex(digest)
    return b"\0" + blake3_of(_encoded(key)) if key.startswith(DATA) else None


def reference(address: str, size: int) -> tuple[bytes, int] | None:
    """Return a reference as name and size; ``None`` if its object is not below ``data/``."""
    name = name_of(address)
    return None if name is None else (name, size if 0 <= size < _MOST else _NO_SIZE)


def read_references(batches: Iterator[Any], *, checking: Checking) -> Iterator[Any]:
    """Check ranges on an executor; yield their references, and for each range a row of counts."""

    def rows_of(_number: int, body: bytes) -> Iterator[Any]:
        part: ToRead = load_value(body)
        if part.staged:
            yield from _reference_rows(part.first, part.staged)
            yield _stat_row(part.first, [0, {}, True])
        for number, record in enumerate(part.ranges, part.first):
            found, stat = _check(checking.location.trees(), record, checking)
            yield from _reference_rows(number, found)
            yield _stat_row(number, stat)

    return spark_joins.carrying(batches, rows_of, checking.nonce)


def _check(
    trees: TreeStore, record: RangeRecord, checking: Checking
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


def list_objects(batches: Iterator[Any], *, digits: int, checking: Checking) -> Iterator[Any]:
    """List parts of ``data/`` on an executor; yield rows of objects, and for each part a count."""

    def rows_of(number: int) -> Iterator[Any]:
        low, high = bounds_of(number, digits)
        listed = (info for info, _ in list_between(checking.location.store(), low, high))
        count = 0
        while some := list(islice(listed, _BATCH)):
            count += len(some)
            yield object_rows([name_of(info.key) for info in some], [info.size for info in some])
        yield object_rows([None], [None], spark_joins.as_stat([count]))

    return spark_joins.carrying(batches, rows_of, checking.nonce)


def keep_left(batches: Iterator[Any], *, checking: Checking) -> Iterator[Any]:
    """Yield the result of a part, from the rows that the join left, ascending by range."""
    rows = (
        row
        for batch in batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    part = objects = 0
    ranges: list[RangeResult] = []
    is_empty = True
    for number, some in groupby(rows, key=itemgetter(1)):
        is_empty = False
        left = _Left()
        for part, _, *row in some:  # noqa: B007 - the same in all rows
            left.add(*row)
        objects += left.objects
        if number is not None:
            ranges.append(left.result(number, checking))
    if not is_empty:
        yield spark_joins.result_row(
            part, LookupResult(objects, ranges), checking.scratch, checking.nonce
        )


class _Left:
    """The rows of one range, or of listings, that the join left."""

    def __init__(self) -> None:
        self.objects = 0
        self._facts: dict[bytes, int | None] = {}
        self._counts: tuple[int, dict[str, int], bool] = 0, {}, False
        self._has_damaged = False

    def add(
        self, name: bytes, present: int | None, stat: bytes | None, listed: bytes | None
    ) -> None:
        """Add a row that the join left: a problem of an object, or counts."""
        if listed is not None:
            self.objects += json.loads(listed)[0]
        elif stat is not None:
            entries, places, is_sound = json.loads(stat)
            self._counts = entries, places, is_sound
        elif present == DAMAGED:
            self._has_damaged = True
        else:
            self._facts[name] = present

    def result(self, number: int, checking: Checking) -> RangeResult:
        """Return the result of the range."""
        entries, places, is_sound = self._counts
        is_sound = is_sound and not self._facts and not self._has_damaged
        body = b"".join(
            name + (DAMAGED if size is None else size).to_bytes(8, signed=True)
            for name, size in self._facts.items()
        )
        try:
            kept = checking.scratch and checking.scratch.keep(body, above=_INLINE)
        except LakeError as error:
            raise carried(error, checking.nonce) from error
        return RangeResult(number, entries, places, kept or body, is_sound)


def facts_in(body: bytes) -> dict[bytes, int | None]:
    """Decode `RangeResult.facts`: sizes of objects by name; ``None`` for missing objects."""
    found: dict[bytes, int | None] = {}
    for at in range(0, len(body), _FACT):
        size = int.from_bytes(body[at + _NAME : at + _FACT], signed=True)
        found[body[at : at + _NAME]] = None if size < 0 else size
    return found


def _reference_rows(number: int, found: Iterable[tuple[bytes, int]]) -> Iterator[Any]:
    rest = iter(found)
    while some := list(islice(rest, _BATCH)):
        names, sizes = zip(*some, strict=True)
        yield _reference_batch(number, names, sizes, [None] * len(some))


def _stat_row(number: int, stat: list[Any]) -> Any:  # noqa: ANN401 - a batch of pyarrow
    return _reference_batch(number, [None], [None], [spark_joins.as_stat(stat)])


def _reference_batch(number: int, names: Any, sizes: Any, stats: Any) -> Any:  # noqa: ANN401 - as above
    import pyarrow as pa

    count = len(names)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([number // RESULT_RANGES] * count, pa.int32()),
            pa.array([number] * count, pa.int32()),
            pa.array(names, pa.binary()),
            pa.array(sizes, pa.int64()),
            pa.array(stats, pa.binary()),
        ],
        ["part", "number", "name", "size", "stat"],
    )


def object_rows(
    names: list[bytes | None], sizes: list[int | None], stat: bytes | None = None
) -> Any:  # noqa: ANN401 - as above
    """Return rows of objects, or a row with the count of a listing."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [
            pa.array(names, pa.binary()),
            pa.array(sizes, pa.int64()),
            pa.array([stat] * len(names), pa.binary()),
        ],
        ["object", "present", "listed"],
    )


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
    runner: SparkRunner, lookup: Lookup, checking: Checking, *, progress: Progress
) -> Iterator[LookupResult]:
    """Look references up on Spark; yield the results, ascending by range."""
    listings = 1 << 4 * lookup.digits
    joins = spark_joins.partitions_of(lookup.entries)
    keeping = lookup.last // RESULT_RANGES + 1
    references = spark_joins.frame_by_part(
        runner, partial(read_references, checking=checking), lookup.parts, REFERENCES
    )
    objects = spark_joins.frame_by_number(
        runner, partial(list_objects, digits=lookup.digits, checking=checking), listings, OBJECTS
    )
    if lookup.damaged:
        import pyarrow as pa

        rows = object_rows(list(lookup.damaged), [DAMAGED] * len(lookup.damaged))
        objects = objects.union(runner.session.createDataFrame(pa.Table.from_batches([rows])))
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
    runner: SparkRunner,
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
    recorded = spark_joins.frame_by_part(
        runner, partial(read_recorded, checking=checking), parts, RECORDED
    )
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
    """Return the size and checksum that an entry has for an object of lakeFS, else ``None``."""
    is_lakefs = data_digest(address) is None and (address.startswith(DATA) or is_old_key(address))
    return LakeFsContents(address, size, checksum) if is_lakefs and 0 <= size < _MOST else None


def read_recorded(batches: Iterator[Any], *, checking: Checking) -> Iterator[Any]:
    """Read ranges on an executor; yield the descriptions of lakeFS's objects in their entries."""

    def rows_of(_number: int, body: bytes) -> Iterator[Any]:
        part: ToRead = load_value(body)
        yield from _recorded_rows(part.contents)
        for record in part.ranges:
            entries = check_range(checking.location.trees(), record)
            found = (
                recorded_by(entry.physical_address, entry.size, entry.checksum)
                for entry in entries
                if not isinstance(entry, Problem)
            )
            yield from _recorded_rows({each for each in found if each is not None})

    return spark_joins.carrying(batches, rows_of, checking.nonce)


def _recorded_rows(recorded: Iterable[LakeFsContents]) -> Iterator[Any]:
    import pyarrow as pa

    rest = iter(recorded)
    while some := list(islice(rest, _BATCH)):
        keys, sizes, checksums = zip(*some, strict=True)
        columns = {
            "key": pa.array(map(_encoded, keys), pa.binary()),
            "size": pa.array(sizes, pa.int64()),
            "checksum": pa.array(map(_encoded, checksums), pa.binary()),
        }
        yield pa.RecordBatch.from_pydict(columns)


def compare_some(batches: Iterator[Any], *, checking: Checking) -> Iterator[Any]:
    """Compare objects on an executor with their entries; yield the result of the task.

    An object that is missing or has another size is not read, since the lookup of references finds
    it.
    """
    from pyspark import TaskContext

    read, defects = 0, {}
    store = checking.location.store()
    try:
        for batch in batches:
            columns = (column.to_pylist() for column in batch.columns)
            for key, size, checksum in zip(*columns, strict=True):
                recorded = LakeFsContents(_decoded(key), size, _decoded(checksum))
                if size_of(store, recorded.key) != size:
                    continue
                compared = compare_contents(checking.location.uri, store, recorded)
                read += compared.size
                if compared.what is not None:
                    defects[recorded.key, recorded.checksum] = compared.what
    except LakeError as error:
        raise carried(error, checking.nonce) from error
    context = TaskContext.get()
    number = context.partitionId() if context is not None else 0
    yield spark_joins.result_row(number, Differing(read, defects), checking.scratch, checking.nonce)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")
