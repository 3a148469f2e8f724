"""The protocols through which refs and history are read.

Everything in this package but `ref_store` uses these protocols, so resolution, merge bases and logs
work on any storage; tests keep commits in a dict.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from lakecli.model import Branch, Commit, CommitId, RefKind, Tag


class CommitReader(Protocol):
    """Commits by ID."""

    def find_commit(self, id: CommitId) -> Commit | None:
        """Return the commit, or ``None`` if this clone does not have it."""
        ...


class RefReader(CommitReader, Protocol):
    """Commits, branches and tags of one repository, as of one moment."""

    def find_branch(self, name: str) -> Branch | None:
        """Return the branch, or ``None``."""
        ...

    def find_tag(self, name: str) -> Tag | None:
        """Return the tag, or ``None``."""
        ...

    def iter_commit_ids(self, prefix: str) -> Iterator[CommitId]:
        """Yield the IDs that start with `prefix` (lowercase hex digits), ascending."""
        ...


class Move(Protocol):
    """One move of a ref; ``None`` means that the ref is absent."""

    @property
    def before(self) -> CommitId | None:
        """The old commit."""
        ...

    @property
    def after(self) -> CommitId | None:
        """The new commit."""
        ...

    @property
    def at(self) -> datetime:
        """The time of the move."""
        ...


class PastReader(Protocol):
    """How branches and tags moved; used only for expressions with braces."""

    @property
    def now(self) -> datetime:
        """The present, as an aware UTC datetime."""
        ...

    def find_kind(self, name: str) -> RefKind | None:
        """Return the kind of a ref that this clone lacks but saw in the bucket, or ``None``."""
        ...

    def iter_moves(self, kind: RefKind, name: str) -> Iterator[Move]:
        """Yield the moves of a ref, newest first."""
        ...

    def find_upstream(self, kind: RefKind, name: str) -> CommitId | None:
        """Return the last commit of a ref that was seen in the bucket, or ``None``."""
        ...
