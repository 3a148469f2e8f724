"""One block: its stored form, and the encoding of its entries.

Decoding trusts nothing: for any bytes it returns lists or raises `Malformed`, in time and memory
proportional to the block. `lakecli.native` has the most expensive functions in C.

A run is a group of consecutive data blocks of a table, which are read and decoded together.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import lt
from struct import Struct, pack
from typing import NamedTuple

from cramjam import snappy
from google_crc32c import value as crc32c

from lakecli import native
from lakecli.proto.varint import CONTINUES, Malformed, decode_canonical_varint, encode_varint
from lakecli.sstable import format as file_format

_SHARING_BUDGET = 64 << 20
"""Limit of the bytes that the keys of one block share with the keys before them.

Without a limit, the keys of a small block could expand to any size. A key that shares less than 128
bytes does not count.
"""

_header = Struct("4B").unpack_from
"""Reads the first four bytes of an entry.

A block always has these bytes, because at least eight bytes of restart points follow the entries.
"""

_UNEVEN = "entries that do not end where the restart points begin"

_u32 = Struct("<I").unpack_from
_pack_u32 = Struct("<I").pack
_RAW = bytes((file_format.STORED_RAW,))
_SNAPPY = bytes((file_format.STORED_SNAPPY,))


def seal(payload: bytes, *, compress: bool) -> bytes:
    """Return the stored form of a block, compressed only if that saves more than an eighth."""
    packed = bytes(snappy.compress_raw(payload)) if compress else payload
    is_packed = len(packed) < len(payload) - len(payload) // 8
    typed = packed + _SNAPPY if is_packed else payload + _RAW
    return typed + _pack_u32(_masked(crc32c(typed)))


def _masked(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + file_format.CHECKSUM_MASK_DELTA) & 0xFFFFFFFF


def verify(stored: bytes, size: int) -> None:
    """Verify the size and the checksum of a stored block."""
    if len(stored) != size:
        raise Malformed(f"{len(stored)} bytes, not a block of {size}")
    if size < file_format.MIN_STORED_SIZE:
        raise Malformed("a block too short to be one")
    if _masked(crc32c(stored[:-4])) != _u32(stored, len(stored) - 4)[0]:
        raise Malformed("the checksum of the block does not match")


def payload_of(stored: bytes, size: int | None = None) -> bytes:
    """Verify the checksum of a stored block, and return its uncompressed payload.

    Args:
        size: the size that the block must have; by default any.
    """
    core = native.core() if size in {None, len(stored)} else None
    payload = None if core is None else core.unpack_block(stored)
    return unpack(stored, size) if payload is None else payload


def unpack(stored: bytes, size: int | None = None) -> bytes:
    """Do the same as `payload_of`, without the compiled core."""
    verify(stored, len(stored) if size is None else size)
    kind = stored[-file_format.BLOCK_TRAILER_SIZE]
    payload = stored[: -file_format.BLOCK_TRAILER_SIZE]
    if kind == file_format.STORED_RAW:
        return payload
    if kind != file_format.STORED_SNAPPY:
        raise Malformed(f"a block of unknown type {kind}")
    if stored[0] >= CONTINUES and stored[1] >= CONTINUES:
        # The claimed size is allocated before decompression; below 16 KiB a false one is harmless.
        size, _ = decode_canonical_varint(payload, 0)
        if size > file_format.MAX_BLOCK_SIZE or size > len(payload) * file_format.MAX_SNAPPY_RATIO:
            raise Malformed(f"a compressed block that claims {size} bytes")
    try:
        return bytes(snappy.decompress_raw(payload))
    except Exception as error:  # cramjam's own error class has no public name
        raise Malformed("a block that is not Snappy") from error


def payload_size(stored: bytes) -> int:
    """Return the size of a stored block's payload when it is uncompressed."""
    if stored[-file_format.BLOCK_TRAILER_SIZE] == file_format.STORED_SNAPPY:
        return decode_canonical_varint(stored, 0)[0]
    return len(stored) - file_format.BLOCK_TRAILER_SIZE


def entries_end(payload: bytes) -> int:
    """Return the position where the entries of a block end and its restart points begin."""
    size = len(payload)
    count = _u32(payload, size - 4)[0] if size > file_format.KEY_TRAILER_SIZE - 1 else 0
    end = size - 4 - 4 * count
    if end < 0 or count == 0 or size > file_format.MAX_BLOCK_SIZE:
        raise Malformed(f"a block of {size} bytes that claims {count} restart points")
    return end


def _iter_entries(payload: bytes, position: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the stored key of each entry, and the positions where its value begins and ends.

    The caller must check that the last value ends at `end`; in a damaged block it may not.

    Raises:
        Malformed: a key shares more bytes than the previous key has, or the keys share more bytes
            than a block can contain.
    """
    key = b""
    budget = _SHARING_BUDGET
    while position < end:
        shared, unshared, size, more = _header(payload, position)
        if shared | unshared | size < CONTINUES:
            position += 3
        elif more and shared | unshared | more < CONTINUES:  # the form of most objects' entries
            size += (more - 1) << 7
            position += 4
        else:
            shared, position = decode_canonical_varint(payload, position)
            unshared, position = decode_canonical_varint(payload, position)
            size, position = decode_canonical_varint(payload, position)
        if shared > len(key):
            raise Malformed("a key that shares more than there is")
        if shared >= CONTINUES:
            budget -= shared
        if budget < 0:
            raise Malformed("keys that share more than a block can hold")
        start = position + unshared
        key = key[:shared] + payload[position:start]
        position = start + size
        yield key, start, position


def decode_records(payload: bytes) -> tuple[list[bytes], list[bytes]]:
    """Decode a data block into its user keys and its values, both in key order.

    Raises:
        Malformed: the block does not consist of plain records in strictly ascending order.
    """
    keys: list[bytes] = []
    values: list[bytes] = []
    end, stop = entries_end(payload), 0
    for key, start, stop in islice(_iter_entries(payload, 0, end), file_format.MAX_BLOCK_ENTRIES):
        if key[-file_format.KEY_TRAILER_SIZE :] != file_format.RECORD_TRAILER:
            raise Malformed("a key that is not a plain record's")
        keys.append(key[: -file_format.KEY_TRAILER_SIZE])
        values.append(payload[start:stop])
    if stop != end:
        raise Malformed(_UNEVEN)
    if not all(map(lt, keys, islice(keys, 1, None))):
        raise Malformed("keys that are not in ascending order")
    return keys, values


def find_value(payload: bytes, wanted: bytes) -> bytes | None:
    """Return the value of one user key of a data block, or ``None``."""
    key, value = seek(payload, wanted) or (b"", None)
    return value if key == wanted + file_format.RECORD_TRAILER else None


def seek(payload: bytes, wanted: bytes) -> tuple[bytes, bytes] | None:
    """Return the first entry whose user key is greater than or equal to `wanted`, or ``None``.

    Reading starts at the last restart point whose key is not greater than `wanted`.

    Returns:
        The key with its trailer, and the value.
    """
    end = stop = entries_end(payload)
    has_runs = len(payload) - end != file_format.EMPTY_BLOCK_SIZE
    at = _find_run(payload, end, wanted) if has_runs else 0
    for key, start, stop in islice(_iter_entries(payload, at, end), file_format.MAX_BLOCK_ENTRIES):
        if key > wanted and stop <= end and key[: -file_format.KEY_TRAILER_SIZE] >= wanted:
            return key, payload[start:stop]
    if stop != end:
        raise Malformed(_UNEVEN)
    return None


def _find_run(payload: bytes, end: int, wanted: bytes) -> int:
    """Return the position of the last restart point whose key is not greater than `wanted`.

    If all keys of restart points are greater, return the position of the first restart point.
    """
    low = found = 0
    high = (len(payload) - end) // 4 - 2
    while low < high:
        middle = (low + high + 1) // 2
        position = _u32(payload, end + 4 * middle)[0]
        if position >= end:
            raise Malformed("a restart point outside the entries")
        shared, start = decode_canonical_varint(payload, position)
        unshared, start = decode_canonical_varint(payload, start)
        _, start = decode_canonical_varint(payload, start)
        if shared or unshared < file_format.KEY_TRAILER_SIZE:
            raise Malformed("a restart point at a key that is not complete")
        if payload[start : start + unshared - file_format.KEY_TRAILER_SIZE] <= wanted:
            low = middle
            found = position
        else:
            high = middle - 1
    return found


def decode_pairs(payload: bytes, *, limit: int) -> list[tuple[bytes, bytes]]:
    """Decode a block other than a data block; keys are returned as they are stored.

    Raises:
        Malformed: the block is not valid, or has more than `limit` entries.
    """
    end = entries_end(payload)
    entries = list(islice(_iter_entries(payload, 0, end), limit + 1))
    if len(entries) > limit:
        raise Malformed(f"more than {limit} entries")
    if entries and entries[-1][2] != end:
        raise Malformed(_UNEVEN)
    return [(key, payload[start:stop]) for key, start, stop in entries]


def encode_pairs(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Encode a block with one restart point: the metaindex, or the properties.

    Args:
        pairs: the keys, which are stored as given, and their values; sorted by key.
    """
    parts: list[bytes] = []
    last = b""
    for key, value in pairs:
        parts.append(_encode_entry(shared_prefix_size(last, key), key, value))
        last = key
    return b"".join(parts) + encode_restarts([0])


def _encode_entry(shared: int, key: bytes, value: bytes) -> bytes:
    sizes = shared, len(key) - shared, len(value)
    return b"".join((*map(encode_varint, sizes), key[shared:], value))


def encode_block(
    keys: Sequence[bytes], values: Sequence[bytes], checksums: Sequence[int], start: int
) -> tuple[bytes, int, bool]:
    """Encode one block of records, from position `start` to a cut or to the last record.

    Args:
        keys: user keys, ascending.
        checksums: the CRC32C of each key.

    Returns:
        The fields of `lakecli.sstable.writer.EncodedBlock`.
    """
    restarts: list[int] = []
    records: list[bytes] = []
    size = 0
    last = b""
    for at in range(start, len(keys)):
        shared = 0
        if len(records) % file_format.RESTART_INTERVAL:
            shared = shared_prefix_size(last, keys[at])
        else:
            restarts.append(size)
        last = keys[at]
        records.append(_encode_entry(shared, last + file_format.RECORD_TRAILER, values[at]))
        size += len(records[-1])
        if size >= file_format.BLOCK_SIZE_MIN and (
            size >= file_format.BLOCK_SIZE_MAX or checksums[at] & file_format.BLOCK_CUT_MASK == 0
        ):
            return b"".join(records) + encode_restarts(restarts), at + 1, True
    return b"".join(records) + encode_restarts(restarts), len(keys), False


def encode_restarts(restarts: list[int]) -> bytes:
    """Encode the restart points at the end of a block; a block without entries still has one."""
    if not restarts:
        restarts = [0]
    return pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def shared_prefix_size(left: bytes, right: bytes) -> int:
    """Return the number of leading bytes that two keys share."""
    size = min(len(left), len(right))
    difference = int.from_bytes(left[:size]) ^ int.from_bytes(right[:size])
    return size - (difference.bit_length() + 7 >> 3)


def index_key(separator: bytes, last: bytes) -> bytes:
    """Return the key of a block in the index, with its trailer; `last` is the block's last key."""
    is_short = separator != last
    return separator + (file_format.SEPARATOR_TRAILER if is_short else file_format.RECORD_TRAILER)


RUN_SIZE = 64 << 10
"""Largest size of a run in stored bytes, unless a single block is larger.

Runs are so small that each run of a table reuses the memory of the run before.
"""


class Run(NamedTuple):
    """Consecutive data blocks of a table, decoded.

    Attributes:
        data: the stored blocks, and any bytes between them.
        offsets: where each block begins in `data`.
        sizes: size in bytes of each block, its trailer included.
        separators: a key for each block, as in `SSTable.separators`.
        starts: the position of the first record of each block, and then the number of records.
        keys: user keys of all records, ascending.
        values: the values of the keys, in the same order.
    """

    data: memoryview
    offsets: list[int]
    sizes: list[int]
    separators: list[bytes]
    starts: list[int]
    keys: list[bytes]
    values: list[bytes]

    def block_of(self, position: int) -> int:
        """Return the number of the block that contains the record at a position."""
        return bisect_right(self.starts, position) - 1

    def copied(self, first: int, last: int) -> "CopiedBlocks":
        """Return the blocks from `first` to before `last`, for copying into another table."""
        start, stop = self.starts[first], self.starts[last]
        keys, values = self.keys[start:stop], self.values[start:stop]
        ends = zip(self.separators[first:last], self.starts[first + 1 : last + 1], strict=True)
        separators = [index_key(key, self.keys[end - 1]) for key, end in ends]
        totals = len(keys), sum(map(len, keys)), sum(map(len, values))
        sizes, stored = self.sizes[first:last], self.stored(first, last)
        return CopiedBlocks(keys, *totals, separators, sizes, stored)

    def stored(self, first: int, last: int) -> list[memoryview]:
        """Return the stored blocks from `first` to before `last`; without gaps, as one piece."""
        pieces = zip(self.offsets[first:last], self.sizes[first:last], strict=True)
        start, stop = self.offsets[first], self.offsets[last - 1] + self.sizes[last - 1]
        if stop - start == sum(self.sizes[first:last]):
            return [self.data[start:stop]]
        return [self.data[at : at + size] for at, size in pieces]


class CopiedBlocks(NamedTuple):
    """Consecutive data blocks of a table, to be copied into another.

    Attributes:
        keys: user keys, ascending: all of them, or only the first and the last.
        record_count: number of records in all blocks.
        key_size: size of all keys in bytes.
        value_size: size of all values in bytes.
        separators: the key of each block in the index, with its trailer.
        sizes: size in bytes of each block, its trailer included.
        stored: the bytes of the blocks as stored in the file, in one or several pieces.
    """

    keys: Sequence[bytes]
    record_count: int
    key_size: int
    value_size: int
    separators: Sequence[bytes]
    sizes: Sequence[int]
    stored: Sequence[bytes | memoryview]

    def end_at_cut(self, count: int) -> bool:
        """Return whether the cut rule would end a block after the last of these records.

        The cut rule decides where lakecli ends blocks; see `lakecli.sstable.format`.

        Args:
            count: the number of records of the last block.
        """
        restarts = -(-count // file_format.RESTART_INTERVAL)
        stored = bytes(self.stored[-1][-self.sizes[-1] :])
        size = payload_size(stored) - 4 * restarts - 4
        return size >= file_format.BLOCK_SIZE_MIN and (
            size >= file_format.BLOCK_SIZE_MAX
            or crc32c(self.keys[-1]) & file_format.BLOCK_CUT_MASK == 0
        )


def blocks_between(starts: Sequence[int], start: int, stop: int) -> tuple[int, int]:
    """Return the numbers of the first block between two positions, and of the block after the last.

    A block is between the positions if all of its records are.

    Args:
        starts: the position of the first record of each block, and then the number of records.
    """
    first = bisect_left(starts, start)
    return first, max(first, bisect_right(starts, stop) - 1)
