"""Letting old operations go, about once a day and in batches that nobody notices.

An operation can be undone for 30 days. After that it is deleted with its images and the staging
tokens that belong to it, unless a branch or a younger operation needs one of those: undoing gives
a token back to its branch, where the next commit seals it again. So a repository that was deleted
here can be brought back for 30 days; then its branches and what is staged on them go as well. Its
commits stay: they are small, and a clone of the same repository may be reading them in.
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

    from lakecli.kv.env import ReadTransaction, WriteTransaction
    from lakecli.kv.operations import Operation
    from lakecli.repository.lake import Repository

KEPT_FOR: Final = timedelta(days=30)
SLACK: Final = timedelta(days=1)
"""How far the oldest operation may be past its time before the log is looked through."""

BATCH: Final = 2_000
"""Records deleted at one time, at most."""


def tidy(repository: Repository) -> int:
    """Delete about `BATCH` records at most that nothing can bring back, and return how many.

    Of this repository, and of those that were deleted on this machine.
    """
    from lakecli.repository import records

    lake = repository.lake
    cutoff = lake.now() - KEPT_FOR
    deleted = _expire_log(repository, cutoff)
    with lake.kv.read() as txn:
        forgotten = list(records.iter_all_forgotten(txn))
    for record in forgotten:
        if deleted >= BATCH:
            break
        deleted += _forget(type(repository)(lake, record), cutoff, limit=BATCH - deleted)
    return deleted


def _expire_log(repository: Repository, cutoff: datetime) -> int:
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


def _forget(repository: Repository, cutoff: datetime, *, limit: int) -> int:
    """Delete what is left of a repository that was deleted too long ago to come back."""
    from lakecli.kv.env import Table
    from lakecli.repository import records
    from lakecli.repository.sharing import tracking

    with repository.lake.kv.read() as txn:
        if not _is_gone(txn, repository, cutoff):
            return 0
    deleted = 0
    with repository.lake.kv.write() as txn:
        is_back = repository.record not in records.iter_all_forgotten(txn)
        if is_back or not _is_gone(txn, repository, cutoff):
            return 0
        refs = RefStore(txn, repository.key)
        for branch in list(refs.iter_branches()):
            for token in (branch.staging_token, *branch.sealed_tokens):
                deleted += area.drop(txn, token, limit=limit - deleted)
                if deleted >= limit:
                    return deleted
                tokens.forget(txn, token)
            refs.delete_branch(branch.name)
        while (oldest := log.find_oldest(txn, repository.key)) is not None:
            deleted += _expire(txn, oldest, set(), limit=limit - deleted)
            if deleted >= limit:
                return deleted
        for table in (Table.TAGS, Table.INTENTS):
            txn.delete_owned(table, repository.key)
        tracking.forget_all(txn, repository)
        records.forget_for_good(txn, repository.record)
    return deleted + 1


def _is_gone(txn: ReadTransaction, repository: Repository, cutoff: datetime) -> bool:
    newest = next(log.iter_operations(txn, repository.key), None)
    return newest is None or newest.at < cutoff - SLACK


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
