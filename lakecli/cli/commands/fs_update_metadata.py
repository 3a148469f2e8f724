"""``lakecli fs update-metadata``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from lakecli.base.uri import path_of, ref_of
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Option
from lakecli.cli.out.common_records import entry_record
from lakecli.cli.params import BranchPathUris
from lakecli.cli.reading import Parser, read_new_metadata
from lakecli.errors import UsageError
from lakecli.repository.cp import update_metadata
from lakecli.repository.reading.addresses import full_address
from lakecli.repository.staged.stager import NewAttributes
from lakecli.repository.stat import stat


def fs_update_metadata(
    context: Context,
    paths: BranchPathUris,
    *,
    metadata: Annotated[
        Mapping[str, str] | None,
        Option("--metadata", "--meta", metavar="KEY=VALUE", help="The new metadata; '' for none"),
        Parser(read_new_metadata, repeatable=True),
    ] = None,
    content_type: Annotated[
        str | None, Option("--content-type", metavar="TYPE", help="The new content type")
    ] = None,
) -> None:
    """Replace the metadata or the content type of objects.

    The objects are the same; no bytes are read or copied. The change is an uncommitted change of
    the branch. All user metadata is replaced; what clients recorded, such as the modification time
    of the file, is kept. If one of several objects does not exist, nothing is changed.

    Examples:
        lakecli fs update-metadata lakefs://demo/main/a.csv --metadata owner=ada,stage=raw
        lakecli fs update-metadata lakefs://demo/main/a.csv --content-type text/csv
    """
    if metadata is None and content_type is None:
        raise UsageError("there is nothing to change", hint="give --metadata or --content-type")
    first, *others = paths
    if any(ref_of(other) != ref_of(first) for other in others):
        raise UsageError("the paths are not of the same branch", hint="run one command for each")

    repository, branch = context.synced_repository(*paths), ref_of(first)
    names = list(dict.fromkeys(map(path_of, paths)))
    update_metadata(repository, branch, names, NewAttributes(content_type, metadata))
    if context.out.json:
        for name in names:
            entry = stat(repository, branch, name)
            address = full_address(repository, entry)
            context.out.emit(entry_record(name, entry, physical_address=address))
