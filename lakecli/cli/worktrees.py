"""Shared by commands about working directories: opening one, and answers about one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from lakecli.base.model import ChangeType
from lakecli.cli.context import Context
from lakecli.cli.differences import LOOKS
from lakecli.cli.here import absolute, relative_path
from lakecli.cli.line.declare import Argument
from lakecli.cli.out.answers import pick
from lakecli.cli.out.answers.history import LocalChange
from lakecli.cli.out.answers.history import Status as StatusRecord
from lakecli.cli.out.answers.worktree import Synced
from lakecli.cli.out.text import quote_path, shell_word
from lakecli.cli.params import LinkOptions
from lakecli.cli.reading import Completion, Kind
from lakecli.cli.transfers import (
    failure_records,
    link_policy,
    note_left_out,
    parallelism,
    raise_failures,
    summary_lines,
)
from lakecli.repository.contract import Repository
from lakecli.repository.download import DownloadOptions
from lakecli.repository.transfer.selection import EVERYTHING
from lakecli.repository.transfer.walk import LinkPolicy
from lakecli.repository.upload import UploadOptions
from lakecli.settings.values import HARDLINK_ROOT
from lakecli.stores.uri import is_local
from lakecli.worktree.bring import MAX_LISTED, Brought, WorktreeConflict
from lakecli.worktree.ignore import Ignore
from lakecli.worktree.link import Link, find_root, read_link
from lakecli.worktree.status import ChangedPath, Status, status
from lakecli.worktree.worktree import LinkMode, Worktree, not_linked

Directory = Annotated[
    str,
    Argument(metavar="DIRECTORY", help="A linked directory, or one in it; default: this directory"),
    Completion(Kind.DIRECTORY),
]

SearchedDirectory = Annotated[
    str,
    Argument(metavar="DIRECTORY", help="Where to search; default: this directory"),
    Completion(Kind.DIRECTORY),
]
NewDirectory = Annotated[
    str,
    Argument(metavar="DIRECTORY", help="The directory to link; default: this directory"),
    Completion(Kind.DIRECTORY),
]

COLUMNS: Final = ("Source", "Change", "Path")

_WORDS: Final = {
    ChangeType.ADDED: "added",
    ChangeType.REMOVED: "removed",
    ChangeType.CHANGED: "modified",
    ChangeType.CONFLICT: "conflict",
}


def find_worktree(context: Context, directory: str = ".") -> tuple[Path, Link] | None:
    """Return the linked directory that a directory is or lies in, and its link; or ``None``."""
    root = find_root(absolute(directory))
    trust = context.settings.local_trust
    link = None if root is None else read_link(root, trust=trust)
    return None if root is None or link is None else (root, link)


def open_worktree(
    context: Context, directory: str = ".", *, links: LinkOptions | None = None
) -> Worktree:
    """Open the linked directory that a directory is or lies in.

    Raises:
        NotFound: there is none, or its repository is not on this machine.
    """
    found = find_worktree(context, directory)
    if found is None:
        raise not_linked(absolute(directory))
    root, link = found
    policy = LinkPolicy.FAIL if links is None else link_policy(links)
    repository = context.synced_repository(link.src)
    return Worktree(repository, root, link, links=policy, linking=linking(context, repository))


def linking(context: Context, repository: Repository) -> LinkMode:
    """Return how files come from the namespace of a repository; root gets no hard links."""
    if not is_local(repository.record.storage_namespace):
        return LinkMode.COPY
    chosen = context.settings.local_link
    if chosen == HARDLINK_ROOT:
        return LinkMode.HARDLINK
    mode = LinkMode(chosen)
    return LinkMode.AUTO if mode is LinkMode.HARDLINK and os.geteuid() == 0 else mode


def open_ignore(context: Context, files: Sequence[str]) -> tuple[Ignore, list[bytes]]:
    """Return the rules of the linked directory of some files, and their paths relative to it.

    The path of a directory ends in a slash.

    Raises:
        NotFound: this directory is not in a linked one.
        UsageError: a file is not below it.
    """
    found = find_worktree(context)
    if found is None:
        raise not_linked(absolute("."))
    root, _ = found
    paths = [relative_path(root, file) + b"/" * absolute(file).is_dir() for file in files]
    return Ignore(os.fsencode(root)), paths


def downloads(context: Context, repository: Repository, workers: int | None) -> DownloadOptions:
    """Return how a working directory gets its files."""
    return DownloadOptions(parallelism=parallelism(context, repository, workers))


def uploads(context: Context, worktree: Worktree, workers: int | None) -> UploadOptions:
    """Return how the files of a working directory are uploaded."""
    return UploadOptions(
        links=worktree.links, parallelism=parallelism(context, worktree.repository, workers)
    )


# -- status ----------------------------------------------------------------------------------


def source_of(item: ChangedPath) -> str:
    """Return where a path has changed: ``local``, ``remote`` or ``both``."""
    if item.here is None:
        return "remote"
    return "local" if item.there is None and not item.is_conflict else "both"


def change_of(item: ChangedPath) -> ChangeType:
    """Return how a path has changed."""
    if item.is_conflict:
        return ChangeType.CONFLICT
    change = item.here or item.there
    assert change is not None
    return change


def change_record(item: ChangedPath) -> LocalChange:
    """Return the JSON answer about a path."""
    return pick(LocalChange, item, source=source_of(item), change=change_of(item))


def change_row(item: ChangedPath) -> tuple[str, str, str]:
    """Return the cells of a path for `COLUMNS`."""
    return source_of(item), _WORDS[change_of(item)], quote_path(item.path)


def change_style(item: ChangedPath) -> str:
    """Return the colour of a path's row, which is that of the same change in a diff."""
    return LOOKS[change_of(item)][1]


def say_compared(context: Context, worktree: Worktree, *, local: bool) -> None:
    """Write the lines about what is compared, as lakectl does."""
    link = worktree.link
    path = os.fsdecode(link.prefix)
    base = f"{worktree.repository.uri}/{link.at_head or ''}/{path}"
    context.out.say("", f"diff 'local://{worktree.root}' <--> '{base}'...")
    if not local:
        context.out.say(f"diff '{base}' <--> '{link.src}'...")
    context.out.say("")


def warn_of_state(context: Context, worktree: Worktree, found: Status) -> None:
    """Warn of what is unfinished, and of files that are not or cannot be compared."""
    link = worktree.link
    if link.include or link.exclude:
        patterns = [f"--include {shell_word(each)}" for each in link.include]
        patterns += [f"--exclude {shell_word(each)}" for each in link.exclude]
        context.out.note(f"sparse: only the files of {' '.join(patterns)} are compared")
    if link.active:
        context.out.warn(f"a {link.active} was interrupted in {worktree.root}")
        context.out.hint("go on: lakecli local pull")
    for problem in found.problems:
        context.out.warn(f"{quote_path(problem.path)}: {problem.reason}")
    if any(item.is_conflict for item in found.items):
        context.out.hint(
            "resolve conflicts: take the branch's file with lakecli restore FILE, or commit the "
            "directory's with lakecli local commit --ours"
        )


class Compared(NamedTuple):
    """A working directory and what has changed, as `status` shows it.

    Attributes:
        worktree: the working directory.
        status: what has changed.
    """

    worktree: Worktree
    status: Status

    def add_to(self, record: StatusRecord) -> None:
        """Add the directory and its changes to a JSON answer about its repository."""
        record["directory"] = self.worktree.root
        record["changes"] = [change_record(item) for item in self.status.items]

    def head_lines(self) -> list[str]:
        """Return the line about what the directory is linked with."""
        return [f"{quote_path(str(self.worktree.root))} is linked with {self.worktree.link.src}."]

    def show(self, context: Context) -> None:
        """Write the changed paths as text."""
        if not context.out.json:
            if not self.status.items:
                context.out.say("No changes in the directory or on its ref.")
            else:
                context.out.say("")
                context.out.table(
                    COLUMNS,
                    self.status.items,
                    row=change_row,
                    record=change_record,
                    style=change_style,
                )
        warn_of_state(context, self.worktree, self.status)


def compare_here(repository: Repository, root: Path, link: Link) -> Compared:
    """Compare a working directory with its base and its ref."""
    worktree = Worktree(repository, root, link)
    return Compared(worktree, status(worktree, local=False, selection=EVERYTHING))


# -- bringing to a commit --------------------------------------------------------------------


def answer_synced(context: Context, worktree: Worktree, brought: Brought, operation: str) -> None:
    """Answer with what bringing a working directory to a commit did.

    Raises:
        PartialFailure: some objects could not be downloaded.
        WorktreeConflict: files were changed both here and there.
    """
    record = pick(
        Synced,
        brought,
        directory=worktree.root,
        uri=str(worktree.link.src),
        commit_id=brought.commit.id,
        impossible=failure_records(brought.impossible),
        failures=failure_records(brought.failures),
    )
    context.out.emit(
        record,
        text=lambda: summary_lines(
            operation, downloaded=brought.downloaded, removed=brought.removed
        ),
    )
    tell_brought(context, worktree, brought)


def tell_brought(context: Context, worktree: Worktree, brought: Brought) -> None:
    """Say what bringing a working directory to a commit has left, and whether files are read-only.

    Raises:
        PartialFailure: some objects could not be downloaded.
        WorktreeConflict: files were changed both here and there.
    """
    if brought.downloaded and worktree.linking == "hardlink":
        context.out.note(
            "the files are read-only: they are hard links to objects of the repository; to change "
            "one, replace it by a copy"
        )
    elif brought.downloaded and context.settings.local_link == "hardlink" and os.geteuid() == 0:
        context.out.note(
            "the files are no hard links: root could write through them to the repository; to link "
            f"anyway: lakecli config set local.link {HARDLINK_ROOT}"
        )
    note_left_out(context, brought.left_out)
    for path, why in brought.impossible:
        context.out.warn(f"{quote_path(path)} cannot be a file here, and is left out: {why}")
    if brought.kept:
        kept = f"{brought.kept} changed files were" if brought.kept > 1 else "a changed file was"
        context.out.note(
            f"{kept} overwritten; to bring back: lakecli undo {worktree.repository.uri}"
        )
    raise_failures(
        context,
        brought.failures,
        verb="download",
        hint="all others were downloaded; go on: lakecli local pull",
    )
    raise_conflicts(worktree, brought.conflicts)


def raise_conflicts(worktree: Worktree, conflicts: Sequence[bytes]) -> None:
    """Raise if files were changed both here and there.

    Raises:
        WorktreeConflict: listing them.
    """
    if not conflicts:
        return

    count = f"{len(conflicts)} files were" if conflicts[1:] else "a file was"
    raise WorktreeConflict(
        f"conflict: {count} changed both in {worktree.root} and on {worktree.link.ref}; the "
        "directory's version stays",
        hint="take the branch's file: lakecli restore FILE; or commit the directory's: lakecli "
        "local commit --ours",
        paths=conflicts[:MAX_LISTED],
    )
