"""``lakecli branch show``."""

from __future__ import annotations

from collections.abc import Iterator

from lakecli.base.model import Commit
from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.out.answers import pick
from lakecli.cli.out.answers.history import BranchShown
from lakecli.cli.out.common_records import commit_record
from lakecli.cli.out.text import local_date, one_line
from lakecli.cli.params import AtOp, BranchUri
from lakecli.cli.sharing import distance_text
from lakecli.repository.branch import show
from lakecli.repository.log import show_commit
from lakecli.repository.status import BranchStatus, status


def branch_show(context: Context, branch: BranchUri, *, at_op: AtOp = "") -> None:
    """Show the commit a branch points to.

    On a terminal and with --json also the date and message of that commit, the distance from the
    bucket at the last fetch, and how many uncommitted changes there are.

    Examples:
        lakecli branch show lakefs://demo/main
        lakecli branch show lakefs://demo/main --json
    """
    context.out.say(f"Branch: {branch}")
    repository = context.synced_repository(branch, at_op=at_op)
    found = show(repository, ref_of(branch))
    if not (context.out.json or context.out.terminal):
        context.out.say(f"Commit ID: {found.commit_id}")
        return
    (state,) = status(repository, found.name)
    commit = show_commit(repository, found.commit_id)

    def record() -> BranchShown:

        is_default = found.name == repository.record.default_branch
        return pick(
            BranchShown, state, state.distance, is_default=is_default, commit=commit_record(commit)
        )

    context.out.emit(record, text=lambda: _lines(state, commit))


def _lines(state: BranchStatus, commit: Commit) -> Iterator[str]:

    yield f"Commit ID: {state.commit_id}"
    yield f"Date: {local_date(commit.created_at)}"
    yield f"Message: {one_line(commit.message.partition(chr(10))[0])}"
    yield f"Bucket: {distance_text(state.distance)}"
    counts = {"added": state.added, "changed": state.changed, "removed": state.removed}
    staged = [f"{count} {what}" for what, count in counts.items() if count]
    yield f"Uncommitted: {', '.join(staged) or 'nothing'}"
