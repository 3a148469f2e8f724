"""Appending operations to a repository's log: what each verb did, in one line of code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.repository.core import clock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakecli.kv.env import WriteTransaction
    from lakecli.kv.operations import Operation, RefChange, StagingChange
    from lakecli.model import StagingToken
    from lakecli.repository.core.lake import Repository


def append(
    txn: WriteTransaction,
    repository: Repository,
    *,
    kind: str,
    refs: Sequence[RefChange] = (),
    staging: Sequence[StagingChange] = (),
    sealed: Sequence[StagingToken] = (),
    metadata: Mapping[str, str] | None = None,
    id: bytes | None = None,
    is_shared: bool = False,
    is_undo: bool = False,
) -> Operation:
    """Append an operation to the log, in the transaction that makes its changes.

    Where sharing is automatic, refs that it moved are noted to be moved in the bucket too.

    Args:
        txn: that transaction.
        repository: whose log.
        kind: the command's words: ``branch create``.
        refs: before and after of each.
        staging: the areas written to.
        sealed: tokens that belong to the operation from now on, until it expires.
        metadata: whatever else the log should show.
        id: of the operation, where images were saved under it already; else a fresh one.
        is_shared: the bucket has these moves already.
        is_undo: it takes moves back; what the bucket had of them was taken back there before.
    """
    from lakecli.kv import operations as log
    from lakecli.kv.intents import IntentStore

    lake = repository.lake
    operation = log.Operation(
        id=lake.runtime.new_id() if id is None else id,
        repository=repository.key,
        at=lake.now(),
        command=lake.runtime.command,
        kind=kind,
        refs=tuple(refs),
        staging=tuple(staging),
        sealed=tuple(sealed),
        metadata=dict(metadata or {}),
    )
    clock.notify_clock(repository)
    # A command that shares nothing imports nothing of sharing.
    if operation.refs and (repository.syncs or not IntentStore(txn, repository.key).is_empty()):
        from lakecli.repository.core import unsent

        unsent.note(txn, repository, operation, is_shared=is_shared, is_undo=is_undo)
    return log.append(txn, operation)
