"""Answers about changes: differences, annotations, and searches for a commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from lakecli.base.model import CommitId
from lakecli.cli.out.answers.history import Commit


class Annotation(TypedDict):
    """An object or a common prefix, and the commit that changed it last.

    Attributes:
        type: object or common_prefix.
        commit: the commit; of a common prefix, the newest that changed something below it.
    """

    type: str
    path: bytes | str
    commit: Commit


class Bisection(TypedDict):
    """Where a search for the first bad commit stands.

    Attributes:
        repository: URI of the repository.
        bad: the last commit that was called bad; null if none was.
        good: the commits that were called good.
        skipped: the commits that cannot be tested.
        current: the commit to test; null if there is none left, or not yet one.
        left: commits left to test after this one; null without one.
        steps: about how many tests are left after this one; null without one.
        found: the first bad commit; null if it is not known.
        untested: if only skipped commits are left: the first bad commit is one of these.
    """

    repository: str
    bad: CommitId | None
    good: Sequence[CommitId]
    skipped: Sequence[CommitId]
    current: Commit | None
    left: int | None
    steps: int | None
    found: Commit | None
    untested: Sequence[CommitId]


class Verdict(TypedDict):
    """What was said about a commit in a bisect session.

    Attributes:
        verdict: good, bad or skip.
    """

    verdict: str
    commit_id: CommitId


class BisectReset(TypedDict):
    """The end of a bisect session.

    Attributes:
        cleared: whether there was a session.
    """

    cleared: bool


class Difference(TypedDict):
    """A path that differs.

    Attributes:
        type: added, removed, changed or conflict.
        path: the path.
        unlike_checksums: true for a conflict that may be none: entries have one size, but one has
            an MD5 (from lakeFS) and the other a BLAKE3.
        left_size: size of the object on the left side; null without one.
        left_checksum: its checksum; null without one.
        right_size: size of the object on the right side; null without one.
        right_checksum: its checksum; null without one.
    """

    type: str
    path: bytes | str
    left_size: int | None
    left_checksum: str | None
    right_size: int | None
    right_checksum: str | None
    unlike_checksums: NotRequired[bool]


class ChangeCounts(TypedDict):
    """The differences below one prefix, counted.

    Attributes:
        prefix: of the paths, with its slash; empty for paths without a directory; null for the
            total, which is the last object.
        added: paths that only the right side has.
        removed: paths that only the left side has.
        changed: paths that both sides have.
        conflicts: paths in conflict, counted nowhere else.
        bytes_added: size of what was added.
        bytes_removed: size of what was removed.
        bytes_before: size on the left side of what changed.
        bytes_after: size on the right side of what changed.
    """

    prefix: bytes | str | None
    added: int
    removed: int
    changed: int
    conflicts: int
    bytes_added: int
    bytes_removed: int
    bytes_before: int
    bytes_after: int


class CommitChanges(TypedDict):
    """A commit, and what it changed.

    Attributes:
        commit: the commit.
        changes: compared with its first parent, by prefix; the last one is the total.
    """

    commit: Commit
    changes: Sequence[ChangeCounts]
