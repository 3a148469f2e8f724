"""Delete expired operations, about once a day, in short transactions.

`tidy` runs after each command that appends an operation. It may delete twice as many records as
were written since its last run, so that the store does not grow if records expire as fast as they
are added. It may always delete a few thousand records, so that a large operation is gone after a
bounded number of later operations. LMDB reuses the space; `lakecli op compact` returns it to the
disk.

An operation can be undone for 30 days. Then the operation is deleted with its images and the
staging tokens that it owns. A token is kept while a branch or a younger operation needs it: undo
gives a token back to its branch, where the next commit seals it again. So a repository that was
deleted on this machine can be restored for 30 days; then its branches and staged changes are
deleted too. Its commits are kept: they are small, and a clone of the same repository may be reading
them.

If a commit of some of the staged paths is killed, its copies of staged changes are deleted after a
day. If a job is killed, its workspace is deleted a week after its last write.

A clock may be wrong for a while: a dead battery sets it to 1970. The log is ordered by sequence
numbers; dates only decide how much of the log has expired, and only plausible dates count
(`expired_through`). Nothing is deleted by a single reading of the clock: a reading counts once
another reading, at least a day later, has confirmed it.

::

    META  housekeeping/clock -> the last reading and the last confirmed one, unix seconds in JSON
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, takewhile
from typing import Final

from lakecli.base.model import StagingToken
from lakecli.kv import operations as log
from lakecli.kv.local_store import ReadTransaction, Table, WriteTransaction
from lakecli.kv.operations import Operation
from lakecli.repository.contract import OwnLake, Repository
from lakecli.repository.journal import bucket_state, operation_log
from lakecli.staging import area

KEPT_FOR: Final = timedelta(days=30)
SLACK: Final = timedelta(days=1)
"""How long the oldest operation may have been expired before expired operations are deleted."""

BATCH: Final = 8_192
"""The largest number of records deleted in one transaction, which blocks other processes."""

LEAST: Final = 4 * BATCH
"""The number of expired records that one call may delete even if little was written."""

PER_WRITTEN: Final = 2
"""The number of records that may be deleted for each written record, if that exceeds `LEAST`."""

EARLIEST: Final = datetime(2025, 1, 1, tzinfo=UTC)
"""The earliest plausible date of an operation: an earlier date comes from an unset clock."""

CONFIRMED_AFTER: Final = timedelta(days=1)
"""The minimum time after which a second reading of the clock confirms the first."""

_CLOCK: Final = b"housekeeping/clock"


def expired_through(
    txn: ReadTransaction, repository: Repository, *, now: datetime, cutoff: datetime
) -> int:
    """Return the sequence number of the last expired operation of a log; 0 if none is expired.

    Operations are read from the oldest, up to the first with a date after the cutoff. Later
    operations are not expired, whatever their dates. Operations dated in the future, or before the
    first version of lakecli, are skipped.

    Args:
        cutoff: operations with an earlier date are expired.
    """
    through = 0
    for operation in log.iter_oldest_first(txn, repository.key):
        if not EARLIEST <= operation.at <= now + SLACK:
            continue
        if operation.at >= cutoff:
            break
        through = operation.sequence
    return through


def tidy(repository: Repository) -> int:
    """Delete expired records, in proportion to the records written; return the number deleted.

    The records belong to this repository, or to repositories that were deleted on this machine.
    """
    lake = repository.lake
    written = lake.kv.take_written()
    with lake.kv.read() as txn:
        if not _may_have_expired(txn, repository):
            return 0
        forgotten = list(lake.forgotten(txn))
    present = _confirmed_present(lake)
    if present is None:
        return 0
    left = total = max(LEAST, PER_WRITTEN * written)
    cutoff = present - KEPT_FOR
    abandoned = present - operation_log.ABANDONED_AFTER
    works = [partial(_expire_log, repository, cutoff), partial(_drop_copies, repository, abandoned)]
    for work in [*works, *(partial(_forget, each, cutoff) for each in forgotten)]:
        left -= _repeat(work, left)
    return total - left


def drain(lake: OwnLake) -> None:
    """Delete all expired records of all repositories, including repositories deleted here."""
    with lake.kv.read() as txn:
        deleted = list(lake.forgotten(txn))
    for repository in [*(lake.repository(each.name) for each in lake.repositories()), *deleted]:
        while tidy(repository):
            pass


def _repeat(delete: Callable[[int], int], limit: int) -> int:
    """Call `delete`, one transaction each, until nothing is left or the limit is reached."""
    deleted = 0
    while deleted < limit and (found := delete(min(BATCH, limit - deleted))):
        deleted += found
    return deleted


def _may_have_expired(txn: ReadTransaction, repository: Repository) -> bool:
    """Return whether there may be something to delete, assuming that the clock is right."""
    now = repository.lake.runtime.now()
    return (
        expired_through(txn, repository, now=now, cutoff=now - KEPT_FOR - SLACK) > 0
        or next(operation_log.iter_copies(txn, repository), None) is not None
        or next(repository.lake.forgotten(txn), None) is not None
    )


def _confirmed_present(lake: OwnLake) -> datetime | None:
    """Return the newest clock reading that a later reading has confirmed, or ``None``."""
    now = int(lake.runtime.now().timestamp())
    with lake.kv.read() as txn:
        data = txn.get(Table.META, _CLOCK)
    last, confirmed = (None, None) if data is None else json.loads(data)
    if confirmed is not None and confirmed > now:
        confirmed = None  # the clock was wrong then, or is now
    if last is None or not last <= now < last + CONFIRMED_AFTER.total_seconds():
        if last is not None and last < now:
            confirmed = last
        with lake.kv.write() as txn:
            txn.put(Table.META, _CLOCK, json.dumps([now, confirmed]).encode("ascii"))
    return None if confirmed is None else datetime.fromtimestamp(confirmed, UTC)


def _drop_copies(repository: Repository, before: datetime, limit: int) -> int:
    """Delete copies of staged changes, made before a date, whose commit can no longer land."""
    from lakecli.repository.journal.intents import iter_begun

    deleted = 0
    with repository.lake.kv.write() as txn:
        begun = [each.landing for each in iter_begun(txn, repository) if each.landing is not None]
        awaited = {token for landing in begun for token in landing.left}
        for token, made in list(operation_log.iter_copies(txn, repository)):
            if token in awaited or made >= before.timestamp() or deleted >= limit:
                continue
            operation_log.forget_token(txn, token)  # first, so that a workspace refuses writes
            dropped = area.drop(txn, token, limit=limit - deleted)
            deleted += dropped
            if area.is_empty(txn, token):
                operation_log.settle_copy(txn, repository, token)
    return deleted


def _expire_log(repository: Repository, cutoff: datetime, limit: int) -> int:
    now = repository.lake.runtime.now()
    with repository.lake.kv.read() as txn:
        if not expired_through(txn, repository, now=now, cutoff=cutoff - SLACK):
            return 0
    deleted = 0
    with repository.lake.kv.write() as txn:
        through = expired_through(txn, repository, now=now, cutoff=cutoff)
        needed = _needed_tokens(txn, repository, through)
        while deleted < limit and (oldest := log.find_oldest(txn, repository.key)) is not None:
            if oldest.sequence > through:
                break
            deleted += _expire(txn, oldest, needed, limit=limit - deleted)
    return deleted


def _forget(repository: Repository, cutoff: datetime, limit: int) -> int:
    """Delete all rows of a deleted repository, once its deletion can no longer be undone."""
    deleted = 0
    with repository.lake.kv.write() as txn:
        forgotten = (each.key for each in repository.lake.forgotten(txn))
        if repository.key not in forgotten or not _is_gone(txn, repository, cutoff):
            return 0
        refs = repository.refs(txn)
        branches = list(refs.iter_branches())
        copies = (token for token, _ in list(operation_log.iter_copies(txn, repository)))
        for token in chain(*(each.tokens for each in branches), copies):
            deleted += area.drop(txn, token, limit=limit - deleted)
            if deleted >= limit:
                return deleted
            operation_log.forget_token(txn, token)
            operation_log.settle_copy(txn, repository, token)
        for branch in branches:
            refs.delete_branch(branch.name)
        while (oldest := log.find_oldest(txn, repository.key)) is not None:
            deleted += _expire(txn, oldest, set(), limit=limit - deleted)
            if deleted >= limit:
                return deleted
        for table in (Table.TAGS, Table.INTENTS):
            txn.delete_owned(table, repository.key)
        bucket_state.forget_all(txn, repository)
        repository.lake.forget(txn, repository)
    return deleted + 1


def _is_gone(txn: ReadTransaction, repository: Repository, cutoff: datetime) -> bool:
    now = repository.lake.runtime.now()
    through = expired_through(txn, repository, now=now, cutoff=cutoff - SLACK)
    newest = next(log.iter_operations(txn, repository.key), None)
    return newest is None or newest.sequence <= through


def _expire(txn: WriteTransaction, operation: Operation, needed: set[bytes], *, limit: int) -> int:
    """Delete an operation's unneeded tokens, then the operation; stop after `limit` records."""
    deleted = 0
    for token in map(StagingToken, operation.sealed):
        if token in needed:
            continue
        deleted += area.drop(txn, token, limit=limit - deleted)
        if deleted >= limit:
            return deleted
        operation_log.forget_token(txn, token)
    return deleted + log.remove(txn, operation, limit=limit - deleted)


def _needed_tokens(txn: WriteTransaction, repository: Repository, through: int) -> set[bytes]:
    """Return the staging tokens of branches, and of operations newer than number `through`."""
    operations = log.iter_operations(txn, repository.key)
    newer = takewhile(lambda each: each.sequence > through, operations)
    needed = {token for branch in repository.refs(txn).iter_branches() for token in branch.tokens}
    return needed.union(*(each.sealed for each in newer))
