"""Sort a manifest on Spark: executors read pieces of it, Spark sorts, executors import.

The driver chooses the intervals from a sample of the keys (see `bounds`), and stores them with the
journal, so that an import that continues after a kill has the same intervals; it reads the manifest
again and skips finished intervals.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from lakecli.engine.errors_as_json import carried, dump_error, new_nonce
from lakecli.engine.runner import Runner
from lakecli.engine.scratch import Kept, Scratch
from lakecli.engine.spark_runner import Failed, SparkRunner, opened, raise_translated
from lakecli.engine.worker_heap import freeze_modules
from lakecli.errors import LakeError
from lakecli.imports import sorting
from lakecli.imports.arrow import bytes_of, rows_of, schema
from lakecli.imports.listed import Lister
from lakecli.imports.manifest import Piece
from lakecli.imports.packed import pack_result, unpack_result
from lakecli.imports.part import Item, Part, PartResult, Task, import_rows
from lakecli.imports.plain import RANGE, QuotedLineEnds
from lakecli.imports.rows import Failures, Rows
from lakecli.imports.sources import Manifest

BYTES_PER_MAP: Final = 2 * RANGE
"""Bytes of text that one task reads, at most, unless one piece has more."""

INTERVALS: Final = "intervals.json"
PLACE: Final = "place"
"""The column with the number of a row's interval, which is that of its partition."""

_DONE: Final = b"+"
_FAILED: Final = b"-"
_KEPT: Final = b">"
"""The first byte of an executor's result: a result, an error, or the name of either follows."""

_SIZE: Final = 8


class Interval(NamedTuple):
    """An interval as the source of a part: its rows arrive through Spark.

    Attributes:
        low: the first key.
        high: the first key after the interval; ``None``: the interval has no end.
        origin: a digest of the manifest.
    """

    low: bytes
    high: bytes | None
    origin: str

    def rows(self, task: Task, failures: Failures) -> Iterator[Rows]:
        """Raise an error: the rows arrive through Spark."""
        raise NotImplementedError

    def identity(self) -> list[Any]:
        """Return the manifest's digest and the interval."""
        return ["sorted", self.origin, self.low.hex(), self.high and self.high.hex()]


class Portion(NamedTuple):
    """Pieces of a manifest that one task reads."""

    pieces: tuple[Piece, ...]

    def batches(self, now: int) -> Iterator[Any]:
        """Yield the objects; see `Piece.batches`."""
        return chain.from_iterable(piece.batches(now) for piece in self.pieces)

    def iter_keys(self) -> Iterator[list[bytes]]:
        """Yield the keys of all rows."""
        return chain.from_iterable(piece.iter_keys() for piece in self.pieces)

    def identity(self) -> list[Any]:
        """Return JSON values that change whenever the rows do."""
        return [piece.identity() for piece in self.pieces]


class Plan(NamedTuple):
    """How a manifest is divided.

    Attributes:
        portions: what is read together, in the order of the manifest.
        bounds: the keys at which intervals begin, except for the first one.
    """

    portions: list[Portion]
    bounds: list[bytes]


def plan(runner: Runner, source: Manifest, *, directory: Path) -> Plan:
    """Divide a manifest into intervals of about equal size; the same ones after a restart.

    Args:
        runner: reads the samples.
        source: the manifest.
        directory: directory of the import's journal.
    """
    kept = directory / INTERVALS
    try:
        found = json.loads(kept.read_bytes())
        sizes = _portions(source, divides=found["divides"])
        return Plan([portion for portion, _ in sizes], list(map(bytes.fromhex, found["bounds"])))
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        pass
    try:
        fresh = _sampled(runner, source, divides=True)
        divides = True
    except QuotedLineEnds:
        fresh = _sampled(runner, source, divides=False)
        divides = False
    record = {"divides": divides, "bounds": [bound.hex() for bound in fresh.bounds]}
    beside = kept.with_suffix(".new")
    beside.write_text(json.dumps(record))
    beside.replace(kept)
    return fresh


def _sampled(runner: Runner, source: Manifest, *, divides: bool) -> Plan:
    sizes = _portions(source, divides=divides)
    least = sorting.LEAST_TASKS
    wanted = sorting.intervals_for(source.estimate() or 0, least)
    wishes = sorting.wish_for(sizes, wanted, is_exact=source.is_parquet)
    samples = (found for _, found in runner.run(sorting.sample, wishes))
    return Plan([portion for portion, _ in sizes], sorting.bounds_of(samples, least=least))


def _portions(source: Manifest, *, divides: bool) -> list[tuple[Portion, int]]:
    """Return portions of a manifest, with their rows or bytes."""
    pieces = source.sized_pieces(divides=divides)
    sizes = [size for _, size in pieces]
    most = sorting.ROWS_PER_MAP if source.is_parquet else BYTES_PER_MAP
    return [
        (Portion(tuple(pieces[number][0] for number in task)), sum(sizes[task.start : task.stop]))
        for task in sorting.tasks_for(sizes, most=most)
    ]


def plan_intervals(
    starts: Sequence[bytes], prefix: bytes, high: bytes | None, *, origin: str
) -> list[Part]:
    """Return the parts between some bounds, in order."""
    parts = []
    for low, following in pairwise([b"", *starts, None]):
        assert low is not None  # only the last one is
        ends = high if following is None else prefix + following
        parts.append(Part(prefix + low, ends, Interval(low, following, origin)))
    return parts


def import_shuffled(
    runner: SparkRunner,
    task: Task,
    portions: Sequence[Portion],
    parts: Sequence[Part],
    items: Sequence[Item],
) -> Iterator[tuple[Item, PartResult]]:
    """Import intervals; yield each when it is finished.

    Args:
        runner: the runner on Spark.
        task: shared by all parts.
        portions: of the manifest, each read by one task.
        parts: all intervals, in order.
        items: the intervals that are not finished yet.

    Raises:
        LakeError: an executor failed.
    """
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    if not items:
        return
    session = runner.session
    count = len(parts)
    starts = [part.source.low for part in parts[1:]]  # type: ignore[attr-defined]
    wanted = {item.number for item in items}
    nonce = new_nonce()
    read = partial(
        _read,
        portions=list(portions),
        starts=starts,
        wanted=wanted if len(wanted) < count else None,
        now=task.seconds,
        nonce=nonce,
    )
    rows = session.range(0, len(portions), 1, len(portions)).mapInArrow(
        read, from_arrow_schema(schema().append(pa.field(PLACE, pa.int32())))
    )
    ordered = rows.repartitionById(count, PLACE).sortWithinPartitions("path")
    write = partial(_import, task=task, parts=list(parts), scratch=runner.scratch)
    try:  # Spark shuffles here, before the first job of `run_jobs`
        results = ordered.mapInArrow(write, "number int, body binary").rdd
    except Exception as error:  # noqa: BLE001 - whatever Spark and Py4J wrap it into
        raise_translated(error, nonce=nonce)
    by_number = {item.number: item for item in items}

    def job(numbers: list[int]) -> Iterator[tuple[Item, bytes]]:
        for row in runner.context.runJob(results, list, numbers):
            yield by_number[row.number], bytes(row.body)

    batches = runner.batches(sorted(wanted))
    with closing(runner.run_jobs(job, batches, nonce=nonce)) as bodies:
        for item, body in bodies:
            yield item, opened(_taken(body, runner.scratch))


def _read(
    batches: Iterator[Any],
    *,
    portions: list[Portion],
    starts: list[bytes],
    wanted: set[int] | None,
    now: int,
    nonce: str,
) -> Iterator[Any]:
    """Read portions of the manifest on an executor; see `placed`."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from _carrying(placed(portions[number], starts, wanted, now=now), nonce)


def placed(
    portion: Portion, starts: Sequence[bytes], wanted: set[int] | None, *, now: int
) -> Iterator[Any]:
    """Yield the objects of a portion with the column `PLACE`.

    Args:
        portion: of the manifest.
        starts: the first keys of all intervals but the first.
        wanted: numbers of the intervals whose objects are yielded; ``None``: all.
        now: time of modification, in unix seconds, if the manifest has none.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    only = None if wanted is None else pa.array(sorted(wanted), pa.int32())
    for found in portion.batches(now):
        keys = bytes_of(found.column(0))
        places = pa.array([bisect_right(starts, key) for key in keys], pa.int32())
        batch = found.append_column(PLACE, places)
        yield batch if only is None else batch.filter(pc.is_in(places, only))


def _carrying(batches: Iterator[Any], nonce: str) -> Iterator[Any]:
    """Yield batches; send a `LakeError` to the driver through Spark."""
    try:
        yield from batches
    except LakeError as error:
        raise carried(error, nonce) from error
    finally:
        freeze_modules()


def _import(
    batches: Iterator[Any], *, task: Task, parts: list[Part], scratch: Scratch | None
) -> Iterator[Any]:
    """Import the interval of a partition on an executor."""
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    number = context.partitionId()
    rows = (rows_of(batch) for batch in batches if batch.num_rows)
    failures = Failures()
    lister = None if task.listing is None else Lister(failures, task.listing, number)
    try:
        result = import_rows(task, parts[number], rows, failures, lister=lister)
        body = _DONE + pack_result(result)
        kept = None if scratch is None else scratch.keep(body)
        if kept is not None:
            body = _KEPT + kept.digest + kept.size.to_bytes(_SIZE)
    except LakeError as error:
        body = _FAILED + dump_error(error).encode()
    yield pa.RecordBatch.from_pydict({"number": pa.array([number], pa.int32()), "body": [body]})


def _taken(body: bytes, scratch: Scratch | None) -> PartResult | Failed:
    """Return the result or the error of a partition."""
    if body.startswith(_KEPT) and scratch is not None:
        name = body.removeprefix(_KEPT)
        body = scratch.take(Kept(name[:-_SIZE], int.from_bytes(name[-_SIZE:])))
    if body.startswith(_FAILED):
        return Failed(body.removeprefix(_FAILED).decode())
    return unpack_result(body.removeprefix(_DONE))
