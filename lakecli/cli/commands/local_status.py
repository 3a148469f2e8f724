"""``lakecli local status``."""

from __future__ import annotations

from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.line.declare import Option
from lakecli.cli.params import Exclude, Include, LinkOptions
from lakecli.cli.working_directory import show_status
from lakecli.cli.worktrees import Directory, open_worktree


def local_status(
    context: Context,
    directory: Directory = ".",
    *,
    local: Annotated[
        bool, Option("--local", "-l", help="Show only what has changed in the directory")
    ] = False,
    include: Include = (),
    exclude: Exclude = (),
    links: LinkOptions,
) -> None:
    """Show what has changed in a linked directory, and on its ref.

    The files, the commit that the directory was last synced with, and the ref now are compared. A
    path has the source local if the file has changed, remote if the ref has, and both if both
    have: the same change, or a conflict. Contents decide, never times. A file is read only if its
    size, times or inode have changed since it was read last.

    Files that .lakefsignore excludes are not shown, unless the ref has them. Symbolic links and
    special files are reported, left out with --skip, or followed with --follow.

    Examples:
        lakecli local status
        lakecli local status ./data --local
        lakecli local status --json
    """
    show_status(
        context,
        open_worktree(context, directory, links=links),
        local=local,
        include=include,
        exclude=exclude,
    )
