"""Appending operations to the log of a repository, and this machine's clock, which dates them.

Commits, moves and operations are dated by this machine. Each response of a store has the store's
time, so comparing the clocks takes no request; a directory has this machine's clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from lakecli.base.model import Branch, RefKind, StagingToken, Tag
from lakecli.kv import operations as log
from lakecli.kv.local_store import Table, WriteTransaction
from lakecli.kv.operations import Operation, RefChange, StagingChange
from lakecli.repository.contract import Notice, Repository
from lakecli.repository.journal import unsent_moves
from lakecli.stores.capabilities import store_time
from lakecli.stores.uri import is_local

CLOCK_LIMIT: Final = timedelta(hours=1)
"""The largest accepted difference between the clocks of this machine and of the store."""

CLOCK_FIX: Final = "set the clock of this machine, for example with `timedatectl set-ntp true`"


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

    Where sharing is automatic, the refs that it moved are noted, to be moved in the bucket too.

    Args:
        txn: that transaction.
        repository: the repository of the log.
        kind: the command's words, such as ``branch create``.
        refs: each ref that it changed, before and after.
        staging: the areas that it wrote to.
        sealed: tokens that belong to the operation from now on, until it expires.
        metadata: what else the log should show.
        id: the ID under which images were saved already; ``None``: a fresh one.
        is_shared: whether the bucket has these moves already.
        is_undo: whether it undoes moves; those that the bucket has are noted by its command.
    """
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
    notify_clock(repository)
    if operation.refs and (repository.syncs or txn.has_owned(Table.INTENTS, repository.key)):
        unsent_moves.note(txn, repository, operation, is_shared=is_shared, is_undo=is_undo)
    return log.append(txn, operation)


def branch_change(before: Branch | None, after: Branch | None) -> RefChange:
    """Describe how a branch changed; ``None`` for its absence."""
    name = before.name if before is not None else after.name if after is not None else ""
    return RefChange(
        RefKind.BRANCH, name, before=_branch_fields(before), after=_branch_fields(after)
    )


def tag_change(before: Tag | None, after: Tag | None) -> RefChange:
    """Describe how a tag changed; ``None`` for its absence."""
    name = before.name if before is not None else after.name if after is not None else ""
    return RefChange(RefKind.TAG, name, before=_tag_fields(before), after=_tag_fields(after))


def _branch_fields(branch: Branch | None) -> dict[str, Any] | None:
    if branch is None:
        return None
    return {
        "commit_id": branch.commit_id,
        "staging_token": branch.staging_token.hex(),
        "sealed_tokens": [token.hex() for token in branch.sealed_tokens],
    }


def _tag_fields(tag: Tag | None) -> dict[str, Any] | None:
    return None if tag is None else {"commit_id": tag.commit_id}


def notify_clock(repository: Repository) -> None:
    """Add a notice if this machine's clock is wrong, compared with a store that has answered."""
    store = repository.store_in_use
    if store is None or is_local(store.uri) or (there := store_time(store)) is None:
        return
    ahead = there - repository.lake.runtime.clock()
    if abs(ahead) > CLOCK_LIMIT:
        message = f"{wrong_by(ahead)}; the dates that this command writes are wrong for everybody"
        if not any(notice.hint == CLOCK_FIX for notice in repository.notices):
            repository.notify(Notice(message, CLOCK_FIX))


def wrong_by(ahead: timedelta) -> str:
    """Describe how far the store's clock is ahead of this machine's."""
    side = "behind" if ahead > timedelta(0) else "ahead of"
    return f"this machine's clock is {_shown(abs(ahead))} {side} that of the store"


def _shown(difference: timedelta) -> str:
    if difference >= timedelta(days=2):
        return f"{difference / timedelta(days=1):.0f} days"
    return f"{difference / timedelta(hours=1):.0f} hours"
