"""``lakecli blame``."""

from __future__ import annotations

from lakecli.cli.annotations import FirstParent, show_annotations
from lakecli.cli.context import Context
from lakecli.cli.params import AtOp, PrefixOrFileUri, Recursive


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
    show_annotations(context, path, recursive=recursive, first_parent=first_parent, at_op=at_op)
