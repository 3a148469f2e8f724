"""Moves of refs in the bucket that were begun here, until their outcome is recorded.

The table also has the notes of moves that are still to be begun (`lakecli.repository.core.unsent`).

::

    INTENTS  repository ‖ id (16 bytes) -> fields as JSON

A row is written before the first request of a move and deleted in the transaction that records
its outcome. An interrupted command leaves it to the next command, which looks the move up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lakecli.errors import IntegrityError
from lakecli.kv.env import ReadTransaction, Table, owner_key


class IntentStore:
    """The begun moves of one repository; writing needs a write transaction.

    Args:
        txn: the moment to read, or the transaction to write in.
        repository: the 16 bytes of its UUID.
    """

    def __init__(self, txn: ReadTransaction, repository: bytes) -> None:
        self._txn = txn
        self._repository = owner_key(repository)

    def put(self, id: bytes, fields: Mapping[str, Any]) -> None:
        """Write a row; `fields` are values of JSON."""
        data = json.dumps(dict(fields), separators=(",", ":")).encode("ascii")
        self._txn.for_writing().put(Table.INTENTS, self._repository + id, data)

    def find(self, id: bytes) -> dict[str, Any] | None:
        """Return the fields of a row, or ``None``."""
        data = self._txn.get(Table.INTENTS, self._repository + id)
        return None if data is None else _load(data)

    def iter(self) -> Iterator[tuple[bytes, dict[str, Any]]]:
        """Yield all of them as (ID, fields), by ID."""
        cut = len(self._repository)
        for key, data in self._txn.scan(Table.INTENTS, prefix=self._repository):
            yield key[cut:], _load(data)

    def delete(self, id: bytes) -> bool:
        """Delete a row; return whether there was one."""
        return self._txn.for_writing().delete(Table.INTENTS, self._repository + id)


def _load(data: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(data))
    except (TypeError, ValueError) as error:
        raise IntegrityError(
            "the record of a begun move in the local store is malformed",
            hint="the store may be damaged: move it away and start a new one",
        ) from error
