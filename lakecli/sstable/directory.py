"""The end of a file: its footer, its properties, and the index of its data blocks.

A `Directory` reads all of these except the partitions of a two-level index. The index is searched
in its stored form (`search_index`), or decoded completely (`Directory.index`). Every defect of a
file raises `CorruptTable`, which names the file and the offset.
"""

from contextlib import AbstractContextManager, nullcontext
from itertools import islice, repeat
from operator import lt
from typing import Final, NamedTuple, Protocol

from lakecli import native
from lakecli.proto.varint import CONTINUES, Malformed, decode_canonical_varint
from lakecli.sstable import format as file_format
from lakecli.sstable.block import decode_pairs, payload_of, seek


class ReadableFile(Protocol):
    """Random access to the bytes of one file."""

    descriptor: int = -1
    """The descriptor of the file if it is on this machine, else -1."""

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`, fewer if the file ends earlier."""


class Source(ReadableFile, Protocol):
    """A file that several threads may read at the same time."""

    name: str
    """The name of the file in error messages."""

    def read_tail(self, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes, fewer if the file is shorter, and the file's size."""

    def opened(self) -> AbstractContextManager[ReadableFile]:
        """Open the file for several reads, which is cheaper than opening it for each read."""
        return nullcontext(self)


class BytesSource(Source):
    """A source for a file that is completely in memory."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self._data = data

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`, fewer if the file ends earlier."""
        return self._data[offset : offset + length]

    def read_tail(self, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes, fewer if the file is shorter, and the file's size."""
        return self._data[max(0, len(self._data) - length) :], len(self._data)


TAIL_SIZE: Final = 64 << 10
"""Bytes read first from the end of a file; in most files, they include the index."""

_NO_INDEX_ENTRY: Final = "an index entry that is not a key and a handle"


class Blocks(NamedTuple):
    """The blocks that an index lists, in three lists of the same length.

    Attributes:
        keys: for each block, a key that is greater than or equal to its last key.
        offsets: where each block begins; blocks do not overlap.
        sizes: size in bytes of each block, its trailer included.
    """

    keys: list[bytes]
    offsets: list[int]
    sizes: list[int]

    @property
    def end(self) -> int:
        """The offset where the last block ends; 0 without blocks."""
        return self.offsets[-1] + self.sizes[-1] if self.sizes else 0

    def extend(self, more: "Blocks") -> None:
        """Add the blocks of another part of the index."""
        self.keys.extend(more.keys)
        self.offsets.extend(more.offsets)
        self.sizes.extend(more.sizes)


class Tail(Source):
    """A file whose last bytes are kept in memory."""

    def __init__(self, source: Source, length: int) -> None:
        self.name = source.name
        self._source = source
        self.held, self.size = source.read_tail(length)

    def hold(self, offset: int) -> None:
        """Keep exactly the bytes from `offset` to the end of the file in memory."""
        missing = self.size - len(self.held) - offset
        if missing > 0:
            self.held = self._source.read(offset, missing) + self.held
        else:
            self.held = self.held[-missing:]

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`, fewer if the file ends earlier."""
        start = offset - self.size + len(self.held)
        if start < 0:
            return self._source.read(offset, length)
        return self.held[start : start + length]

    def read_tail(self, length: int) -> tuple[bytes, int]:
        """Return the last `length` bytes, fewer if the file is shorter, and the file's size."""
        return self.read(max(0, self.size - length), length), self.size


Handle = tuple[int, int]
"""The location of a stored block: its offset, and its size, trailer included."""


class Directory:
    """The end of a file: its properties, and the top of its index.

    Args:
        source: the file; the caller closes it.

    Attributes:
        source: the file from which blocks are read.
        tail: the file, with its end in memory.
        name: the name of the file, for error messages.
        size: size of the file in bytes.
        count: the number of records.
        properties: RocksDB's and the user's properties, by name.
        block_count: the number of data blocks.
        data_size: the offset where the data blocks end.
        top: the payload of the index, or of the index of its partitions.
        top_offset: the offset where `top` is stored.
        is_deep: whether the index has partitions.

    Raises:
        CorruptTable: the file is damaged.
        UnknownTableFormat: the file has another format.
    """

    def __init__(self, source: Source, *, tail_size: int = TAIL_SIZE) -> None:
        self.source = source
        self.tail = tail = Tail(source, tail_size)
        self.name = source.name
        self.size = tail.size
        core = native.core()
        found = None if core is None else core.decode_tail(tail.held, tail.size)
        if found is None or len(found[0][0]) > file_format.MAX_PROPERTIES:
            found = read_tail(tail)
        (names, values), at, self.top, self.top_offset = found
        self.properties = dict(
            zip(map(bytes.decode, names, repeat("latin-1")), values, strict=True)
        )
        try:
            self.count = _number(self.properties, file_format.NUM_ENTRIES)
            self.block_count = _number(self.properties, file_format.NUM_DATA_BLOCKS)
            self.data_size = _number(self.properties, file_format.DATA_SIZE, limit=tail.size)
            self.is_deep = _has_two_levels(self.properties)
        except Malformed as error:
            raise file_format.CorruptTable(tail.name, at, str(error)) from None

    def index(self) -> Blocks:
        """Decode the whole index."""
        at, end = self.top_offset, self.top_offset if self.is_deep else self.data_size
        try:
            # The top index holds handles of data blocks, or of index partitions.
            blocks = decode_index(self.top, start=0, end=end)
            if self.is_deep:
                partitions, blocks = blocks, Blocks([], [], [])
                for at, size in zip(partitions.offsets, partitions.sizes, strict=True):
                    payload = payload_at(self.tail, at, size)
                    blocks.extend(decode_index(payload, start=blocks.end, end=self.data_size))
            at = self.top_offset
            _check_blocks(blocks, self.block_count)
        except Malformed as error:
            raise file_format.CorruptTable(self.name, at, str(error)) from None
        return blocks


def read_tail(tail: Tail) -> tuple[tuple[list[bytes], list[bytes]], int, bytes, int]:
    """Read the properties of a table, and the top of its index.

    Returns:
        The names of the properties and their values, the offset of their block, and the payload and
        the offset of the index, or of the index of its partitions.

    Raises:
        CorruptTable: the file is damaged.
        UnknownTableFormat: the file has another format.
    """
    at = max(0, tail.size - file_format.FOOTER_SIZE)
    limit = file_format.MAX_PROPERTIES
    try:
        (at, size), index = _decode_footer(tail)
        metaindex = decode_pairs(payload_at(tail, at, size), limit=limit)
        at, size = properties_at, _ = _find_properties(metaindex, end=at)
        pairs = decode_pairs(payload_at(tail, at, size), limit=limit)
        at, size = index
        top = payload_at(tail, at, size)
    except Malformed as error:
        raise file_format.CorruptTable(tail.name, at, str(error)) from None
    names, values = [name for name, _ in pairs], [value for _, value in pairs]
    return (names, values), properties_at, top, at


def payload_at(file: ReadableFile, offset: int, size: int) -> bytes:
    """Verify the checksum of a stored block, and return its uncompressed payload."""
    return payload_of(file.read(offset, size), size)


def _check_blocks(blocks: Blocks, expected: int) -> None:
    if not all(map(lt, blocks.keys, islice(blocks.keys, 1, None))):
        raise Malformed("index keys that are not in ascending order")
    if len(blocks.sizes) != expected:
        raise Malformed(f"an index of {len(blocks.sizes)} blocks, not {expected}")


def _decode_footer(tail: Tail) -> tuple[Handle, Handle]:
    """Return the handles of the metaindex and of the index."""
    footer = tail.held[-file_format.FOOTER_SIZE :]
    at = tail.size - file_format.FOOTER_SIZE
    if len(footer) < file_format.FOOTER_SIZE:
        raise file_format.CorruptTable(tail.name, 0, f"a file of {tail.size} bytes is too short")
    last = footer[-len(file_format.MAGIC) :]
    if last != file_format.MAGIC:
        what = f"its last bytes are {last.hex()}, not {file_format.MAGIC.hex()}"
        raise file_format.UnknownTableFormat(tail.name, tail.size - len(file_format.MAGIC), what)
    end = file_format.FOOTER_HANDLES_END
    version = int.from_bytes(footer[end : -len(file_format.MAGIC)], "little")
    if version != file_format.VERSION:
        what = f"version {version}, not {file_format.VERSION}"
        raise file_format.UnknownTableFormat(tail.name, at + end, what)
    if footer[0] != file_format.CHECKSUM_CRC32C:
        what = f"checksums of type {footer[0]}, not CRC32C"
        raise file_format.UnknownTableFormat(tail.name, at, what)
    metaindex, position = _decode_handle(footer, 1, end=at)
    index, position = _decode_handle(footer, position, end=at)
    if position > end or any(footer[position:end]):
        raise Malformed("a footer whose padding is not zero")
    return metaindex, index


def _decode_handle(data: bytes, position: int, *, end: int) -> tuple[Handle, int]:
    """Decode the handle of a block stored before `end`; return it and the position after it."""
    offset, position = decode_canonical_varint(data, position)
    size, position = decode_canonical_varint(data, position)
    if offset + size + file_format.BLOCK_TRAILER_SIZE > end:
        raise Malformed(f"a handle that points at offset {offset}, {size} bytes")
    return (offset, size + file_format.BLOCK_TRAILER_SIZE), position


def _decode_index_handle(handle: bytes) -> tuple[int, int]:
    """Return the offset and the size of a block, without its trailer, from an index entry."""
    numbers = []
    number = shift = 0
    for byte in handle:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < CONTINUES:
            numbers.append(number)
            number = shift = 0
    if len(numbers) != 2 or shift:  # noqa: PLR2004 - a pair
        raise Malformed(_NO_INDEX_ENTRY)
    offset, size = numbers
    return offset, size


def decode_index(payload: bytes, *, start: int, end: int) -> Blocks:
    """Decode an index block, and check where the listed blocks are.

    Args:
        start: offset before which no block may begin.
        end: offset after which no block may end.

    Raises:
        Malformed: the bytes are not an index of consecutive blocks between `start` and `end`. These
            limits also bound the number of blocks that the index of a small file can list.
    """
    limit = (end - start) // file_format.MIN_STORED_SIZE
    core = native.core()
    found = None if core is None else core.decode_index(payload)
    keys, numbers = decode_handles(payload, limit=limit) if found is None else found
    if not keys:
        raise Malformed("an index without entries")
    if len(keys) > limit:
        raise Malformed(f"more than {limit} entries")
    sizes = [size + file_format.BLOCK_TRAILER_SIZE for size in numbers[1::2]]
    blocks = Blocks(keys, numbers[0::2], sizes)
    for offset, size in zip(blocks.offsets, blocks.sizes, strict=True):
        if offset < start or offset + size > end:
            what = f"offset {offset}, {size - file_format.BLOCK_TRAILER_SIZE} bytes"
            raise Malformed(f"an index entry that points at {what}")
        start = offset + size
    return blocks


def decode_handles(payload: bytes, *, limit: int) -> tuple[list[bytes], list[int]]:
    """Decode an index block, without checking where the listed blocks are.

    Returns:
        The user keys of the index, and a flat list with the offset and the size of each block.
    """
    keys: list[bytes] = []
    numbers: list[int] = []
    for key, handle in decode_pairs(payload, limit=limit):
        if len(key) < file_format.KEY_TRAILER_SIZE:
            raise Malformed(_NO_INDEX_ENTRY)
        keys.append(key[: -file_format.KEY_TRAILER_SIZE])
        numbers += _decode_index_handle(handle)
    return keys, numbers


def search_index(payload: bytes, key: bytes, *, end: int) -> Handle | None:
    """Return the location of the first block that may contain a key >= `key`, or ``None``.

    Args:
        end: offset after which no block may end.
    """
    core = native.core()
    found = NotImplemented if core is None else core.find_handle(payload, key)
    handle = find_handle(payload, key) if found is NotImplemented else found
    if handle is None:
        return None
    offset, size = handle
    if offset + size + file_format.BLOCK_TRAILER_SIZE > end:
        raise Malformed(f"an index entry that points at offset {offset}, {size} bytes")
    return offset, size + file_format.BLOCK_TRAILER_SIZE


def find_handle(payload: bytes, key: bytes) -> tuple[int, int] | None:
    """Return offset and size in the first entry of an index whose key is >= `key`, or ``None``."""
    found = seek(payload, key)
    if found is None:
        return None
    if len(found[0]) < file_format.KEY_TRAILER_SIZE:
        raise Malformed(_NO_INDEX_ENTRY)
    return _decode_index_handle(found[1])


def _number(properties: dict[str, bytes], name: str, *, limit: int = 1 << 64) -> int:
    """Return the value of a required property that is a varint of at most `limit`."""
    value = properties.get(name)
    if value is None:
        raise Malformed(f"no property {name}")
    number, end = decode_canonical_varint(value, 0)
    if end != len(value) or number > limit:
        raise Malformed(f"a property {name} of the wrong size")
    return number


def _has_two_levels(properties: dict[str, bytes]) -> bool:
    """Return whether the index has two levels."""
    kind = int.from_bytes(properties.get(file_format.INDEX_TYPE, b"\xff"), "little")
    if kind not in {file_format.INDEX_SINGLE_LEVEL, file_format.INDEX_TWO_LEVEL}:
        raise Malformed(f"an index of unknown type {kind}")
    return kind == file_format.INDEX_TWO_LEVEL


def _find_properties(metaindex: list[tuple[bytes, bytes]], *, end: int) -> Handle:
    """Return the handle of the properties block, which is stored before `end`."""
    for name, handle in metaindex:
        if name == file_format.PROPERTIES_BLOCK:
            return _decode_handle(handle, 0, end=end)[0]
    raise Malformed("a metaindex without properties")
