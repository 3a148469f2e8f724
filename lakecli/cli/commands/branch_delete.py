"""``lakecli branch delete``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.params import BranchUri, Yes
from lakecli.cli.records import ref_record
from lakecli.uri import ref_of


def branch_delete(context: Context, branch: BranchUri, *, yes: Yes = False) -> None:
    """Delete a branch with its uncommitted changes.

    Its commits stay. The default branch cannot be deleted. `lakecli undo` restores the branch with
    its uncommitted changes for 30 days.

    Examples:
        lakecli branch delete lakefs://demo/experiment
        lakecli branch delete lakefs://demo/experiment -y
    """
    from lakecli.repository import branch as branches

    context.out.say(f"Branch: {branch}")
    repository, name = context.synced_repository(branch), ref_of(branch)
    branches.check_delete(repository, name)
    context.confirm(f"delete branch '{name}' and its uncommitted changes", yes=yes)
    deleted = branches.delete(repository, name)
    context.out.emit(ref_record(deleted))
