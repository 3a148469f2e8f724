"""Trees of any number of ranges, made six times as fast as by commits of their entries.

All ranges are copies of one, whose entries are in one table of the data set; each copy has another
table. Their blocks are compressed and checked as usual, but their IDs are no digests of them.

Run it to read random keys, one by one:
``python -m tests.benchmarks.copies HOME NAMESPACES NAME TREE RANGES MEMORY READS``.
"""

from __future__ import annotations

import random
import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakecli.base.ids import RangeId
from lakecli.base.layout import sstable_key
from lakecli.base.model import MetarangeId
from lakecli.committed.metaranges import WRITER, WRITER_PROPERTY, RangeRecord, encode_range_record
from lakecli.committed.point_reads import find
from lakecli.committed.writer import TreeWriter
from lakecli.sstable.block import payload_of, seal
from lakecli.sstable.reader import BytesSource, SSTable
from lakecli.sstable.writer import TableWriter
from tests.benchmarks import dataset
from tests.benchmarks.lake import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.committed.tree_store import TreeStore

ENTRIES: Final = 1_150
"""Entries of each range, a fifth of what ranges have: so few that an index has two partitions."""

_TABLE: Final = b"events_0000"
_PROPERTIES: Final = {"type": b"ranges", WRITER_PROPERTY: WRITER}


def key_of(number: int) -> bytes:
    """Return the path of an entry."""
    copy, at = divmod(number, ENTRIES)
    return _moved(dataset.key_of(at), copy)


def random_keys(rng: random.Random, ranges: int, count: int) -> list[bytes]:
    """Return the paths of random entries of a tree."""
    return [key_of(rng.randrange(ranges * ENTRIES)) for _ in range(count)]


def records(ranges: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of a tree in key order: path and encoded value."""
    model = list(dataset.records(ENTRIES))
    for copy in range(ranges):
        for key, value in model:
            yield _moved(key, copy), value


def build(trees: TreeStore, ranges: int) -> MetarangeId:
    """Return a tree of so many ranges."""
    keys, values = map(list, zip(*dataset.records(ENTRIES), strict=True))
    writer = TableWriter(properties=_PROPERTIES)
    writer.add_many(keys, values)
    model = SSTable(BytesSource("model", writer.finish()))
    payloads = [payload_of(model.stored_block(number)) for number in range(model.block_count)]
    run = model.read_all()
    lasts: list[bytes] = []
    found: list[bytes] = []
    batch = trees.store.batch()
    for copy in range(ranges):
        blocks = [seal(_moved(payload, copy), compress=True) for payload in payloads]
        sizes = [len(block) for block in blocks]
        moved = run._replace(
            data=memoryview(b"".join(blocks)),
            offsets=[sum(sizes[:at]) for at in range(len(sizes))],
            sizes=sizes,
            separators=[_moved(key, copy) for key in run.separators],
            keys=[_moved(key, copy) for key in run.keys],
        )
        writer = TableWriter(properties=_PROPERTIES)
        writer.copy_run(moved, 0, len(moved.keys))
        body = writer.finish()
        name = RangeId(sha256(b"%d" % copy).hexdigest())
        batch.put_new(sstable_key(name), body)
        record = RangeRecord(name, writer.min_key, writer.max_key, len(body), ENTRIES)
        lasts.append(record.max_key)
        found.append(encode_range_record(record))
    batch.flush()
    whole = TreeWriter(trees)
    whole.take_ranges(lasts, found)
    return whole.finish()


def _moved(data: bytes, copy: int) -> bytes:
    """Return the bytes of a copy, with another table of a name as long."""
    return data.replace(_TABLE, b"%0*d" % (len(_TABLE), copy))


def main(home: str, namespaces: str, name: str, tree: str, *numbers: str) -> None:
    """Read random keys of a tree."""
    ranges, memory, reads = map(int, numbers)
    with Place(Path(home), Path(namespaces)).open(memory=memory) as lake:
        trees = lake.repository(name).trees
        rng = random.Random(reads)
        for _ in range(reads):  # all keys at once would take memory of their own
            (key,) = random_keys(rng, ranges, 1)
            assert find(trees, MetarangeId(tree), key) is not None


if __name__ == "__main__":
    main(*sys.argv[1:])
