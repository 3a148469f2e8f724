"""``lakecli restore``."""

from __future__ import annotations

from typing import Annotated

from lakecli.cli.context import Context
from lakecli.cli.line.declare import Argument, Option
from lakecli.cli.params import TransferOptions
from lakecli.cli.reading import Completion, Kind
from lakecli.cli.working_directory import restore_files
from lakecli.cli.worktrees import open_worktree


def restore(
    context: Context,
    files: Annotated[
        list[str],
        Argument(metavar="FILE", help="Files or directories of a linked directory"),
        Completion(Kind.FILE_OF_REF),
    ],
    *,
    source: Annotated[
        str,
        Option(
            "--source",
            "-s",
            metavar="REF",
            help="Take the files of this branch, tag or commit; default: as last synced",
        ),
        Completion(Kind.REF),
    ] = "",
    transfer: TransferOptions,
) -> None:
    """Give files of a linked directory their committed contents.

    Changes of the files are overwritten; `undo` brings them back. After a pull with conflicts, this
    takes the branch's version of a file and resolves its conflict. Files that were never committed
    stay.

    Examples:
        lakecli restore data/orders.csv
        lakecli restore . --source main~3
    """
    restore_files(context, open_worktree(context), files, source=source, transfer=transfer)
