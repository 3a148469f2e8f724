"""Transactions on a local store that are rolled back, and branches that must be there."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.base.model import Branch
    from lakecli.kv.local_store import LocalStore, WriteTransaction
    from lakecli.refs.ref_store import RefStore


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


def get_branch(refs: RefStore, name: str) -> Branch:
    """Return a branch that exists."""
    branch = refs.find_branch(name)
    assert branch is not None, name
    return branch
