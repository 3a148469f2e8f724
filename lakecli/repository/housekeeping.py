"""Letting old operations go, about once a day and in batches that nobody notices.

An operation can be undone for 30 days. After that it is deleted with its images and the staging
tokens that belong to it, unless a branch or a younger operation needs one of those: undoing gives
a token back to its branch, where the next commit seals it again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from lakecli.kv import operations as log
from lakecli.model import StagingToken
from lakecli.refs.store import RefStore
from lakecli.repository import tokens
from lakecli.staging import area

if TYPE_CHECKING:
    from datetime import datetime

    from lakecli.kv.env import WriteTransaction
    from lakecli.kv.operations import Operation
    from lakecli.repository.lake import Repository

KEPT_FOR: Final = timedelta(days=30)
SLACK: Final = timedelta(days=1)
"""How far the oldest operation may be past its time before the log is looked through."""

BATCH: Final = 2_000
"""Records deleted at one time, at most."""


def tidy(repository: Repository) -> int:
    """Delete at most `BATCH` records of expired operations, and return how many."""
    cutoff = repository.lake.now() - KEPT_FOR
    with repository.lake.kv.read() as txn:
        oldest = log.find_oldest(txn, repository.key)
    if oldest is None or oldest.at >= cutoff - SLACK:
        return 0
    deleted = 0
    with repository.lake.kv.write() as txn:
        needed = _needed_tokens(txn, repository, cutoff)
        while deleted < BATCH:
            oldest = log.find_oldest(txn, repository.key)
            if oldest is None or oldest.at >= cutoff:
                break
            deleted += _expire(txn, oldest, needed, limit=BATCH - deleted)
    return deleted


def _expire(txn: WriteTransaction, operation: Operation, needed: set[bytes], *, limit: int) -> int:
    """Delete an operation's tokens, then the operation; stop at `limit`."""
    deleted = 0
    for token in map(StagingToken, operation.sealed):
        if token in needed:
            continue
        deleted += area.drop(txn, token, limit=limit - deleted)
        if deleted >= limit:
            return deleted
        tokens.forget(txn, token)
    return deleted + log.remove(txn, operation, limit=limit - deleted)


def _needed_tokens(txn: WriteTransaction, repository: Repository, cutoff: datetime) -> set[bytes]:
    """Return the tokens of branches, and of operations that are not expired."""
    needed: set[bytes] = set()
    for branch in RefStore(txn, repository.key).iter_branches():
        needed.update((branch.staging_token, *branch.sealed_tokens))
    for operation in log.iter_operations(txn, repository.key):
        if operation.at < cutoff:
            break
        needed.update(operation.sealed)
    return needed
