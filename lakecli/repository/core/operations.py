"""Appending operations to a repository's log: what each verb did, in one line of code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakecli.repository.core import clock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakecli.kv.env import WriteTransaction
    from lakecli.kv.operations import Operation, RefChange, StagingChange
    from lakecli.model import Branch, CommitId, StagingToken, Tag
    from lakecli.repository.core.lake import Repository

FOLLOWED: Final = "sync"
"""The kind of operation by which refs followed the bucket by themselves."""

LOCAL: Final = frozenset({"repo create", "repo delete", "clone", "fetch", "pull", FOLLOWED})
"""Kinds of operations that concern this machine alone: the bucket had these moves already, or never
gets them. A pull that merges is a merge."""


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
    is_shared_by_itself = repository.publisher is not None
    if operation.refs and (is_shared_by_itself or _has_intents(txn, repository)):
        from lakecli.repository.core import unsent

        unsent.note(txn, repository, operation, is_shared=is_shared, is_undo=is_undo)
    return log.append(txn, operation)


def _has_intents(txn: WriteTransaction, repository: Repository) -> bool:
    """Tell whether a move was begun or noted; who shares nothing imports nothing of sharing."""
    from lakecli.kv.env import Table

    return next(txn.scan_keys(Table.INTENTS, prefix=repository.key), None) is not None


def is_local(operation: Operation, change: RefChange) -> bool:
    """Tell whether a change of an operation only concerns this machine, and is never sent."""
    return change.is_local or operation.kind in LOCAL


def moves_commit(change: RefChange) -> bool:
    """Whether a branch or tag points to another commit after a change, or is new or gone."""
    if change.kind == "repository":
        return False
    return commit_of(change.before) != commit_of(change.after)


def commit_of(fields: Mapping[str, Any] | None) -> CommitId | None:
    """Return the commit that the fields of a branch or a tag point to."""
    from lakecli.model import CommitId

    return None if fields is None else CommitId(fields["commit_id"])


def branch_change(before: Branch | None, after: Branch | None) -> RefChange:
    """Describe how a branch changed; ``None`` for its absence."""
    from lakecli.kv.operations import RefChange

    name = before.name if before is not None else after.name if after is not None else ""
    return RefChange("branch", name, before=_branch_fields(before), after=_branch_fields(after))


def tag_change(before: Tag | None, after: Tag | None) -> RefChange:
    """Describe how a tag changed; ``None`` for its absence."""
    from lakecli.kv.operations import RefChange

    name = before.name if before is not None else after.name if after is not None else ""
    return RefChange("tag", name, before=_tag_fields(before), after=_tag_fields(after))


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
