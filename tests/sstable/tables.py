"""Records to put into tables, and tables to take apart."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from lakecli.sstable.reader import BytesSource, SSTable
from lakecli.sstable.writer import TableWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Record = tuple[bytes, bytes]


def build(records: Sequence[Record], **properties: bytes) -> bytes:
    """Return the file that holds `records`."""
    writer = TableWriter(properties=properties)
    writer.add_many([key for key, _ in records], [value for _, value in records])
    return writer.finish()


def open_bytes(data: bytes, name: str = "test.sst") -> SSTable:
    """Open a file held in memory."""
    return SSTable(BytesSource(name, data))


def many_records(count: int, *, seed: int = 0) -> list[Record]:
    """Return records as a data lake has them: about 90 bytes of path, 150 of value."""
    noise = random.Random(seed)
    keys = {
        b"tables/events/region=eu/dt=2024-%02d-%02d/part-%05d-%b.parquet"
        % (
            noise.randrange(1, 13),
            noise.randrange(1, 29),
            noise.randrange(50),
            noise.randbytes(16).hex().encode(),
        )
        for _ in range(count)
    }
    records = []
    for key in sorted(keys):
        digest = noise.randbytes(32)
        address = b"data/" + digest.hex().encode()
        records.append((key, digest + address + b"application/json" + noise.randbytes(33)))
    return records


def keys() -> st.SearchStrategy[bytes]:
    """Keys of every awkward kind: empty, one byte, long, and close to each other."""
    short = st.binary(max_size=3)
    narrow = st.lists(st.sampled_from([b"\x00", b"\x01", b"a", b"\xfe", b"\xff"]), max_size=12)
    long = st.builds(
        lambda letter, length, end: (letter * length)[: 1024 - len(end)] + end,
        st.sampled_from([b"p", b"path/", b"\xff", b"\x00"]),
        st.sampled_from([118, 119, 120, 126, 127, 128, 129, 500, 1024]),
        st.binary(max_size=6),
    )
    paths = st.builds(
        lambda day, part: b"dt=%02d/part-%04d.parquet" % (day, part),
        st.integers(1, 4),
        st.integers(0, 9999),
    )
    return st.one_of(short, narrow.map(b"".join), long, paths)


def values() -> st.SearchStrategy[bytes]:
    """Values from none to 100 KB, compressible and not."""
    return st.one_of(
        st.binary(max_size=40),
        st.builds(
            lambda size, seed: random.Random(seed).randbytes(size),
            st.sampled_from([119, 127, 128, 300, 2040, 4095, 4096, 8192, 16383, 16384]),
            st.integers(0, 3),
        ),
        st.builds(lambda size: b"\x01" + bytes(size), st.sampled_from([500, 8000, 100_000])),
    )


def records(*, min_size: int = 0, max_size: int = 60) -> st.SearchStrategy[list[Record]]:
    """Records with distinct keys, in key order."""
    return st.dictionaries(keys(), values(), min_size=min_size, max_size=max_size).map(
        lambda found: sorted(found.items())
    )


def batches(rows: Sequence[Record], draw: Callable[[int], int]) -> list[list[Record]]:
    """Cut records into batches; `draw(n)` gives the size of the next one, from 1 to n."""
    cut = []
    start = 0
    while start < len(rows):
        size = draw(len(rows) - start)
        cut.append(list(rows[start : start + size]))
        start += size
    return cut
