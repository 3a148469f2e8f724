"""``lakecli annotate`` and ``lakecli blame``: the commits that last changed objects."""

from typing import Annotated, Final

from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.line import Option
from lakecli.cli.out.records import answers
from lakecli.cli.out.text import local_date, one_line, quote_path
from lakecli.cli.params import AtOp, PrefixOrFileUri, Recursive
from lakecli.repository import annotate as library

FirstParent = Annotated[
    bool,
    Option(None, "Name the merge that brought a change, not the merged commit", "--first-parent"),
]

_MAX_MESSAGE: Final = 200
"""The maximum number of characters of a message that are shown, including `_CUT` at the end."""

_CUT: Final = "..."


@answers(library.Annotation, each=True)
def annotate(
    context: Context,
    path: PrefixOrFileUri,
    *,
    recursive: Recursive = False,
    first_parent: FirstParent = False,
    at_op: AtOp = "",
) -> None:
    """Show the commit that last changed each object.

    If PATH is an object, only this object is shown. Otherwise, each object and common prefix that
    `lakecli fs ls` lists at PATH is shown; for a common prefix, the commit is that of the newest
    change below it. With -r, all objects below PATH are shown. Uncommitted changes are ignored.

    Each line has the path, the committer, the first 16 digits of the commit ID, the date and the
    first line of the message.

    Examples:
        lakecli annotate lakefs://demo/main/
        lakecli annotate lakefs://demo/main/data/orders.csv
        lakecli annotate -r lakefs://demo/v1.0/data/ --first-parent
    """
    repository = context.synced_repository(path, at_op=at_op)
    with library.annotate(
        repository, ref_of(path), path.path or b"", recursive=recursive, first_parent=first_parent
    ) as found:
        context.out.stream(found, text=_line)


@answers(library.Annotation, each=True)
def blame(
    context: Context,
    path: PrefixOrFileUri,
    *,
    recursive: Recursive = False,
    first_parent: FirstParent = False,
    at_op: AtOp = "",
) -> None:
    """Show the commit that last changed each object; the same as `lakecli annotate`.

    Examples:
        lakecli blame lakefs://demo/main/data/orders.csv
        lakecli blame -r lakefs://demo/main/data/
    """
    annotate(context, path, recursive=recursive, first_parent=first_parent, at_op=at_op)


def _line(item: library.Annotation) -> str:
    commit = item.commit
    message = commit.message.partition("\n")[0]
    if len(message) > _MAX_MESSAGE:
        message = message[: _MAX_MESSAGE - len(_CUT)] + _CUT
    path, committer = quote_path(item.path), one_line(commit.committer)
    date = local_date(commit.created_at)
    return f"{path:<15} {committer:<20} {commit.id[:16]:<20} {date}  {one_line(message)}"
