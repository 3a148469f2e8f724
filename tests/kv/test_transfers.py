from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakecli.kv import transfers
from tests.support.stores import scratch

if TYPE_CHECKING:
    from lakecli.kv.local_store import LocalStore

ONE, OTHER = b"1" * 16, b"2" * 16
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_uploads_of_one_repository(store: LocalStore) -> None:
    first = transfers.UnfinishedTransfer("ab" * 32, "some id", 8 << 20, AT)
    second = transfers.UnfinishedTransfer("cd" * 32, "ü/other", 16 << 20, AT + timedelta(days=1))
    with scratch(store) as txn:
        transfers.put(txn, ONE, second)
        transfers.put(txn, ONE, first)
        transfers.put(txn, OTHER, second)
        transfers.set_looked_at(txn, ONE, AT)
        assert list(transfers.iterate(txn, ONE)) == [first, second]
        assert transfers.find(txn, ONE, "ab" * 32) == first
        assert transfers.find(txn, OTHER, "ab" * 32) is None
        assert (transfers.looked_at(txn, ONE), transfers.looked_at(txn, OTHER)) == (AT, None)
        transfers.delete(txn, ONE, "ab" * 32)
        transfers.delete(txn, ONE, "ab" * 32)
        assert list(transfers.iterate(txn, ONE)) == [second]
