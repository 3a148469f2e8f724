"""Which commits keep their objects, by lakeFS's rule: heads, and what lately was one.

From each start the walk goes along first parents. The start itself counts; as long as a commit is
younger than the retention of its branch, its parent counts too. So the first commit beyond the
limit still counts: it was the head when the limit began. Without rules everything reached counts,
along all parents.

The objects of a side branch that was merged are referred to by the merge commit's own tree; only
its commits by themselves may lose theirs.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from lakecli.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakecli.model import CommitId, MetarangeId


class Known(NamedTuple):
    """What matters of a commit; `created_at` in unix seconds."""

    parents: tuple[CommitId, ...]
    tree: MetarangeId
    created_at: int


class Start(NamedTuple):
    """Where a walk begins, and the unix second up to which it goes back; ``None``: all the way."""

    commit_id: CommitId
    since: int | None


class LostHistory(IntegrityError):
    """A commit that refs reach is nowhere, so nobody knows what it needs."""


def retained(commits: Mapping[CommitId, Known], starts: Iterable[Start]) -> set[CommitId]:
    """Return the commits that count.

    Raises:
        LostHistory: one that has to be looked at is missing.
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
    # Who goes back furthest comes first: others may stop where that one has passed.
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
            f"commit {commit_id} is in no commit pack, so nobody knows what it needs",
            hint="push from a clone that has it, or examine: lakecli fsck lakefs://REPOSITORY",
        )
    return commit
