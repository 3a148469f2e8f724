from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lakecli.errors import IntegrityError
from lakecli.kv import unfinished_uploads
from lakecli.kv.local_store import Table
from tests.support.stores import scratch

if TYPE_CHECKING:
    from lakecli.kv.local_store import LocalStore

ONE, OTHER = b"1" * 16, b"2" * 16
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_uploads_of_one_repository(store: LocalStore) -> None:
    first = unfinished_uploads.UnfinishedTransfer("ab" * 32, "some id", 8 << 20, AT)
    second = unfinished_uploads.UnfinishedTransfer(
        "cd" * 32, "ü/other", 16 << 20, AT + timedelta(days=1)
    )
    with scratch(store) as txn:
        unfinished_uploads.put_transfer(txn, ONE, second)
        unfinished_uploads.put_transfer(txn, ONE, first)
        unfinished_uploads.put_transfer(txn, OTHER, second)
        unfinished_uploads.set_looked_at(txn, ONE, AT)
        assert list(unfinished_uploads.iter_transfers(txn, ONE)) == [first, second]
        assert unfinished_uploads.find_transfer(txn, ONE, "ab" * 32) == first
        assert unfinished_uploads.find_transfer(txn, OTHER, "ab" * 32) is None
        assert (
            unfinished_uploads.looked_at(txn, ONE),
            unfinished_uploads.looked_at(txn, OTHER),
        ) == (AT, None)
        unfinished_uploads.delete_transfer(txn, ONE, "ab" * 32)
        unfinished_uploads.delete_transfer(txn, ONE, "ab" * 32)
        assert list(unfinished_uploads.iter_transfers(txn, ONE)) == [second]


@pytest.mark.parametrize(
    "row", [b"{}", b"[", b'{"upload": "u", "part_size": 1, "started_at": 1e20}']
)
def test_a_damaged_upload(store: LocalStore, row: bytes) -> None:
    with scratch(store) as txn:
        unfinished_uploads.put_transfer(
            txn, ONE, unfinished_uploads.UnfinishedTransfer("ab" * 32, "u", 1, AT)
        )
        ((key, _),) = txn.scan(Table.TRANSFERS)
        txn.put(Table.TRANSFERS, key, row)
        with pytest.raises(IntegrityError, match="malformed"):
            unfinished_uploads.find_transfer(txn, ONE, "ab" * 32)
