"""``lakecli local list``."""

from __future__ import annotations

from lakecli.cli.answers.worktree import LinkedDirectory
from lakecli.cli.context import Context
from lakecli.cli.here import absolute
from lakecli.cli.text import quote_path
from lakecli.cli.worktrees import Directory


def local_list(context: Context, directory: Directory = ".") -> None:
    """List the linked directories below a directory.

    In a Git work tree, all directories of the work tree are searched.

    Examples:
        lakecli local list
        lakecli local list ~/projects --json
    """
    from lakecli.worktree.find import find_linked
    from lakecli.worktree.git import find_git

    start = absolute(directory)
    git = find_git(start, context.environ)
    context.out.table(
        ("Directory", "Remote URI", "Synced commit"),
        find_linked(start if git is None else git.root),
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
