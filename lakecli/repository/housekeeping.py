"""Letting old operations go, a little with every commit.

An operation can be undone for 30 days. After that it is deleted with its images and the staging
tokens that belong to it, in batches small enough that nobody notices.
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
    from lakecli.kv.env import WriteTransaction
    from lakecli.kv.operations import Operation
    from lakecli.repository.lake import Repository

KEPT_FOR: Final = timedelta(days=30)
BATCH: Final = 2_000
"""Records deleted at one time, at most."""


def tidy(repository: Repository) -> int:
    """Delete at most `BATCH` records of expired operations, and return how many."""
    cutoff = repository.lake.now() - KEPT_FOR
    with repository.lake.kv.read() as txn:
        oldest = log.find_oldest(txn, repository.key)
    if oldest is None or oldest.at >= cutoff:
        return 0
    deleted = 0
    with repository.lake.kv.write() as txn:
        while deleted < BATCH:
            oldest = log.find_oldest(txn, repository.key)
            if oldest is None or oldest.at >= cutoff:
                break
            deleted += _expire(txn, repository, oldest, limit=BATCH - deleted)
    return deleted


def _expire(
    txn: WriteTransaction, repository: Repository, operation: Operation, *, limit: int
) -> int:
    """Delete an operation's tokens, then the operation; stop at `limit`."""
    deleted = 0
    in_use = _tokens_in_use(txn, repository)
    for token in map(StagingToken, operation.sealed):
        if token in in_use:
            continue  # an undone operation gave it back to its branch
        deleted += area.drop(txn, token, limit=limit - deleted)
        if deleted >= limit:
            return deleted
        tokens.forget(txn, token)
    return deleted + log.remove(txn, operation, limit=limit - deleted)


def _tokens_in_use(txn: WriteTransaction, repository: Repository) -> set[bytes]:
    used: set[bytes] = set()
    for branch in RefStore(txn, repository.key).iter_branches():
        used.update((branch.staging_token, *branch.sealed_tokens))
    return used
