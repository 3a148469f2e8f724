"""``lakecli tag create``."""

from __future__ import annotations

from typing import Annotated

from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Argument, Option
from lakecli.cli.out.common_records import ref_record
from lakecli.cli.params import TagUri
from lakecli.cli.reading import Completion, Kind, read_ref_of
from lakecli.repository import tag as tags


def tag_create(
    context: Context,
    tag: TagUri,
    ref: Annotated[
        str,
        Argument(metavar="REF", help="REF or lakefs://REPOSITORY/REF to name"),
        Completion(Kind.REF),
    ],
    *,
    force: Annotated[bool, Option("--force", "-f", help="Move the tag if it exists")] = False,
) -> None:
    """Create a tag: a name for a commit.

    Examples:
        lakecli tag create lakefs://demo/v1.0 main
        lakecli tag create lakefs://demo/latest lakefs://demo/main~1 -f
    """
    start = read_ref_of(tag, ref, context)
    made = tags.create(
        context.synced_repository(tag, start), ref_of(tag), ref_of(start), force=force
    )
    context.out.emit(
        lambda: ref_record(made),
        text=lambda: [f"Created tag '{made.name}' ({made.commit_id})"],
    )
