"""What names and history are read through.

Everything in this package but the store consumes these protocols, so resolution, merge bases
and logs work on whatever keeps the refs, and are tested on commits held in a dict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

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
    """One move of a ref; ``None`` stands for its absence."""

    @property
    def before(self) -> CommitId | None:
        """Where it stood."""
        ...

    @property
    def after(self) -> CommitId | None:
        """Where it went."""
        ...

    @property
    def at(self) -> datetime:
        """When."""
        ...


class PastReader(Protocol):
    """How branches and tags moved; used only for expressions with braces."""

    @property
    def now(self) -> datetime:
        """The present, as an aware UTC datetime."""
        ...

    def find_kind(self, name: str) -> RefKind | None:
        """Return the kind of a ref that is not here and was seen in the bucket, or ``None``."""
        ...

    def iter_moves(self, kind: RefKind, name: str) -> Iterator[Move]:
        """Yield the moves of a ref, newest first."""
        ...

    def find_upstream(self, kind: RefKind, name: str) -> CommitId | None:
        """Return where a ref stood in the bucket when last seen there, or ``None``."""
        ...
