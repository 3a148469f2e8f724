"""The entries of a ref as a DataFrame.

The ref is resolved once, on the driver. All later reads, on any machine, see this snapshot: a tree,
and the staged changes on top of it if the ref is a branch that is read with its staging area.
Executors decode the entries: a partition is a group of ranges, or some staged records.
"""

from __future__ import annotations

import os
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lakecli.base.model import MetarangeId
from lakecli.base.uri import parse_path, ref_of
from lakecli.committed.listing import prefix_end
from lakecli.committed.metaranges import RangeRecord, decode_range_record, iter_runs
from lakecli.committed.tree_store import TreeStore
from lakecli.engine.spark_runner import freeze_modules
from lakecli.engine.store_location import StoreLocation
from lakecli.repository.reading.view import View, open_view
from lakecli.spark.record_columns import ENTRIES, RANGE_ID, Waiting, chosen, decode_batch
from lakecli.spark.schemas import arrow_schema
from lakecli.spark.sessions import explained, opened, read_parts, told
from lakecli.sstable.block import Run
from lakecli.sstable.reader import Block

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SHARE: Final = 524_288
"""Entries of a task: half a second of work."""

STAGED_BATCH: Final = 8_192
"""Staged records in one partition, which contains them."""


_QUICK = 1
_SIZES = struct.Struct("<II")
"""Sizes of a path and a value, before their bytes."""


def read_entries(
    spark: SparkSession,
    uri: str,
    *,
    columns: Sequence[str] = (),
    home: str | Path | None = None,
) -> DataFrame:
    """Return the entries of a ref: path, size, checksum, ….

    The ref is resolved now, with the uncommitted changes of a branch; later changes do not change
    the DataFrame. Each query decodes the entries.

    Args:
        spark: the session.
        uri: ``lakefs://REPOSITORY/REF[/PREFIX]``.
        columns: only these columns, in this order; only they are decoded.
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
    """A state of a repository.

    Attributes:
        location: the repository's namespace.
        commit_id: commit of the ref; of a branch, its head.
        metarange_id: tree of that commit.
        prefix: prefix of the paths to read.
        staged: staged records below the prefix, packed; see `staged_records`.
    """

    location: StoreLocation
    commit_id: str
    metarange_id: MetarangeId
    prefix: bytes
    staged: bytes

    def staged_records(self) -> list[tuple[bytes, bytes]]:
        """Return (path, encoded value or tombstone) of staged changes, in path order."""
        if not self.staged:
            return []
        data = zlib.decompress(self.staged)
        records = []
        at = 0
        while at < len(data):
            path_size, value_size = _SIZES.unpack_from(data, at)
            start = at + _SIZES.size
            at = start + path_size + value_size
            records.append((data[start : start + path_size], data[start + path_size : at]))
        return records


class Window(NamedTuple):
    """Keys from `start` to before `stop`; ``None``: there is no end."""

    start: bytes = b""
    stop: bytes | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the window contains no key."""
        return self.stop is not None and self.start >= self.stop


def window_of(prefix: bytes) -> Window:
    """Return the keys that start with a prefix."""
    return Window(prefix, prefix_end(prefix))


def take_snapshot(uri: str, *, home: str | Path | None, prefix: str = "") -> Snapshot:
    """Pin a ref.

    Args:
        uri: ``lakefs://REPOSITORY/REF[/PREFIX]``.
        home: as in `register`.
        prefix: additional prefix of the paths, after the one in the URI.

    Raises:
        UsageError: a malformed URI.
        NotFound: the repository or the ref does not exist.
    """
    parsed = parse_path(uri, allow_empty=True)
    below = (parsed.path or b"") + os.fsencode(prefix)
    with opened(uri, home=home) as repository, open_view(repository, ref_of(parsed)) as view:
        return Snapshot(
            StoreLocation.of(repository),
            view.commit.id,
            view.commit.metarange_id,
            below,
            _staged(view, below),
        )


def _staged(view: View, prefix: bytes) -> bytes:
    pieces: list[bytes] = []
    for path, value in view.staged(prefix=prefix):
        pieces += (_SIZES.pack(len(path), len(value)), path, value)
    return zlib.compress(b"".join(pieces), _QUICK) if pieces else b""


class RangesPartition(InputPartition):
    """Consecutive ranges of a tree.

    Args:
        ranges: encoded records of the ranges in the metarange.
        hidden: paths in them that a staged record replaces or deletes, in ascending order.
    """

    def __init__(self, ranges: list[bytes], hidden: list[bytes]) -> None:
        super().__init__(None)
        self.ranges = ranges
        self.hidden = hidden


class StagedPartition(InputPartition):
    """Staged records, none of them a tombstone."""

    def __init__(self, keys: list[bytes], values: list[bytes]) -> None:
        super().__init__(None)
        self.keys = keys
        self.values = values


class EntriesReader(DataSourceReader):
    """Reads the entries of a snapshot.

    Args:
        snapshot: the state of the repository.
        schema: schema of the rows: any of the columns, in any order.
        entries_per_partition: approximate number of committed entries in a partition.
    """

    def __init__(
        self, snapshot: Snapshot, schema: StructType, *, entries_per_partition: int = SHARE
    ) -> None:
        self._snapshot = snapshot
        self._location = snapshot.location
        self._schema = schema
        self._target = entries_per_partition
        self._window: Window = window_of(snapshot.prefix)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the groups of ranges, and the staged records."""
        with told():
            window, staged = self._window, self._staged()
            if window.is_empty:
                return []
            return [*self._committed(window, [path for path, _ in staged]), *_batches(staged)]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out staged records, which the partitions contain."""
        return {**self.__dict__, "_snapshot": self._snapshot._replace(staged=b"")}

    def _staged(self) -> list[tuple[bytes, bytes]]:
        window = self._window
        return [
            record
            for record in self._snapshot.staged_records()
            if window.start <= record[0] and (window.stop is None or record[0] < window.stop)
        ]

    def _committed(self, window: Window, staged: list[bytes]) -> Iterator[RangesPartition]:
        tree = self._location.trees().metarange(self._snapshot.metarange_id)
        start = tree.find(window.start)
        records: list[RangeRecord] = []
        for position in range(start, len(tree)):
            record = tree.record(position)
            if window.stop is not None and record.min_key >= window.stop:
                break
            records.append(record)
        group: list[bytes] = []
        count = 0
        first = b""
        for position, record in enumerate(records, start):
            if not group:
                first = record.min_key
            group.append(tree.values[position])
            count += record.count
            if count >= self._target:
                yield RangesPartition(group, _between(staged, first, record.max_key))
                group, count = [], 0
        if group:
            last = decode_range_record(group[-1]).max_key
            yield RangesPartition(group, _between(staged, first, last))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        with told():
            schema = arrow_schema(self._schema)
            if isinstance(partition, StagedPartition):
                columns = decode_batch(partition.keys, partition.values, schema.names)
                yield _batch(schema, len(partition.keys), columns, None)
            elif isinstance(partition, RangesPartition):
                trees = self._location.trees()
                for record in map(decode_range_record, partition.ranges):
                    hidden = set(_between(partition.hidden, record.min_key, record.max_key))
                    for batch in _records(trees, record, self._window):
                        keys, values = _without(hidden, *batch)
                        columns = decode_batch(keys, values, schema.names)
                        yield _batch(schema, len(keys), columns, record.id)
        freeze_modules()


def _batches(staged: list[tuple[bytes, bytes]]) -> Iterator[StagedPartition]:
    present = [record for record in staged if record[1]]
    for start in range(0, len(present), STAGED_BATCH):
        part = present[start : start + STAGED_BATCH]
        yield StagedPartition([path for path, _ in part], [value for _, value in part])


def _between(paths: list[bytes], first: bytes, last: bytes) -> list[bytes]:
    return paths[bisect_left(paths, first) : bisect_right(paths, last)]


def _without(
    hidden: set[bytes], keys: list[bytes], values: list[bytes]
) -> tuple[list[bytes], list[bytes]]:
    if not hidden:
        return keys, values
    left = [at for at, key in enumerate(keys) if key not in hidden]
    return [keys[at] for at in left], [values[at] for at in left]


def _records(
    trees: TreeStore, record: RangeRecord, window: Window
) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Yield keys and values of a range that lie in a window, in batches."""
    table = trees.table(record)
    start, stop = window
    is_whole = start <= record.min_key and (stop is None or record.max_key < stop)
    blocks: Iterable[Run | Block]
    if is_whole:
        blocks = iter_runs(table, record)
    else:
        blocks = map(table.block, range(table.find_block(start), table.block_count))
    waiting = Waiting()
    for block in blocks:
        first = 0 if is_whole else bisect_left(block.keys, start)
        last = len(block.keys) if is_whole or stop is None else bisect_left(block.keys, stop)
        if waiting.add(block.keys[first:last], block.values[first:last]):
            yield waiting.keys, waiting.values
            waiting = Waiting()
        if last < len(block.keys):
            break
    if waiting.keys:
        yield waiting.keys, waiting.values


def _batch(
    schema: pa.Schema, count: int, columns: dict[str, pa.Array], range_id: str | None
) -> pa.RecordBatch:
    if RANGE_ID in schema.names:
        columns[RANGE_ID] = pa.repeat(pa.scalar(range_id, pa.string()), count)
    arrays = [columns[field.name].cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
