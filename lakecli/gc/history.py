"""Which commits keep their objects, by lakeFS's rule: heads, and commits that recently were heads.

From each start the walk follows first parents. The start is kept; as long as a commit is younger
than the retention of its branch, its parent is kept too. So the first commit beyond the limit is
kept: it was the head when the retention period began. Without rules all reachable commits are kept,
along all parents.

The tree of a merge commit refers to the objects of the merged branch; only the commits of that
branch may lose objects that no kept tree has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import NamedTuple

from lakecli.base.model import CommitId, MetarangeId
from lakecli.errors import IntegrityError


class Known(NamedTuple):
    """The fields of a commit that the walk needs; `created_at` in unix seconds."""

    parents: tuple[CommitId, ...]
    tree: MetarangeId
    created_at: int


class Start(NamedTuple):
    """Where a walk begins, and the unix second at which it ends; ``None``: it has no end."""

    commit_id: CommitId
    since: int | None


class LostHistory(IntegrityError):
    """A commit that refs reach is missing, so its objects are unknown."""


def retained(commits: Mapping[CommitId, Known], starts: Iterable[Start]) -> set[CommitId]:
    """Return the commits that keep their objects.

    Raises:
        LostHistory: a commit on the way is missing.
    """
    found: set[CommitId] = set()
    limited = []
    waiting = []
    for start in starts:
        if start.since is None:
            waiting.append(start.commit_id)
        else:
            limited.append(start)
    while waiting:
        commit_id = waiting.pop()
        if commit_id not in found:
            found.add(commit_id)
            waiting += _get(commits, commit_id).parents
    # The walk that goes back furthest comes first: others may end where it has passed.
    for start in sorted(limited, key=attrgetter("since")):
        _walk(commits, start, found)
    return found


def _walk(commits: Mapping[CommitId, Known], start: Start, found: set[CommitId]) -> None:
    assert start.since is not None
    commit_id = start.commit_id
    while commit_id not in found:
        found.add(commit_id)
        commit = _get(commits, commit_id)
        if commit.created_at <= start.since or not commit.parents:
            return
        commit_id = commit.parents[0]


def _get(commits: Mapping[CommitId, Known], commit_id: CommitId) -> Known:
    commit = commits.get(commit_id)
    if commit is None:
        raise LostHistory(
            f"commit {commit_id} is in no commit pack, so the objects that it needs are unknown",
            hint="push from a clone that has it, or check: lakecli fsck lakefs://REPOSITORY",
        )
    return commit
