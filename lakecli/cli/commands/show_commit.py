"""``lakecli show commit``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.params import AtOp, RefUri, ShowMetarangeId
from lakecli.cli.records import commit_record
from lakecli.cli.text import log_lines
from lakecli.uri import ref_of


def show_commit(
    context: Context, ref: RefUri, *, show_meta_range_id: ShowMetarangeId = False, at_op: AtOp = ""
) -> None:
    """Show one commit.

    Examples:
        lakecli show commit lakefs://demo/main
        lakecli show commit lakefs://demo/v1.0~2 --json
    """
    from lakecli.repository import rev_parse

    found = rev_parse.show_commit(context.synced_repository(ref, at_op=at_op), ref_of(ref))
    context.out.emit(
        commit_record(found),
        text=lambda: log_lines(found, show_metarange=show_meta_range_id),
    )
