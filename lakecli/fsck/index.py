"""The index of data objects for `fsck`; on Spark, executors hash objects and look up references.

References are looked up before the ranges are checked one by one. This process keeps in memory only
the IDs and counts of the ranges, the keys and defects of damaged objects, and, for one range at a
time, the objects that are missing or have the wrong size.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final

from lakecli.base.model import RangeId
from lakecli.base.progress import Progress
from lakecli.committed.check import CheckedEntry, Problem
from lakecli.committed.metaranges import RangeRecord
from lakecli.engine.errors_as_json import new_nonce
from lakecli.engine.runner import Runner, StoreLocation, digits_for
from lakecli.engine.scratch import Kept
from lakecli.engine.spark_runner import SparkRunner
from lakecli.fsck import spark_jobs
from lakecli.fsck.hashing import Hashing, LakeFsContents, ObjectInterval, divide_part, hash_interval
from lakecli.fsck.spark_jobs import Checking, RangeResult, ToRead, name_of
from lakecli.repository.contract import Repository
from lakecli.repository.stored_objects import DataIndex, Hashed, ObjectIndex
from lakecli.stores.contract import ObjectStore, size_of

PART_RANGES: Final = 8
"""Number of ranges that one task checks."""

PART_STAGED: Final = 100_000
"""Number of staged entries whose references one task yields."""


class JoinedIndex(ObjectIndex):
    """An index of data objects, on Spark: the result of joining all references with the listing.

    Attributes:
        count: the number of objects below ``data/``; known after `look_ahead`.
    """

    def __init__(
        self, store: ObjectStore, runner: SparkRunner, checking: Checking, progress: Progress
    ) -> None:
        super().__init__(store)
        self._runner = runner
        self._checking = checking
        self._progress = progress
        self.count = 0
        self._results: dict[RangeId, RangeResult] = {}
        self._staged: dict[bytes, int | None] = {}
        self._facts: dict[bytes, int | None] = {}
        self._asks = False
        self._others = 0
        self._defects: dict[tuple[str, str], str] | None = None

    def hash_objects(self, hashing: Hashing) -> Iterator[Hashed]:
        """Read data objects on executors; yield damaged objects, and sizes of all intact ones."""
        task = partial(hash_interval, hashing=hashing)
        for interval, hashed in self._runner.run(task, self._intervals(hashing)):
            self._progress.advance(items=interval.objects, size=sum(each.size for each in hashed))
            yield from hashed

    def _intervals(self, hashing: Hashing) -> Iterator[ObjectInterval]:
        """Yield the intervals to read, each as soon as an executor has listed it."""
        digits = digits_for(self._store)
        task = partial(divide_part, digits=digits, hashing=hashing)
        for _, (intervals, others) in self._runner.run(task, range(1 << 4 * digits)):
            self._others += others
            for interval in intervals:
                self._progress.expect(items=interval.objects, size=interval.size)
                yield interval

    def look_ahead(self, ranges: Iterator[RangeRecord], staged: Iterator[LakeFsContents]) -> int:
        """Check ranges, and look up the objects that their entries and the staged entries refer to.

        Returns:
            The number of bytes that were read to compare lakeFS's objects with their entries.
        """
        ids: list[RangeId] = []
        parts: list[ToRead] = []
        entries = 0
        while records := tuple(islice(ranges, PART_RANGES)):
            parts.append(ToRead(len(ids), records))
            ids += [record.id for record in records]
            entries += sum(record.count for record in records)
        last = len(ids) - 1
        while some := list(islice(staged, PART_STAGED)):
            last += 1
            named = filter(None, (spark_jobs.reference(each.key, each.size) for each in some))
            recorded = filter(None, (spark_jobs.recorded_by(*each) for each in some))
            parts.append(ToRead(last, (), tuple(named), tuple(recorded)))
            entries += len(some)
        checking = self._checking
        bytes_read = 0
        damaged = [name for key in self.damaged if (name := name_of(key)) is not None]
        if checking.compares and self._others:
            bytes_read = self._compare_contents(parts)
            keys = {key for key, _ in self._defects or ()}
            damaged += [name for key in keys if (name := name_of(key)) is not None]
            outside = frozenset(key for key in keys if name_of(key) is None)
            checking = checking._replace(compares=False, damaged=outside)
        digits = digits_for(self._store)
        lookup = spark_jobs.Lookup(parts or [ToRead(0, ())], max(last, 0), entries, digits, damaged)
        for part in spark_jobs.look_up(self._runner, lookup, checking, progress=self._progress):
            self.count += part.objects
            for result in part.ranges:
                if result.number < len(ids):
                    self._results[ids[result.number]] = result
                else:
                    self._staged.update(self._facts_of(result))
        return bytes_read

    def _compare_contents(self, parts: Sequence[ToRead]) -> int:
        """Compare lakeFS's objects with their entries; return the number of bytes read."""
        job = self._runner, parts, self._others, self._checking
        found = list(spark_jobs.compare_all(*job, progress=self._progress))
        self._defects = {key: what for each in found for key, what in each.defects.items()}
        return sum(each.size for each in found)

    def compared(self, key: str, checksum: str) -> Hashed | None:
        """Return the result of comparing an object with a checksum; ``None`` if not compared."""
        if self._defects is None or self._asks:
            return None
        return Hashed(key, self._defects.get((key, checksum)), 0)

    def _facts_of(self, result: RangeResult) -> dict[bytes, int | None]:
        facts, scratch = result.facts, self._checking.scratch
        if isinstance(facts, Kept):
            facts = b"" if scratch is None else scratch.take(facts)
        return spark_jobs.facts_in(facts)

    def sound(self, range_id: RangeId) -> RangeResult | None:
        """Return the result of a range without problems; ``None`` if it must be read again."""
        found = self._results.get(range_id)
        return found if found and found.is_sound else None

    def take_up(
        self, range_id: RangeId, items: Iterator[CheckedEntry | Problem]
    ) -> Iterable[CheckedEntry | Problem]:
        """Load what the executor found out about the objects of a range, for `problem_of`.

        If the executor read more or fewer entries of the range than this process, its results are
        not used: `problem_of` looks up each object with a request.

        Returns:
            The items of the range, unchanged.
        """
        found = self._results.get(range_id)
        listed = list(items)
        entries = sum(isinstance(item, CheckedEntry) for item in listed)
        self._asks = found is None or found.entries != entries
        self._facts = self._facts_of(found) if found else {}
        return listed

    def _find(self, key: str, size: int) -> int | None:
        if self._asks:
            return size_of(self._store, key)
        name = name_of(key) or b""
        return self._facts.get(name, self._staged.get(name, size))


def open_index(
    repository: Repository, runner: Runner, *, compares: bool, progress: Progress
) -> DataIndex | JoinedIndex:
    """Return an empty index of the data objects of a repository.

    Args:
        compares: whether to compare the contents of lakeFS's objects with their entries.
    """
    if not isinstance(runner, SparkRunner):
        return DataIndex(repository.store)
    checking = Checking(StoreLocation.of(repository), runner.scratch, new_nonce(), compares)
    return JoinedIndex(repository.store, runner, checking, progress)
