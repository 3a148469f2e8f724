"""``lakecli fs cp``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.params import PrefixUri, Recursive
from lakecli.cli.places import TargetUri, answer, target_of
from lakecli.uri import ref_of


def fs_cp(
    context: Context, source: PrefixUri, destination: TargetUri, *, recursive: Recursive = False
) -> None:
    """Copy an object, or all objects below a path, to a branch of the same repository.

    No bytes are copied; the new paths refer to the same objects. The copies are uncommitted changes
    of the destination branch. PATH may name any ref.

    If DEST is a whole branch or ends in a slash, an object keeps its own name below DEST. With -r
    the objects below PATH keep their names below DEST.

    Examples:
        lakecli fs cp lakefs://demo/main/a.csv lakefs://demo/main/archive/
        lakecli fs cp lakefs://demo/main~5/a.csv lakefs://demo/main/a.csv
        lakecli fs cp -r lakefs://demo/v1.0/data/ lakefs://demo/dev/data-v1/
    """
    from lakecli.repository.cp import cp, cp_tree

    repository = context.synced_repository(source, destination)
    ref, branch = ref_of(source), ref_of(destination)
    if recursive:
        before, after = source.path or b"", destination.path or b""
        count = cp_tree(repository, source_ref=ref, source=before, branch=branch, path=after)
    else:
        before, after = target_of(source, destination)
        cp(repository, source_ref=ref, source=before, branch=branch, path=after)
        count = 1
    answer(context, "copy", source, destination._replace(path=after), count)
