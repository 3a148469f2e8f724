"""Reading a tree: one path, or many in order.

How many entries ranges hold, as far as that can be checked without reading them.

A metarange claims a count for each range, and anybody can forge one. A listing of the namespace
costs little in comparison, and says which ranges exist and how large they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from lakecli.base.layout import SSTABLES
from lakecli.committed.metaranges import RangeRecord

if TYPE_CHECKING:
    from lakecli.base.model import MetarangeId
    from lakecli.committed.tree_store import TreeStore
    from lakecli.stores.contract import ObjectStore


def find(trees: TreeStore, tree: MetarangeId, key: bytes) -> bytes | None:
    """Return the encoded value of one path, or ``None``.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
    return trees.points.find(tree, key)


def scan(
    trees: TreeStore, tree: MetarangeId, *, start: bytes = b"", prefix: bytes = b""
) -> Iterator[tuple[bytes, bytes]]:
    """Yield paths and encoded values in order.

    Args:
        trees: the store that holds the tree.
        tree: the tree to read.
        start: only paths no less than it.
        prefix: only paths that start with it.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
    from lakecli.committed.cursor import Cursor, Standing  # `find` walks over nothing
    from lakecli.committed.listing import prefix_end

    cursor = Cursor(trees, trees.metarange(tree), start=max(start, prefix), stop=prefix_end(prefix))
    while cursor.standing != Standing.END:
        if cursor.standing == Standing.RANGE:
            cursor.enter_range()
        elif cursor.standing == Standing.BLOCK:
            cursor.enter_block()
        else:
            yield from zip(*cursor.take(len(cursor.keys)), strict=True)


SMALLEST_ENTRY: Final = 8
"""Bytes that an entry takes in a range at least, compressed."""


def count_entries(store: ObjectStore, ranges: Iterable[RangeRecord], *, check_from: int) -> int:
    """Return how many entries ranges hold, at most.

    Args:
        store: the storage namespace.
        ranges: as metaranges describe them.
        check_from: if the metaranges claim at least so many entries, each range counts for no more
            entries than fit into its object, and for none if it has no object.
    """
    claims: dict[str, int] = {each.id: max(0, each.count) for each in ranges}
    claimed = sum(claims.values())
    if claimed < check_from:
        return claimed
    sizes = ((info.key.removeprefix(SSTABLES), info.size) for info in store.list(SSTABLES))
    return sum(min(claims.get(name, 0), size // SMALLEST_ENTRY) for name, size in sizes)


def count_existing(store: ObjectStore, ids: Collection[str]) -> int:
    """Return how many of some ranges have an object in the storage namespace."""
    return sum(info.key.removeprefix(SSTABLES) in ids for info in store.list(SSTABLES))
