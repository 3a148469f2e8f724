"""The job that compares lakeFS's objects with the checksums of their entries.

Spark brings equal rows of all ranges together, so each object is read once for each checksum that
entries give it, however many commits share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from lakecli.base.layout import DATA, data_digest
from lakecli.base.progress import Progress
from lakecli.committed.check import Problem, check_range
from lakecli.engine.errors_as_json import carried
from lakecli.engine.joins import (
    MAX_PARTITIONS,
    RESULT,
    carrying,
    frame_by_part,
    result_row,
    results_of,
)
from lakecli.engine.scratch import load_value
from lakecli.engine.spark_runner import SparkRunner
from lakecli.errors import LakeError
from lakecli.fsck.hashing import PART_OBJECTS
from lakecli.fsck.tasks import Checking, ToRead
from lakecli.repository.data_index import is_old_key, size_of
from lakecli.repository.reading.recorded import Contents, compare_contents

RECORDED: Final = "key binary, size bigint, checksum binary"
"""The columns of `Contents`; keys and checksums may have any bytes."""

_MOST: Final = 1 << 63
_BATCH: Final = 65_536


class Differing(NamedTuple):
    """What one task found.

    Attributes:
        size: bytes that it read.
        defects: by key and checksum.
    """

    size: int
    defects: dict[tuple[str, str], str]


def compare_all(
    runner: SparkRunner,
    parts: Sequence[ToRead],
    objects: int,
    checking: Checking,
    *,
    progress: Progress,
) -> Iterator[Differing]:
    """Compare objects of lakeFS with the entries of all ranges.

    Args:
        runner: on Spark.
        parts: the references.
        objects: number of objects that lakeFS wrote below ``data/``.
        checking: what executors need to know.
        progress: counts the finished tasks.
    """
    tasks = min(MAX_PARTITIONS, 1 + objects // PART_OBJECTS)
    recorded = frame_by_part(runner, partial(read_recorded, checking=checking), parts, RECORDED)
    once = recorded.repartition(tasks, "key", "size", "checksum").distinct()
    yield from results_of(
        runner,
        once.mapInArrow(partial(compare_some, checking=checking), RESULT),
        nonce=checking.nonce,
        progress=progress,
        tasks=len(parts) + tasks,
    )


def recorded_by(address: str, size: int, checksum: str) -> Contents | None:
    """Return what an entry says of an object of lakeFS; ``None`` if it names another object."""
    is_lakefs = data_digest(address) is None and (address.startswith(DATA) or is_old_key(address))
    return Contents(address, size, checksum) if is_lakefs and 0 <= size < _MOST else None


def read_recorded(batches: Iterator[Any], *, checking: Checking) -> Iterator[Any]:
    """Read ranges on an executor; yield what their entries say of lakeFS's objects."""

    def rows_of(_number: int, body: bytes) -> Iterator[Any]:
        part: ToRead = load_value(body)
        yield from _rows(part.contents)
        for record in part.ranges:
            entries = check_range(checking.location.trees(), record)
            found = (
                recorded_by(entry.physical_address, entry.size, entry.checksum)
                for entry in entries
                if not isinstance(entry, Problem)
            )
            yield from _rows({each for each in found if each is not None})

    return carrying(batches, rows_of, checking.nonce)


def _rows(recorded: Iterable[Contents]) -> Iterator[Any]:
    import pyarrow as pa

    rest = iter(recorded)
    while some := list(islice(rest, _BATCH)):
        keys, sizes, checksums = zip(*some, strict=True)
        columns = {
            "key": pa.array(map(_encoded, keys), pa.binary()),
            "size": pa.array(sizes, pa.int64()),
            "checksum": pa.array(map(_encoded, checksums), pa.binary()),
        }
        yield pa.RecordBatch.from_pydict(columns)


def compare_some(batches: Iterator[Any], *, checking: Checking) -> Iterator[Any]:
    """Read objects on an executor; yield the result of the task.

    An object that is missing or has another size is not read: the lookup of references finds it.
    """
    from pyspark import TaskContext

    read, defects = 0, {}
    store = checking.location.store()
    try:
        for batch in batches:
            columns = (column.to_pylist() for column in batch.columns)
            for key, size, checksum in zip(*columns, strict=True):
                recorded = Contents(_decoded(key), size, _decoded(checksum))
                if size_of(store, recorded.key) != size:
                    continue
                compared = compare_contents(checking.location, store, recorded)
                read += compared.size
                if compared.what is not None:
                    defects[recorded.key, recorded.checksum] = compared.what
    except LakeError as error:
        raise carried(error, checking.nonce) from error
    context = TaskContext.get()
    number = context.partitionId() if context is not None else 0
    yield result_row(number, Differing(read, defects), checking.scratch, checking.nonce)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")
