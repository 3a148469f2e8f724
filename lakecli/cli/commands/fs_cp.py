"""``lakecli fs cp``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Option
from lakecli.cli.params import PrefixUri, Recursive, TransferOptions
from lakecli.cli.places import TargetUri, across, answer, target_of
from lakecli.cli.reading import Parser, read_new_metadata
from lakecli.repository.cp import cp, cp_tree
from lakecli.repository.staged.stager import NewAttributes


def fs_cp(
    context: Context,
    source: PrefixUri,
    destination: TargetUri,
    *,
    recursive: Recursive = False,
    metadata: Annotated[
        Mapping[str, str] | None,
        Option("--meta", metavar="KEY=VALUE", help="Metadata of the copies; '' for none"),
        Parser(read_new_metadata, repeatable=True),
    ] = None,
    content_type: Annotated[
        str | None, Option("--content-type", metavar="TYPE", help="Content type of the copies")
    ] = None,
    transfer: TransferOptions,
) -> None:
    """Copy an object, or all objects below a path, to a branch of this or another repository.

    The copies are uncommitted changes of the destination branch. PATH may name any ref. Within one
    repository no bytes are copied; the new paths refer to the same objects.

    To another repository the bytes are copied, unless it has them already. If both namespaces are
    in one bucket store, the store copies them and nothing passes through this machine; only their
    sizes are compared, and fsck --data verifies the contents. Otherwise they are read and verified.
    Objects that were imported in place stay where they are, and both
    repositories refer to them. Objects of lakeFS get a new checksum. If some objects fail, the
    others are copied, the failures are listed, and the exit code is 3.

    If DEST is a whole branch or ends in a slash, an object keeps its own name below DEST. With -r
    the objects below PATH keep their names below DEST. Content type and metadata are those of the
    source, unless --meta or --content-type replaces them.

    Examples:
        lakecli fs cp lakefs://demo/main/a.csv lakefs://demo/main/archive/
        lakecli fs cp lakefs://demo/main~5/a.csv lakefs://demo/main/a.csv
        lakecli fs cp -r lakefs://demo/v1.0/data/ lakefs://demo/dev/data-v1/
        lakecli fs cp lakefs://demo/main/a.csv lakefs://demo/main/b.csv --meta owner=ada
        lakecli fs cp -r lakefs://demo/main/data/ lakefs://sales/main/demo-data/
    """
    attributes = NewAttributes(content_type, metadata)
    if source.repository != destination.repository:
        across(
            context,
            source,
            destination,
            moves=False,
            recursive=recursive,
            transfer=transfer,
            attributes=attributes,
        )
        return
    repository = context.synced_repository(source, destination)
    ref, branch = ref_of(source), ref_of(destination)
    if recursive:
        before, after = source.path or b"", destination.path or b""
    else:
        before, after = target_of(source, destination)
    copy = cp_tree if recursive else cp
    made = copy(
        repository,
        source_ref=ref,
        source=before,
        branch=branch,
        path=after,
        attributes=attributes,
    )
    count = made if isinstance(made, int) else 1
    answer(context, "copy", source, destination._replace(path=after), count)
