"""The SSTable format: RocksDB's block-based table, version 2, as lakeFS writes and reads it.

lakecli does not use RocksDB's bindings for Python, because they can neither look up one path in a
file in a bucket nor write the properties that lakeFS reads.

A file is a run of blocks and a footer::

    data block 0 .. N-1         records, in ascending order of their keys
    index partition 0 .. P-1    only with a two-level index
    index                       one entry per data block, or one per partition
    properties                  never compressed
    metaindex                   never compressed; names the properties block
    footer, 53 bytes

**A stored block** is its payload and a trailer of 5 bytes: the type of the payload (0: plain, 1:
raw Snappy), and the masked CRC32C of payload and type, 4 bytes, little-endian. The *handle* of a
block is two varints, offset and size; the size excludes the trailer. Snappy is used only if it
saves more than an eighth.

**A block** is entries, then the offsets of its restart points (u32 little-endian each), then their
number (u32). An entry is three varints (``shared``, ``unshared``, ``value size``), the unshared
bytes of the key, and the value. A key is the first ``shared`` bytes of the previous key followed by
its unshared bytes; at a restart point ``shared`` is 0. Data blocks have a restart point every 16
entries, index blocks at every entry, the properties block one.

**Keys** of records and of index entries are followed by 8 bytes, little-endian: ``sequence number
<< 8 | kind``. Ours are always (0, SET); shortened keys of the index have (2**56 - 1, SEPARATOR).
Our writer shares only the bytes before this trailer, the "user key"; RocksDB's may share bytes of
the trailer, too. Keys of the metaindex and of the properties block have no such trailer.

**Index.** The key of an entry is at least the last key of its block and less than the first key of
the next; the value is the handle. An index of more than about 4 KiB is cut into partitions; the
index block then has their handles. An empty table has one empty data block.

**Footer**: checksum type (1: CRC32C), handle of the metaindex, handle of the index, zeros up to
byte 41, version (u32 little-endian, 2), magic (8 bytes).

**The end of a data block** follows a rule of our own (the cut rule) that depends on the content
alone, so that two files with the same records have the same blocks: a block ends after a record if
its entries (without the restart points) take at least `BLOCK_SIZE_MIN` bytes and ``crc32c(user key)
& BLOCK_CUT_MASK == 0``, or at least `BLOCK_SIZE_MAX` bytes.

**The value of a record** has lakeFS's framing of an identity and the data that it identifies:
``zigzag(len(identity)) identity zigzag(len(data)) data``, where ``zigzag`` is Go's signed varint:
32 is ``40``, 64 is ``80 01``. Bytes after the data are ignored, as lakeFS does.
"""

from typing import Final

from lakecli.errors import IntegrityError
from lakecli.proto.varint import Malformed, decode_varint, encode_varint

MAGIC: Final = bytes.fromhex("f7cff485b741e288")
VERSION: Final = 2
CHECKSUM_CRC32C: Final = 1
FOOTER_SIZE: Final = 53
FOOTER_HANDLES_END: Final = 41

BLOCK_TRAILER_SIZE: Final = 5
STORED_RAW: Final = 0
STORED_SNAPPY: Final = 1
CHECKSUM_MASK_DELTA: Final = 0xA282EAD8

KEY_TRAILER_SIZE: Final = 8
RECORD_TRAILER: Final = b"\x01\0\0\0\0\0\0\0"
SEPARATOR_TRAILER: Final = b"\x11\xff\xff\xff\xff\xff\xff\xff"
EMPTY_TABLE_TRAILER: Final = b"\xff\0\0\0\0\0\0\0"

RESTART_INTERVAL: Final = 16
EMPTY_BLOCK_SIZE: Final = 8
BLOCK_SIZE_MIN: Final = 2048
BLOCK_SIZE_MAX: Final = 8192
BLOCK_CUT_MASK: Final = 7

INDEX_PARTITION_SIZE: Final = 4096
INDEX_PARTITION_THRESHOLD: Final = 3687  # 90 % of INDEX_PARTITION_SIZE, rounded up
INDEX_HANDLE_GUESS: Final = 20  # assumed size of an index entry's value, not known yet
INDEX_SINGLE_LEVEL: Final = 0
INDEX_TWO_LEVEL: Final = 2

MAX_BLOCK_SIZE: Final = 128 << 20
"""Largest size of an uncompressed block, in bytes; lakeFS's own limit for a value is 80 MiB."""

MAX_BLOCK_ENTRIES: Final = 1 << 18
"""Largest number of entries in a data block; lakecli writes fewer than 750."""

MAX_PROPERTIES: Final = 4096
"""Largest number of properties in a table; lakeFS writes 31."""

MIN_STORED_SIZE: Final = BLOCK_TRAILER_SIZE + 2
"""Smallest size of a stored block, in bytes: the shortest payload is eight bytes, compressed."""

MAX_SNAPPY_RATIO: Final = 22
"""Largest ratio of Snappy's output to its input: three bytes become at most 64."""

PROPERTIES_BLOCK: Final = b"rocksdb.properties"
"""The name of the properties block in the metaindex."""

INDEX_TYPE: Final = "rocksdb.block.based.table.index.type"
INDEX_PARTITIONS: Final = "rocksdb.index.partitions"
DATA_SIZE: Final = "rocksdb.data.size"
NUM_DATA_BLOCKS: Final = "rocksdb.num.data.blocks"
NUM_ENTRIES: Final = "rocksdb.num.entries"
RESERVED_PREFIX: Final = "rocksdb."
"""Prefix of the format's own properties; every other name is a user property."""


class CorruptTable(IntegrityError):
    """An SSTable is damaged.

    Attributes:
        offset: where the damaged part begins in the file.
    """

    _text = "damaged SSTable {} at offset {}: {}"
    _hint = "see what it affects: `fsck REPOSITORY`"

    def __init__(self, name: str, offset: int, what: str) -> None:
        super().__init__(self._text.format(name, offset, what), hint=self._hint)
        self.name = name
        self.offset = offset


class UnknownTableFormat(CorruptTable):
    """The footer of a file has another format: a newer one, or the format of another program."""

    _text = "{} is not an SSTable that this lakecli reads, offset {}: {}"
    _hint = "update lakecli if a newer one wrote it; see what it affects: `fsck REPOSITORY`"


MAX_COMPONENT_SIZE: Final = 640 << 16
"""Largest size of an identity, or of its data, in bytes: lakeFS's own limit."""


class MalformedValue(IntegrityError):
    """The value of a record does not follow the format."""

    def __init__(self, what: str) -> None:
        super().__init__(f"damaged record: {what}", hint="see what it affects: `fsck REPOSITORY`")


def encode_value(identity: bytes, data: bytes) -> bytes:
    """Frame an identity and the data that it identifies."""
    sizes = encode_varint(len(identity) << 1), encode_varint(len(data) << 1)
    return b"%b%b%b%b" % (sizes[0], identity, sizes[1], data)


def decode_value(value: bytes) -> tuple[bytes, bytes]:
    """Return the identity and the data of a value, or raise `MalformedValue`."""
    identity, position = read_component(value, 0)
    data, _ = read_component(value, position)
    return identity, data


def read_component(value: bytes, position: int) -> tuple[bytes, int]:
    """Return the identity or data that begins at `position`, and the position after it."""
    try:
        zigzag, position = decode_varint(value, position)
    except Malformed:
        raise MalformedValue("a length that does not end") from None
    size = zigzag >> 1
    if zigzag & 1 or size > MAX_COMPONENT_SIZE or position + size > len(value):
        raise MalformedValue("a length that does not fit its value")
    return value[position : position + size], position + size
