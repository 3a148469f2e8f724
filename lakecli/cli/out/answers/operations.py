"""JSON answers about the operation log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypedDict


class RefChange(TypedDict):
    """A branch, tag or repository that an operation changed.

    Attributes:
        kind: branch, tag or repository.
        before: previous commit ID, or UUID of a repository; null if it did not exist.
        after: new commit ID or UUID; equal to before if only uncommitted changes changed.
    """

    kind: str
    name: str
    before: str | None
    after: str | None


class StagedPath(TypedDict):
    """A path that an operation staged.

    Attributes:
        before: what was staged before: nothing, object or deletion.
    """

    branch: str
    path: bytes | str
    before: str


class Operation(TypedDict):
    """An operation of the log.

    Attributes:
        id: 32 hex digits.
        kind: kind of operation, such as commit.
        command: the command line; may be empty.
        staged: branches whose uncommitted changes it changed.
        undone: whether it is undone at present.
        metadata: further details, such as undoes: the ID of the operation that it undid.
    """

    id: str
    at: datetime
    kind: str
    command: str
    refs: Sequence[RefChange]
    staged: Sequence[str]
    undone: bool
    metadata: Mapping[str, str]


class OperationShown(Operation):
    """An operation with the paths that it staged.

    Attributes:
        id: 32 hex digits.
        kind: kind of operation, such as commit.
        command: the command line; may be empty.
        staged: branches whose uncommitted changes it changed.
        undone: whether it is undone at present.
        metadata: further details, such as undoes: the ID of the operation that it undid.
        paths: staged paths, at most --amount.
    """

    paths: Sequence[StagedPath]


class Undone(TypedDict):
    """The result of an undo or redo.

    Attributes:
        operation: ID of the operation that was undone or redone.
        kind: kind of that operation, such as commit.
        command: command line of that operation; may be empty.
        appended: ID of the new operation, the undo or redo.
        refs: branches, tags and repositories that changed.
        staged: branches whose uncommitted changes changed.
        remote: branches and tags that moved back in the bucket.
    """

    operation: str
    kind: str
    command: str
    appended: str
    refs: Sequence[RefChange]
    staged: Sequence[str]
    remote: Sequence[str]
