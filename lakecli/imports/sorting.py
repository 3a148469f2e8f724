"""Sort a manifest that is not sorted by key: in SQLite on this machine, or by Spark on a cluster.

SQLite sorts the rows in a file beside the import's journal, so that memory does not grow with the
manifest. Parts are consecutive rows of that file. The threads of this process and the executors of
an embedded Spark can all read the file.

On a cluster, executors read pieces of the manifest, Spark sorts, and executors import intervals of
keys that have about the same number of rows. The driver chooses the intervals from a random sample
of the keys. With `SAMPLES` keys for each interval, it is unlikely that even one of the intervals of
a billion rows has twice the average number of rows. The driver stores the intervals with the
journal, so that an import that continues after it was killed has the same intervals. Such an import
reads the manifest again and skips finished intervals.
"""

import json
import random
import sqlite3
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from lakecli.base.temporary_files import SqliteErrors, replacing
from lakecli.engine import spark_joins
from lakecli.engine.errors_as_json import new_nonce
from lakecli.engine.runner import Runner
from lakecli.engine.scratch import Scratch, dump_value, load_value, take_value
from lakecli.engine.spark_joins import Batches, arrow_batches
from lakecli.engine.spark_runner import SparkRunner, apply, opened, raise_translated
from lakecli.imports import model
from lakecli.imports.import_part import import_rows
from lakecli.imports.manifest import Manifest, ManifestPiece
from lakecli.imports.manifest_rows import rows_of_tuples
from lakecli.stores.streams import groups_of

PART_ROWS: Final = 262_144
"""Number of rows of a part on this machine."""

_CREATE: Final = (
    "CREATE TABLE given (key BLOB, address BLOB, size INTEGER, checksum BLOB, seconds INTEGER, "
    "content_type BLOB)"
)
_INSERT: Final = "INSERT INTO given VALUES (?, ?, ?, ?, ?, ?)"
_SORT: Final = "CREATE TABLE sorted AS SELECT * FROM given ORDER BY key"
_KEY: Final = "SELECT key FROM sorted WHERE rowid = ?"
_SELECT: Final = "SELECT * FROM sorted WHERE rowid BETWEEN ? AND ? ORDER BY rowid"


class SortedSource(NamedTuple):
    """Consecutive rows of a manifest that was sorted on this machine.

    Attributes:
        keys: the first key in hex, and the first key after the part, if there is such a key.
    """

    path: str
    first: int
    last: int
    keys: tuple[str, str | None]
    origin: str

    def rows(self, task: model.Task, failures: model.Failures) -> Iterator[model.Rows]:
        """Yield the rows in order."""
        del task, failures
        with SqliteErrors(self.path), closing(sqlite3.connect(self.path)) as store:
            found = store.execute(_SELECT, (self.first, self.last))
            while batch := found.fetchmany(model.ROWS_AT_ONCE):
                yield rows_of_tuples(batch)

    def identity(self) -> list[Any]:
        """Return the manifest's digest and the interval, which identify the source."""
        return ["sorted", self.origin, *self.keys]


def sort_here(source: Manifest, path: Path, task: model.Task, high: bytes | None) -> model.Parts:
    """Sort a manifest on this machine, and yield its parts in order.

    Args:
        path: the file for the sorted rows; the caller deletes it.

    Raises:
        Unreachable: SQLite cannot write the file, for example because the disk is full.
    """
    with SqliteErrors(path), closing(sqlite3.connect(path, isolation_level=None)) as store:
        # The file need not survive a crash: a later run sorts the manifest again.
        store.execute("PRAGMA journal_mode = OFF")
        store.execute("PRAGMA synchronous = OFF")
        store.execute(_CREATE)
        store.execute("BEGIN")
        for piece, _ in source.pieces():
            for rows in piece.rows(task.seconds):
                store.executemany(_INSERT, zip(*rows.columns(), strict=True))
        store.execute(_SORT)
        store.execute("DROP TABLE given")
        store.execute("COMMIT")
        (count,) = store.execute("SELECT count(*) FROM sorted").fetchone()

        def key(number: int) -> bytes | None:
            found = store.execute(_KEY, (number,)).fetchone()
            return None if found is None else bytes(found[0])

        origin = source.origin()
        first, low = 1, b""
        while True:
            following = first + PART_ROWS
            while (end := key(following)) is not None and end == key(following - 1):
                following += 1  # all rows of one key are in one part
            last = count if end is None else following - 1
            keys = low.hex(), None if end is None else end.hex()
            yield model.ImportPart(
                task.prefix + low,
                high if end is None else task.prefix + end,
                SortedSource(str(path), first, last, keys, origin),
            )
            if end is None:
                return
            first, low = following, end


ROWS_PER_INTERVAL: Final = 131_072
"""Approximate number of rows of an interval of a large manifest."""

MOST_INTERVALS: Final = 20_000
"""Maximum number of intervals; a manifest that needs more has larger intervals."""

SAMPLES: Final = 64
"""Approximate number of sampled keys for each interval."""

ROWS_PER_MAP: Final = 1_048_576
"""Maximum number of rows of the manifest that one task reads, unless a single piece has more."""

LEAST_TASKS: Final = 8
"""Minimum number of tasks that read a manifest, and of intervals, if it has enough rows."""

INTERVALS: Final = "intervals.json"
"""The name of the file in the journal with the keys at which the intervals begin."""

COLUMNS: Final = (
    "path binary, address binary, size bigint, checksum binary, seconds bigint, "
    "content_type binary, interval int"
)
"""The columns of rows that Spark sorts; each row goes to the partition of its interval's number."""


class IntervalSource(NamedTuple):
    """An interval of keys as the source of a part: its rows arrive through Spark."""

    low: bytes
    high: bytes | None
    origin: str

    def rows(self, task: model.Task, failures: model.Failures) -> Iterator[model.Rows]:
        """Raise an error: the rows arrive through Spark."""
        raise NotImplementedError

    def identity(self) -> list[Any]:
        """Return the manifest's digest and the interval, which identify the source."""
        return ["sorted", self.origin, self.low.hex(), self.high and self.high.hex()]


class Portion(NamedTuple):
    """The pieces of a manifest that one task reads; `number` is its position among all portions."""

    number: int
    pieces: tuple[ManifestPiece, ...]


def portions_of(source: Manifest) -> list[Portion]:
    """Return the portions of a manifest, one for each task that reads it.

    Each task writes one block for each interval, so few tasks are better than many. A small
    manifest is divided into about `LEAST_TASKS` portions.
    """
    pieces = source.pieces()
    limit = min(ROWS_PER_MAP, max(1, sum(rows for _, rows in pieces) // LEAST_TASKS))
    groups = enumerate(groups_of(pieces, itemgetter(1), most=limit))
    return [Portion(number, tuple(piece for piece, _ in group)) for number, group in groups]


def find_bounds(
    runner: Runner, source: Manifest, portions: Sequence[Portion], *, kept: Path
) -> list[bytes]:
    """Return the keys at which intervals of a manifest begin, except for the first interval.

    Args:
        kept: the file that stores the keys, so that a continued import gets the same keys.
    """
    try:
        return list(map(bytes.fromhex, json.loads(kept.read_bytes())))
    except (FileNotFoundError, ValueError, TypeError):
        rows = max(1, source.estimate())
        # If the manifest is small, the sample has all of its keys.
        share = min(1.0, SAMPLES * max(LEAST_TASKS / rows, 1 / ROWS_PER_INTERVAL))
        found = runner.run(partial(sample_keys, share=share), portions)
        bounds = bounds_of(sorted(chain.from_iterable(keys for _, keys in found)), share=share)
        with replacing(kept, is_durable=False) as file:
            file.write(json.dumps([bound.hex() for bound in bounds]).encode())
        return bounds


def intervals_of(
    source: Manifest, bounds: Sequence[bytes], prefix: bytes, high: bytes | None
) -> model.Parts:
    """Yield the intervals of a manifest, in order."""
    origin = source.origin()
    for low, following in zip([b"", *bounds], [*bounds, None], strict=True):
        ends = high if following is None else prefix + following
        yield model.ImportPart(prefix + low, ends, IntervalSource(low, following, origin))


def sample_keys(portion: Portion, *, share: float) -> list[bytes]:
    """Return a random sample of a portion's keys; each is chosen with the probability `share`."""
    # Seeded by the portion: the sample is the same after a restart, and differs between portions.
    chance = random.Random(portion.number)  # noqa: S311 - no secret
    keys = chain.from_iterable(piece.iter_keys() for piece in portion.pieces)
    return [key for each in keys for key in each if chance.random() < share]


def bounds_of(keys: Sequence[bytes], *, share: float) -> list[bytes]:
    """Return the keys that divide all keys into intervals of similar numbers of keys.

    Args:
        keys: a sorted sample of the keys.
        share: the share of all keys that are in the sample.
    """
    wanted = max(LEAST_TASKS, int(len(keys) / share / ROWS_PER_INTERVAL))
    wanted = min(wanted, MOST_INTERVALS, len(keys) or 1)
    bounds = {keys[number * len(keys) // wanted] for number in range(1, wanted)}
    return sorted(bounds - set(keys[:1]))


def import_shuffled(
    runner: SparkRunner,
    portions: Sequence[Portion],
    parts: Sequence[model.ImportPart],
    task: model.Task,
    items: Sequence[model.NumberedPart],
) -> Iterator[tuple[model.NumberedPart, model.ImportedPart]]:
    """Import intervals; yield the result of each interval when it is finished.

    Args:
        items: the intervals that are not finished yet.
    """
    if not items:
        return
    count = len(parts)
    by_number = {item.number: item for item in items}
    nonce = new_nonce()
    read = partial(
        _read,
        portions=list(portions),
        starts=[part.source.low for part in parts[1:]],  # type: ignore[attr-defined]
        wanted=frozenset(by_number),
        now=task.seconds,
        nonce=nonce,
    )
    rows = spark_joins.frame_by_number(runner, read, len(portions), COLUMNS)
    placed = rows.repartitionById(count, "interval").drop("interval")
    ordered = placed.sortWithinPartitions("path")
    write = partial(_import, task=task, parts=list(parts), scratch=runner.scratch)
    try:  # Spark shuffles here, before the first job of `run_jobs`
        results = ordered.mapInArrow(write, spark_joins.RESULT).rdd
    except Exception as error:  # noqa: BLE001 - whatever Spark and Py4J wrap it into
        raise_translated(error, nonce=nonce)

    def job(numbers: list[int]) -> Iterator[tuple[model.NumberedPart, bytes]]:
        for row in runner.context.runJob(results, list, numbers):
            yield by_number[row.number], bytes(row.body)

    batches = runner.batches(sorted(by_number))
    with closing(runner.run_jobs(job, batches, nonce=nonce)) as bodies:
        for item, body in bodies:
            yield item, take_value(runner.scratch, opened(load_value(body)))


def _read(
    batches: Batches,
    *,
    portions: list[Portion],
    starts: list[bytes],
    wanted: frozenset[int],
    now: int,
    nonce: str,
) -> Batches:
    """Yield the objects of some portions, as rows of `COLUMNS`, on an executor.

    Args:
        wanted: numbers of the intervals whose objects are yielded.
        nonce: a text that marks the errors that Spark sends to the driver.
    """

    def rows_of(number: int) -> Batches:
        for piece in portions[number].pieces:
            for rows in piece.rows(now):
                intervals = [bisect_right(starts, key) for key in rows.keys]
                placed = zip(*rows.columns(), intervals, strict=True)
                yield from arrow_batches(COLUMNS, (row for row in placed if row[-1] in wanted))

    return spark_joins.carrying(batches, rows_of, nonce)


def _import(
    batches: Batches, *, task: model.Task, parts: list[model.ImportPart], scratch: Scratch | None
) -> Batches:
    """Import the interval that a partition contains, on an executor."""
    number = spark_joins.task_number()

    def import_interval(part: model.ImportPart) -> model.ImportedPart:
        rows = (
            rows_of_tuples(spark_joins.rows_in(iter([each]))) for each in batches if each.num_rows
        )
        return import_rows(task, model.NumberedPart(number, part), rows, model.Failures())

    _, result = apply(import_interval, scratch, (number, parts[number]))
    yield from arrow_batches(spark_joins.RESULT, [(number, dump_value(result))])
