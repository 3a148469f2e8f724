"""Reading the records of one range, as the metarange announces it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakecli.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.committed.metaranges import RangeRecord
    from lakecli.sstable.reader import Block, Table

WRITER_PROPERTY: Final = "writer"
WRITER: Final = b"lakecli"


class Mismatch(IntegrityError):
    """A sound range that does not hold what its metarange says."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(
            f"{name} is not the range its tree describes: {what}", hint="run lakecli fsck"
        )


def is_ours(table: Table) -> bool:
    """Whether lakecli wrote a table, and cut its blocks where the records decide."""
    return table.properties.get(WRITER_PROPERTY) == WRITER


def check_described(table: Table, record: RangeRecord) -> None:
    """Refuse a range that is not the one its metarange describes, as far as its end can tell.

    Raises:
        Mismatch: it is another one.
    """
    if table.count != record.count:
        raise Mismatch(table.name, f"{table.count} records instead of {record.count}")
    if is_ours(table):  # lakeFS wrote wrong min_keys for some time
        first, last = table.properties.get("min_key"), table.properties.get("max_key")
        if (first, last) != (record.min_key, record.max_key):
            raise Mismatch(table.name, f"it reaches from {first!r} to {last!r}")


def iter_blocks(table: Table, record: RangeRecord) -> Iterator[Block]:
    """Yield the blocks of a range, decoded, none of them empty.

    Raises:
        CorruptTable: a block is damaged.
        Mismatch: the records are not those that the metarange announces.
    """
    first = last = None
    count = 0
    for number in range(table.block_count):
        block = table.block(number)
        if not block.keys:
            continue
        if first is None:
            first = block.keys[0]
            if first != record.min_key:
                raise Mismatch(table.name, f"it begins with {first!r}")
        last = block.keys[-1]
        if last > record.max_key:
            raise Mismatch(table.name, f"it reaches up to {last!r}")
        count += len(block.keys)
        yield block
    if last != record.max_key or count != record.count:
        raise Mismatch(table.name, f"{count} records, the last one {last!r}")
