"""Open ranges, and the trees that they are part of, as `PointReader` keeps them."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Final

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
    """A tree, its open ranges by position, and what of their records is in memory.

    Attributes:
        ranges: the open ranges.
        records: of each range, those in memory.
        whole: the records of ranges that are wholly in memory, in one dictionary.
        whole_size: bytes of that dictionary without its keys and values.
    """

    __slots__ = ("keys", "metarange", "ranges", "records", "whole", "whole_size")

    def __init__(self, metarange: Metarange) -> None:
        self.metarange = metarange
        self.keys = metarange.keys
        self.forget()

    def forget(self) -> None:
        """Forget the open ranges."""
        count = len(self.keys)
        self.ranges: list[OpenRange | None] = [None] * count
        self.records = [_NO_RECORDS] * (count + 1)  # the last one is of keys after all ranges
        self.whole: dict[bytes, bytes] = {}
        self.whole_size = 0

    def in_memory(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each key whose block is in memory, and ``None`` for the others.

        Of ten million records most of a lookup is waiting for memory. The processor begins the
        next lookups while it waits, if they are near in the code: so all keys are hashed before,
        and looked up in one dictionary if it has them all. That takes half of the time.
        """
        deque(map(hash, keys), 0)
        whole = self.whole
        if len(whole) > len(keys) > 1:
            try:
                return list(itemgetter(*keys)(whole))
            except KeyError:
                pass
        ranges = list(map(self.records.__getitem__, map(bisect_left, repeat(self.keys), keys)))
        return list(map(dict.get, ranges, keys))
