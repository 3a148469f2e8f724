"""The job that looks references up: executors read ranges and list objects, and Spark joins both.

A row without a name joins none. So the counts of ranges and listings come through, and of all other
rows those whose sizes differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from lakecli.base.progress import Progress
from lakecli.engine.joins import RESULT, frame_by_number, frame_by_part, partitions_of, results_of
from lakecli.engine.spark_runner import SparkRunner
from lakecli.fsck.tasks import (
    DAMAGED,
    LEFT,
    OBJECTS,
    REFERENCES,
    RESULT_RANGES,
    Checking,
    PartResult,
    ToRead,
    keep_left,
    list_objects,
    object_rows,
    read_references,
)

_IS_LEFT: Final = (
    "stat IS NOT NULL OR listed IS NOT NULL"
    " OR name IS NOT NULL AND (present IS NULL OR present <> size)"
)


class Lookup(NamedTuple):
    """What to look up.

    Attributes:
        parts: the references.
        last: number of the last range.
        entries: about how many references there are.
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
) -> Iterator[PartResult]:
    """Look references up on Spark."""
    listings = 1 << 4 * lookup.digits
    joins = partitions_of(lookup.entries)
    keeping = lookup.last // RESULT_RANGES + 1
    references = frame_by_part(
        runner, partial(read_references, checking=checking), lookup.parts, REFERENCES
    )
    objects = frame_by_number(
        runner,
        partial(list_objects, digits=lookup.digits, checking=checking),
        listings,
        OBJECTS,
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
    yield from results_of(
        runner,
        placed.mapInArrow(partial(keep_left, checking=checking), RESULT),
        nonce=checking.nonce,
        progress=progress,
        tasks=len(lookup.parts) + listings + joins + keeping,
    )
