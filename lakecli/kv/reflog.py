"""The moves of refs in the bucket, as far as this clone has read them.

::

    REFLOG  repository ‖ h(kind ‖ 00 ‖ name) ‖ sequence (8 bytes, big-endian) -> fields as JSON

`lakecli.remote` defines the fields of a move; here it is a sequence number and a JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from lakecli.errors import IntegrityError
from lakecli.kv.env import ReadTransaction, Table, owner_key

if TYPE_CHECKING:
    from lakecli.model import RefKind

_SEQUENCE_SIZE: Final = 8


class ReflogStore:
    """The moves of one repository's refs; writing needs a write transaction.

    Args:
        txn: the transaction to read or write in.
        repository: the 16 bytes of its UUID.
    """

    def __init__(self, txn: ReadTransaction, repository: bytes) -> None:
        self._txn = txn
        self._repository = owner_key(repository)

    def put_moves(self, kind: RefKind, name: str, moves: Iterable[Mapping[str, Any]]) -> None:
        """Write moves of a ref, as JSON objects with a ``sequence``."""
        txn = self._txn.for_writing()
        under = self._prefix(kind, name)
        for fields in moves:
            key = under + int(fields["sequence"]).to_bytes(_SEQUENCE_SIZE)
            data = json.dumps(dict(fields), separators=(",", ":")).encode("ascii")
            txn.put(Table.REFLOG, key, data)

    def iter_moves(self, kind: RefKind, name: str) -> Iterator[dict[str, Any]]:
        """Yield the moves of a ref, newest first."""
        for _, data in self._txn.scan_reverse(Table.REFLOG, prefix=self._prefix(kind, name)):
            try:
                yield dict(json.loads(data))
            except (TypeError, ValueError) as error:
                raise IntegrityError(
                    f"a record in the local store is not valid: a move of {name}",
                    hint="the store may be damaged: move it away and start a new one",
                ) from error

    def delete(self, kind: RefKind, name: str) -> None:
        """Delete the moves of a ref."""
        txn = self._txn.for_writing()
        for key in list(txn.scan_keys(Table.REFLOG, prefix=self._prefix(kind, name))):
            txn.delete(Table.REFLOG, key)

    def _prefix(self, kind: RefKind, name: str) -> bytes:
        from lakecli.identity import h  # a name may be as long as a key

        ref = kind.encode() + b"\0" + name.encode("utf-8", "surrogateescape")
        return self._repository + h(ref)
