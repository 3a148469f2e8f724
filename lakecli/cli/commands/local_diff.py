"""``lakecli local diff``."""

from __future__ import annotations

from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.exit_codes import ExitCode
from lakecli.cli.line.declare import Option
from lakecli.cli.params import Exclude, Include, LinkOptions
from lakecli.cli.working_directory import show_diff
from lakecli.cli.worktrees import Directory, open_worktree


def local_diff(
    context: Context,
    directory: Directory = ".",
    *,
    include: Include = (),
    exclude: Exclude = (),
    exit_code: Annotated[
        bool, Option("--exit-code", help="Exit with 13 if there are differences")
    ] = False,
    links: LinkOptions,
) -> ExitCode:
    """List what has changed in a linked directory since it was last synced.

    Examples:
        lakecli local diff
        lakecli local diff ./data --include '*.csv' --exit-code
    """
    worktree = open_worktree(context, directory, links=links)
    count = show_diff(context, worktree, include=include, exclude=exclude)
    return ExitCode.DIFFERENCES if exit_code and count else ExitCode.OK
