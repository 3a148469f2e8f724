"""What commands cost on trees of ten million objects to a billion, most of which do not exist.

Run it: ``python -m tests.benchmarks.trees [OBJECTS ...]``. A synthetic metarange names as many
ranges as the objects need; only the ranges that the commands open exist. Everything else is the
library: two clones, a store in memory that counts requests and bytes. A command finds nothing in
memory, as a new process does, only in the files of its cache. What is printed for each command are
processor time, requests, the bytes read from and written to the bucket, the records of ranges and
metaranges that were decoded, and the memory that it took beyond what was in use before it; then the
memory that the largest tree needed.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple
from unittest import mock

from lakecli.base.ids import RangeId
from lakecli.committed import outline
from lakecli.committed.metaranges import RangeRecord, encode_range_record
from lakecli.committed.writer import TreeWriter
from lakecli.repository import branch, repo
from lakecli.repository.clone import clone
from lakecli.repository.commit import commit
from lakecli.repository.commit_attempts import Draft, clean_attempt
from lakecli.repository.diff import diff_refs
from lakecli.repository.guard import claim_head
from lakecli.repository.merge import MergeOptions, merge
from lakecli.repository.push import PushOptions, push
from lakecli.repository.sharing.fetch import fetch
from lakecli.repository.stat import stat
from lakecli.sstable import reader
from lakecli.sstable.block import Run
from lakecli.sstable.reader import Block, decode_block
from lakecli.stores.contract import PLAIN, Attributes
from tests.benchmarks import dataset
from tests.benchmarks.measure import KIB
from tests.support.clones import machine
from tests.support.counting import CountingStore
from tests.support.lakes import stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakecli.repository.contract import Repository
    from lakecli.stores.contract import Condition, Version

SIZES: Final = (10_000_000, 100_000_000, 1_000_000_000)
RANGE_ENTRIES: Final = 8_192
ENTRIES: Final = 5_800
"""Entries that a range has on average, as the rule cuts it."""

PLACES: Final = 4
"""Where in the tree there are real ranges."""

REAL: Final = 20_000
"""Entries at each of these places."""

ME: Final = PushOptions(who="Ada <ada@example.com>")


class Weighing(CountingStore):
    """A store that counts bytes, too.

    Attributes:
        read: bytes that were read.
        written: bytes that were written.
    """

    read = written = 0

    def get(
        self, key: str, *, start: int = 0, length: int | None = None, matching: str = ""
    ) -> bytes:
        data = super().get(key, start=start, length=length, matching=matching)
        self.read += len(data)
        return data

    def get_versioned(self, key: str, *, length: int | None = None) -> tuple[bytes, Version]:
        data, version = super().get_versioned(key, length=length)
        self.read += len(data)
        return data, version

    def put(
        self, key: str, body: bytes | BinaryIO, condition: Condition, attributes: Attributes = PLAIN
    ) -> Version:
        self.written += len(body) if isinstance(body, bytes) else 0
        return super().put(key, body, condition, attributes)


class Cost(NamedTuple):
    """What one command took: processor time in seconds, requests, bytes, and decoded records."""

    seconds: float
    requests: int
    read: int
    written: int
    decoded: int
    memory: int

    def __str__(self) -> str:
        return (
            f"{self.seconds * 1000:8,.0f} ms {self.requests:5,} requests "
            f"{self.read / 1e6:8,.2f} MB read {self.written / 1e6:8,.2f} MB written "
            f"{self.decoded:8,} records decoded "
            f"{self.memory / 1e6:6,.0f} MB of memory"
        )


def cost(store: Weighing, command: Callable[[], object]) -> Cost:
    """Return what a command costs."""
    decoded = 0

    def decode(stored: bytes, size: int | None = None) -> Block:
        nonlocal decoded
        block = decode_block(stored, size)
        decoded += len(block.keys)
        return block

    def read_run(table: reader.SSTable, start: int, stop: int, **given: float) -> Run:
        """Read a run, whose blocks may be decoded all at once."""
        nonlocal decoded
        before = decoded
        run = read_blocks(table, start, stop, **given)
        decoded = before + len(run.keys)
        return run

    read_blocks = reader.SSTable._run
    store.reset()
    store.read = store.written = 0
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins at what is in use now
    before = memory_of("VmRSS")
    begin = process_time()
    with (
        mock.patch.object(reader, "decode_block", decode),
        mock.patch.object(outline, "decode_block", decode),
        mock.patch.object(reader.SSTable, "_run", read_run),
    ):
        command()
    seconds = process_time() - begin
    memory = max(memory_of("VmHWM") - before, 0)
    return Cost(seconds, sum(store.counts.values()), store.read, store.written, decoded, memory)


def memory_of(name: str) -> int:
    """Return a figure of this process's memory, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) * KIB


def key_of(place: int, number: int) -> bytes:
    """Return the path of a real entry; places are far apart."""
    return b"lake/table=%03d/part-%09d.parquet" % (place, number)


def build(repository: Repository, objects: int) -> Draft:
    """Return a commit of a tree with this number of objects, most of which do not exist."""
    writer = TreeWriter(repository.trees)
    fake = max(objects // ENTRIES // PLACES - REAL // ENTRIES, 0)
    for place in range(PLACES):
        keys = [key_of(place, number) for number in range(REAL)]
        values = [dataset.changed_value(b"%016d" % number) for number in range(REAL)]
        writer.add_many(keys, values)
        number = REAL
        while not writer.at_cut:  # the ranges that follow begin at a cut
            writer.add_many([key_of(place, number)], [dataset.changed_value(b"%016d" % number)])
            number += 1
        names: list[bytes] = []
        records: list[bytes] = []
        for each in range(fake):
            first, last = (
                b"lake/table=%03d/part-x%09d-%s.parquet" % (place, each, end)
                for end in (b"a", b"z")
            )
            name = RangeId(sha256(b"%d %d" % (place, each)).hexdigest())
            names.append(last)
            records.append(encode_range_record(RangeRecord(name, first, last, 1, ENTRIES)))
        writer.take_ranges(names, records)
    return Draft(
        metarange_id=writer.finish(),
        parents=[],
        message="Everything",
        committer="benchmark",
        created_at=repository.lake.runtime.now(),
        metadata={},
    )


def change(repository: Repository, on: str, *paths: bytes) -> None:
    """Commit a change of some paths of a branch."""
    stage(repository, on, {path: os.urandom(16) for path in sorted(paths)})
    commit(repository, on, message="Changed", committer="Ada")


def differences(repository: Repository, left: str, right: str) -> int:
    """Return how many paths differ between two refs."""
    with diff_refs(repository, left, right) as found:
        return sum(1 for _ in found)


def costs(objects: int, directory: Path) -> Iterator[tuple[str, Cost]]:
    """Yield commands, and what each costs on a tree of `objects`."""
    store = Weighing()
    registry = "lakecli.stores.registry"
    with (
        mock.patch(f"{registry}.open_store", return_value=store),
        mock.patch(f"{registry}.prepare_namespace", return_value=""),
        machine(directory, "ada") as ada,
        machine(directory, "bob") as bob,
        machine(directory, "eve") as eve,
    ):
        one = repo.create(ada, "demo", "s3://bucket/ns", range_entries=RANGE_ENTRIES)
        attempt = clean_attempt(one, "main", kind="commit")
        with attempt.view() as view:
            draft = build(one, objects)._replace(parents=[claim_head(view)])
        attempt.move(draft)
        with mock.patch("lakecli.repository.sharing.publish.check_references", return_value=False):
            push(one, "main", options=ME)
        two = clone(bob, "s3://bucket/ns", "demo")
        branch.create(two, "side", source="main")
        commands: dict[str, Callable[[], object]] = {
            "stat, first": lambda: stat(two, "main", key_of(1, 7)),
            "stat, again": lambda: stat(two, "main", key_of(1, 7)),
            "commit of 1": lambda: change(two, "main", key_of(1, 7)),
            "commit of 4 places": lambda: change(two, "main", *(key_of(n, 9) for n in range(4))),
            "diff of a commit": lambda: differences(two, "main~1", "main"),
            "commit elsewhere": lambda: change(two, "side", key_of(2, 11)),
            "merge": lambda: merge(two, "side", "main", MergeOptions("Ada")),
            "push of 4 commits": lambda: push(two, "main", options=ME),
            "fetch": lambda: fetch(one),
            "clone": lambda: clone(eve, "s3://bucket/ns", "demo"),
        }
        for name, command in commands.items():
            one.forget_trees()
            two.forget_trees()
            yield name, cost(store, command)


def main(sizes: list[int]) -> None:
    """Print the costs on trees of each size, and the memory of the largest."""
    for objects in sizes:
        print(f"{objects:,} objects")
        with tempfile.TemporaryDirectory() as directory:
            for name, each in costs(objects, Path(directory)):
                print(f"  {name:20} {each}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of all, the stand-in for the bucket included: {peak:,.0f} MiB")


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or list(SIZES))
