"""How an operation of the log records what it did to branches and tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lakecli.base.model import Branch, CommitId, RefKind, Tag

if TYPE_CHECKING:
    from lakecli.kv.operations import Operation, RefChange

FOLLOWED: Final = "sync"
"""The kind of operation by which refs followed the bucket."""

MOVE: Final = "move"
"""Key of an operation's metadata: the write ID of the move that it made in the bucket."""

LOCAL: Final = frozenset({"repo create", "repo delete", "clone", "fetch", "pull", FOLLOWED})
"""Kinds of operations that concern this machine only: the bucket had their moves already, or never
gets them. A pull that merges is a merge."""


def is_local(operation: Operation, change: RefChange) -> bool:
    """Return whether a change concerns this machine only, and is never sent."""
    return change.is_local or operation.kind in LOCAL


def moves_commit(change: RefChange) -> bool:
    """Return whether a change moved, made or deleted a branch or tag."""
    return commit_of(change.before) != commit_of(change.after)


def commit_of(fields: Mapping[str, Any] | None) -> CommitId | None:
    """Return the commit that the fields of a ref point to; ``None`` for none and a repository."""
    commit_id = None if fields is None else fields.get("commit_id")
    return None if commit_id is None else CommitId(commit_id)


def branch_change(before: Branch | None, after: Branch | None) -> RefChange:
    """Describe how a branch changed; ``None`` for its absence."""
    from lakecli.kv.operations import RefChange

    name = before.name if before is not None else after.name if after is not None else ""
    return RefChange(
        RefKind.BRANCH, name, before=_branch_fields(before), after=_branch_fields(after)
    )


def tag_change(before: Tag | None, after: Tag | None) -> RefChange:
    """Describe how a tag changed; ``None`` for its absence."""
    from lakecli.kv.operations import RefChange

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
