"""``lakecli annotate``."""

from __future__ import annotations

from lakecli.cli.annotations import FirstParent, show_annotations
from lakecli.cli.context import Context
from lakecli.cli.params import AtOp, PrefixOrFileUri, Recursive


def annotate(
    context: Context,
    path: PrefixOrFileUri,
    *,
    recursive: Recursive = False,
    first_parent: FirstParent = False,
    at_op: AtOp = "",
) -> None:
    """Show the commit that last changed each object.

    If there is an object at the path, that one is shown. Otherwise the objects and common prefixes
    are shown that `lakecli fs ls` lists there; for a common prefix, the newest change below it.
    With -r, all objects under the path are shown. Uncommitted changes are ignored.

    Each line has the path, the committer, the first 16 digits of the commit ID, the date and the
    first line of the message.

    Examples:
        lakecli annotate lakefs://demo/main/
        lakecli annotate lakefs://demo/main/data/orders.csv
        lakecli annotate -r lakefs://demo/v1.0/data/ --first-parent
    """
    show_annotations(context, path, recursive=recursive, first_parent=first_parent, at_op=at_op)
