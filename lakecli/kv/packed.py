"""The commits in the bucket, and the pack of each; a push uploads only the others.

::

    PACKED  repository ‖ c ‖ commit ID (32 bytes) -> pack ID (32 bytes)
            repository ‖ p ‖ pack ID (32 bytes)   -> empty: a pack that was read or written here
                                                     01: another known pack replaces it

A commit in several packs, because one replaces others, is recorded with the last added.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from lakecli.ids import CommitId, PackId
from lakecli.kv.env import ReadTransaction, Table, owner_key

_COMMIT: Final = b"c"
_PACK: Final = b"p"
_REPLACED: Final = b"\1"


class PackedStore:
    """The packs of one repository that this clone knows; writing needs a write transaction.

    Args:
        txn: the transaction to read or write in.
        repository: the 16 bytes of its UUID.
    """

    def __init__(self, txn: ReadTransaction, repository: bytes) -> None:
        self._txn = txn
        self._repository = owner_key(repository)

    def add(
        self, pack_id: PackId, commit_ids: Iterable[CommitId], *, replaces: Iterable[PackId] = ()
    ) -> None:
        """Record a pack in the bucket, and its commits.

        The packs that it replaces count as known too, because it holds all of their commits.
        """
        txn = self._txn.for_writing()
        pack = bytes.fromhex(pack_id)
        txn.put_new(Table.PACKED, self._repository + _PACK + pack, b"")
        for replaced in replaces:
            key = self._repository + _PACK + bytes.fromhex(replaced)
            txn.put(Table.PACKED, key, _REPLACED)
        rows = ((commit, pack) for commit in sorted(map(bytes.fromhex, commit_ids)))
        txn.put_sorted(Table.PACKED, rows, prefix=self._repository + _COMMIT)

    def find_pack(self, commit_id: CommitId) -> PackId | None:
        """Return the known pack of a commit, or ``None``."""
        key = self._repository + _COMMIT + bytes.fromhex(commit_id)
        pack = self._txn.get(Table.PACKED, key)
        return None if pack is None else PackId.of_bytes(pack)

    def known_packs(self) -> Iterator[PackId]:
        """Yield the packs that were read or written here, by ID."""
        under = self._repository + _PACK
        for key in self._txn.scan_keys(Table.PACKED, prefix=under):
            yield PackId.of_bytes(key[len(under) :])

    def forget(self, pack_ids: Collection[PackId]) -> None:
        """Delete the records of packs that are not in the bucket, and of their commits."""
        if not pack_ids:
            return
        txn = self._txn.for_writing()
        gone = {bytes.fromhex(pack_id) for pack_id in pack_ids}
        for pack in gone:
            txn.delete(Table.PACKED, self._repository + _PACK + pack)
        under = self._repository + _COMMIT
        rows = [key for key, pack in txn.scan(Table.PACKED, prefix=under) if pack in gone]
        for key in rows:
            txn.delete(Table.PACKED, key)

    def live_packs(self) -> Iterator[PackId]:
        """Yield the known packs that no other known pack replaces, by ID."""
        under = self._repository + _PACK
        for key, value in self._txn.scan(Table.PACKED, prefix=under):
            if value != _REPLACED:
                yield PackId.of_bytes(key[len(under) :])
