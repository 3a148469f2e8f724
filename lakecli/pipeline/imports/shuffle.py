"""Sort a manifest on Spark: executors read pieces of it, Spark sorts, executors import.

The driver chooses the intervals from a sample of the keys, and stores them with the journal, so
that an import that continues after a kill has the same intervals; it reads the manifest again and
skips finished intervals. Spark partitions rows by the hash of a number, so each row has a number
whose hash maps to the partition of its interval.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.errors import LakeError
from lakecli.pipeline.errors_as_json import carried, dump_error, new_nonce
from lakecli.pipeline.imports.arrow import bytes_of, rows_of, schema
from lakecli.pipeline.imports.packed import pack_result, unpack_result
from lakecli.pipeline.imports.part import Item, Part, import_rows
from lakecli.pipeline.imports.rows import Failures, Rows
from lakecli.pipeline.spark_runner import Failed, opened, raise_translated

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lakecli.pipeline.imports.manifest import Piece
    from lakecli.pipeline.imports.part import PartResult, Task
    from lakecli.pipeline.spark_runner import SparkRunner

ROWS_PER_INTERVAL: Final = 131_072
SAMPLED_PIECES: Final = 64
SAMPLES_PER_PIECE: Final = 1_024
SAMPLED_ROWS: Final = 131_072
"""Rows of a piece from which the sample is taken, at most."""

MOST_INTERVALS: Final = 20_000
INTERVALS: Final = "intervals.json"
PLACE: Final = "place"
"""The column with the number that decides a row's partition."""

_DONE: Final = b"+"
_FAILED: Final = b"-"
"""The first byte of an executor's result: a result or an error follows."""


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


def choose_bounds(
    runner: SparkRunner, pieces: Sequence[Piece], *, size: int, directory: Path
) -> list[bytes]:
    """Return keys that divide a manifest into about equal parts; the same after a restart.

    Args:
        runner: reads the samples.
        pieces: pieces of the manifest.
        size: approximate number of rows.
        directory: directory of the import's journal.
    """
    kept = directory / INTERVALS
    try:
        return [bytes.fromhex(bound) for bound in json.loads(kept.read_bytes())]
    except (FileNotFoundError, ValueError):
        pass
    wanted = min(MOST_INTERVALS, max(-(-size // ROWS_PER_INTERVAL), 2 * runner.parallelism))
    step = max(1, len(pieces) // SAMPLED_PIECES)
    samples = sorted(key for _, keys in runner.run(sample, pieces[::step]) for key in keys)
    bounds = sorted(
        {samples[at * len(samples) // wanted] for at in range(1, wanted)} if samples else ()
    )
    fresh = kept.with_suffix(".new")
    fresh.write_text(json.dumps([bound.hex() for bound in bounds]))
    fresh.replace(kept)
    return bounds


def sample(piece: Piece) -> list[bytes]:
    """Return some keys of a piece."""
    found: list[bytes] = []
    seen = 0
    for keys in piece.iter_keys():
        found += keys
        seen += len(keys)
        if seen >= SAMPLED_ROWS:
            break
    step = max(1, len(found) // SAMPLES_PER_PIECE)
    return found[::step]


def plan_intervals(
    bounds: Sequence[bytes], prefix: bytes, high: bytes | None, *, origin: str
) -> list[Part]:
    """Return the parts between some bounds, in order."""
    parts = []
    for low, following in pairwise([b"", *bounds, None]):
        assert low is not None  # only the last one is
        ends = high if following is None else prefix + following
        parts.append(Part(prefix + low, ends, Interval(low, following, origin)))
    return parts


def import_shuffled(
    runner: SparkRunner,
    task: Task,
    pieces: Sequence[Piece],
    parts: Sequence[Part],
    items: Sequence[Item],
) -> Iterator[tuple[Item, PartResult]]:
    """Import intervals; yield each when it is finished.

    Args:
        runner: the runner on Spark.
        task: shared by all parts.
        pieces: pieces of the manifest.
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
    bounds = [part.source.low for part in parts[1:]]  # type: ignore[attr-defined]
    places = places_of(count)
    wanted = {item.number for item in items}
    nonce = new_nonce()
    read = partial(
        _read,
        pieces=list(pieces),
        bounds=bounds,
        places=[places[number] if number in wanted else None for number in range(count)],
        now=task.seconds,
        nonce=nonce,
    )
    rows = session.range(0, len(pieces), 1, len(pieces)).mapInArrow(
        read, from_arrow_schema(schema().append(pa.field(PLACE, pa.int64())))
    )
    ordered = rows.repartition(count, PLACE).sortWithinPartitions("path")
    write = partial(_import, task=task, parts=list(parts))
    try:  # Spark shuffles here, before the first job of `run_jobs`
        results = ordered.mapInArrow(write, "number int, body binary").rdd
    except Exception as error:  # noqa: BLE001 - whatever Spark and Py4J wrap it into
        raise_translated(error, nonce=nonce)
    by_number = {item.number: item for item in items}

    def job(numbers: list[int]) -> Iterator[tuple[Item, PartResult]]:
        for row in runner.context.runJob(results, list, numbers):
            yield by_number[row.number], opened(_taken(bytes(row.body)))

    rest = iter(sorted(wanted))
    batches = iter(lambda: list(islice(rest, 2 * runner.parallelism)), [])
    yield from runner.run_jobs(job, batches, nonce=nonce)


def _read(
    batches: Iterator[Any],
    *,
    pieces: list[Piece],
    bounds: list[bytes],
    places: list[int | None],
    now: int,
    nonce: str,
) -> Iterator[Any]:
    """Read pieces of the manifest on an executor, and add the column `PLACE`."""
    import pyarrow as pa

    for batch in batches:
        for number in batch.column(0).to_pylist():
            for found in _carrying(pieces[number].batches(now), nonce):
                keys = bytes_of(found.column(0))
                targets = pa.array([places[bisect_right(bounds, key)] for key in keys], pa.int64())
                placed = found.append_column(PLACE, targets)
                yield placed.filter(targets.is_valid()) if targets.null_count else placed


def _carrying(batches: Iterator[Any], nonce: str) -> Iterator[Any]:
    """Yield batches; send a `LakeError` to the driver through Spark."""
    try:
        yield from batches
    except LakeError as error:
        raise carried(error, nonce) from error


def _import(batches: Iterator[Any], *, task: Task, parts: list[Part]) -> Iterator[Any]:
    """Import the interval of a partition on an executor."""
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    number = context.partitionId()
    rows = (rows_of(batch) for batch in batches if batch.num_rows)
    try:
        body = _DONE + pack_result(import_rows(task, parts[number], rows, Failures()))
    except LakeError as error:
        body = _FAILED + dump_error(error).encode()
    yield pa.RecordBatch.from_pydict({"number": pa.array([number], pa.int32()), "body": [body]})


def _taken(body: bytes) -> PartResult | Failed:
    """Return the result or the error of a partition."""
    if body.startswith(_FAILED):
        return Failed(body.removeprefix(_FAILED).decode())
    return unpack_result(body.removeprefix(_DONE))


def places_of(count: int) -> list[int]:
    """Return for each partition a number that Spark's hash maps to it.

    Spark takes the remainder of 32-bit Murmur3 (seed 42) of a ``bigint``.
    """
    found: dict[int, int] = {}
    number = 0
    while len(found) < count:
        found.setdefault(murmur3(number) % count, number)
        number += 1
    return [found[partition] for partition in range(count)]


def murmur3(number: int) -> int:
    """Return Spark's hash of a 64-bit integer, as a signed 32-bit integer."""
    hashed = 42
    for half in (number & 0xFFFFFFFF, number >> 32 & 0xFFFFFFFF):
        mixed = half * 0xCC9E2D51 & 0xFFFFFFFF
        mixed = (mixed << 15 | mixed >> 17) & 0xFFFFFFFF
        hashed ^= mixed * 0x1B873593 & 0xFFFFFFFF
        hashed = (hashed << 13 | hashed >> 19) & 0xFFFFFFFF
        hashed = (hashed * 5 + 0xE6546B64) & 0xFFFFFFFF
    hashed ^= 8
    hashed ^= hashed >> 16
    hashed = hashed * 0x85EBCA6B & 0xFFFFFFFF
    hashed ^= hashed >> 13
    hashed = hashed * 0xC2B2AE35 & 0xFFFFFFFF
    hashed ^= hashed >> 16
    return hashed - (1 << 32) if hashed >> 31 else hashed
