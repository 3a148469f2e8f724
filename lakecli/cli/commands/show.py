"""``lakecli show commit``: one commit, and on request its changes."""

from collections.abc import Sequence
from typing import TypedDict

from lakecli.base.model import Commit
from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.out.records import answers
from lakecli.cli.out.text import log_lines
from lakecli.cli.params import AtOp, RefUri, ShowMetarangeId, StatOptions
from lakecli.committed.change_counts import ChangeCounts, count_changes
from lakecli.repository import log as library


class CommitChangesJson(TypedDict):
    """A commit, and its changes.

    Attributes:
        commit: the commit.
        changes: changes since the first parent, by prefix; the last object is the total.
    """

    commit: Commit
    changes: Sequence[ChangeCounts]


@answers(Commit)
@answers(CommitChangesJson, option="--stat")
def show_commit(
    context: Context,
    ref: RefUri,
    *,
    show_meta_range_id: ShowMetarangeId = False,
    at_op: AtOp = "",
    stat: StatOptions,
) -> None:
    """Show one commit.

    With --stat, it also shows the changes since the first parent: paths and bytes by prefix, as
    `lakecli diff --stat` counts them.

    Examples:
        lakecli show commit lakefs://demo/main
        lakecli show commit --stat lakefs://demo/main
        lakecli show commit lakefs://demo/v1.0~2 --json
    """
    repository = context.synced_repository(ref, at_op=at_op)
    found = library.show_commit(repository, ref_of(ref))
    lines = log_lines(found, show_metarange=show_meta_range_id)
    if not stat.stat:
        context.out.emit(found, text=lambda: lines)
        return
    from lakecli.cli.commands.differences import show_counts
    from lakecli.repository.diff import diff_commit

    changes = diff_commit(repository, found)
    if context.out.json:
        counts = list(count_changes(changes, depth=stat.depth))
        context.out.emit({"commit": found, "changes": counts})
        return
    context.out.say(*lines, "")
    show_counts(context.out, changes, depth=stat.depth)
