"""``lakecli checkout``."""

from __future__ import annotations

from typing import Annotated

from lakecli.base.uri import SCHEME, parse_ref, ref_of
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Argument, Option
from lakecli.cli.params import TransferOptions
from lakecli.cli.reading import Completion, Kind
from lakecli.cli.working_directory import checkout_worktree
from lakecli.cli.worktrees import open_worktree
from lakecli.errors import UsageError
from lakecli.repository import branch


def checkout(
    context: Context,
    ref: Annotated[
        str,
        Argument(metavar="REF", help="Branch, tag or commit of the linked repository"),
        Completion(Kind.REF),
    ],
    *,
    create: Annotated[
        bool, Option("-b", "--create", help="Create the branch REF first, where the directory is")
    ] = False,
    force: Annotated[
        bool, Option("--force", "-f", help="Overwrite changed files that differ in REF")
    ] = False,
    transfer: TransferOptions,
) -> None:
    """Bring a linked directory to another branch, tag or commit.

    Files that you changed keep their changes. If REF has another version of such a file than the
    commit that the directory is at, these files are listed and nothing happens. --force overwrites
    them; `undo` brings them back. At a tag or commit nothing can be committed.

    -b creates the branch REF at the ref of the directory, whose uncommitted changes stay. `branch
    create` creates a branch anywhere; `local checkout` undoes all changes of the directory.

    Examples:
        lakecli checkout experiment
        lakecli checkout main~3
        lakecli checkout -b experiment
    """
    worktree = open_worktree(context)
    if ref.startswith(SCHEME):
        parsed = parse_ref(ref)
        if parsed.repository != worktree.link.src.repository:
            raise UsageError(
                f"{worktree.root} is linked with {worktree.repository.uri}, not with {ref}",
                hint="clone the other repository into a directory of its own: lakecli local clone",
            )
        ref = ref_of(parsed)
    if create:
        branch.create(worktree.repository, ref, source=worktree.link.ref)
    checkout_worktree(context, worktree, ref=ref, discard=False, force=force, transfer=transfer)
