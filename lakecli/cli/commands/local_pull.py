"""``lakecli local pull``."""

from __future__ import annotations

from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.line.declare import Option
from lakecli.cli.params import LinkOptions, TransferOptions
from lakecli.cli.transfers import PreSign
from lakecli.cli.working_directory import pull_worktree
from lakecli.cli.worktrees import Directory, open_worktree


def local_pull(
    context: Context,
    directory: Directory = ".",
    *,
    force: Annotated[
        bool, Option("--force", help="Overwrite changed files that the ref has changed too")
    ] = False,
    links: LinkOptions,
    transfer: TransferOptions,
    pre_sign: PreSign = False,
) -> None:
    """Bring what has changed on the ref of a linked directory.

    Changes of the directory stay. Files that were changed on both sides stay as they are, are
    listed, and have to be resolved before they are committed; the exit code is 4. With --force they
    are overwritten; `undo` brings them back. Objects with a name that Git, lakecli or the system
    itself uses, such as .git, .lakefs_ref.yaml and .DS_Store, are left out and reported.

    The ref is read as it is on this machine. To fetch it from the bucket first: `pull`.

    The same command continues whatever was interrupted in the directory.

    Examples:
        lakecli local pull
        lakecli local pull ./data --force
    """
    del pre_sign
    worktree = open_worktree(context, directory, links=links)
    pull_worktree(context, worktree, force=force, transfer=transfer)
