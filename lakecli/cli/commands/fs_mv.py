"""``lakecli fs mv``."""

from __future__ import annotations

from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.params import BranchPathUri, Recursive, TransferOptions
from lakecli.cli.places import TargetUri, across, answer, target_of
from lakecli.repository.mv import mv, mv_tree


def fs_mv(
    context: Context,
    source: BranchPathUri,
    destination: TargetUri,
    *,
    recursive: Recursive = False,
    transfer: TransferOptions,
) -> None:
    """Move an object, or all objects below a path, to a branch of this or another repository.

    The new paths and the removal of the old ones are uncommitted changes. Within one repository no
    bytes are copied.

    To another repository the objects are copied as by fs cp, and removed when all copies are
    staged there; if one fails, nothing is removed. An interrupted move leaves both, and the same
    command continues it. Undo takes back one repository at a time.

    If DEST is a whole branch or ends in a slash, an object keeps its own name below DEST. With -r
    the objects below PATH keep their names below DEST.

    Examples:
        lakecli fs mv lakefs://demo/main/a.csv lakefs://demo/main/b.csv
        lakecli fs mv -r lakefs://demo/main/incoming/ lakefs://demo/main/data/2026/
        lakecli fs mv -r lakefs://demo/main/orders/ lakefs://sales/main/orders/
    """
    if source.repository != destination.repository:
        across(context, source, destination, moves=True, recursive=recursive, transfer=transfer)
        return

    repository = context.synced_repository(source, destination)
    origin, branch = ref_of(source), ref_of(destination)
    if recursive:
        before, after = source.path or b"", destination.path or b""
        count = mv_tree(repository, source_branch=origin, source=before, branch=branch, path=after)
    else:
        before, after = target_of(source, destination)
        mv(repository, source_branch=origin, source=before, branch=branch, path=after)
        count = 1
    answer(context, "move", source, destination._replace(path=after), count)
