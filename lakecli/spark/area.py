"""Decode the blocks of a range into Arrow columns with the compiled core, which `decode` does not.

The core writes the entries of a block behind those of the blocks before it: a row each for what has
a fixed width, and each text into the memory of its column. So there is no object per entry. A block
that has an unusual entry, such as one with metadata, is left to `decode`.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lakecli import native
from lakecli.committed.ranges import check_end, check_first
from lakecli.committed.values import MalformedValue
from lakecli.spark.decode import (
    ADDRESS,
    CHECKSUM,
    CONTENT_TYPE,
    METADATA,
    MTIME,
    PATH,
    RANGE_ID,
    SIZE,
    Waiting,
    decode_batch,
    empty_maps,
    moments_of,
    numbers_of,
    range_ids,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    import numpy.typing as npt
    from cramjam import Buffer

    from lakecli.committed.metaranges import RangeRecord
    from lakecli.model import RangeId
    from lakecli.sstable.reader import Table

    Columns = tuple[int, dict[str, pa.Array]]
    """The number of rows, and columns of them."""

ROWS: Final = 1 << 15
"""Entries in an area, at most; the core knows this number and the next."""

ROOM: Final = 4 << 20
"""Bytes of a text of all entries in an area, at most."""

_ROW: Final = np.dtype([("size", "<i8"), ("seconds", "<i8"), ("ends", "<u4", (4,))])
"""A row in C, `Row`; where each text ends is in the order of `_TEXTS`."""

_TEXTS: Final = (PATH, ADDRESS, CHECKSUM, CONTENT_TYPE)


_LAST_ASCII: Final = 0x7F


class Area:
    """Entries that are decoded, and not yet taken. It has 17 MiB, and serves many ranges.

    The texts of many entries are not copied: columns hold the memory, and the next entries get
    another, which is used again once no column holds it.

    Attributes:
        count: of the entries.
    """

    def __init__(self) -> None:
        self._core = native.core()
        self._memory: npt.NDArray[np.uint8] | None = None
        self._lent: list[tuple[npt.NDArray[np.uint8], weakref.ref[memoryview]]] = []
        self.clear()

    def clear(self) -> None:
        """Forget all entries."""
        self.count = 0
        self._ranges: list[tuple[RangeId, int]] = []

    def end_range(self, range_id: RangeId) -> int:
        """Note that the entries behind those of the last call are of a range; return how many."""
        count = self.count - sum(count for _, count in self._ranges)
        self._ranges.append((range_id, count))
        return count

    def add(self, payload: bytes | Buffer | memoryview, above: bytes, last: bytes) -> bool:
        """Add the entries of a block.

        Args:
            payload: of the block, uncompressed.
            above: the index's key of the block before; all keys are greater. ``b""``: there is
                none.
            last: the index's key of the block; no key is greater.

        Returns:
            Whether they are added, all of them. Otherwise the area is full, an entry is unusual,
            the block is damaged, or there is no compiled core: the area is as it was.
        """
        if self._core is None:
            return False
        if self._memory is None:
            self._memory = self._unused()
        count = self._core.columns(payload, self._memory, self.count, above, last)
        self.count = self.count if count is None else count
        return count is not None

    def path(self, row: int) -> bytes:
        """Return the path of an entry; a negative row counts from the end."""
        row += self.count if row < 0 else 0
        ends = self._rows()["ends"][:, 0]
        start = int(ends[row - 1]) if row else 0
        return self._text(0, int(ends[row]))[start:].tobytes()

    def take(self, wanted: Collection[str]) -> dict[str, pa.Array]:
        """Return the wanted columns of all entries, whose ranges are noted, and forget these.

        Raises:
            MalformedValue: a text is not UTF-8, or a time is none.
        """
        rows = self._rows()
        columns: dict[str, pa.Array] = {}
        texts = self._lend() if self._is_half_full() else None
        for at, name in enumerate(_TEXTS):
            if name in wanted:
                ends = rows["ends"][:, at]
                columns[name] = self._texts(at, ends, texts, checked=name != PATH)
        if SIZE in wanted:
            columns[SIZE] = numbers_of(pa.int64(), rows["size"].copy())
        if MTIME in wanted:
            found = moments_of(rows["seconds"])
            if found is None:
                raise MalformedValue("no entry, of no year")
            columns[MTIME] = found
        if METADATA in wanted:
            columns[METADATA] = empty_maps(self.count)
        if RANGE_ID in wanted:
            columns[RANGE_ID] = range_ids(self._ranges)
        self.clear()
        return columns

    def _rows(self) -> npt.NDArray[Any]:
        assert self._memory is not None
        return self._memory[: ROWS * _ROW.itemsize].view(_ROW)[: self.count]

    def _text(self, at: int, size: int) -> npt.NDArray[np.uint8]:
        assert self._memory is not None
        start = _place_of(at)
        return self._memory[start : start + size]

    def _is_half_full(self) -> bool:
        """Return whether so much is used that columns may hold all memory, instead of copies."""
        return 2 * self.count >= ROWS or 2 * int(self._rows()["ends"][-1].max()) >= ROOM

    def _lend(self) -> pa.Buffer:
        """Return the memory, which is used again once the buffer and all its parts are gone."""
        assert self._memory is not None
        lent = self._memory.data
        self._lent.append((self._memory, weakref.ref(lent)))
        self._memory = None
        return pa.py_buffer(lent)

    def _unused(self) -> npt.NDArray[np.uint8]:
        for at, (memory, holder) in enumerate(self._lent):
            if holder() is None:
                del self._lent[at]
                return memory
        return np.empty(ROWS * _ROW.itemsize + len(_TEXTS) * ROOM, np.uint8)

    def _texts(
        self, at: int, ends: npt.NDArray[np.uint32], lent: pa.Buffer | None, *, checked: bool
    ) -> pa.Array:
        offsets = np.zeros(self.count + 1, np.int32)
        offsets[1:] = ends
        size = int(offsets[-1])
        if lent is None:
            data = pa.py_buffer(self._text(at, size).copy())
        else:
            data = lent.slice(_place_of(at), size)
        buffers = [None, pa.py_buffer(offsets), data]
        if not checked or np.frombuffer(data, np.uint8).max(initial=0) <= _LAST_ASCII:
            return pa.Array.from_buffers(pa.string(), self.count, buffers)
        try:
            return pa.Array.from_buffers(pa.binary(), self.count, buffers).cast(pa.string())
        except pa.ArrowInvalid:
            raise MalformedValue("no entry: a text is not UTF-8") from None


def _place_of(text: int) -> int:
    """Return where a text begins in the memory of an area."""
    return ROWS * _ROW.itemsize + text * ROOM


def read_whole(
    ranges: Iterable[tuple[Table, RangeRecord]], wanted: Collection[str], area: Area
) -> Iterator[Columns]:
    """Yield the wanted columns of all entries of ranges; the rows of small ranges come together.

    Args:
        ranges: each with its record in its metarange.
        wanted: the columns.
        area: for use by this call; nothing that it holds is kept.

    Raises:
        CorruptTable: a block is damaged.
        MalformedValue: a value is not an entry.
        Mismatch: the records are not those that the metarange describes.
    """
    area.clear()
    for table, record in ranges:
        ends = _Ends(table, record)
        waiting = Waiting()
        above = b""
        for number, (end, payload) in enumerate(
            zip(table.separators, table.payloads(), strict=True)
        ):
            is_added = not waiting.keys and area.add(payload, above, end)
            if area.count and not is_added:
                ends.note_area(area)
                yield area.count, area.take(wanted)
                is_added = area.add(payload, above, end)
            if not is_added:
                block = table.block(number)
                if waiting.add(block.keys, block.values):
                    yield _decoded(waiting, ends, wanted)
                    waiting = Waiting()
            above = end
        ends.note_area(area)
        if waiting.keys:
            yield _decoded(waiting, ends, wanted)
        check_end(table, record, ends.last, ends.count)
    if area.count:
        yield area.count, area.take(wanted)


def _decoded(waiting: Waiting, ends: _Ends, wanted: Collection[str]) -> Columns:
    keys, values = waiting.keys, waiting.values
    ends.note(keys[0], keys[-1], len(keys))
    columns = decode_batch(keys, values, wanted)
    if RANGE_ID in wanted:
        columns[RANGE_ID] = range_ids([(ends.range_id, len(keys))])
    return len(keys), columns


class _Ends:
    """What was read of a range: the last key, and the number of keys."""

    def __init__(self, table: Table, record: RangeRecord) -> None:
        self._table = table
        self._record = record
        self.range_id = record.id
        self.last: bytes | None = None
        self.count = 0

    def note_area(self, area: Area) -> None:
        """Note the entries of an area that are behind those of other ranges.

        Raises:
            Mismatch: as `note`.
        """
        if count := area.end_range(self.range_id):
            self.note(area.path(-count), area.path(-1), count)

    def note(self, first: bytes, last: bytes, count: int) -> None:
        """Note the ends of a batch of keys.

        Raises:
            Mismatch: the first batch does not begin with the first key of the range.
        """
        if self.last is None:
            check_first(self._table, self._record, first)
        self.last = last
        self.count += count
