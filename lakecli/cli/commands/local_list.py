"""``lakecli local list``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.here import absolute
from lakecli.cli.line.declare import Option
from lakecli.cli.out.answers.worktree import LinkedDirectory
from lakecli.cli.out.text import quote_path
from lakecli.cli.worktrees import SearchedDirectory
from lakecli.errors import NotFound
from lakecli.worktree.git import find_git
from lakecli.worktree.index import DIRECTORIES
from lakecli.worktree.index import prune as prune_indexes
from lakecli.worktree.link import find_linked


def local_list(
    context: Context,
    directory: SearchedDirectory = ".",
    *,
    prune: Annotated[
        bool, Option("--prune", help="Delete the indexes of directories that are gone")
    ] = False,
) -> None:
    """List the linked directories below a directory.

    In a Git work tree, the whole work tree is searched.

    lakecli keeps an index of the files of each linked directory in its home, so that unchanged
    files are not read again. An index that was not used for 90 days is deleted. --prune also
    deletes the indexes of directories that were deleted or moved, but not of those on a disk that
    is not mounted. If a directory was moved, the next command reads all its files once.

    Examples:
        lakecli local list
        lakecli local list --prune
        lakecli local list ~/projects --json
    """
    if prune:
        for gone in prune_indexes(Path(context.home.store).with_name(DIRECTORIES)):
            context.out.note(f"index deleted: {quote_path(gone)} is gone")
    start = absolute(directory)
    if not start.is_dir():
        raise NotFound(f"no such directory: {directory}")
    git = find_git(start, context.environ)
    context.out.table(
        ("Directory", "Remote URI", "Synced commit"),
        find_linked(start if git is None else git.root, trust=context.settings.local_trust),
        row=lambda item: (
            quote_path(str(item.directory)),
            "malformed .lakefs_ref.yaml" if item.link is None else str(item.link.src),
            "" if item.link is None else item.link.at_head or "",
        ),
        record=lambda item: LinkedDirectory(
            directory=item.directory,
            uri=None if item.link is None else str(item.link.src),
            commit_id=None if item.link is None else item.link.at_head,
        ),
    )
