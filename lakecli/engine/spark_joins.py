"""Joins on Spark: executors create rows, and one job joins the rows.

The calling modules define the columns and the rows. Only the results of the job's last tasks, or
the names of these results (see `scratch`), are returned to the driver.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final

from lakecli.base.progress import Progress
from lakecli.engine.errors_as_json import carrying_errors
from lakecli.engine.scratch import Scratch, dump_value, keep_value, load_value, take_value
from lakecli.engine.spark_runner import SparkRunner
from lakecli.stores.streams import batches

RESULT: Final = "number int, body binary"
"""The columns that the last tasks of a job yield: the number of a part, and its packed result."""

BATCH_ROWS: Final = 65_536
"""Maximum number of rows in an Arrow batch."""

Batches = Iterator[Any]
"""Rows as Arrow batches; untyped, because Arrow is imported only where it is needed."""

RowsTask = Callable[[Batches], Batches]
"""A function for Spark's ``mapInArrow``: takes and yields Arrow batches."""

_KINDS: Final = {"int": "int32", "bigint": "int64", "string": "string", "binary": "binary"}
"""Arrow types, by the name of the Spark type."""

ROWS_PER_PARTITION: Final = 1 << 20
"""Target number of rows of one task of a join."""

MAX_PARTITIONS: Final = 1 << 14
"""Maximum number of tasks of a join; forged records may claim any number of entries."""


def partitions_of(rows: int) -> int:
    """Return the number of tasks for a join of `rows` rows."""
    return min(MAX_PARTITIONS, 1 + rows // ROWS_PER_PARTITION)


def frame_by_number(runner: SparkRunner, task: RowsTask, count: int, columns: str) -> Any:  # noqa: ANN401 - a DataFrame, of a package without types
    """Return the rows that `count` tasks yield, as a DataFrame; each task gets its number.

    Args:
        columns: names and types of the columns, in Spark's DDL.
    """
    return runner.session.range(0, count, 1, count).mapInArrow(task, columns)


def frame_by_part(runner: SparkRunner, task: RowsTask, parts: Sequence[Any], columns: str) -> Any:  # noqa: ANN401 - as above
    """Return the rows that tasks yield, as a DataFrame; each task gets only its own part."""
    import pyarrow as pa

    table = pa.Table.from_batches(arrow_batches(RESULT, enumerate(map(dump_value, parts))))
    placed = runner.session.createDataFrame(table).repartitionById(len(parts), "number")
    return placed.mapInArrow(task, columns)


def arrow_batches(names: str, rows: Iterable[Sequence[Any]]) -> Batches:
    """Yield rows as Arrow batches.

    Args:
        names: names and types of the columns, in Spark's DDL.
        rows: the rows, each with a value for every column.
    """
    import pyarrow as pa

    schema = pa.schema((name, _KINDS[kind]) for name, kind in map(str.split, names.split(", ")))
    for some in batches(rows, BATCH_ROWS):
        columns = zip(zip(*some, strict=True), schema.types, strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(*each) for each in columns], schema=schema)


def rows_in(batches: Batches) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of Arrow batches as tuples."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def task_number() -> int:
    """Return the number of the present task on an executor; outside of a task, 0."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def carrying(batches: Batches, rows_of: Callable[..., Batches], nonce: str) -> Batches:
    """Call `rows_of` with the values of each row of `batches`; yield the batches that it returns.

    A `LakeError` is raised again in the form that Spark sends to the driver; see `carrying_errors`.
    """
    with carrying_errors(nonce):
        for row in rows_in(batches):
            yield from rows_of(*row)


def as_stat(counts: Sequence[Any]) -> bytes:
    """Encode the counts of a task for the ``stat`` column."""
    return json.dumps(counts).encode("ascii")


def result_rows(number: int, value: Any, scratch: Scratch | None, nonce: str) -> Batches:  # noqa: ANN401 - of any class
    """Yield the row that reports the result of a part."""
    with carrying_errors(nonce):
        body = dump_value(keep_value(scratch, value))
    yield from arrow_batches(RESULT, [(number, body)])


def results_of(
    runner: SparkRunner,
    frame: Any,  # noqa: ANN401 - a DataFrame of the columns of `RESULT`
    *,
    nonce: str,
    progress: Progress,
    tasks: int,
) -> Iterator[Any]:
    """Run one job, and yield the results of its parts in their order, one at a time.

    While the job runs, yield ``None`` every few seconds. Results are never falsy, so that callers
    can filter out ``None``.

    Args:
        tasks: number of tasks, for the progress; joins may add some.
    """
    shown = 0
    progress.expect(parts=tasks)

    def job(_: int) -> Iterator[Any]:
        yield from frame.collect()

    results: list[Any] = []
    with closing(runner.watch_jobs(job, [0], nonce=nonce)) as watched:
        for seen in watched:
            finished = min(seen, tasks) if isinstance(seen, int) else tasks
            progress.advance(parts=max(0, finished - shown))
            shown = max(shown, finished)
            if isinstance(seen, int):
                yield None
            else:
                results = sorted(seen, key=lambda row: int(row.number))
    for row in results:
        yield take_value(runner.scratch, load_value(bytes(row.body)))
