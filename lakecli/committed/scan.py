"""Reading a tree: one path, or many in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakecli.committed.tree_store import TreeStore
    from lakecli.model import MetarangeId


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
    from lakecli.committed.keys import prefix_end

    cursor = Cursor(trees, trees.metarange(tree), start=max(start, prefix), stop=prefix_end(prefix))
    while cursor.standing != Standing.END:
        if cursor.standing == Standing.RANGE:
            cursor.enter_range()
        elif cursor.standing == Standing.BLOCK:
            cursor.enter_block()
        else:
            yield from zip(*cursor.take(len(cursor.keys)), strict=True)
