"""Tracked refs: the positions of the refs in the bucket when this clone last read them.

::

    TRACKING  repository ‖ kind ‖ 00 ‖ name -> position as JSON

A ref that was deleted in the bucket stays here, without a commit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from lakecli.errors import IntegrityError
from lakecli.ids import CommitId, MalformedId, WriteId
from lakecli.kv.env import ReadTransaction, Table, owner_key
from lakecli.model import RefKind

_REMEMBERED: Final = 1 << 14
"""Records that are parsed once: a push of many branches reads all of them for each branch."""


class Tracked(NamedTuple):
    """The position of a ref in the bucket.

    Attributes:
        kind: a branch or a tag.
        name: the name of the ref.
        commit_id: the commit it stood on; ``None``: it was deleted.
        sequence: the number of its last move.
        write_id: the write ID of its last move.
        version: the version of its object; a listing with another version shows that it moved.
    """

    kind: RefKind
    name: str
    commit_id: CommitId | None
    sequence: int
    write_id: WriteId
    version: str


class TrackingStore:
    """The tracked refs of one repository; writing needs a write transaction.

    Args:
        txn: the moment to read, or the transaction to write in.
        repository: the 16 bytes of its UUID.
    """

    def __init__(self, txn: ReadTransaction, repository: bytes) -> None:
        self._txn = txn
        self._repository = owner_key(repository)

    def find(self, kind: RefKind, name: str) -> Tracked | None:
        """Return a tracked ref; ``None`` if this clone never saw it in the bucket."""
        key = self._key(kind, name)
        data = self._txn.get(Table.TRACKING, key)
        return None if data is None else _load(key[len(self._repository) :], data)

    def position(self, kind: RefKind, name: str) -> CommitId | None:
        """Return the commit of a tracked ref; ``None`` if it is unknown or deleted."""
        tracked = self.find(kind, name)
        return None if tracked is None else tracked.commit_id

    def by_ref(self) -> dict[tuple[RefKind, str], Tracked]:
        """Return all tracked refs by (kind, name)."""
        return {(tracked.kind, tracked.name): tracked for tracked in self.iter()}

    def iter(self, kind: RefKind | None = None, prefix: str = "") -> Iterator[Tracked]:
        """Yield tracked refs, by kind and then by the bytes of their names.

        Args:
            kind: the kind of refs; ``None``: all kinds.
            prefix: the beginning of their names; needs a kind.
        """
        under = self._key(kind, prefix) if kind else self._repository
        cut = len(self._repository)
        for key, data in self._txn.scan(Table.TRACKING, prefix=under):
            yield _load(key[cut:], data)

    def put(self, tracked: Tracked) -> None:
        """Write a position, replacing any earlier one."""
        fields = {
            "commit_id": tracked.commit_id,
            "sequence": tracked.sequence,
            "write_id": tracked.write_id,
            "version": tracked.version,
        }
        data = json.dumps(fields, separators=(",", ":")).encode("ascii")
        self._txn.for_writing().put(Table.TRACKING, self._key(tracked.kind, tracked.name), data)

    def delete(self, kind: RefKind, name: str) -> bool:
        """Forget a ref; return whether it was tracked."""
        return self._txn.for_writing().delete(Table.TRACKING, self._key(kind, name))

    def _key(self, kind: RefKind, name: str) -> bytes:
        return self._repository + kind.encode() + b"\0" + name.encode("utf-8", "surrogateescape")


@lru_cache(_REMEMBERED)
def _load(ref: bytes, data: bytes) -> Tracked:
    kind, _, name = ref.decode("utf-8", "surrogateescape").partition("\0")
    try:
        fields = json.loads(data)
        return Tracked(
            RefKind(kind),
            name,
            None if fields["commit_id"] is None else CommitId(fields["commit_id"]),
            fields["sequence"],
            WriteId(fields["write_id"]),
            fields["version"],
        )
    except (KeyError, TypeError, ValueError, MalformedId) as error:
        raise IntegrityError(
            f"the record of {kind} {name} in the local store is malformed",
            hint="the store may be damaged: move it away and start a new one",
        ) from error
