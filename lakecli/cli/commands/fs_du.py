"""``lakecli fs du``."""

from __future__ import annotations

from typing import Annotated

from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Option
from lakecli.cli.out.answers import pick
from lakecli.cli.out.answers.objects import Usage as UsageRecord
from lakecli.cli.out.text import human_size, quote_path
from lakecli.cli.params import AtOp, PrefixUri
from lakecli.repository.du import Usage, du


def fs_du(
    context: Context,
    path: PrefixUri,
    *,
    depth: Annotated[
        int, Option("--depth", min=0, metavar="N", help="Levels of directories; 0 for the total")
    ] = 1,
    shared: Annotated[
        bool, Option("--shared", help="Also show what other branches and tags have too")
    ] = False,
    at_op: AtOp = "",
) -> None:
    """Show how much the objects below a prefix take, by directory.

    The columns are the directory, the number of paths, their bytes, and the bytes that are stored
    for them: bytes that several paths have are stored once, and count for the first of these paths.
    With --shared, the last column is the part of the stored bytes that other branches or tags have
    too; their trees are read for that. A directory includes those inside it; the total comes last.

    Uncommitted changes of a branch are included; write BRANCH@ for the committed objects only.
    Older commits may store more: see `lakecli gc run`. Unless stdout is a terminal, the columns are
    separated by tabs and sizes are in bytes.

    Examples:
        lakecli fs du lakefs://demo/main/
        lakecli fs du lakefs://demo/main/raw/ --depth 2 --shared
        lakecli fs du lakefs://demo/v1.0/ --depth 0 --json
    """
    repository = context.synced_repository(path, at_op=at_op)
    size_of = human_size if context.out.terminal else str

    def row(usage: Usage) -> list[str]:
        name = "total" if usage.prefix is None else quote_path(usage.prefix)
        sizes = [usage.size, usage.physical, *([usage.shared] if shared else [])]
        return [name, str(usage.objects), *map(size_of, sizes)]

    def record(usage: Usage) -> UsageRecord:
        return pick(UsageRecord, usage, shared=usage.shared if shared else None)

    with du(repository, ref_of(path), path.path or b"", depth=depth, shared=shared) as found:
        context.out.table(
            ("Directory", "Objects", "Size", "Stored", *(["Shared"] if shared else [])),
            found,
            row=row,
            record=record,
        )
