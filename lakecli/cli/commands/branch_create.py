"""``lakecli branch create``."""

from __future__ import annotations

from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.declare import Option
from lakecli.cli.params import BranchUri
from lakecli.cli.reading import Kind, Parser, read_ref
from lakecli.cli.records import ref_record
from lakecli.uri import LakeUri, ref_of


def branch_create(
    context: Context,
    branch: BranchUri,
    *,
    source: Annotated[
        LakeUri,
        Option("--source", "-s", metavar="REF", help="lakefs://REPOSITORY/REF to start at"),
        Parser(read_ref, Kind.REF),
    ],
) -> None:
    """Create a branch at the commit of another ref.

    No object is copied. Uncommitted changes of the source stay on the source.

    Examples:
        lakecli branch create lakefs://demo/experiment -s lakefs://demo/main
        lakecli branch create lakefs://demo/rescue -s lakefs://demo/main~3
    """
    from lakecli.repository import branch as branches

    context.out.say(f"Source ref: {source}")
    repository = context.synced_repository(branch, source)
    created = branches.create(repository, ref_of(branch), source=ref_of(source))
    context.out.emit(
        lambda: ref_record(created),
        text=lambda: [f"created branch '{created.name}' {created.commit_id}"],
    )
