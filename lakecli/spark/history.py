"""Commits, refs and differences as rows.

The driver reads commits and refs from the local store. Executors read differences, each in an
interval of keys in which the trees differ.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lakecli.base.model import Difference, MetarangeId
from lakecli.base.uri import parse
from lakecli.committed.diff import compare
from lakecli.committed.scan import prefix_end
from lakecli.committed.values import decode_entry
from lakecli.engine.differences import intervals
from lakecli.engine.runner import StoreLocation
from lakecli.errors import UsageError
from lakecli.refs.ref_store import RefStore
from lakecli.repository.log import LogOptions, log
from lakecli.repository.reading.view import commit_at, find_merge_points
from lakecli.spark.entries import Window
from lakecli.spark.record_columns import COLUMNS, COMMITS
from lakecli.spark.schemas import arrow_schema
from lakecli.spark.sessions import opened, told

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    Row = dict[str, Any]

ROWS: Final = 1_000
"""Commits or refs in one partition, which contains them."""

BATCH: Final = 8_192
"""Differences in one batch."""


def look_at_commits(uri: str, home: str | None) -> list[Row]:
    """Return the commits that a ref reaches, newest first; by default the default branch."""
    with opened(uri, home=home) as repository:
        ref = parse(uri).ref or repository.record.default_branch
        with log(repository, ref, LogOptions()) as commits:
            return [
                {name: getattr(each, name) for name in COLUMNS[COMMITS]}
                | {"parents": list(each.parents), "metadata": list(each.metadata.items())}
                for each in commits
            ]


def look_at_refs(uri: str, home: str | None) -> list[Row]:
    """Return branches, then tags, each ordered by name."""
    with opened(uri, home=home) as repository, repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        rows: list[Row] = []
        for kind, found in (("branch", refs.iter_branches()), ("tag", refs.iter_tags())):
            rows += [{"kind": kind, "name": ref.name, "commit_id": ref.commit_id} for ref in found]
        return rows


class RecordsReader(DataSourceReader):
    """Reads rows that the driver has found."""

    def __init__(self, rows: list[Row], schema: StructType) -> None:
        self._rows = rows
        self._schema = schema

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the rows, which the partitions contain."""
        return {"_schema": self._schema, "_rows": []}

    def partitions(self) -> Sequence[InputPartition]:
        """Return the rows in groups."""
        return [
            InputPartition(self._rows[start : start + ROWS])
            for start in range(0, len(self._rows), ROWS)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        yield _batch(arrow_schema(self._schema), partition.value)


class Trees(NamedTuple):
    """The trees of two refs; `base` is their merge base for three dots, else the left tree."""

    location: StoreLocation
    base: MetarangeId
    left: MetarangeId
    right: MetarangeId
    window: Window


def look_at_differences(uri: str, refs: str, *, home: str | None, prefix: str) -> Trees:
    """Resolve ``LEFT...RIGHT`` or ``LEFT..RIGHT``; the URI has no ref then."""
    dots = "..." if "..." in refs else ".."
    left, _, right = refs.partition(dots)
    if not left or not right:
        raise UsageError(f"not two refs: {refs!r}", hint="write LEFT...RIGHT or LEFT..RIGHT")
    parsed = parse(uri)
    if parsed.ref is not None:
        raise UsageError(
            f"the URI has a ref in addition to the two to compare: {uri!r}",
            hint=f'.option("prefix", …).load("lakefs://{parsed.repository}")',
        )
    window = Window(os.fsencode(prefix), prefix_end(os.fsencode(prefix)))
    with opened(uri, home=home) as repository, repository.lake.kv.read() as txn:
        location = StoreLocation.of(repository)
        if dots == "..":
            before, after = (commit_at(repository, txn, ref).metarange_id for ref in (left, right))
            return Trees(location, before, before, after, window)
        points = find_merge_points(repository, txn, source=right, destination=left)
        trees = (points.base, points.destination, points.source)
        base, before, after = (each.metarange_id for each in trees)
        return Trees(location, base, before, after, window)


class DiffReader(DataSourceReader):
    """Reads the differences of two trees, including conflicts if there is a base."""

    def __init__(self, trees: Trees, schema: StructType, *, entries_per_partition: int) -> None:
        self._trees = trees
        self._schema = schema
        self._target = entries_per_partition

    def partitions(self) -> Sequence[InputPartition]:
        """Return the intervals that differ."""
        trees, (start, stop) = self._trees, self._trees.window
        with told():
            store = trees.location.trees()
            found = map(store.metarange, (trees.base, trees.right, trees.left))
            return [
                InputPartition(Window(each.start, each.stop))
                for each in intervals(*found, entries=self._target, start=start, stop=stop)
            ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the differences of an interval, in path order."""
        trees, (start, stop) = self._trees, partition.value
        schema = arrow_schema(self._schema)
        with told():
            store, (base, left, right) = trees.location.trees(), trees[1:4]
            found = compare(store, base=base, left=left, right=right, start=start, stop=stop)
            rows = map(_difference_row, found)
            while batch := list(islice(rows, BATCH)):
                yield _batch(schema, batch)


def _difference_row(difference: Difference) -> Row:
    row: Row = {"type": str(difference.type), "path": difference.path}
    for side, value in (("left", difference.left), ("right", difference.right)):
        entry = None if value is None else decode_entry(value)
        row[f"{side}_size"] = entry and entry.size
        row[f"{side}_checksum"] = entry and entry.checksum
    return row


def _batch(schema: pa.Schema, rows: list[Row]) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        values = [row[field.name] for row in rows]
        if field.name == "path":  # bytes: Spark's strings need not be UTF-8
            arrays.append(pa.array(values, pa.binary()).view(pa.string()))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
