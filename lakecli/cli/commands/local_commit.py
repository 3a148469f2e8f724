"""``lakecli local commit``."""

from __future__ import annotations

from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.line.declare import Option
from lakecli.cli.params import (
    Exclude,
    Include,
    LinkOptions,
    Message,
    Metadata,
    TransferOptions,
    Yes,
)
from lakecli.cli.reading import NO_METADATA
from lakecli.cli.transfers import PreSign
from lakecli.cli.working_commit import Ours, WorkingCommit, commit_worktree
from lakecli.cli.worktrees import Directory, open_worktree


def local_commit(
    context: Context,
    directory: Directory = ".",
    *,
    message: Message = "",
    allow_empty_message: Annotated[
        bool, Option("--allow-empty-message", help="Commit without a message")
    ] = False,
    metadata: Metadata = NO_METADATA,
    include: Include = (),
    exclude: Exclude = (),
    ours: Ours = False,
    links: LinkOptions,
    transfer: TransferOptions,
    force: Annotated[
        bool,
        Option("--force", hidden=True, help="Accepted for lakectl compatibility; has no effect"),
    ] = False,
    yes: Yes = False,
    pre_sign: PreSign = False,
) -> None:
    """Commit the changes of a linked directory to its branch.

    They become one commit. Nobody ever sees half of them on the branch, and uncommitted changes of
    the branch stay uncommitted. If others have changed some of the same files, on the branch or in
    its staging area, they are listed and nothing is committed: see `local pull`, or commit the
    directory's files with --ours.

    Files with a name that Git, lakecli or the system itself uses, such as .git, .lakefs_ref.yaml
    and .DS_Store, are left out.

    Afterwards the directory has the new commit, with what others have committed to other paths.

    In a Git work tree, the commit's metadata has the ID of Git's head (git_commit_id) and, if Git
    has a remote, the URL of that commit there.

    Examples:
        lakecli local commit -m "Add the numbers of March"
        lakecli local commit ./data -m "Clean up" --include 'raw/**'
    """
    del force, yes, pre_sign
    commit_worktree(
        context,
        open_worktree(context, directory, links=links),
        WorkingCommit(
            message=message,
            allow_empty_message=allow_empty_message,
            metadata=metadata,
            include=include,
            exclude=exclude,
            ours=ours,
            workers=transfer.workers,
            no_progress=transfer.no_progress,
        ),
    )
