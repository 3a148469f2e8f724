"""``lakecli find-merge-base``."""

from __future__ import annotations

from typing import Annotated

from lakecli.base.uri import LakeUri, ref_of
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Argument
from lakecli.cli.params import AtOp
from lakecli.cli.reading import Kind, Parser, read_ref
from lakecli.repository.reading import view as merging


def find_merge_base(
    context: Context,
    source: Annotated[
        LakeUri,
        Argument(metavar="SOURCE", help="lakefs://REPOSITORY/REF to merge"),
        Parser(read_ref, Kind.REF),
    ],
    destination: Annotated[
        LakeUri,
        Argument(metavar="DESTINATION", help="lakefs://REPOSITORY/REF to merge it into"),
        Parser(read_ref, Kind.REF),
    ],
    *,
    at_op: AtOp = "",
) -> None:
    """Show the commit that a merge of two refs would start from.

    This is their best common ancestor, as git merge-base defines it.

    Examples:
        lakecli find-merge-base lakefs://demo/experiment lakefs://demo/main
    """
    context.out.say(f"Source: {source}", f"Destination: {destination}")
    points = merging.find_merge_base(
        context.synced_repository(source, destination, at_op=at_op),
        ref_of(source),
        ref_of(destination),
    )
    base, from_, into = points.base.id, points.source.id, points.destination.id
    context.out.emit(
        {"base_commit_id": base, "source_commit_id": from_, "destination_commit_id": into},
        text=lambda: [f'Found base "{base}" when merging "{from_}" into "{into}".'],
    )
