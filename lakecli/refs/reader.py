"""The protocols through which refs and history are read.

Everything in this package but `ref_store` uses these protocols, so resolution, merge bases and logs
work on any storage; tests keep commits in a dict.

Following a commit to its parents.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from lakecli.base.model import Branch, Commit, CommitId, RefKind, Tag
from lakecli.errors import IntegrityError


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


class DamagedHistory(IntegrityError):
    """A commit of the history is missing, or contradicts its parents."""


def get_commit(reader: CommitReader, id: CommitId) -> Commit:
    """Return a commit that another record refers to.

    Raises:
        DamagedHistory: this clone does not have it.
    """
    commit = reader.find_commit(id)
    if commit is None:
        raise DamagedHistory(f"missing commit {id}", hint="look for more damage: lakecli fsck")
    return commit


def get_parent(reader: CommitReader, child: Commit, id: CommitId) -> Commit:
    """Return one of the parents of a commit.

    Raises:
        DamagedHistory: this clone does not have it, or its generation is not below its child's.
    """
    parent = reader.find_commit(id)
    if parent is None:
        raise DamagedHistory(
            f"missing commit {id}, a parent of {child.id}",
            hint="look for more damage: lakecli fsck",
        )
    if parent.generation >= child.generation:
        raise DamagedHistory(
            f"generation {child.generation} of commit {child.id} is not above "
            f"{parent.generation}, that of its parent {id}",
            hint="look for more damage: lakecli fsck",
        )
    return parent
