"""Which tree of lakecli has the contents of a tree of lakeFS, as this machine remembers it.

::

    META  rebuilt/ ‖ repository ‖ metarange ID -> metarange ID, 32 bytes each

No commit refers to a rebuilt tree before one is made on top of it, so garbage collection may have
deleted it: it is claimed before it is used, and forgotten if it is gone.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from lakecli.base.ids import MetarangeId
from lakecli.base.progress import Progress
from lakecli.kv.local_store import Table
from lakecli.repository.contract import Repository
from lakecli.repository.guard import Gone, claim_trees

_PREFIX: Final = b"rebuilt/"
_ID_SIZE: Final = 32


class RebuiltTrees:
    """The rebuilt trees of one repository; see `lakecli.committed.tree_store.Rebuilt`."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def find(self, tree: MetarangeId) -> MetarangeId | None:
        """Return the rebuilt tree, claimed; ``None`` if there is none.

        Raises:
            Swept: it was deleted just now.
            SweepRunning: a sweep does not end.
        """
        with self._repository.lake.kv.read() as txn:
            data = txn.get(Table.META, self._key(tree))
        if data is None or len(data) != _ID_SIZE:
            return None
        found = MetarangeId(data.hex())
        try:
            claim_trees(self._repository, [found])
        except Gone:
            return None
        return found

    def put(self, tree: MetarangeId, rebuilt: MetarangeId) -> None:
        """Remember a rebuilt tree."""
        with self._repository.lake.kv.write() as txn:
            txn.put(Table.META, self._key(tree), bytes.fromhex(rebuilt))

    def show(self, entries: int) -> AbstractContextManager[Progress]:
        """Show the progress of rebuilding a tree."""
        return self._repository.lake.runtime.show_rebuild(entries)

    def _key(self, tree: MetarangeId) -> bytes:
        return _PREFIX + self._repository.key + bytes.fromhex(tree)
