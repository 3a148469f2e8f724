"""Open ranges, and the trees that they are part of, as `PointReader` keeps them."""

from __future__ import annotations

from lakecli.typed import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lakecli.committed.metaranges import Metarange, RangeRecord
    from lakecli.committed.reads import Tier
    from lakecli.sstable.reader import Table

    Source = tuple[Table, dict[bytes, bytes], set[int]]

_NO_RECORDS: Final[dict[bytes, bytes]] = {}
_INDEX_ENTRY_SIZE: Final = 250


class OpenRange:
    """An open range, and those of its records that are in memory.

    Attributes:
        tier: where its blocks are read from.
        source: the table, records by key, and the numbers of the blocks that they are all of.
    """

    __slots__ = ("reads", "record", "size", "source", "tier")

    def __init__(self, record: RangeRecord, table: Table, tier: Tier) -> None:
        self.record = record
        self.tier: Tier = tier
        self.reads = 0
        self.size = _INDEX_ENTRY_SIZE * table.block_count
        self.source: Source = table, {}, set()

    def use(self, table: Table) -> None:
        """Read from another copy of the table from now on."""
        before, records, loaded = self.source
        if table.separators != before.separators:
            records, loaded = {}, set()
        self.source = table, records, loaded


class OpenTree:
    """A tree, its open ranges by position, and what of their records is in memory."""

    __slots__ = ("keys", "metarange", "ranges", "records")

    def __init__(self, metarange: Metarange) -> None:
        self.metarange = metarange
        self.keys = metarange.keys
        self.forget()

    def forget(self) -> None:
        """Forget the open ranges."""
        count = len(self.keys)
        self.ranges: list[OpenRange | None] = [None] * count
        self.records = [_NO_RECORDS] * (count + 1)  # the last one is of keys after all ranges
