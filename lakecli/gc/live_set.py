"""The data objects in use: a set of digests, compared with condemned and with listed objects.

Without Spark the set is on the disk of this machine, and may have any size: `DigestSet`. Digests
are divided among 256 files by their first byte. Look-ups come in ascending order, so only one file
at a time is in memory, as a set.

On Spark, digests are in the namespace, and are compared by joins on executors: `SparkLiveSet`.
Executors write the digests that they find in ranges to the scratch prefix of the runner (see
`lakecli.engine.scratch`), and return only the names of the files that they wrote. Then one Spark
job reads the digests, lists the data objects, and joins both by digest. The job writes the
remaining objects of each part to the scratch prefix, too. The driver reads one part at a time, so
neither its memory nor its disk use grows with the number of objects.

A row has the number of its part, a digest, and the known fields of the object. A row without a
digest has the counts of a task, and no join removes it.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from lakecli.base.layout import DATA, data_key
from lakecli.base.own_directory import OwnDirectory
from lakecli.engine import errors_as_json, spark_joins
from lakecli.engine.runner import Runner, digits_for, divided
from lakecli.engine.scratch import Kept, Scratch
from lakecli.engine.spark_joins import Batches, arrow_batches
from lakecli.engine.spark_runner import SparkRunner
from lakecli.errors import IntegrityError
from lakecli.gc.policy import Work
from lakecli.gc.state import DIGEST, RECORD, Garbage, Marks, split, total_of
from lakecli.gc.tasks import ListingPart, PartListing, list_part, list_parts
from lakecli.stores.contract import ObjectStore, Version
from lakecli.stores.streams import groups_of

COLUMNS: Final = "part int, digest binary, size bigint, key string, version string, stat binary"

_BUFFERED: Final = 32 << 20
"""Number of bytes of digests at which a set writes the digests in memory to its files."""


def open_live(runner: Runner) -> "DigestSet | SparkLiveSet":
    """Return an empty set for the data objects in use.

    On Spark the set is in the namespace, unless the namespace is not writable.
    """
    if isinstance(runner, SparkRunner) and runner.scratch and runner.scratch.is_writable():
        return SparkLiveSet(runner, runner.scratch)
    return DigestSet()


def garbage_of(records: bytes, keys: Sequence[str], versions: Sequence[str]) -> Iterator[Garbage]:
    """Yield the key and the version of each listed object.

    Args:
        records: the records of the objects.
        keys: the keys of the objects; empty if the keys follow from the digests in the records.
        versions: the versions of the objects; empty if unknown.
    """
    named = keys or (data_key(record[:DIGEST].hex()) for record in split(records))
    return zip(named, map(Version, versions) if versions else repeat(Version("")), strict=False)


class PartGarbage(NamedTuple):
    """The garbage among the condemned data objects of one part.

    Attributes:
        spared: number of condemned objects that are not garbage, for example because they are in
            use again.
        size: total size of the garbage in bytes.
        garbage: the garbage: objects that still exist, and that no root reaches; can be iterated
            only once.
    """

    name: str
    spared: int
    objects: int
    size: int
    garbage: Iterable[Garbage]


class DigestSet:
    """A set of digests on the disk of this machine; `close` deletes its files."""

    scratch: Final = None
    """There is no scratch prefix, so tasks return the digests that they find."""

    def __init__(self) -> None:
        self._directory = OwnDirectory("lakecli-gc-")
        self._buckets = [bytearray() for _ in range(256)]
        self._written = [0] * 256
        self._buffered = 0
        self._loaded: tuple[int, frozenset[bytes]] | None = None

    def close(self) -> None:
        """Delete the files of the set."""
        self._directory.close()

    def add(self, digests: bytes) -> None:
        """Add digests of 32 bytes each, ascending."""
        count, start = len(digests) // DIGEST, 0
        while start < count:
            first = digests[start * DIGEST]
            end = bisect_right(range(count), first, start, key=lambda at: digests[at * DIGEST])
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
                self._written[number] += len(bucket)
                bucket.clear()
        self._buffered = 0

    def _path(self, number: int) -> Path:
        return Path(self._directory.name, f"{number:02x}")

    def _load(self, number: int) -> frozenset[bytes]:
        if self._loaded is None or self._loaded[0] != number:
            path = self._path(number)
            data = path.read_bytes() if path.exists() else b""
            if len(data) != self._written[number]:  # objects in use would count as garbage
                what = f"another program deleted or changed {path}, with the objects in use"
                raise IntegrityError(what, hint="repeat the command")
            data += self._buckets[number]
            self._loaded = number, frozenset(split(data, DIGEST))
        return self._loaded[1]

    def without(self, records: bytes) -> bytes:
        """Return the records, of `RECORD` bytes each, whose digests are not in the set.

        Raises:
            IntegrityError: another program deleted or changed a file of the set.
        """
        kept = [record for record in split(records) if record[:DIGEST] not in self._load(record[0])]
        return b"".join(kept)

    def iter_unreached(self, work: Work, parts: Sequence[ListingPart]) -> Iterator[PartListing]:
        """List parts; yield each part, with only the records of its old, unused objects."""
        for _, listed in list_parts(work, parts):
            yield listed._replace(records=self.without(listed.records))

    def iter_garbage(
        self, work: Work, mark: str, parts: Sequence[ListingPart]
    ) -> Iterator[PartGarbage]:
        """Yield each part's garbage: condemned objects that still exist, are old and not in use.

        Args:
            mark: the name of the lists of condemned objects.
            parts: the parts to list again, with keys and versions.

        Raises:
            LostMarks: a list is missing or damaged.
        """
        for part, listed in list_parts(work, parts):
            condemned = Marks(work.store, mark).data(part.name)
            unreached = self.without(condemned)
            wanted = {record[:DIGEST] for record in split(unreached)}
            garbage = garbage_of(listed.records, listed.keys, listed.versions)
            pairs = zip(split(listed.records), garbage, strict=True)
            found = {record: each for record, each in pairs if record[:DIGEST] in wanted}
            spared = (len(condemned) - len(unreached)) // RECORD
            total = total_of(b"".join(found))
            yield PartGarbage(part.name, spared, *total, list(found.values()))


class Reading(NamedTuple):
    """The values that the tasks of a Spark job need on the executors.

    Attributes:
        scratch: the prefix in the namespace for the digests and the results.
        nonce: a random text that identifies the errors of this job.
    """

    scratch: Scratch
    nonce: str


PartTask = tuple[int, ListingPart]
"""The number of a part, and the portion of the part that one task lists."""


def list_objects(batches: Batches, *, tasks: Sequence[PartTask], read: Reading) -> Batches:
    """List parts on an executor; yield a row for each object, and a row of counts for each task."""

    def rows_of(task: int) -> Batches:
        number, part = tasks[task]
        listed = list_part(read.scratch.location, part)
        counts = [listed.objects, listed.size, listed.foreign, listed.newest, listed.later]
        listing = rows(number, listed.records, listed.keys, listed.versions)
        yield from chain(listing, counts_rows(number, counts))

    return spark_joins.carrying(batches, rows_of, read.nonce)


def read_condemned(batches: Batches, *, names: Sequence[str], mark: str, read: Reading) -> Batches:
    """Read lists of condemned objects on an executor; yield a row per object, and one of counts."""
    marks = Marks(read.scratch.location.store(), mark)

    def rows_of(number: int) -> Batches:
        records = marks.data(names[number])
        yield from chain(rows(number, records), counts_rows(number, [len(records) // RECORD]))

    return spark_joins.carrying(batches, rows_of, read.nonce)


def read_digests(batches: Batches, *, groups: Sequence[tuple[Kept, ...]], read: Reading) -> Batches:
    """Read the digests of objects in use on an executor; yield them as rows."""

    def rows_of(number: int) -> Batches:
        for digests in map(read.scratch.take, groups[number]):
            found = ((0, digest, *repeat(None, 4)) for digest in split(digests, DIGEST))
            yield from arrow_batches(COLUMNS, found)

    return spark_joins.carrying(batches, rows_of, read.nonce)


def keep_listed(batches: Batches, *, names: Sequence[str], read: Reading) -> Batches:
    """Write the unused objects of a part to the scratch prefix, on an executor.

    Args:
        batches: the rows of the part that remain after the join with the objects in use.
        names: the names of all parts, by number.
        read: the values that the job's tasks need.

    Yields:
        the row that reports the result.
    """
    part = Remainder(batches)
    objects, sizes, foreign, newest, later = zip(*part.counts, strict=True)
    last_newest = next(filter(None, reversed(newest)), "")
    counts = sum(objects), sum(sizes), sum(foreign), last_newest, sum(later)
    yield from part.result(read, PartListing(names[part.number], part.records, *counts))


def keep_found(batches: Batches, *, names: Sequence[str], read: Reading) -> Batches:
    """Write the garbage among a part's condemned objects to the scratch prefix, on an executor.

    Args:
        batches: the rows of the part that remain after the joins.
        names: the names of all parts, by number.
        read: the values that the job's tasks need.

    Yields:
        the row that reports the result.
    """
    part = Remainder(batches)
    ((condemned,),) = part.counts
    found = names[part.number], condemned - part.rows, part.records, part.keys, part.versions
    yield from part.result(read, found)


class Remainder:
    """The rows of one part that remain after the joins, ascending by digest.

    Attributes:
        counts: the counts of the tasks that listed the part.
        records: the records of the listed objects, which are the rows with a size.
        keys: the keys of these objects; empty if they follow from the digests.
        versions: the versions of these objects; empty if they were not requested.
    """

    def __init__(self, batches: Batches) -> None:
        import pyarrow.compute as pc

        self.number = spark_joins.task_number()
        self.counts: list[list[Any]] = []
        self.rows = 0
        self.keys: list[str] = []
        self.versions: list[str] = []
        records = bytearray()
        for batch in batches:
            named = {name: batch.column(at) for at, name in enumerate(batch.schema.names)}
            self.counts += map(json.loads, named["stat"].drop_null().to_pylist())
            self.rows += batch.num_rows - named["digest"].null_count
            listed = batch.filter(pc.is_valid(named["size"]))
            pairs = spark_joins.rows_in(iter([listed.select(["digest", "size"])]))
            records += b"".join(digest + size.to_bytes(RECORD - DIGEST) for digest, size in pairs)
            if "key" in named:
                self.keys += listed.column("key").drop_null().to_pylist()
                self.versions += listed.column("version").drop_null().to_pylist()
        self.records = bytes(records)

    def result(self, read: Reading, value: object) -> Iterator[Any]:
        """Yield the row that reports `value` as the part's result."""
        return spark_joins.result_rows(self.number, value, read.scratch, read.nonce)


def rows(
    number: int, records: bytes, keys: Sequence[str] = (), versions: Sequence[str] = ()
) -> Batches:
    """Yield the records of a part as Arrow batches of rows.

    Args:
        number: the number of the part.
        records: 32 bytes of digest and 8 bytes of size for each object.
        keys: the keys of the objects; empty if they follow from the digests.
        versions: the versions of the objects; empty if unknown.
    """
    named = zip(split(records), keys or repeat(None), versions or repeat(None), strict=False)
    columns = (
        (number, record[:DIGEST], int.from_bytes(record[DIGEST:]), key, version, None)
        for record, key, version in named
    )
    return arrow_batches(COLUMNS, columns)


def counts_rows(number: int, counts: list[Any]) -> Batches:
    """Yield the row of a task's counts; it has no digest."""
    stat = spark_joins.as_stat(counts)
    return arrow_batches(COLUMNS, [(number, None, None, None, None, stat)])


BYTES_PER_TASK: Final = 64 << 20
"""Maximum bytes of digests that one task reads, unless a single file has more."""


class SparkLiveSet:
    """A set of digests in the namespace, for Spark. Closing the runner deletes the set.

    Attributes:
        scratch: the prefix to which tasks write the digests that they find.
        added: number of digests added, duplicates included.
    """

    def __init__(self, runner: SparkRunner, scratch: Scratch) -> None:
        self.added = 0
        self._runner = runner
        self._names: dict[Kept, None] = {}
        self._buffered = bytearray()
        self.scratch = scratch

    def close(self) -> None:
        """Do nothing: the set has no files on this machine."""

    def add(self, digests: bytes) -> None:
        """Add digests of 32 bytes each, in any order."""
        self._buffered += digests
        self.added += len(digests) // DIGEST
        if len(self._buffered) >= _BUFFERED:
            self._write()

    def add_written(self, kept: Kept) -> None:
        """Add digests that a task has written to `scratch`."""
        self._names[kept] = None
        self.added += kept.size // DIGEST

    def _write(self) -> None:
        if self._buffered:
            self._names[self.scratch.write(bytes(self._buffered))] = None
            self._buffered.clear()

    def iter_unreached(self, work: Work, parts: Sequence[ListingPart]) -> Iterator[PartListing]:
        """List parts; yield each part, with only the records of its old, unused objects."""
        names = [part.name for part in parts]
        tasks, read = tasks_of(work.store, parts), self._read()
        listed = self._frame(partial(list_objects, tasks=tasks, read=read), len(tasks))
        left = listed.join(self._digests(read), "digest", "left_anti")
        keep = partial(keep_listed, names=names, read=read)
        results = self._results(work, left, keep, names, read, tasks=len(tasks))
        yield from filter(None, results)

    def iter_garbage(
        self, work: Work, mark: str, parts: Sequence[ListingPart]
    ) -> Iterator[PartGarbage | None]:
        """Yield the same as `DigestSet`, and ``None`` every few seconds until a part is ready."""
        names = [part.name for part in parts]
        tasks, read = tasks_of(work.store, parts), self._read()
        lists = partial(read_condemned, names=names, mark=mark, read=read)
        condemned = self._frame(lists, len(names)).select("part", "digest", "stat")
        unreached = condemned.join(self._digests(read), "digest", "left_anti")
        present = self._frame(partial(list_objects, tasks=tasks, read=read), len(tasks))
        left = unreached.join(present.drop("stat"), ["part", "digest"], "left_outer")
        keep = partial(keep_found, names=names, read=read)
        for result in self._results(work, left, keep, names, read, tasks=len(names) + len(tasks)):
            if result is None:
                yield None
                continue
            name, spared, records, keys, versions = result
            garbage = garbage_of(records, keys, versions)
            yield PartGarbage(name, spared, *total_of(records), garbage)

    def _read(self) -> Reading:
        self._write()
        return Reading(self.scratch, errors_as_json.new_nonce())

    def _frame(self, task: spark_joins.RowsTask, count: int) -> Any:  # noqa: ANN401
        return spark_joins.frame_by_number(self._runner, task, count, COLUMNS)

    def _digests(self, read: Reading) -> Any:  # noqa: ANN401
        """Return the digests of the set as a DataFrame, in partitions of bounded size."""
        groups = group_names(self._names)
        rows = self._frame(partial(read_digests, groups=groups, read=read), len(groups))
        return rows.select("digest").repartition(spark_joins.partitions_of(self.added), "digest")

    def _results(
        self,
        work: Work,
        rows: Any,  # noqa: ANN401 - a DataFrame, of a package without types
        keep: spark_joins.RowsTask,
        names: Sequence[str],
        read: Reading,
        *,
        tasks: int,
    ) -> Iterator[Any]:
        """Run one Spark job; yield the results of its parts in order, ``None`` while waiting."""
        placed = rows.repartitionById(len(names), "part").sortWithinPartitions("digest")
        return spark_joins.results_of(
            self._runner,
            placed.mapInArrow(keep, spark_joins.RESULT),
            nonce=read.nonce,
            progress=work.progress,
            tasks=tasks + len(group_names(self._names)) + len(names),
        )


def tasks_of(store: ObjectStore, parts: Sequence[ListingPart]) -> list[PartTask]:
    """Return the tasks that list parts; a part of a large namespace is divided among several."""
    digits: int | None = None
    tasks: list[PartTask] = []
    for number, part in enumerate(parts):
        if part.prefix in {"", DATA}:
            tasks.append((number, part))
            continue
        if digits is None:
            digits = digits_for(store)
        tasks += [(number, part._replace(prefix=each)) for each in divided(part.prefix, digits)]
    return tasks


def group_names(names: Iterable[Kept]) -> list[tuple[Kept, ...]]:
    """Group the files of digests by task, with at most `BYTES_PER_TASK` in each group.

    There is at least one group, which may be empty.
    """
    return [*map(tuple, groups_of(names, attrgetter("size"), most=BYTES_PER_TASK))] or [()]
