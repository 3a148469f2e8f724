"""What names and history are read through.

Everything in this package but the store consumes these two protocols, so resolution, merge bases
and logs work on whatever keeps the refs, and are tested on commits held in a dict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.model import Branch, Commit, CommitId, Tag


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
