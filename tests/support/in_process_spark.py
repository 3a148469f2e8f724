"""Spark without Java: one executor, which is this process.

It has of a session, its context, RDDs and DataFrames what bulk work uses. So tests run what
executors do where mutants and meetings are, and without the seconds that a JVM takes.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# ruff: noqa: N802, N815 - the names are Spark's

Row = dict[str, Any]


class InProcess:
    """A session, its context, and what that has of statuses."""

    master = "local[1]"
    pythonExec = sys.executable
    defaultParallelism = 1

    @property
    def sparkContext(self) -> InProcess:
        """The context."""
        return self

    def setJobGroup(self, *_: object, **__: object) -> None:
        """Do nothing."""

    def statusTracker(self) -> SimpleNamespace:
        """Return a tracker that knows no job."""
        return SimpleNamespace(
            getJobIdsForGroup=lambda _group: [],
            getJobInfo=lambda _job: None,
            getStageInfo=lambda _stage: None,
        )

    def parallelize(self, items: list[Any], _slices: int) -> Rdd:
        """Return a dataset."""
        return Rdd(items)

    def range(self, start: int, end: int, step: int, partitions: int) -> DataFrame:
        """Return numbers, each in a partition of its own."""
        assert partitions == len(range(start, end, step))
        return DataFrame(lambda: [[{"id": number}] for number in range(start, end, step)])


class Rdd:
    """A dataset of any items."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = items

    def map(self, task: Callable[[Any], Any]) -> Rdd:
        """Apply a function to each item."""
        return Rdd(map(task, self._items))

    def collect(self) -> list[Any]:
        """Return the items."""
        return list(self._items)


class DataFrame:
    """Rows in partitions, which are made when they are collected."""

    def __init__(self, make: Callable[[], list[list[Row]]]) -> None:
        self._make = make

    def _rows(self) -> list[Row]:
        return [row for rows in self._make() for row in rows]

    def _each(self, change: Callable[[list[Row]], list[Row]]) -> DataFrame:
        return DataFrame(lambda: [change(rows) for rows in self._make()])

    def mapInArrow(self, task: Callable[[Iterator[Any]], Iterator[Any]], schema: str) -> DataFrame:
        """Apply a function to the rows of each partition, as batches of Arrow."""
        names = [column.split()[0] for column in schema.split(",")]
        return DataFrame(
            lambda: [_mapped(task, number, rows, names) for number, rows in enumerate(self._make())]
        )

    def select(self, *names: str) -> DataFrame:
        """Return some columns."""
        return self._each(lambda rows: [{name: row[name] for name in names} for row in rows])

    def drop(self, name: str) -> DataFrame:
        """Return all columns but one."""
        return self._each(
            lambda rows: [{each: row[each] for each in row if each != name} for row in rows]
        )

    def repartition(self, count: int, *_columns: str) -> DataFrame:
        """Return the same rows."""
        assert count > 0
        return self

    def join(self, other: DataFrame, on: str | list[str], how: str) -> DataFrame:
        """Join by equal columns; nulls equal nothing."""
        columns = [on] if isinstance(on, str) else on
        return DataFrame(lambda: [_joined(self._rows(), other._rows(), columns, how)])

    def repartitionById(self, count: int, name: str) -> DataFrame:
        """Put each row into the partition whose number it has."""

        def make() -> list[list[Row]]:
            partitions: list[list[Row]] = [[] for _ in range(count)]
            for row in self._rows():
                partitions[row[name]].append(row)
            return partitions

        return DataFrame(make)

    def sortWithinPartitions(self, name: str) -> DataFrame:
        """Sort each partition, nulls first."""
        return self._each(
            lambda rows: sorted(rows, key=lambda row: (row[name] is not None, row[name] or b""))
        )

    def collect(self) -> list[SimpleNamespace]:
        """Return the rows."""
        return [SimpleNamespace(**row) for row in self._rows()]


def _mapped(
    task: Callable[[Iterator[Any]], Iterator[Any]], number: int, rows: list[Row], names: list[str]
) -> list[Row]:
    import pyarrow as pa
    from pyspark import TaskContext

    before = TaskContext._taskContext
    context: Any = SimpleNamespace(partitionId=lambda: number)
    TaskContext._taskContext = context
    try:
        batches = [pa.RecordBatch.from_pylist(rows, _schema(rows))] if rows else []
        made = [row for batch in task(iter(batches)) for row in batch.to_pylist()]
    finally:
        TaskContext._taskContext = before
    assert all([*row] == names for row in made)
    return made


def _joined(mine: list[Row], other: list[Row], columns: list[str], how: str) -> list[Row]:
    theirs: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in other:
        theirs[tuple(row[name] for name in columns)].append(row)
    absent: Row = {name: None for row in other[:1] for name in row}
    joined: list[Row] = []
    for row in mine:
        key = tuple(row[name] for name in columns)
        found = [] if None in key else theirs.get(key, [])
        if how == "left_anti":
            joined += [] if found else [row]
        else:
            assert how == "left_outer"
            joined += [{**absent, **each, **row} for each in found or [{}]]
    return joined


def _schema(rows: list[Row]) -> Any:
    """Return the types of some rows: those of a column are equal, or null."""
    import pyarrow as pa

    kinds = {int: pa.int64(), bytes: pa.binary(), str: pa.string()}
    types = {name: pa.null() for name in rows[0]}
    for row in rows:
        types.update((name, kinds[type(value)]) for name, value in row.items() if value is not None)
    always = {"digest": pa.binary(), "stat": pa.binary(), "size": pa.int64(), "key": pa.string()}
    return pa.schema([(name, always.get(name, kind)) for name, kind in types.items()])
