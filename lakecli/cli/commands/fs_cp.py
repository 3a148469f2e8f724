"""``lakecli fs cp``."""

from __future__ import annotations

from dataclasses import replace

from lakecli.cli.context import Context
from lakecli.cli.params import PrefixUri, Recursive
from lakecli.cli.places import TargetUri, target_of, tell
from lakecli.uri import ref_of


def fs_cp(
    context: Context, source: PrefixUri, destination: TargetUri, *, recursive: Recursive = False
) -> None:
    """Copy an object, or all objects below a path, to a branch of the same repository.

    No data is copied, whatever the size: the new paths name the same bytes. The copies are
    uncommitted changes of the branch. PATH may be of any ref. An object whose DEST is the whole
    branch or ends in a slash keeps its own name below it; with -r the objects below PATH keep
    their names below DEST.

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
    tell(context, "copy", source, replace(destination, path=after), count)
