"""``lakecli branch show``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.params import AtOp, BranchUri
from lakecli.cli.records import ref_record
from lakecli.uri import ref_of


def branch_show(context: Context, branch: BranchUri, *, at_op: AtOp = "") -> None:
    """Show the commit a branch points to.

    Examples:
        lakecli branch show lakefs://demo/main
    """
    from lakecli.repository import branch as branches

    context.out.say(f"Branch: {branch}")
    found = branches.show(context.synced_repository(branch, at_op=at_op), ref_of(branch))
    context.out.emit(
        ref_record(found),
        text=lambda: [f"Commit ID: {found.commit_id}"],
    )
