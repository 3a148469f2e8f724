"""``lakecli local clone``."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.here import absolute
from lakecli.cli.line.declare import Argument
from lakecli.cli.linking import GitIgnore, ignore_in_git
from lakecli.cli.params import Exclude, Include, PrefixUri, TransferOptions
from lakecli.cli.reading import Completion, Kind
from lakecli.cli.transfers import PreSign, progress
from lakecli.cli.worktrees import answer_synced, downloads, find_worktree, linking
from lakecli.errors import UsageError
from lakecli.worktree.create import clone
from lakecli.worktree.worktree import Worktree


def local_clone(
    context: Context,
    path: PrefixUri,
    directory: Annotated[
        str,
        Argument(metavar="DIRECTORY", help="An empty or missing directory; default: by PATH"),
        Completion(Kind.DIRECTORY),
    ] = "",
    *,
    include: Include = (),
    exclude: Exclude = (),
    gitignore: GitIgnore = True,
    transfer: TransferOptions,
    pre_sign: PreSign = False,
) -> None:
    """Link a directory with a path of a ref, and download its objects.

    Each file is verified and gets the modification time that was recorded at its upload. The same
    command continues an interrupted clone. Objects with a name that Git, lakecli or the system
    itself uses, such as .git, .lakefs_ref.yaml and .DS_Store, are left out and reported.

    With --include and --exclude the directory is sparse: it has only the objects whose paths below
    PATH match, as in .gitignore. That is remembered; commits of the directory change nothing else.

    Examples:
        lakecli local clone lakefs://demo/main/data/ ./data
        lakecli local clone lakefs://demo/main/events/ --include 'dt=2026-11-*/**'
    """
    del pre_sign

    name = os.fsdecode((path.path or b"").rstrip(b"/").rpartition(b"/")[2]) or path.repository
    if not directory and name in {".", ".."}:
        raise UsageError(f"the name of {path} is not a valid directory name", hint="name one")
    root = absolute(directory or name)
    git = ignore_in_git(context, root, wanted=gitignore)
    repository = context.synced_repository(path)
    mode = linking(context, repository)
    with progress(context, "clone", hidden=transfer.no_progress) as shown:
        options = replace(downloads(context, repository, transfer.workers), progress=shown)
        brought = clone(
            repository, path, root, include=include, exclude=exclude, options=options, linking=mode
        )
    git.finish()
    found = find_worktree(context, str(root))
    assert found is not None
    worktree = Worktree(repository, *found, linking=mode)
    if not brought.failures:
        context.out.say("", f"Successfully cloned {worktree.link.src} to {root}.")
    answer_synced(context, worktree, brought, "Clone")
