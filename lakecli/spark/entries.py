"""Read the entries of a ref as a DataFrame.

The ref is resolved once, on the driver. All later reads, on any machine, see the same snapshot: a
committed tree and, for a branch, the staged changes on top. Executors decode the entries; a
partition is a group of ranges, or a group of staged records.
"""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lakecli import blocks
from lakecli.base.model import MetarangeId
from lakecli.base.uri import parse_path, ref_of
from lakecli.committed.metaranges import RangeRecord, decode_range_record, iter_runs
from lakecli.committed.scan import end_position, prefix_end
from lakecli.committed.tree_store import TreeStore
from lakecli.engine.runner import StoreLocation
from lakecli.exports.entry_columns import Records, batched
from lakecli.repository.reading.view import open_view
from lakecli.spark.record_columns import BATCH, ENTRIES, RANGE_ID, chosen, decode_batch
from lakecli.spark.schemas import arrow_schema
from lakecli.spark.sessions import explained, opened, read_parts, told
from lakecli.stores.streams import batches, groups_of

SHARE: Final = 524_288
"""The approximate number of entries per task; a task reads them in about half a second."""

STAGED_BATCH: Final = 8_192
"""The maximum number of staged records in one partition."""


def read_entries(
    spark: SparkSession, uri: str, *, columns: Sequence[str] = (), home: str | Path | None = None
) -> DataFrame:
    """Return the entries of a ref: path, size, checksum, ….

    The ref is resolved now, with the uncommitted changes of a branch; later changes do not change
    the DataFrame. Each query decodes the entries again.

    Args:
        uri: ``lakefs://REPOSITORY/REF[/PREFIX]``, or ``NAMESPACE@REF[/PREFIX]``.
        columns: the columns to decode and return, in this order; empty for all.
        home: directory of lakecli's data, as ``LAKECLI_HOME``; by default that variable, or the
            platform's directories.

    Raises:
        UsageError: a column is unknown, or the URI is malformed.
        NotFound: the repository or the ref does not exist.
    """
    wanted = chosen(ENTRIES, ",".join(columns))
    snapshot = take_snapshot(uri, home=home)
    with explained(uri):
        schema = spark.createDataFrame([], wanted).schema
        reader = EntriesReader(snapshot, schema)
        return read_parts(spark, reader.read, list(reader.partitions()), schema)


class Snapshot(NamedTuple):
    """A committed tree, and staged changes: pairs of a path and an encoded entry or tombstone."""

    location: StoreLocation
    metarange_id: MetarangeId
    prefix: bytes
    staged: list[tuple[bytes, bytes]]


def take_snapshot(uri: str, *, home: str | Path | None, prefix: str = "") -> Snapshot:
    """Resolve a ref to a snapshot of the paths below a prefix.

    Args:
        uri: ``lakefs://REPOSITORY/REF[/PREFIX]``, or ``NAMESPACE@REF[/PREFIX]``.
        home: directory of lakecli's data; ``None`` for the default.
        prefix: text to append to the prefix in the URI.
    """
    parsed = parse_path(uri, allow_empty=True, anywhere=True)
    below = (parsed.path or b"") + os.fsencode(prefix)
    with (
        opened(uri, home=home) as repository,
        open_view(repository, blocks.find_in(repository, ref_of(parsed))) as view,
    ):
        return Snapshot(
            StoreLocation.of(repository),
            view.commit.metarange_id,
            below,
            list(view.staged(prefix=below)),
        )


class CommittedRanges(NamedTuple):
    """Ranges to read, and the paths in these ranges that staged changes replace or delete."""

    ranges: list[bytes]
    hidden: list[bytes]


class StagedEntries(NamedTuple):
    """Paths and encoded entries of staged changes, without tombstones."""

    keys: list[bytes]
    values: list[bytes]


@dataclass(eq=False)
class EntriesReader(DataSourceReader):
    """Reads the entries of a snapshot, with any selection of the columns.

    A partition has about `entries_per_partition` committed entries.
    """

    snapshot: Snapshot
    columns: StructType
    entries_per_partition: int = SHARE

    def partitions(self) -> Sequence[InputPartition]:
        """Return partitions for groups of ranges, then for groups of staged records."""
        with told():
            staged = self.snapshot.staged
            paths = [path for path, _ in staged]
            parts: list[CommittedRanges | StagedEntries] = [*self._committed(paths)]
            present = [record for record in staged if record[1]]
            for some in batches(present, STAGED_BATCH):
                keys, values = map(list, zip(*some, strict=True))
                parts.append(StagedEntries(keys, values))
            return [InputPartition(part) for part in parts]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, without the staged records: the partitions contain them."""
        return {**self.__dict__, "snapshot": self.snapshot._replace(staged=[])}

    def _committed(self, staged: list[bytes]) -> Iterator[CommittedRanges]:
        location, metarange_id, prefix, _ = self.snapshot
        stop = prefix_end(prefix)
        tree = location.trees().metarange(metarange_id)
        last = len(tree) if stop is None else end_position(tree, stop)
        records = ((at, tree.record(at)) for at in range(tree.find(prefix), last))
        most = self.entries_per_partition
        for group in groups_of(records, lambda each: each[1].count, most=most):
            (first, low), (end, high) = group[0], group[-1]
            hidden = _between(staged, low.min_key, high.max_key)
            yield CommittedRanges(list(tree.values[first : end + 1]), hidden)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        part: CommittedRanges | StagedEntries = partition.value
        with told():
            schema = arrow_schema(self.columns)
            if isinstance(part, StagedEntries):
                columns = decode_batch(part.keys, part.values, schema.names)
                yield _batch(schema, len(part.keys), columns, None)
            else:
                trees, prefix = self.snapshot.location.trees(), self.snapshot.prefix
                for record in map(decode_range_record, part.ranges):
                    hidden = set(_between(part.hidden, record.min_key, record.max_key))
                    for keys, values in batched(_blocks(trees, record, prefix), rows=BATCH):
                        if hidden:
                            left = [at for at, key in enumerate(keys) if key not in hidden]
                            keys = [keys[at] for at in left]  # noqa: PLW2901
                            values = [values[at] for at in left]  # noqa: PLW2901
                        columns = decode_batch(keys, values, schema.names)
                        yield _batch(schema, len(keys), columns, record.id)


def _between(paths: list[bytes], first: bytes, last: bytes) -> list[bytes]:
    return paths[bisect_left(paths, first) : bisect_right(paths, last)]


def _blocks(trees: TreeStore, record: RangeRecord, prefix: bytes) -> Iterator[Records]:
    """Yield the keys and values of a range that have a prefix."""
    stop = prefix_end(prefix)
    for run in iter_runs(trees.table(record), record):
        first = bisect_left(run.keys, prefix)
        last = len(run.keys) if stop is None else bisect_left(run.keys, stop)
        yield run.keys[first:last], run.values[first:last]
        if last < len(run.keys):
            break


def _batch(
    schema: pa.Schema, count: int, columns: dict[str, pa.Array], range_id: str | None
) -> pa.RecordBatch:
    if RANGE_ID in schema.names:
        columns[RANGE_ID] = pa.repeat(pa.scalar(range_id, pa.string()), count)
    arrays = [columns[field.name].cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
