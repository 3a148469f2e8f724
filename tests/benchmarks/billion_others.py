"""What `gc run`, `fsck`, `export` and `import` of a prefix cost at a billion objects on Spark.

Run it: ``python -m tests.benchmarks.billion_others [OBJECTS]``. As in `billion`, the planners of
`lakecli` divide a synthetic namespace; the speeds of one core are measured here first by processor
time, and a request takes `REQUEST`. Spark's own shuffle and start are not included.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import tracemalloc
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest.mock import patch

import pyarrow as pa

from lakecli.model import NO_ACCOUNT
from lakecli.pipeline.data_prefixes import digits_of
from lakecli.pipeline.exports.records import PART_ENTRIES
from lakecli.pipeline.fsck.index import PART_RANGES
from lakecli.pipeline.fsck.tasks import (
    RESULT_RANGES,
    Checking,
    RangeResult,
    ToRead,
    read_references,
)
from lakecli.pipeline.gc.joined import group_names
from lakecli.pipeline.gc.reach import PART_TABLES
from lakecli.pipeline.gc.tasks import Tables, read_ranges
from lakecli.pipeline.imports import listing_split
from lakecli.pipeline.imports.listing import LISTING_PARTS
from lakecli.pipeline.joins import partitions_of
from lakecli.pipeline.runner import LocalRunner
from lakecli.pipeline.scratch import Kept
from lakecli.pipeline.store_location import StoreLocation
from lakecli.repository.commit import commit
from lakecli.repository.core.stager import Stager
from tests.benchmarks.billion import BILLION, CORES, makespan
from tests.benchmarks.dataset import changed_value
from tests.pipeline.imports.test_listing_split import Listing, dated
from tests.support.lakes import make_repository, open_lake, unclaimed

if TYPE_CHECKING:
    from lakecli.committed.metaranges import RangeRecord

RANGE: Final = 8_192
"""Entries of a range."""

REQUEST: Final = 0.1
"""Seconds of one request."""

PAGE: Final = 1_000
"""Keys of one request that lists."""

IMPORTED: Final = 180_000
"""Rows that one core imports in a second, as `billion` measures it."""

MEASURED: Final = 50_000
"""Entries by which the speeds are measured."""


class Speeds(NamedTuple):
    """Entries that one core handles in a second of processor time.

    Attributes:
        searching: finding the digests in ranges, for garbage collection.
        checking: verifying ranges, for fsck.
        size: bytes of a range for each entry.
    """

    searching: float
    checking: float
    size: float


def measure() -> Speeds:
    """Measure the speeds on a small repository in a directory."""
    with tempfile.TemporaryDirectory() as name, open_lake(Path(name)) as lake:
        repository = make_repository(lake, Path(name), range_entries=RANGE)
        values = [(b"%09d" % n, changed_value(b"%d" % n)) for n in range(MEASURED)]
        Stager(repository, "main", kind="upload").write(unclaimed(values))
        made = commit(repository, "main", message="m", committer="benchmark")
        records = tuple(repository.trees.metarange(made.metarange_id).records())
        location = StoreLocation.of(repository)
        checked_rows(records[:1], location)  # PyArrow completes its import
        begin = process_time()
        read_ranges(Tables(tuple(each.id for each in records), must_exist=True), location=location)
        searched = process_time()
        found = checked_rows(records, location)
        checked = process_time()
        assert found == MEASURED + len(records)
    size = sum(each.size for each in records) / MEASURED
    return Speeds(MEASURED / (searched - begin), MEASURED / (checked - searched), size)


def checked_rows(records: tuple[RangeRecord, ...], location: StoreLocation) -> int:
    """Check ranges as an executor does; return the number of rows for the join."""
    batch = {"number": [0], "body": [pickle.dumps(ToRead(0, records))]}
    rows = read_references(
        iter([pa.RecordBatch.from_pydict(batch)]),
        checking=Checking(location, None, "", compares=False),
    )
    return sum(each.num_rows for each in rows)


def tasks_of(entries: int, most: int) -> list[int]:
    """Return the entries of parts that all but the last have `most`."""
    whole, rest = divmod(entries, most)
    return [most] * whole + [rest] * (rest > 0)


def memory_of(ranges: int) -> int:
    """Return the bytes of memory by which the driver knows the results of ranges."""
    tracemalloc.start()
    known = {
        n.to_bytes(32).hex(): pickle.loads(
            pickle.dumps(RangeResult(n, RANGE, {}, b"", is_sound=True))
        )
        for n in range(ranges)
    }
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(known) == ranges
    return used


def prefix_parts(objects: int) -> tuple[list[int], int]:
    """Return the objects of each part of a prefix of so many, and the requests."""
    store: Any = Listing(objects, dated)
    with (
        patch.object(listing_split, "open_by_uri", lambda *_, **__: store),
        patch.object(listing_split, "FIRST_PAGES", 80),  # keys are computed; requests are added
    ):
        first = listing_split.first_pieces(store, LISTING_PARTS)
        pieces = listing_split.refine(LocalRunner(), first, uri=store.uri, account=NO_ACCOUNT)
    starts = [store.position(piece.low) if piece.low else 0 for piece in pieces]
    pages = listing_split.FIRST_PAGES // PAGE
    return [b - a for a, b in pairwise([*starts, objects])], store.requests + pages * len(pieces)


def main(objects: int) -> None:
    """Print the tasks and the times."""
    speeds = measure()
    print(f"one core: {speeds.searching:,.0f} searched, {speeds.checking:,.0f} checked entries/s")
    listings = 16 ** digits_of(objects)
    requests = -(-objects // listings // PAGE)
    searches = tasks_of(objects, PART_TABLES * RANGE)
    checks = tasks_of(objects, PART_RANGES * RANGE)
    ranges = -(-objects // RANGE)
    names = [Kept(n.to_bytes(32), 32 * size) for n, size in enumerate(searches)]
    exports = tasks_of(objects, PART_ENTRIES)
    imports, probes = prefix_parts(objects)
    print(
        f"{listings:,} listings of {requests} requests, {len(searches):,} tasks that search, "
        f"{len(group_names(names)):,} that read digests, {len(checks):,} that check, "
        f"{partitions_of(objects):,} that join, {-(-ranges // RESULT_RANGES):,} results of "
        f"{memory_of(ranges) / 1e6:,.0f} MB in the driver, "
        f"{len(exports):,} parts of an export; a prefix: {len(imports):,} parts, the largest "
        f"{max(imports):,} objects, found by {probes:,} requests"
    )
    print(
        f"gc reads {ranges:,} ranges of {objects * speeds.size / 1e9:,.1f} GB and sends "
        f"{ranges + listings * requests:,} requests"
    )
    for cores in CORES:
        listing = makespan([requests] * listings, cores, 1 / REQUEST)
        seconds = {
            "gc": [makespan(searches, cores, speeds.searching), listing],
            "fsck": [listing, makespan(checks, cores, speeds.checking)],
            "export": [makespan(exports, cores, 1 / REQUEST)],
            "prefix": [
                probes * REQUEST / cores,
                makespan(imports, cores, 1 / (1 / IMPORTED + REQUEST / PAGE)),
            ],
        }
        shown = ", ".join(
            f"{name} {' + '.join(f'{each:,.0f}' for each in found)} s"
            for name, found in seconds.items()
        )
        print(f"{cores:,} cores: {shown}")


if __name__ == "__main__":
    os.nice(5)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else BILLION)
