"""``lakecli cherry-pick``."""

from __future__ import annotations

from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.out.common_records import commit_record
from lakecli.cli.out.text import commit_lines
from lakecli.cli.params import AllowEmptyCommit, BranchUri, ParentNumber, RefUri
from lakecli.repository.cherry_pick import cherry_pick as pick


def cherry_pick(
    context: Context,
    ref: RefUri,
    branch: BranchUri,
    *,
    parent_number: ParentNumber = None,
    allow_empty_commit: AllowEmptyCommit = False,
) -> None:
    """Apply the changes of one commit to a branch.

    The new commit has the message and the metadata of the original. Two metadata keys record the ID
    and the committer of the original. A merge commit is compared with its first parent unless
    --parent-number names another.

    Examples:
        lakecli cherry-pick lakefs://demo/experiment lakefs://demo/main
        lakecli cherry-pick lakefs://demo/8d7c1b02 lakefs://demo/main
    """
    context.out.say(f"Branch: {branch}")
    made = pick(
        context.synced_repository(ref, branch),
        ref_of(ref),
        ref_of(branch),
        committer=context.committer(),
        parent_number=parent_number,
        allow_empty=allow_empty_commit,
    )
    context.out.emit(
        lambda: commit_record(made), text=lambda: commit_lines(made, branch=ref_of(branch))
    )
