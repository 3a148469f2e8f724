"""Changes of refs: how the log records them, what else they change, what is still to be sent.

The functions describe how an operation of the log records what it did to branches and tags.
`LocalMove` is what the move of a branch changes here besides the head, `UnsentMove` a move that the
bucket is still to get; the others say what became of moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from lakecli.base.model import Branch, CommitId, RefKind, StagingToken, Tag
from lakecli.errors import LakeError
from lakecli.kv.operations import Operation, RefChange
from lakecli.remote.move import Intent, MoveOutcome

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
    before, after = ends_of(change)
    return before != after


def ends_of(change: RefChange) -> tuple[CommitId | None, CommitId | None]:
    """Return the position of a branch or tag before and after a change."""
    return commit_of(change.before), commit_of(change.after)


def commit_of(fields: Mapping[str, Any] | None) -> CommitId | None:
    """Return the commit that the fields of a ref point to; ``None`` for none and a repository."""
    commit_id = None if fields is None else fields.get("commit_id")
    return None if commit_id is None else CommitId(commit_id)


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


class LocalMove(NamedTuple):
    """What a move of a branch changes on this machine, besides the head; stored in an intent.

    Attributes:
        operation: the kind of operation, as the log shows it.
        sealed: the staging tokens whose changes the commit has, newest first.
        from_staging: whether its changes are those of the tokens, not of another commit.
        left: staging tokens with what the commit left staged of those, newest first; they take
            their place.
    """

    operation: str
    sealed: tuple[StagingToken, ...]
    from_staging: bool
    left: tuple[StagingToken, ...] = ()

    def to_fields(self) -> dict[str, Any]:
        """Return the fields by which an intent stores it."""
        return {
            **self._asdict(),
            "sealed": [token.hex() for token in self.sealed],
            "left": [token.hex() for token in self.left],
        }

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> LocalMove:
        """Return what an intent stores; raises `ValueError`, `KeyError` or `TypeError`."""
        sealed, left = (
            tuple(StagingToken(bytes.fromhex(token)) for token in fields[name])
            for name in ("sealed", "left")
        )
        return cls(fields["operation"], sealed, fields["from_staging"], left)


class UnsentMove(NamedTuple):
    """A note: a ref that was moved here and is still to be moved in the bucket.

    Attributes:
        kind: a branch or a tag.
        name: the name of the ref.
        operation: the kind of the last operation that moved it.
        before: its position before the first of these moves; ``None``: it did not exist.
        after: its position after the last of them; ``None``: it was deleted.
        by: the `BranchMover.command_id` in hex of each command that moved it.
        replaces: the branch that was renamed to this one; its deletion is sent only if the bucket
            takes this note. ``""``: none.
        lease: another position in the bucket that it may be moved from; ``None``: none.
    """

    kind: RefKind
    name: str
    operation: str
    before: CommitId | None
    after: CommitId | None
    by: tuple[str, ...]
    replaces: str = ""
    lease: CommitId | None = None


class Finished(NamedTuple):
    """A move that an earlier command began, and what became of it.

    Attributes:
        intent: the move.
        state: ``applied``: it was made, and is recorded now; ``lost``: somebody else moved the ref
            first, and it will never be made; ``open``: it is made when the command is repeated.
    """

    intent: Intent
    state: MoveOutcome

    def text(self) -> str:
        """Return what became of the move, in words."""
        what = f"an interrupted push of {self.intent.kind} {self.intent.name}"
        if self.state is MoveOutcome.APPLIED:
            return f"{what} reached the bucket"
        if self.state is MoveOutcome.LOST:
            return f"{what} failed: somebody else moved it first"
        return f"{what} did not reach the bucket"


class CaughtUp(NamedTuple):
    """What became of what earlier commands left.

    Attributes:
        finished: moves whose outcome was not recorded.
        unsent: why refs that were moved here are not in the bucket.
    """

    finished: tuple[Finished, ...] = ()
    unsent: tuple[LakeError, ...] = ()
