"""The outline of a large metarange: data kept on this machine after verifying the metarange once.

The name of a metarange is a digest of all its record IDs, so verifying it requires reading all its
records. An outline makes that unnecessary the next time. It has the record IDs, the size and the
bounds of each block, and a digest of each group of 32 blocks. So a few blocks can be read, verified
and searched, two metaranges are compared by their record IDs, and a new metarange copies blocks
without decoding them. `SstableCache` stores outlines and returns only outlines that this home
wrote::

    header        size of the metarange, N of its tree (0: none), number of blocks
    columns       of each block: size, records, bytes of keys, bytes of values, bytes of its
                  separator
    separators    joined, each with its trailer
    digests       BLAKE3 of each 32 blocks as they are stored
    record IDs    32 bytes each
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain, pairwise
from struct import Struct
from typing import Any, Final, NamedTuple

from lakecli.base.identity import DIGEST_SIZE, blake3_of, hashes
from lakecli.sstable.block import CopiedBlocks, index_key
from lakecli.sstable.format import KEY_TRAILER_SIZE
from lakecli.sstable.reader import SSTable, decode_block

_HEADER: Final = Struct("<3Q")
_COLUMNS: Final = 5
_NUMBERS: Final = "Q"
"""The array type code of the columns; they are stored in the byte order of this machine."""

_GROUP: Final = 32
"""Number of blocks that share one digest: together about 100 KB."""

Columns = tuple[Sequence[bytes], Sequence[bytes]]
"""All keys and all values of a table."""


class Outline(NamedTuple):
    """What is kept of a verified metarange beside it, so that it need not be verified again.

    Attributes:
        size: the size of the metarange in bytes.
        range_entries: the tree parameter N with which this version's `Splitter` cut the tree into
            ranges; ``None``: another rule or program cut the tree.
        sizes: the size of each block in bytes, its trailer included.
        counts: the number of records of each block.
        key_sizes: the total size of the keys of each block, in bytes.
        value_sizes: the total size of the values of each block, in bytes.
        separators: the key of each block in the index, with its trailer.
        digests: a digest of each group of stored blocks, concatenated.
        record_ids: the IDs of all records, concatenated.
    """

    size: int
    range_entries: int | None
    sizes: Sequence[int]
    counts: Sequence[int]
    key_sizes: Sequence[int]
    value_sizes: Sequence[int]
    separators: Sequence[bytes]
    digests: bytes
    record_ids: bytes

    def encode(self) -> tuple[bytes, bytes]:
        """Return the outline as bytes, in two parts; the second part is the record IDs."""
        _, _, *columns, separators, digests, record_ids = self
        header = _HEADER.pack(self.size, self.range_entries or 0, len(separators))
        columns.append([*map(len, separators)])
        numbers = (array(_NUMBERS, column) for column in columns)
        return b"".join((header, *numbers, *separators, digests)), record_ids


def decode_outline(data: bytes, record_ids: bytes) -> Outline:
    """Decode an outline from the two parts that `Outline.encode` returned."""
    size, range_entries, blocks = _HEADER.unpack_from(data)
    separators_at = _HEADER.size + 8 * _COLUMNS * blocks
    numbers = array(_NUMBERS, data[_HEADER.size : separators_at])
    *columns, lengths = (numbers[at : at + blocks] for at in range(0, len(numbers), blocks))
    ends = [*accumulate(lengths, initial=separators_at)]
    separators = [data[start:end] for start, end in pairwise(ends)]
    rest = separators, data[ends[-1] :], record_ids
    return Outline._make([size, range_entries or None, *columns, *rest])


_EMPTY: Final = Outline(0, None, (), (), (), (), (), b"", b"")


class Copied(NamedTuple):
    """Consecutive blocks of a metarange that were copied from another metarange.

    Attributes:
        at: the number of the first copied block in the new metarange.
        outline: the outline of the other metarange.
        first: the number of the first copied block in the other metarange.
        last: the number after the last copied block in the other metarange.
    """

    at: int
    outline: Outline
    first: int
    last: int


def outline_of(
    table: SSTable, range_entries: int | None, record_ids: bytes, copied: Sequence[Copied] = ()
) -> Outline | None:
    """Return the outline of a metarange that lakecli wrote, and that was verified or just written.

    Args:
        copied: the blocks that were copied from other metaranges, ascending. What the outline
            records about these blocks is copied from the outlines of the other metaranges.

    Returns:
        The outline; ``None`` if there are bytes between the blocks, which lakecli never writes.
    """
    columns: tuple[list[Any], ...] = [], [], [], [], []
    for at, outline, first, last in (*copied, Copied(table.block_count, _EMPTY, 0, 0)):
        for number in range(len(columns[0]), at):
            stored, separator = table.stored_block(number), table.separators[number]
            keys, values = decode_block(stored)
            numbers = len(stored), len(keys), sum(map(len, keys)), sum(map(len, values))
            for column, each in zip(
                columns, (*numbers, index_key(separator, keys[-1])), strict=True
            ):
                column.append(each)
        # The last copied block is left out: its separator depends on the block that follows it.
        for column, known in zip(columns, outline[2:-2], strict=True):
            column.extend(known[first : last - 1])
    if not copied and sum(columns[0]) != len(table.stored_blocks(0, table.block_count)):
        return None
    digests = [b""] * -(-table.block_count // _GROUP)
    for at, outline, first, last in copied:
        if at % _GROUP == first % _GROUP:
            whole = slice(-(-at // _GROUP), (at + last - first) // _GROUP)
            digests[whole] = _cut(outline.digests)[-(-first // _GROUP) : last // _GROUP]
    for number, start in enumerate(range(0, table.block_count, _GROUP)):
        if not digests[number]:
            stop = min(start + _GROUP, table.block_count)
            digests[number] = blake3_of(table.stored_blocks(start, stop))
    return Outline._make([table.size, range_entries, *columns, b"".join(digests), record_ids])


def _cut(digests: bytes) -> list[bytes]:
    """Split concatenated digests into a list."""
    return [digests[at : at + DIGEST_SIZE] for at in range(0, len(digests), DIGEST_SIZE)]


def _digests_of(data: memoryview, sizes: Sequence[int]) -> bytes:
    """Return a digest of each group of blocks, concatenated; `sizes` has the size of each block."""
    ends = [*accumulate(sizes, initial=0)]
    bounds = pairwise([*ends[:-1:_GROUP], ends[-1]])
    return b"".join(hashes(data[start:end] for start, end in bounds))


class OutlinedBlocks:
    """The blocks of an outlined metarange; each is read, verified and decoded when it is needed.

    Args:
        read: a function that returns bytes of the metarange's file, by offset and size.
        reload: a function that returns all keys and values of another copy, verified; called if the
            file is missing or has other contents.
        note_whole: a function that is called once all records were read into memory.

    Attributes:
        keys: the keys of all records.
        values: the values of all records.
        starts: the position of the first record of each block, and then the number of records.
    """

    def __init__(
        self,
        outline: Outline,
        read: Callable[[int, int], bytes],
        reload: Callable[[], Columns],
        note_whole: Callable[[], None],
    ) -> None:
        self.outline = outline
        self.starts = [*accumulate(outline.counts, initial=0)]
        self.keys = Column(self, 0)
        self.values = Column(self, 1)
        self._offsets = [*accumulate(outline.sizes, initial=0)]
        self._read = read
        self._reload = reload
        self._note_whole = note_whole
        self._decoded: dict[int, Columns] = {}
        self._whole: Columns | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all records are in memory."""
        return self._whole is not None

    def find(self, key: bytes) -> int:
        """Return the position of the first record with a key >= `key`."""
        if self._whole is not None:
            return bisect_left(self._whole[0], key)
        separators = self.outline.separators
        number = bisect_left(separators, key, key=lambda each: each[:-KEY_TRAILER_SIZE])
        if number == len(separators):
            return self.starts[-1]
        return self.starts[number] + bisect_left(self.block(number)[0], key)

    def block(self, number: int) -> Columns:
        """Return the keys and the values of a block.

        Raises:
            IntegrityError: every copy of the metarange is missing or damaged.
        """
        found = self._decoded.get(number)
        if found is None:
            stored = None if self._whole is not None else self._stored(number, number + 1)
            if stored is None:
                part = slice(self.starts[number], self.starts[number + 1])
                keys, values = self.whole()
                return keys[part], values[part]
            if len(self._decoded) >= _MOST_DECODED:
                self._decoded.clear()
            found = self._decoded[number] = decode_block(bytes(stored))
        return found

    def whole(self) -> Columns:
        """Return all keys and all values; later calls are answered from memory."""
        if self._whole is None:
            stored = self._stored(0, len(self.outline.sizes))
            if stored is None:
                self._whole = self._reload()
            else:
                blocks = [
                    decode_block(bytes(stored[at:end])) for at, end in pairwise(self._offsets)
                ]
                keys, values = zip(*blocks, strict=True)
                self._whole = [*chain.from_iterable(keys)], [*chain.from_iterable(values)]
                self._note_whole()
            self._decoded.clear()
        return self._whole

    def copied(self, first: int, last: int) -> CopiedBlocks | None:
        """Verify and return the blocks `first` to before `last`; ``None`` if the file changed."""
        stored = self._stored(first, last)
        if stored is None:
            return None
        part = slice(first, last)
        _, _, sizes, counts, key_sizes, value_sizes, separators, _, _ = self.outline
        one, other = self.block(first)[0][0], self.block(last - 1)[0][-1]
        keys = [one, other] if one < other else [one]
        totals = sum(counts[part]), sum(key_sizes[part]), sum(value_sizes[part])
        return CopiedBlocks(keys, *totals, separators[part], sizes[part], [stored])

    def _stored(self, first: int, last: int) -> memoryview | None:
        """Return the stored blocks, or ``None`` if the file no longer has the verified bytes."""
        offsets, outline = self._offsets, self.outline
        group, stop = first // _GROUP, -(-last // _GROUP)
        sizes = outline.sizes[group * _GROUP : stop * _GROUP]
        start = offsets[group * _GROUP]
        try:
            data = memoryview(self._read(start, sum(sizes)))
        except OSError:
            return None
        expected = outline.digests[group * DIGEST_SIZE : stop * DIGEST_SIZE]
        if len(data) != sum(sizes) or _digests_of(data, sizes) != expected:
            return None
        return data[offsets[first] - start : offsets[last] - start]


class Column(Sequence[bytes]):
    """The keys or the values of an outlined metarange."""

    def __init__(self, blocks: OutlinedBlocks, which: int) -> None:
        self._blocks = blocks
        self._which = which

    def __len__(self) -> int:
        return self._blocks.starts[-1]

    def __getitem__(self, at: Any) -> Any:  # noqa: ANN401 - `Sequence` has the overloads
        blocks, count = self._blocks, len(self)
        if isinstance(at, int):
            if blocks.is_whole:
                return blocks.whole()[self._which][at]
            position = range(count)[at]
            number = bisect_right(blocks.starts, position) - 1
            return blocks.block(number)[self._which][position - blocks.starts[number]]
        start, stop, step = at.indices(count)
        if start >= stop:
            return []
        first, last = bisect_right(blocks.starts, start) - 1, bisect_left(blocks.starts, stop)
        if last - first > len(blocks.starts) // _MOST_SINGLY:
            return blocks.whole()[self._which][at]
        found: list[bytes] = []
        for number in range(first, last):
            found += blocks.block(number)[self._which]
        base = blocks.starts[first]
        return found[start - base : stop - base : step]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._blocks.whole()[self._which])


_MOST_SINGLY: Final = 4
"""If a slice spans more than one block in this many, all blocks are read at once."""

_MOST_DECODED: Final = 256
"""Largest number of decoded blocks in memory; a block has about 3,000 bytes."""
