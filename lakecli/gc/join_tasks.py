"""What executors do in the joins of garbage collection: columns of Arrow, and digests.

Rows have the number of the part that they belong to, a digest, and what is known of the object. A
row without a digest has the counts of a task, which no join removes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from lakecli.engine.joins import as_stat, carrying, result_row
from lakecli.engine.scratch import Kept, Scratch
from lakecli.engine.store_location import OpenStore, StoreLocation
from lakecli.gc.compare import AnyPart, Listed, list_keys, list_part
from lakecli.gc.live import DIGEST, RECORD
from lakecli.gc.marks import Marks

NAMES: Final = ["part", "digest", "size", "key", "version", "stat"]
COLUMNS: Final = "part int, digest binary, size bigint, key string, version string, stat binary"

_BATCH: Final = 65_536


class Reading(NamedTuple):
    """What a job needs to know on the executors.

    Attributes:
        location: where to find the namespace.
        scratch: where digests are, and where results go.
        nonce: marks the errors of this job.
    """

    location: StoreLocation | OpenStore
    scratch: Scratch
    nonce: str


class Listing(NamedTuple):
    """A listing by one task, and the number of the part that it belongs to."""

    number: int
    part: AnyPart


def list_old(batches: Iterator[Any], *, tasks: Sequence[Listing], read: Reading) -> Iterator[Any]:
    """List parts on an executor, with a row for the counts of each."""

    def rows_of(number: int) -> Iterator[Any]:
        task = tasks[number]
        listed = list_part(task.part, location=read.location)
        yield from rows(task.number, listed.records)
        counts = [listed.objects, listed.size, listed.foreign, listed.newest, listed.later]
        yield counts_row(task.number, counts)

    return carrying(batches, rows_of, read.nonce)


def list_present(
    batches: Iterator[Any], *, tasks: Sequence[Listing], read: Reading
) -> Iterator[Any]:
    """List parts on an executor, with keys and versions."""

    def rows_of(number: int) -> Iterator[Any]:
        task = tasks[number]
        return rows(task.number, *list_keys(task.part, location=read.location))

    return carrying(batches, rows_of, read.nonce)


def read_condemned(
    batches: Iterator[Any], *, names: Sequence[str], prefix: str, read: Reading
) -> Iterator[Any]:
    """Read lists of condemned objects on an executor, with a row for the number of each."""
    marks = Marks(read.location.store(), prefix)

    def rows_of(number: int) -> Iterator[Any]:
        records = marks.data(names[number])
        yield from rows(number, records)
        yield counts_row(number, [len(records) // RECORD])

    return carrying(batches, rows_of, read.nonce)


def read_digests(
    batches: Iterator[Any], *, groups: Sequence[tuple[Kept, ...]], read: Reading
) -> Iterator[Any]:
    """Read the digests of objects in use on an executor."""

    def rows_of(number: int) -> Iterator[Any]:
        for kept in groups[number]:
            yield from rows(0, records_of(read.scratch.take(kept)))

    return carrying(batches, rows_of, read.nonce)


def keep_listed(batches: Iterator[Any], *, names: Sequence[str], read: Reading) -> Iterator[Any]:
    """Write what is left of a part on an executor; yield the name of the result."""
    part = Remainder(batches)
    objects = size = foreign = later = 0
    newest = ""
    for counts in part.counts:
        objects, size, foreign = objects + counts[0], size + counts[1], foreign + counts[2]
        newest, later = counts[3] or newest, later + counts[4]
    name = names[part.number]
    yield part.result(read, Listed(name, part.records, objects, size, foreign, newest, later))


def keep_found(batches: Iterator[Any], *, read: Reading) -> Iterator[Any]:
    """Write which condemned objects of a part are garbage; yield the name of the result."""
    part = Remainder(batches)
    ((condemned,),) = part.counts
    spared = condemned - part.rows
    yield part.result(read, (spared, part.records, part.keys, part.versions))


class Remainder:
    """The rows of one part that are left, ascending by digest.

    Attributes:
        number: of the part.
        counts: of the tasks that listed it.
        rows: number of other rows.
        records: of the rows that have a size: those in the listing.
        keys: of the same rows; empty where they follow from the digests.
        versions: of the same rows; empty where they were not requested.
    """

    def __init__(self, batches: Iterator[Any]) -> None:
        import pyarrow.compute as pc
        from pyspark import TaskContext

        context = TaskContext.get()
        self.number = context.partitionId() if context is not None else 0
        self.counts: list[list[Any]] = []
        self.rows = 0
        self.keys: list[str] = []
        self.versions: list[str] = []
        records = bytearray()
        for batch in batches:
            named = {name: batch.column(at) for at, name in enumerate(batch.schema.names)}
            self.counts += map(json.loads, named["stat"].drop_null().to_pylist())
            self.rows += batch.num_rows - named["digest"].null_count
            listed = batch.filter(pc.is_valid(named["size"]))
            records += joined(listed.column("digest"), listed.column("size"))
            if "key" in named:
                self.keys += listed.column("key").drop_null().to_pylist()
                self.versions += listed.column("version").drop_null().to_pylist()
        self.records = bytes(records)

    def result(self, read: Reading, value: Any) -> Any:  # noqa: ANN401 - a batch of pyarrow
        """Return the row with the result of the part."""
        return result_row(self.number, value, read.scratch, read.nonce)


def records_of(digests: bytes) -> bytes:
    """Return digests as records, whose size says nothing."""
    import numpy as np

    count = len(digests) // DIGEST
    table = np.zeros((count, RECORD), np.uint8)
    table[:, :DIGEST] = np.frombuffer(digests, np.uint8).reshape(count, DIGEST)
    return table.tobytes()


def joined(digests: Any, sizes: Any) -> bytes:  # noqa: ANN401 - of pyarrow
    """Return columns as records."""
    import numpy as np

    count = len(digests)
    table = np.empty((count, RECORD), np.uint8)
    packed = b"".join(digests.to_pylist())
    table[:, :DIGEST] = np.frombuffer(packed, np.uint8).reshape(count, DIGEST)
    big = np.asarray(sizes.to_numpy(), ">i8")
    table[:, DIGEST:] = big.view(np.uint8).reshape(count, RECORD - DIGEST)
    return table.tobytes()


def rows(
    number: int, records: bytes, keys: Sequence[str] = (), versions: Sequence[str] = ()
) -> Iterator[Any]:
    """Yield records of a part as batches with the columns of a job.

    Args:
        number: of the part.
        records: 32 bytes of digest and 8 of size each.
        keys: of the same objects, if they are needed.
        versions: of the same objects, if they are needed.
    """
    import numpy as np
    import pyarrow as pa

    for first in range(0, len(records) // RECORD, _BATCH):
        some = records[first * RECORD : (first + _BATCH) * RECORD]
        count = len(some) // RECORD
        table = np.frombuffer(some, np.uint8).reshape(count, RECORD)
        packed = pa.py_buffer(table[:, :DIGEST].tobytes())
        digests = pa.FixedSizeBinaryArray.from_buffers(pa.binary(DIGEST), count, [None, packed])
        sizes = np.frombuffer(table[:, DIGEST:].tobytes(), ">u8").astype(np.int64)
        texts = (
            pa.array(each[first : first + _BATCH] or pa.nulls(count), pa.string())
            for each in (keys, versions)
        )
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(np.full(count, number, np.int32)),
                digests.cast(pa.binary()),
                pa.array(sizes),
                *texts,
                pa.nulls(count, pa.binary()),
            ],
            NAMES,
        )


def counts_row(number: int, counts: list[Any]) -> Any:  # noqa: ANN401 - of pyarrow
    """Return a row without a digest, which has the counts of a task."""
    import pyarrow as pa

    kinds = (pa.int32(), pa.binary(), pa.int64(), pa.string(), pa.string(), pa.binary())
    values = (number, None, None, None, None, as_stat(counts))
    columns = [pa.array([value], kind) for value, kind in zip(values, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, NAMES)
