"""Writing a tree of lakeFS again as lakecli cuts it, once for each.

The ranges of lakeFS end elsewhere, so a commit on top of them would write the whole tree again, and
so would the next one on another branch. `canonical` writes the tree without changes first, and
remembers the result: then every commit and merge writes only the ranges that it touches.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from lakecli.base.model import MetarangeId
from lakecli.base.progress import Progress
from lakecli.committed.metaranges import Metarange
from lakecli.committed.tree_store import TreeStore
from lakecli.committed.writer import TreeWriter

if TYPE_CHECKING:

    class Rebuilt(Protocol):
        """Remembers which tree of lakecli has the contents of a tree of lakeFS."""

        def find(self, tree: MetarangeId) -> MetarangeId | None:
            """Return the tree of lakecli if it is still there; it is claimed."""

        def put(self, tree: MetarangeId, rebuilt: MetarangeId) -> None:
            """Remember the tree of lakecli, which is durable and claimed."""

        def show(self, entries: int) -> AbstractContextManager[Progress]:
            """Show the progress of rebuilding a tree of so many entries."""


def canonical(trees: TreeStore, tree: MetarangeId, *, build: bool) -> Metarange:
    """Return a tree with the same contents, cut as lakecli does it where that is possible.

    Args:
        trees: the store that holds the tree.
        tree: any tree.
        build: rebuild a tree of lakeFS that was not rebuilt yet; else return it as it is.

    Raises:
        IntegrityError: a table that had to be read is missing or damaged.
    """
    found = trees.metarange(tree)
    if trees.rebuilt is None or trees.cuts_as(found):
        return found
    rebuilt = trees.rebuilt()
    known = rebuilt.find(tree)
    if known is not None:
        return trees.metarange(known)
    return trees.metarange(_rebuild(trees, found, rebuilt)) if build else found


def _rebuild(trees: TreeStore, tree: Metarange, rebuilt: Rebuilt) -> MetarangeId:
    """Write a tree again, and remember the result."""
    writer = TreeWriter(trees)
    records = [tree.record(position) for position in range(len(tree))]
    with rebuilt.show(sum(record.count for record in records)) as progress:
        for position, record in enumerate(records):
            writer.copy_ranges(tree, position, position + 1, more=True)
            progress.advance(items=record.count)
        made = writer.finish()
    rebuilt.put(tree.id, made)
    return made
