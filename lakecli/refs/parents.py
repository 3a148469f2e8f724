"""Following a commit to its parents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.errors import IntegrityError

if TYPE_CHECKING:
    from lakecli.model import Commit, CommitId
    from lakecli.refs.reader import CommitReader


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
