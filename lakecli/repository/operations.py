"""Appending operations to a repository's log: what each verb did, in one line of code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakecli.kv.env import WriteTransaction
    from lakecli.kv.operations import Operation, RefChange, StagingChange
    from lakecli.model import Branch, StagingToken, Tag
    from lakecli.repository.lake import Repository

FOLLOWED: Final = "sync"
"""The kind of operation by which refs followed the bucket by themselves."""

UNSENT: Final = "unsent"
"""Marks a row among the intents as a note: a ref moved here that is still to move in the bucket."""


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
) -> Operation:
    """Append an operation to the log, in the transaction that makes its changes.

    Where sharing is automatic, refs that it moved are noted down to be moved in the bucket too.

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
    """
    from lakecli.kv import operations as log

    lake = repository.lake
    operation = log.Operation(
        id=lake.surroundings.new_id() if id is None else id,
        repository=repository.key,
        at=lake.now(),
        command=lake.surroundings.command,
        kind=kind,
        refs=tuple(refs),
        staging=tuple(staging),
        sealed=tuple(sealed),
        metadata=dict(metadata or {}),
    )
    if repository.publisher is not None and not is_shared:
        _note_unsent(txn, repository, operation)
    return log.append(txn, operation)


def _note_unsent(txn: WriteTransaction, repository: Repository, operation: Operation) -> None:
    """Leave a note for `lakecli.repository.sync` of each ref that an operation moved."""
    from lakecli.identity import h
    from lakecli.kv.intents import IntentStore

    notes = IntentStore(txn, repository.key)
    for ref in operation.refs:
        if ref.kind not in ("branch", "tag") or not moves_commit(ref):
            continue
        note = h(f"{UNSENT}\0{ref.kind}\0{ref.name}".encode("utf-8", "surrogateescape"))[:16]
        fields = {UNSENT: True, "kind": ref.kind, "name": ref.name, "operation": operation.kind}
        notes.put(note, fields)


def moves_commit(change: RefChange) -> bool:
    """Whether a branch or tag points to another commit after a change, or is new or gone."""
    return _commit_of(change.before) != _commit_of(change.after)


def _commit_of(fields: Mapping[str, Any] | None) -> str | None:
    return None if fields is None else fields["commit_id"]


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
