"""``lakecli branch create``."""

from __future__ import annotations

from typing import Annotated

from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Option
from lakecli.cli.out.common_records import ref_record
from lakecli.cli.params import BranchUri
from lakecli.cli.reading import Completion, Kind, read_ref_of
from lakecli.repository import branch as branches


def branch_create(
    context: Context,
    branch: BranchUri,
    *,
    source: Annotated[
        str,
        Option("--source", "-s", metavar="REF", help="REF or lakefs://REPOSITORY/REF to start at"),
        Completion(Kind.REF),
    ],
) -> None:
    """Create a branch at the commit of another ref.

    No object is copied. Uncommitted changes of the source stay on the source.

    Examples:
        lakecli branch create lakefs://demo/experiment -s lakefs://demo/main
        lakecli branch create lakefs://demo/rescue -s main~3
    """
    start = read_ref_of(branch, source, context)
    context.out.say(f"Source ref: {start}")
    repository = context.synced_repository(branch, start)
    created = branches.create(repository, ref_of(branch), source=ref_of(start))
    context.out.emit(
        lambda: ref_record(created),
        text=lambda: [f"created branch '{created.name}' {created.commit_id}"],
    )
