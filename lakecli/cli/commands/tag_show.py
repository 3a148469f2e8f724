"""``lakecli tag show``."""

from __future__ import annotations

from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.out.common_records import ref_record
from lakecli.cli.params import AtOp, TagUri
from lakecli.repository import tag as tags


def tag_show(context: Context, tag: TagUri, *, at_op: AtOp = "") -> None:
    """Show the commit a tag points to.

    Examples:
        lakecli tag show lakefs://demo/v1.0
    """
    found = tags.show(context.synced_repository(tag, at_op=at_op), ref_of(tag))
    context.out.emit(
        lambda: ref_record(found),
        text=lambda: [f"{found.name} {found.commit_id}"],
    )
