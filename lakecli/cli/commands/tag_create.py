"""``lakecli tag create``."""

from __future__ import annotations

from typing import Annotated

from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Option
from lakecli.cli.params import RefUri, TagUri
from lakecli.cli.records import ref_record
from lakecli.repository import tag as tags


def tag_create(
    context: Context,
    tag: TagUri,
    ref: RefUri,
    *,
    force: Annotated[bool, Option("--force", "-f", help="Move the tag if it exists")] = False,
) -> None:
    """Create a tag: a name for a commit.

    Examples:
        lakecli tag create lakefs://demo/v1.0 lakefs://demo/main
        lakecli tag create lakefs://demo/latest lakefs://demo/main~1 -f
    """
    made = tags.create(context.synced_repository(tag, ref), ref_of(tag), ref_of(ref), force=force)
    context.out.emit(
        lambda: ref_record(made),
        text=lambda: [f"Created tag '{made.name}' ({made.commit_id})"],
    )
