"""``lakecli show commit``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.base.model import Commit
from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.out.common_records import commit_record
from lakecli.cli.out.text import log_lines
from lakecli.cli.params import AtOp, RefUri, ShowMetarangeId, StatOptions
from lakecli.repository.log import show_commit as find_commit

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository


def show_commit(
    context: Context,
    ref: RefUri,
    *,
    show_meta_range_id: ShowMetarangeId = False,
    at_op: AtOp = "",
    stat: StatOptions,
) -> None:
    """Show one commit.

    With --stat, also what it changed compared with its first parent: paths and bytes by prefix, as
    `lakecli diff --stat` counts them.

    Examples:
        lakecli show commit lakefs://demo/main
        lakecli show commit --stat lakefs://demo/main
        lakecli show commit lakefs://demo/v1.0~2 --json
    """
    repository = context.synced_repository(ref, at_op=at_op)
    found = find_commit(repository, ref_of(ref))
    if stat.stat:
        _show_changes(context, repository, found, metarange=show_meta_range_id, depth=stat.depth)
        return
    context.out.emit(
        lambda: commit_record(found),
        text=lambda: log_lines(found, show_metarange=show_meta_range_id),
    )


def _show_changes(
    context: Context, repository: Repository, commit: Commit, *, metarange: bool, depth: int
) -> None:
    from lakecli.cli.differences import counts_record, show_counts
    from lakecli.committed.diff import count_changes
    from lakecli.repository.diff import diff_commit

    changes = diff_commit(repository, commit)
    if context.out.json:
        counts = [counts_record(row) for row in count_changes(changes, depth=depth)]
        context.out.emit({"commit": commit_record(commit), "changes": counts})
        return
    context.out.say(*log_lines(commit, show_metarange=metarange), "")
    show_counts(context.out, changes, depth=depth)
