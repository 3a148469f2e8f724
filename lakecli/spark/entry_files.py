"""Read the entries of a ref by way of Parquet files, which Spark reads itself.

Spark reads all columns of a data source in Python, copies each row, and decodes the ranges again
for each query. Executors on this machine therefore decode a group of ranges once, into a file in
the cache, which refs with the same ranges share; see `entry_cache`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakecli.errors import LakeError
from lakecli.kv.sentinel import boot_id
from lakecli.pipeline.worker_heap import freeze_modules
from lakecli.spark.entry_cache import EntryCache
from lakecli.spark.entry_holds import EntryHolds
from lakecli.spark.sessions import is_here
from lakecli.spark.snapshot import opened, snapshot_of
from lakecli.spark.table import explained
from lakecli.spark.types import ENTRIES, arrow_schema, chosen
from lakecli.uri import parse_path, ref_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lakecli.repository.core.lake import Lake
    from lakecli.spark.entries import StableEntriesReader as Reader
    from lakecli.spark.snapshot import Snapshot

ENTRY_SIZE: Final = 300
"""Bytes of an entry in a file, for the decision whether the files fit into the cache."""

ROWS: Final = 24_576
"""Entries in a row group, at least, except for the last one of a file."""

_FORMAT: Final = 2
"""Version of what the files hold."""

_COMPRESSION: Final = {"path": "lz4"}
_ONCE: Final = ["content_type", "range_id"]
"""Columns that repeat their values."""

_ORDERED: Final = ["path"]
"""Columns of which a filter can skip row groups."""


def read_entries(
    spark: SparkSession,
    uri: str,
    *,
    columns: Sequence[str] = (),
    home: str | Path | None = None,
) -> DataFrame:
    """Return the entries of a ref: path, size, checksum, ….

    The ref is resolved now, with the uncommitted changes of a branch; later changes do not change
    the DataFrame. In a session on this machine, entries that no call has read before are decoded
    now, into Parquet files in lakecli's cache, which stay while this program runs. On a cluster, or
    if the files would be larger than ``cache.size``, together with those that running programs have
    read, each query decodes the entries anew.

    Args:
        spark: the session.
        uri: ``lakefs://REPOSITORY/REF[/PREFIX]``.
        columns: only these columns, in this order.
        home: directory of lakecli's data, as ``LAKECLI_HOME``; by default that variable, or the
            platform's directories.

    Raises:
        UsageError: a column is unknown, or the URI is malformed.
        NotFound: the repository or the ref does not exist.
        IntegrityError: a range is missing or damaged.
    """
    wanted = chosen(ENTRIES, ",".join(columns))
    parsed = parse_path(uri, allow_empty=True)
    with opened(uri, home=home) as repository, explained(uri):
        snapshot = snapshot_of(repository, ref_of(parsed), prefix=parsed.path or b"")
        groups = Groups(snapshot, _schema(spark, chosen(ENTRIES, "")))
        if is_here(spark) and groups.size <= repository.lake.home.cache_size:
            files = _converted(spark, repository.lake, groups)
            if files is not None:
                return _read_files(spark, groups, files).select(*(columns or "*"))
        return _decoded(spark, Groups(snapshot, _schema(spark, wanted)))


class Groups:
    """The entries of a snapshot in groups, which most snapshots of a repository have in common.

    Args:
        snapshot: the state of the repository.
        schema: of the rows.
    """

    def __init__(self, snapshot: Snapshot, schema: StructType) -> None:
        from lakecli.spark.entries import StableEntriesReader

        self.schema = schema
        self.reader: Reader = StableEntriesReader(snapshot, schema)
        self.parts = list(self.reader.partitions())

    @property
    def size(self) -> int:
        """Bytes of the files, approximately."""
        return self.size_of(range(len(self.parts)))

    def size_of(self, numbers: Iterable[int]) -> int:
        """Return the bytes of the files of some groups, approximately."""
        return ENTRY_SIZE * sum(self.reader.count_of(self.parts[number]) for number in numbers)

    def described(self) -> list[str]:
        """Return for each group a text that says what its file holds."""
        return [repr((_FORMAT, *self.reader.identity_of(part))) for part in self.parts]


def _schema(spark: SparkSession, columns: str) -> StructType:
    schema: StructType = spark.createDataFrame([], columns).schema
    return schema


def _decoded(spark: SparkSession, groups: Groups) -> DataFrame:
    """Return the rows, which each query decodes from the ranges."""
    reader, parts = groups.reader, groups.parts

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from reader.read(parts[number])

    return _numbers(spark, len(parts)).mapInArrow(read, groups.schema)


def _numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(0, count, 1, max(1, count))


def _read_files(spark: SparkSession, groups: Groups, files: Sequence[Path]) -> DataFrame:
    if not files:
        return spark.createDataFrame([], groups.schema)
    reader = spark.read.schema(groups.schema).option("mergeSchema", "false")
    return reader.parquet(*(file.as_uri() for file in files))


def _converted(spark: SparkSession, lake: Lake, groups: Groups) -> list[Path] | None:
    """Return the file of each group, after the missing ones were written; ``None`` if they cannot.

    Raises:
        LakeError: a group cannot be read.
    """
    directory = Path(lake.home.cache).absolute() / "entries"
    cache = EntryCache(directory, lake.home.cache_size, lake.now().timestamp())
    if not cache.open():
        return None
    files = cache.files(groups.described())
    holds = EntryHolds(directory.with_name("entries-held"))
    try:
        with holds.locked():
            missing = {number: file for number, file in enumerate(files) if not cache.use(file)}
            size = groups.size_of(missing)
            if missing and not cache.make_room(size, kept=files, held=holds.names()):
                return None
            holds.add(file.name for file in files)
    except OSError:
        return None
    if missing:
        _convert(spark, groups, missing, lake.runtime.new_id().hex())
    return files


def _convert(spark: SparkSession, groups: Groups, targets: dict[int, Path], nonce: str) -> None:
    """Write files on executors.

    Args:
        spark: the session.
        groups: what they are to hold.
        targets: the files, by the number of the group.
        nonce: part of the names of unfinished files.

    Raises:
        LakeError: a group cannot be read.
    """
    from lakecli.pipeline.errors_as_json import load_error

    reader, schema = groups.reader, groups.schema
    work = [(groups.parts[number], target) for number, target in targets.items()]

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        from lakecli.pipeline.errors_as_json import dump_error

        context = TaskContext.get()
        attempt = context.taskAttemptId() if context else 0
        for batch in batches:
            for at in batch.column(0).to_pylist():
                part, target = work[at]
                failure = ""
                try:
                    write_file(
                        reader.decoded(part), arrow_schema(schema), target, f"{nonce}-{attempt}"
                    )
                except LakeError as error:
                    failure = dump_error(error)
                yield pa.RecordBatch.from_pydict({"failure": [failure]})
        freeze_modules()

    for row in _numbers(spark, len(work)).mapInArrow(write, "failure string").collect():
        if error := load_error(row.failure) if row.failure else None:
            raise error


def write_file(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, target: Path, suffix: str
) -> None:
    """Write rows to a Parquet file, which is complete once it has its name.

    Args:
        batches: the rows.
        schema: of the rows.
        target: the file.
        suffix: of its name until it is complete.
    """
    import pyarrow as pa
    from pyarrow import parquet

    unfinished = target.with_name(f"{target.name}.{suffix}")
    compression = {name: _COMPRESSION.get(name, "none") for name in schema.names}
    try:
        with unfinished.open("xb") as file:
            with parquet.ParquetWriter(
                file,
                schema,
                compression=compression,
                use_dictionary=_ONCE,
                write_statistics=_ORDERED,
            ) as writer:
                waiting: list[pa.RecordBatch] = []
                for batch in batches:
                    waiting.append(batch)
                    if sum(each.num_rows for each in waiting) >= ROWS:
                        writer.write_table(pa.Table.from_batches(waiting, schema))
                        waiting.clear()
                if waiting:
                    writer.write_table(pa.Table.from_batches(waiting, schema))
            if not boot_id():
                file.flush()
                os.fsync(file.fileno())
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
