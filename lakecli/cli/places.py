"""Shared by ``fs cp`` and ``fs mv``: the destination, and the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from lakecli.cli.declare import Argument
from lakecli.cli.reading import Kind, Parser, read_branch_prefix
from lakecli.cli.text import quote_path
from lakecli.errors import UsageError
from lakecli.uri import LakeUri, path_of

if TYPE_CHECKING:
    from lakecli.cli.context import Context

TargetUri = Annotated[
    LakeUri,
    Argument(metavar="DEST", help="lakefs://REPOSITORY/BRANCH/[PATH]"),
    Parser(read_branch_prefix, Kind.PATH),
]


def target_of(source: LakeUri, target: LakeUri) -> tuple[bytes, bytes]:
    """Return the old and the new path of an object; in a directory it keeps its name.

    Raises:
        UsageError: one of them is not a valid path of an object.
    """
    before, after = path_of(source, hint="all objects: -r"), target.path or b""
    if not after or after.endswith(b"/"):
        name = before.rpartition(b"/")[2]
        if not name:
            raise UsageError(f"{source} has no file name", hint="give the whole path of DEST")
        after += name
    return before, after


def answer(context: Context, verb: str, source: LakeUri, target: LakeUri, objects: int) -> None:
    """Answer with the number of objects copied or moved."""
    record = {"source": str(source), "destination": str(target), "objects": objects}
    counted = f" ({objects} objects)" if objects > 1 else ""
    context.out.emit(
        record,
        text=lambda: [f"{verb}: {quote_path(str(source))} to {quote_path(str(target))}{counted}"],
    )
