"""``lakecli branch delete``."""

from __future__ import annotations

from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.out.common_records import ref_record
from lakecli.cli.params import BranchUris, Yes
from lakecli.repository import branch as library


def branch_delete(context: Context, branches: BranchUris, *, yes: Yes = False) -> None:
    """Delete branches of a repository with their uncommitted changes.

    Their commits stay. The default branch cannot be deleted. If one of several branches does not
    exist, none is deleted. `lakecli undo` restores a branch with its uncommitted changes for 30
    days.

    With automatic sync, a branch is deleted in the bucket, too. If the bucket has commits on it
    that are not here, none is deleted, and the exit code is 5.

    Examples:
        lakecli branch delete lakefs://demo/experiment
        lakecli branch delete lakefs://demo/try-1 lakefs://demo/try-2 -y
    """
    unique = list(dict.fromkeys(branches))
    context.out.say(*(f"Branch: {branch}" for branch in unique))
    repository = context.synced_repository(*unique)
    names = [ref_of(branch) for branch in unique]
    for name in names:
        library.check_delete(repository, name)
    context.confirm(f"delete {_named(names)} and uncommitted changes", yes=yes)
    for name in names:
        context.out.emit(ref_record(library.delete(repository, name)))


def _named(names: list[str]) -> str:
    listed = ", ".join(f"'{name}'" for name in names)
    return f"branch {listed}" if len(names) == 1 else f"branches {listed}"
