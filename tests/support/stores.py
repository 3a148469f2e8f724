"""Transactions on a local store that are rolled back."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.kv.local_store import LocalStore, WriteTransaction


class _RollBackError(Exception):
    pass


def _roll_back() -> None:
    raise _RollBackError


@contextmanager
def scratch(store: LocalStore) -> Iterator[WriteTransaction]:
    """Give a write transaction that is rolled back, so that it needs no sync."""
    with suppress(_RollBackError), store.write() as txn:
        yield txn
        _roll_back()
