"""Verification of the tables in the bucket, for fsck; damage is returned as data, not raised.

Tables are read from the namespace, bypassing the cache. Everything in them is recomputed: block
checksums, order, bounds and counts, the table's name, and the identities of entries if lakecli
wrote the table. lakeFS has used several formulas for identities; the result of any of them is
accepted.

A metarange records the number of entries of each range, but anybody can forge a metarange. To check
these numbers cheaply, `count_entries` lists the namespace, which shows the size of each range.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final, NamedTuple

from lakecli.base.identity import blake3_of, frame_int, frame_map, frame_str
from lakecli.base.layout import SSTABLES, sstable_key
from lakecli.base.model import Entry, MetarangeId
from lakecli.committed import metaranges
from lakecli.committed.metaranges import Metarange, RangeRecord, is_ours, name_of_table
from lakecli.committed.splitter import Splitter
from lakecli.committed.tree_store import TreeStore
from lakecli.committed.values import decode_entry, identify, identity_of
from lakecli.errors import IntegrityError
from lakecli.sstable.reader import BytesSource, SSTable
from lakecli.stores.contract import ObjectStore


class Problem(NamedTuple):
    """A defect of a table.

    Attributes:
        key: the key of the object in the namespace.
        path: the path of the affected entry, if the defect concerns a single entry.
    """

    key: str
    what: str
    path: bytes | None = None


class CheckedEntry(NamedTuple):
    """An entry whose data object must exist."""

    path: bytes
    physical_address: str
    size: int
    checksum: str
    modified_at: datetime | None = None


def check_metarange(trees: TreeStore, tree: MetarangeId) -> tuple[list[RangeRecord], list[Problem]]:
    """Verify a metarange; return the ranges that could be read, and the problems."""
    if not tree:
        return [], []
    key = sstable_key(tree)
    try:
        table = trees.read_object(tree)
        metarange = metaranges.parse_metarange(tree, table)
    except IntegrityError as error:
        return [], [Problem(key, error.message)]
    problems: list[Problem] = []
    records: list[RangeRecord] = []
    for value in metarange.values:
        try:
            records.append(metaranges.decode_range_record(value))
        except IntegrityError as error:
            problems.append(Problem(key, error.message))
    problems += [Problem(key, what) for what in _check_records(metarange, records)]
    if len(metarange) != table.count:
        what = f"{len(metarange)} ranges, but its properties say {table.count}"
        problems.append(Problem(key, what))
    if not problems and name_of_table(table, metarange.keys, metarange.values) != tree:
        problems.append(Problem(key, "its name is not the digest of its ranges"))
    return records, problems


def check_range(trees: TreeStore, record: RangeRecord) -> Iterator[CheckedEntry | Problem]:
    """Verify a range; yield its entries and its problems.

    A damaged block does not hide the entries and problems of the blocks after it.
    """
    key = sstable_key(record.id)
    try:
        table = trees.read_object(record.id)
        metaranges.check_kind(table, "range")
    except IntegrityError as error:
        yield Problem(key, error.message)
        return
    keys: list[bytes] = []
    values: list[bytes] = []
    is_sound = True
    for number in range(table.block_count):
        try:
            block = table.block(number)
        except IntegrityError as error:
            is_sound = False
            after = keys[-1] if keys else record.min_key
            yield Problem(key, f"{error.message}; the records after {after!r} are lost")
            continue
        for path, value in zip(block.keys, block.values, strict=True):
            yield from _check_entry(key, path, value, is_ours=is_ours(table))
        keys += block.keys
        values += block.values
    if is_sound:
        for what in _check_range_whole(table, record, keys, values):
            yield Problem(key, what)


def problem_of_copy(table_id: str, data: bytes) -> str | None:
    """Return why `data` is not the table with this ID; ``None`` if `data` is this table."""
    try:
        table = SSTable(BytesSource(table_id, data))
        blocks = table.read_all()
        name = name_of_table(table, blocks.keys, blocks.values)
    except IntegrityError as error:
        return error.message
    return None if name == table_id else "its name is not the digest of its records"


def _check_records(metarange: Metarange, records: Sequence[RangeRecord]) -> Iterator[str]:
    """Yield defects of a metarange's records: contradictions, overlaps and wrong ends of ranges."""
    if len(records) != len(metarange):
        return
    last: RangeRecord | None = None
    for key, record in zip(metarange.keys, records, strict=True):
        if key != record.max_key or record.min_key > key or record.count < 1:
            yield f"its record of range {record.id} contradicts itself"
        if last is not None and record.min_key <= last.max_key:
            yield f"ranges {last.id} and {record.id} overlap"
        last = record
    if metarange.range_entries is None:
        return
    try:
        splitter = Splitter(metarange.range_entries)
    except ValueError as error:
        yield str(error)
        return
    for record in records[:-1]:
        if not splitter.is_cut(blake3_of(record.max_key), record.count):
            yield f"range {record.id} ends at a key where the splitting rule does not cut"


def _check_range_whole(
    table: SSTable, record: RangeRecord, keys: Sequence[bytes], values: Sequence[bytes]
) -> Iterator[str]:
    """Verify the records of a range against its metarange and its name."""
    if len(keys) != record.count or len(keys) != table.count:
        yield f"{len(keys)} records, but its metarange says {record.count}"
    if keys and (keys[0] != record.min_key or keys[-1] != record.max_key):
        recorded = f"its metarange says {record.min_key!r} to {record.max_key!r}"
        yield f"its keys reach from {keys[0]!r} to {keys[-1]!r}, but {recorded}"
    try:
        name = name_of_table(table, keys, values)
    except IntegrityError:
        return  # already reported for the entry
    if name != record.id:
        yield "its name is not the digest of its records"


def _check_entry(
    key: str, path: bytes, value: bytes, *, is_ours: bool
) -> Iterator[CheckedEntry | Problem]:
    try:
        entry = decode_entry(value)
        identity = identity_of(value)
    except IntegrityError as error:
        yield Problem(key, error.message, path)
        return
    if is_ours and identity != identify(entry) and identity not in _lakefs_identities(entry):
        yield Problem(key, "the entry does not match its identity", path)
    yield CheckedEntry(path, *entry[:4])


def _lakefs_identities(entry: Entry) -> Iterator[bytes]:
    """Yield the identities that releases of lakeFS compute for an entry, the newest first."""
    old = frame_int(entry.size) + frame_str(entry.checksum) + frame_map(entry.metadata)
    if entry.content_type:
        yield sha256(old + frame_str(entry.content_type)).digest()
    yield sha256(old).digest()  # before October 2021, or without a content type
    yield sha256(frame_str(entry.physical_address) + old).digest()  # before April 2021


SMALLEST_ENTRY: Final = 8
"""Smallest size of an entry in a range, in bytes, after compression."""


def count_entries(trees: TreeStore, *ids: MetarangeId, check_from: int) -> int:
    """Return an upper bound of the number of entries in the distinct ranges of some trees.

    The bound is the sum of the counts that the metaranges record.

    Args:
        check_from: from this sum on, the recorded counts are checked by listing the namespace. Then
            each range counts for at most the entries that fit into its object, and for none if its
            object is missing.
    """
    ranges = (each for tree in ids for each in trees.metarange(tree).records())
    claims: dict[str, int] = {each.id: max(0, each.count) for each in ranges}
    claimed = sum(claims.values())
    if claimed < check_from:
        return claimed
    sizes = ((info.key.removeprefix(SSTABLES), info.size) for info in trees.store.list(SSTABLES))
    return sum(min(claims.get(name, 0), size // SMALLEST_ENTRY) for name, size in sizes)


def count_existing(store: ObjectStore, ids: Collection[str]) -> int:
    """Return how many of the given ranges have an object in the storage namespace."""
    return sum(info.key.removeprefix(SSTABLES) in ids for info in store.list(SSTABLES))
