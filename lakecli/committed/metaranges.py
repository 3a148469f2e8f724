"""A metarange: the list of the ranges that make up one snapshot of a repository.

A metarange is an SSTable with a record for each range. The key is the range's last key, the
identity the 64 hex characters of its ID, the data a `lakecli.proto.messages.RangeData`. lakecli
writes the exact size of the file as its ``estimated_size``.

The property ``lakecli.tree`` of a metarange names the rule and N by which its ranges were cut; see
`Splitter`. lakeFS's metaranges lack the property: their ranges end elsewhere and are never reused
in lakecli's trees.

A parsed metarange keeps its keys and values as two lists of bytes, since a command decodes few of
its records: ten million entries have about 1,700 ranges. A metarange that this machine verified
before has an `outline`. Then a command reads only the blocks that it needs, and trees are compared
by their record IDs.

The module also computes the ID that a range or a metarange must have from its records, and reads a
single range while checking its records against its metarange.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from lakecli.base.identity import DIGEST_SIZE, frame_map, tree_id
from lakecli.base.ids import MalformedId
from lakecli.base.model import MetarangeId, RangeId
from lakecli.committed.outline import OutlinedBlocks
from lakecli.committed.values import MalformedValue, decode_value, digests, encode_value
from lakecli.errors import IntegrityError
from lakecli.proto.messages import RANGE_DATA
from lakecli.proto.varint import Malformed
from lakecli.sstable.block import Run
from lakecli.sstable.directory import Directory
from lakecli.sstable.reader import SSTable, count_equal

TREE_PROPERTY: Final = "lakecli.tree"

_TREE: Final = b"1;n="
_MAX_DIGITS: Final = 18

_FIELDS: Final = ("min_key", "max_key", "estimated_size", "count")
"""The fields of the message, in the order of the attributes of `RangeRecord` after the ID."""

_ID_FRAME = b"\x80\x01"
"""The encoded length of an identity of 64 bytes."""

ID_PART: Final = slice(2, 66)
"""The part of a metarange's value that is the ID of the range."""


class RangeRecord(NamedTuple):
    """One range, as a metarange records it.

    Attributes:
        size: the size of the range's file in bytes; exact in trees that lakecli wrote.
    """

    id: RangeId
    min_key: bytes
    max_key: bytes
    size: int
    count: int  # type: ignore[assignment]  # a tuple has a method of this name


def encode_tree_property(range_entries: int) -> bytes:
    """Return the value of `TREE_PROPERTY` for trees cut by the rule of this version of lakecli."""
    return b"%b%d" % (_TREE, range_entries)


def decode_tree_property(value: bytes | None) -> int | None:
    """Return N if the tree was cut by the rule of this version of lakecli, else ``None``."""
    if value is None or not value.startswith(_TREE):
        return None
    digits = value.removeprefix(_TREE)
    return int(digits) if digits.isdigit() and len(digits) <= _MAX_DIGITS else None


def encode_range_record(record: RangeRecord) -> bytes:
    """Return the value that records a range in a metarange."""
    fields = zip(_FIELDS, record[1:], strict=True)
    return encode_value(record.id.encode(), RANGE_DATA.encode(dict(fields)))


def decode_range_record(value: bytes) -> RangeRecord:
    """Return the range that a value of a metarange records."""
    try:
        message = RANGE_DATA.decode(decode_value(value)[1])
    except Malformed:
        raise MalformedValue("no range") from None
    return RangeRecord(range_id_of(value), *message.values())


def range_id_of(value: bytes) -> RangeId:
    """Return the ID of the range that a value of a metarange records."""
    try:
        return RangeId(value[ID_PART].decode("latin-1") if value[:2] == _ID_FRAME else "")
    except MalformedId:
        raise MalformedValue("a range without an ID") from None


_BLOCK_SIZE: Final = 1 << 10
"""Estimated memory of a block of an outlined metarange, in bytes; few blocks are ever decoded."""


class Metarange:
    """A parsed metarange: the last keys of its ranges, and their encoded records.

    Args:
        id: the ID of the metarange; ``""`` for the empty tree.
        keys: the last key of each range, ascending.
        values: the record of each range, encoded.
        range_entries: N if the ranges were cut by this version's rule, else ``None``.
        blocks: the blocks of the file, if it has an outline. Blocks are read only when needed, and
            a tree made from this one copies most of them.
    """

    __slots__ = ("_record_ids", "blocks", "id", "keys", "range_entries", "values")

    def __init__(
        self,
        id: MetarangeId,
        keys: Sequence[bytes],
        values: Sequence[bytes],
        *,
        range_entries: int | None,
        blocks: OutlinedBlocks | None = None,
    ) -> None:
        self.id = id
        self.keys = keys
        self.values = values
        self.range_entries = range_entries
        self.blocks = blocks
        self._record_ids: bytes | None = None
        if blocks is not None:
            self._record_ids = blocks.outline.record_ids

    @property
    def size(self) -> int:
        """Estimated memory of the metarange, in bytes."""
        if self.blocks is None:
            return sum(map(len, self.keys)) + sum(map(len, self.values)) + 200 * len(self.keys)
        outline = self.blocks.outline
        size = len(outline.record_ids) + _BLOCK_SIZE * len(outline.sizes)
        if self.blocks.is_whole:
            size += sum(outline.key_sizes) + sum(outline.value_sizes) + 200 * len(self.keys)
        return size

    @property
    def record_ids(self) -> bytes:
        """The ``identity.record_id`` of each record, concatenated."""
        if self._record_ids is None:
            self._record_ids = digests(self.keys, self.values)[1]
        return self._record_ids

    def __len__(self) -> int:
        return len(self.keys)

    def record(self, position: int) -> RangeRecord:
        """Decode the record of the range at a position."""
        return decode_range_record(self.values[position])

    def records(self) -> Iterator[RangeRecord]:
        """Decode the records of all ranges, in key order."""
        return map(decode_range_record, self.values)

    def find(self, key: bytes, first: int = 0) -> int:
        """Return the position of the first range that may have a key >= `key`, at least `first`."""
        if self.blocks is not None:
            return max(first, self.blocks.find(key))
        return bisect_left(self.keys, key, first)

    def has_ranges(self, first: int, last: int, other: "Metarange", at: int) -> bool:
        """Return whether ranges `first` to before `last` equal those of `other` from `at` on."""
        return self.count_equal(first, other, at, last - first) == last - first

    def count_equal(self, first: int, other: "Metarange", at: int, most: int) -> int:
        """Return how many ranges from `first` on equal the other tree's ranges from `at` on.

        Args:
            most: the largest number of ranges to compare; both trees must have as many.
        """

        def is_equal(start: int, end: int) -> bool:
            theirs = other.record_ids[(at + start) * DIGEST_SIZE : (at + end) * DIGEST_SIZE]
            bounds = (first + start) * DIGEST_SIZE, (first + end) * DIGEST_SIZE
            return self.record_ids.startswith(theirs, *bounds)

        return count_equal(is_equal, most)

    def value_of(self, range_id: RangeId, key: bytes) -> bytes | None:
        """Return the encoded record of the range with this ID and last key, or ``None``."""
        position = self.find(key)
        if position == len(self.keys) or self.values[position][ID_PART] != range_id.encode():
            return None
        return self.values[position]


_WHO_NEEDS_IT: Final = "see which commits and paths need it: `fsck REPOSITORY`"


def load_metarange(tree: MetarangeId, table: SSTable) -> Metarange:
    """Parse an open metarange and verify its name.

    Raises:
        IntegrityError: the table is damaged, is a range, or has another name or number of ranges
            than its records give.
    """
    metarange = parse_metarange(tree, table)
    if not is_ours(table):
        name = name_of_table(table, metarange.keys, metarange.values)
    else:
        name = tree_id([metarange.record_ids])
    what = None if name == tree else "its name is not the digest of its records"
    if len(metarange) != table.count:  # if the count is right, no block is empty
        what = f"{len(metarange)} ranges, but its properties say {table.count}"
    if what is not None:
        raise IntegrityError(f"{table.name}: {what}", hint=_WHO_NEEDS_IT)
    return metarange


def parse_metarange(tree: MetarangeId, table: SSTable) -> Metarange:
    """Parse an open metarange without verifying its name; the caller verifies it."""
    check_kind(table, "metarange")
    blocks = table.read_all()
    range_entries = decode_tree_property(table.properties.get(TREE_PROPERTY))
    return Metarange(tree, blocks.keys, blocks.values, range_entries=range_entries)


def check_kind(table: Directory, kind: str) -> None:
    """Raise `IntegrityError` unless a table is of the expected kind: a range or a metarange."""
    if table.properties.get("type") != f"{kind}s".encode():
        raise IntegrityError(f"{table.name} is not a {kind}", hint=_WHO_NEEDS_IT)


_LAKEFS_PROPERTIES: Final = frozenset({"entity", "schema_definition", "schema_name", "type"})
"""The properties that lakeFS includes in the hash that names a table."""


def name_of_table(table: SSTable, keys: Sequence[bytes], values: Sequence[bytes]) -> str:
    """Return the name that a table must have, by the rule of the program that wrote the table."""
    if is_ours(table):
        return name_of_records(keys, values)
    return _lakefs_name(table, keys, values)


def name_of_records(keys: Sequence[bytes], values: Sequence[bytes]) -> str:
    """Return the name that lakecli gives a table of these records."""
    return tree_id([digests(keys, values)[1]])


def _lakefs_name(table: SSTable, keys: Sequence[bytes], values: Sequence[bytes]) -> str:
    """Compute the name that lakeFS gives a table."""
    from hashlib import sha256  # with OpenSSL, which lakecli's own tables do not need

    digest = sha256()
    for key, value in zip(keys, values, strict=True):
        digest.update(b"%d%b|%d%b|" % (len(key), key, len(value), value))
    properties = table.properties
    known = properties.keys() & _LAKEFS_PROPERTIES
    texts = {name: properties[name].decode("utf-8", "surrogateescape") for name in known}
    digest.update(frame_map(texts))
    return digest.hexdigest()


WRITER_PROPERTY: Final = "writer"
WRITER: Final = b"lakecli"


class Mismatch(IntegrityError):
    """The contents of a well-formed range differ from the record in its metarange."""

    def __init__(self, name: str, what: str) -> None:
        message = f"{name} is not the range that its metarange describes: {what}"
        super().__init__(message, hint="see what it affects: `fsck REPOSITORY`")


def is_ours(table: Directory) -> bool:
    """Return whether lakecli wrote a table, so that its block ends depend on its records alone."""
    return table.properties.get(WRITER_PROPERTY) == WRITER


def check_described(table: Directory, record: RangeRecord) -> None:
    """Compare a range's properties with its record in the metarange; no entries are read.

    Raises:
        Mismatch: the properties and the record differ.
    """
    check_kind(table, "range")
    if table.count != record.count:
        raise Mismatch(table.name, f"{table.count} records instead of {record.count}")
    if is_ours(table):  # releases of lakeFS before 2021 wrote wrong min_keys
        first, last = table.properties.get("min_key"), table.properties.get("max_key")
        if (first, last) != (record.min_key, record.max_key):
            raise Mismatch(table.name, f"its keys reach from {first!r} to {last!r}")


def iter_runs(table: SSTable, record: RangeRecord) -> Iterator[Run]:
    """Yield the decoded blocks of a range, many at a time.

    Raises:
        Mismatch: the first key, the last key or the number of records is not as in `record`.
    """
    last = None
    count = 0
    for run in table.runs():
        if not run.keys:
            continue
        if last is None and run.keys[0] != record.min_key:
            raise Mismatch(table.name, f"its first key is {run.keys[0]!r}")
        last = run.keys[-1]
        if last > record.max_key:
            raise Mismatch(table.name, f"it has the key {last!r}")
        count += len(run.keys)
        yield run
    if last != record.max_key or count != record.count:
        raise Mismatch(table.name, f"it has {count} records, the last key is {last!r}")
