"""Committing a working directory: `local commit`, and `commit` inside of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple

from lakecli.cli.context import Context
from lakecli.cli.line.declare import Option
from lakecli.cli.out.answers import pick
from lakecli.cli.out.answers.worktree import LocalCommit
from lakecli.cli.out.common_records import commit_record
from lakecli.cli.out.text import commit_lines
from lakecli.cli.reading import NO_METADATA, check_message
from lakecli.cli.transfers import progress, raise_failures, summary_lines
from lakecli.cli.worktrees import downloads, raise_conflicts, uploads
from lakecli.worktree.commit import CommitOptions, Committed, commit
from lakecli.worktree.git import commit_metadata, find_git
from lakecli.worktree.ignore import selection_of
from lakecli.worktree.worktree import Worktree

Ours = Annotated[
    bool,
    Option("--ours", help="Commit the directory's file where others have changed it too"),
]


class WorkingCommit(NamedTuple):
    """What to commit, and how.

    Attributes:
        is_plain: answer with the record of `commit`.
    """

    message: str
    allow_empty_message: bool = False
    metadata: Mapping[str, str] = NO_METADATA
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    ours: bool = False
    workers: int | None = None
    no_progress: bool = False
    is_plain: bool = False


def commit_worktree(context: Context, worktree: Worktree, asked: WorkingCommit) -> None:
    """Commit a working directory, and answer with the commit.

    Without changes this says so, as lakectl does.
    """
    check_message(asked.message, allow_empty=asked.allow_empty_message)

    context.out.say("", f"Getting branch: {worktree.link.ref}")
    git = find_git(worktree.root, context.environ)
    found = {} if git is None else commit_metadata(git, host="lakecli")
    with progress(context, "commit", hidden=asked.no_progress) as shown:
        made = commit(
            worktree,
            CommitOptions(
                message=asked.message,
                committer=context.committer(),
                metadata={**found, **asked.metadata},
                selection=selection_of(asked.include, asked.exclude),
                ours=asked.ours,
                uploading=uploads(context, worktree, asked.workers)._replace(progress=shown),
                downloading=downloads(context, worktree.repository, asked.workers),
            ),
        )
    context.out.emit(
        commit_record(made.commit)
        if asked.is_plain
        else pick(LocalCommit, made, made.commit, downloaded=made.brought.downloaded),
        text=lambda: _lines(made, branch=worktree.link.ref),
    )
    raise_failures(
        context, made.left, verb="commit", hint="all others were committed; commit again"
    )
    raise_conflicts(worktree, made.brought.conflicts)


def _lines(made: Committed, *, branch: str) -> Iterator[str]:
    yield from summary_lines(
        "Sync",
        downloaded=made.brought.downloaded,
        uploaded=made.uploaded,
        removed=made.removed,
    )
    yield "Finished syncing changes. Perform commit on branch..."
    yield from commit_lines(made.commit, branch=branch)
