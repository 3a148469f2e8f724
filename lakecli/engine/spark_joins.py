"""Joins on Spark: rows that executors create, and one job that joins them.

The calling modules define the columns and the rows. Only the results of the job's last tasks, or
the names of these results (see `scratch`), are returned to the driver.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final

from lakecli.base.progress import Progress
from lakecli.engine.errors_as_json import carried
from lakecli.engine.scratch import Scratch, dump_value, keep_value, load_value, take_value
from lakecli.engine.spark_runner import SparkRunner
from lakecli.errors import LakeError

RESULT: Final = "number int, body binary"
"""The columns that the last tasks of a job yield: the number of a part, and its packed result."""

ROWS_PER_PARTITION: Final = 1 << 20
"""Target number of rows of one task of a join."""

MAX_PARTITIONS: Final = 1 << 14
"""Maximum number of tasks of a join, since forged records may claim any number of entries."""


def partitions_of(rows: int) -> int:
    """Return the number of tasks for a join of `rows` rows."""
    return min(MAX_PARTITIONS, 1 + rows // ROWS_PER_PARTITION)


def frame_by_number(
    runner: SparkRunner,
    task: Callable[[Iterator[Any]], Iterator[Any]],
    count: int,
    columns: Any,  # noqa: ANN401 - text, or a schema
) -> Any:  # noqa: ANN401 - a DataFrame, of a package without types
    """Return the rows that `count` tasks yield, as a DataFrame; each task gets its number."""
    return runner.session.range(0, count, 1, count).mapInArrow(task, columns)


def frame_by_part(
    runner: SparkRunner,
    task: Callable[[Iterator[Any]], Iterator[Any]],
    parts: Sequence[Any],
    columns: str,
) -> Any:  # noqa: ANN401 - as above
    """Return the rows that tasks yield, as a DataFrame; each task gets only its own part."""
    import pyarrow as pa

    table = pa.table(
        {
            "number": pa.array(range(len(parts)), pa.int32()),
            "body": pa.array(map(dump_value, parts), pa.binary()),
        }
    )
    placed = runner.session.createDataFrame(table).repartitionById(len(parts), "number")
    return placed.mapInArrow(task, columns)


def carrying(
    batches: Iterator[Any], rows_of: Callable[..., Iterator[Any]], nonce: str
) -> Iterator[Any]:
    """Call `rows_of` with the values of each row of `batches`; yield the rows that it returns.

    A `LakeError` is raised again in the form in which Spark sends it to the driver.
    """
    try:
        for batch in batches:
            columns = (column.to_pylist() for column in batch.columns)
            for row in zip(*columns, strict=True):
                yield from rows_of(*row)
    except LakeError as error:
        raise carried(error, nonce) from error


def as_stat(counts: Sequence[Any]) -> bytes:
    """Encode the counts of a task for the ``stat`` column."""
    return json.dumps(counts).encode("ascii")


def result_row(
    number: int,
    value: Any,  # noqa: ANN401 - of any class
    scratch: Scratch | None,
    nonce: str,
) -> Any:  # noqa: ANN401 - a batch of pyarrow
    """Return the row that reports the result of a part."""
    import pyarrow as pa

    try:
        body = dump_value(keep_value(scratch, value))
    except LakeError as error:
        raise carried(error, nonce) from error
    numbers = pa.array([number], pa.int32())
    return pa.RecordBatch.from_pydict({"number": numbers, "body": [body]})


def results_of(
    runner: SparkRunner,
    frame: Any,  # noqa: ANN401 - a DataFrame of the columns of `RESULT`
    *,
    nonce: str,
    progress: Progress,
    tasks: int,
) -> Iterator[Any]:
    """Run one job, and yield the results of its parts in their order, one at a time.

    Before the results, while the job runs, yield ``None`` every few seconds. No result is falsy.

    Args:
        tasks: number of tasks, for the progress; joins may add some more.
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
