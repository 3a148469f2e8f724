"""Committing a branch's staged changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.errors import NothingToDo
from lakecli.repository.transaction import Draft, commit_staged

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from lakecli.model import Commit
    from lakecli.repository.lake import Repository
    from lakecli.repository.view import View


def commit(
    repository: Repository,
    branch: str,
    *,
    message: str,
    committer: str,
    metadata: Mapping[str, str] | None = None,
    allow_empty: bool = False,
    created_at: datetime | None = None,
) -> Commit:
    """Commit what is staged on a branch, atomically.

    Staging the same contents again is no change. What others stage while this runs is kept.

    Args:
        repository: whose branch.
        branch: its name.
        message: stored as given.
        committer: stored as given.
        metadata: stored as given.
        allow_empty: commit even if nothing changed.
        created_at: the commit's date; the clock's present by default.

    Raises:
        NotFound: no such branch.
        NothingToDo: there is no change.
        LostRace: another commit took the staged changes.
    """

    def build(view: View) -> Draft:
        from lakecli.committed.apply import apply

        changes = ((path, value or None) for path, value in view.staged())  # b"": a tombstone
        applied = apply(repository.trees, view.commit.metarange_id, changes)
        if not allow_empty and not (applied.added or applied.changed or applied.removed):
            raise NothingToDo(
                f"nothing to commit on {branch}",
                hint=f"stage something: lakecli fs upload FILE {repository.uri}/{branch}/PATH",
            )
        return Draft(
            metarange_id=applied.metarange_id,
            parents=[view.commit],
            message=message,
            committer=committer,
            created_at=created_at or repository.lake.now(),
            metadata=metadata or {},
        )

    return commit_staged(repository, branch, build, kind="commit")
