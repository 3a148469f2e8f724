"""JSON answers about working directories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from lakecli.base.model import CommitId
from lakecli.cli.out.answers.history import Commit
from lakecli.cli.out.answers.objects import Failure


class LinkedDirectory(TypedDict):
    """A working directory.

    Attributes:
        directory: path of the directory; in a list, relative to the directory searched.
        uri: URI that it is linked with; null if its .lakefs_ref.yaml is malformed.
        commit_id: commit that it was last synced with; null before its first checkout.
    """

    directory: Path
    uri: str | None
    commit_id: CommitId | None


class Synced(TypedDict):
    """A working directory that was brought to a commit.

    Attributes:
        directory: absolute path of the directory.
        uri: URI that it is linked with.
        commit_id: the commit.
        downloaded: number of files written.
        removed: number of files removed.
        size: bytes of the files written.
        kept: number of files that were overwritten or removed on request; undo brings them back.
        conflicts: paths of files that stay as they are although the commit has another.
        impossible: objects that cannot be files here, and the reasons.
        left_out: paths left out because Git, lakecli or the system itself uses their names.
        failures: objects that could not be downloaded.
    """

    directory: Path
    uri: str
    commit_id: CommitId
    downloaded: int
    removed: int
    size: int
    kept: int
    conflicts: Sequence[bytes | str]
    impossible: Sequence[Failure]
    left_out: Sequence[bytes | str]
    failures: Sequence[Failure]


class LocalCommit(Commit):
    """A commit of a working directory.

    Attributes:
        id: ID as lakeFS computes it.
        parents: parents, the first parent first.
        committer: name and e-mail; may be empty.
        metarange_id: ID of the list of all paths; empty for no paths.
        generation: 1, or one more than the largest of its parents.
        uploaded: number of files that were added or changed.
        removed: number of files that were removed.
        downloaded: number of files that others have changed, now written here.
    """

    uploaded: int
    removed: int
    downloaded: int


class Used(TypedDict):
    """The default repository of commands without a URI.

    Attributes:
        uri: URI of the repository or ref; null if there is none.
    """

    uri: str | None


class Ignored(TypedDict):
    """A path, and the pattern of a .lakefsignore that decides about it.

    Attributes:
        path: path as given.
        ignored: whether the path is left alone, unless the ref has it.
        file: the .lakefsignore with the pattern, relative to the working directory; null if none
            matches.
        line: number of the pattern in it; null if none matches.
        pattern: the pattern; null if none matches.
    """

    path: bytes | str
    ignored: bool
    file: bytes | str | None
    line: int | None
    pattern: str | None
