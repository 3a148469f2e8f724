"""Appending operations to a repository's log: what each verb did, in one line of code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakecli.kv.env import WriteTransaction
    from lakecli.kv.operations import Operation, RefChange, StagingChange
    from lakecli.model import Branch, StagingToken, Tag
    from lakecli.repository.lake import Repository


def append(
    txn: WriteTransaction,
    repository: Repository,
    *,
    kind: str,
    refs: Sequence[RefChange] = (),
    staging: Sequence[StagingChange] = (),
    sealed: Sequence[StagingToken] = (),
) -> Operation:
    """Append an operation to the log, in the transaction that makes its changes.

    Args:
        txn: that transaction.
        repository: whose log.
        kind: the command's words: ``branch create``.
        refs: before and after of each.
        staging: the areas written to.
        sealed: tokens that belong to the operation from now on, until it expires.
    """
    from lakecli.kv import operations as log

    lake = repository.lake
    operation = log.Operation(
        id=lake.surroundings.new_id(),
        repository=repository.key,
        at=lake.now(),
        command=lake.surroundings.command,
        kind=kind,
        refs=tuple(refs),
        staging=tuple(staging),
        sealed=tuple(sealed),
    )
    return log.append(txn, operation)


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
