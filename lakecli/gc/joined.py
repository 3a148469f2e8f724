"""The data objects in use, on Spark: digests in the namespace, which joins compare with listings.

Executors write the digests that they find in ranges to the scratch prefix of the runner (see
`lakecli.engine.scratch`), and only names come back. One job of Spark then reads them and lists
the data objects, joins both by digest, and writes what is left of each part there, too. The driver
reads one part at a time. So neither its memory nor its disk grows with the objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from lakecli.base.layout import DATA
from lakecli.engine.data_prefixes import digits_for, divided
from lakecli.engine.errors_as_json import new_nonce
from lakecli.engine.joins import RESULT, frame_by_number, ignore_beat, partitions_of, results_of
from lakecli.engine.runner import Runner
from lakecli.engine.scratch import Kept, Scratch
from lakecli.engine.spark_runner import SparkRunner
from lakecli.gc.compare import AnyPart, Found, Listed, garbage_of, part_name
from lakecli.gc.join_tasks import (
    COLUMNS,
    Listing,
    Reading,
    keep_found,
    keep_listed,
    list_old,
    list_present,
    read_condemned,
    read_digests,
)
from lakecli.gc.live import DIGEST, DigestSet, total_of
from lakecli.gc.marks import Marks
from lakecli.gc.tasks import DataPart, TablesRead

if TYPE_CHECKING:
    from lakecli.gc.mark import Work

BYTES_PER_TASK: Final = 64 << 20
"""Bytes of digests that one task reads, at most, unless one object has more."""

_BUFFERED: Final = 32 << 20


class JoinedSet:
    """The set, as a context manager; the runner deletes its objects when it is closed.

    Attributes:
        added: number of digests added, duplicates included.
        scratch: where tasks write the digests that they find.
    """

    def __init__(self, runner: SparkRunner, scratch: Scratch) -> None:
        self._runner = runner
        self._names: dict[Kept, None] = {}
        self._buffered = bytearray()
        self.scratch = scratch
        self.added = 0

    def __enter__(self) -> Self:
        """Return the set itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: its objects are those of the runner."""

    def add(self, digests: bytes) -> None:
        """Add digests of 32 bytes each."""
        self._buffered += digests
        self.added += len(digests) // DIGEST
        if len(self._buffered) >= _BUFFERED:
            self._write()

    def take(self, read: TablesRead) -> None:
        """Add the references of ranges that were read."""
        if read.kept is None:
            self.add(read.references)
        else:
            self._names[read.kept] = None
            self.added += read.kept.size // DIGEST

    def _write(self) -> None:
        if self._buffered:
            self._names[self.scratch.write(bytes(self._buffered))] = None
            self._buffered.clear()

    def iter_unreached(self, work: Work, parts: Sequence[AnyPart]) -> Iterator[Listed]:
        """List parts; yield each with the records of those old objects that are not in use."""
        names = [part_name(part) for part in parts]
        tasks, read = tasks_of(work, parts), self._read(work)
        listed = self._frame(partial(list_old, tasks=tasks, read=read), len(tasks))
        left = listed.join(self._digests(read), "digest", "left_anti")
        keep = partial(keep_listed, names=names, read=read)
        yield from self._results(work, left, keep, names, read, tasks=len(tasks))

    def iter_found(
        self, work: Work, marks: Marks, parts: Sequence[AnyPart], *, beat: Callable[[], None]
    ) -> Iterator[Found]:
        """Yield what of the condemned objects is still there and unreached; see `compare`."""
        names = [part_name(part) for part in parts]
        tasks, read = tasks_of(work, parts), self._read(work)
        condemned = self._frame(
            partial(read_condemned, names=names, prefix=marks.name, read=read), len(names)
        )
        unreached = condemned.select("part", "digest", "stat").join(
            self._digests(read), "digest", "left_anti"
        )
        present = self._frame(partial(list_present, tasks=tasks, read=read), len(tasks))
        left = unreached.join(present.drop("stat"), ["part", "digest"], "left_outer")
        keep = partial(keep_found, read=read)
        results = self._results(
            work, left, keep, names, read, tasks=len(names) + len(tasks), beat=beat
        )
        for name, (spared, records, keys, versions) in zip(names, results, strict=True):
            yield Found(name, spared, *total_of(records), garbage_of(records, keys, versions))

    def _read(self, work: Work) -> Reading:
        self._write()
        return Reading(work.location, self.scratch, new_nonce())

    def _frame(self, task: Callable[[Iterator[Any]], Iterator[Any]], count: int) -> Any:  # noqa: ANN401
        return frame_by_number(self._runner, task, count, COLUMNS)

    def _digests(self, read: Reading) -> Any:  # noqa: ANN401
        """Return the set as a DataFrame, in partitions of bounded size."""
        groups = group_names(self._names)
        rows = self._frame(partial(read_digests, groups=groups, read=read), len(groups))
        return rows.select("digest").repartition(partitions_of(self.added), "digest")

    def _results(
        self,
        work: Work,
        rows: Any,  # noqa: ANN401 - a DataFrame, of a package without types
        keep: Callable[[Iterator[Any]], Iterator[Any]],
        names: Sequence[str],
        read: Reading,
        *,
        tasks: int,
        beat: Callable[[], None] = ignore_beat,
    ) -> Iterator[Any]:
        """Run one job, and yield the results of its parts in their order."""
        placed = rows.repartitionById(len(names), "part").sortWithinPartitions("digest")
        yield from results_of(
            self._runner,
            placed.mapInArrow(keep, RESULT),
            nonce=read.nonce,
            progress=work.progress,
            tasks=tasks + len(group_names(self._names)) + len(names),
            beat=beat,
        )


def open_live(runner: Runner) -> DigestSet | JoinedSet:
    """Return an empty set of the data objects in use, as a context manager.

    On Spark the set is in the namespace, unless that may not be written.
    """
    if isinstance(runner, SparkRunner) and runner.scratch and runner.scratch.is_writable():
        return JoinedSet(runner, runner.scratch)
    return DigestSet()


def tasks_of(work: Work, parts: Sequence[AnyPart]) -> list[Listing]:
    """Return the listings of some parts, each by one task or, of large parts, by several."""
    digits: int | None = None
    tasks: list[Listing] = []
    for number, part in enumerate(parts):
        if not isinstance(part, DataPart) or part.prefix == DATA:
            tasks.append(Listing(number, part))
            continue
        if digits is None:
            digits = digits_for(work.repository.store)
        tasks += [
            Listing(number, part._replace(prefix=each)) for each in divided(part.prefix, digits)
        ]
    return tasks


def group_names(names: Iterable[Kept]) -> list[tuple[Kept, ...]]:
    """Return the names of digests in groups of at most `BYTES_PER_TASK`, at least one group."""
    groups: list[tuple[Kept, ...]] = []
    group: list[Kept] = []
    size = 0
    for kept in names:
        if group and size + kept.size > BYTES_PER_TASK:
            groups.append(tuple(group))
            group, size = [], 0
        group.append(kept)
        size += kept.size
    return [*groups, tuple(group)]
