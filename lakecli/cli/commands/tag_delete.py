"""``lakecli tag delete``."""

from __future__ import annotations

from lakecli.base.uri import ref_of
from lakecli.cli.context import Context
from lakecli.cli.out.common_records import ref_record
from lakecli.cli.params import TagUris, Yes
from lakecli.repository import tag as library


def tag_delete(context: Context, tags: TagUris, *, yes: Yes = False) -> None:
    """Delete tags of a repository; their commits stay.

    If one of several tags does not exist, none is deleted. With automatic sync, a tag is deleted in
    the bucket, too; if it is at another commit there, none is deleted, and the exit code is 5.

    Examples:
        lakecli tag delete lakefs://demo/v1.0
        lakecli tag delete lakefs://demo/v1.0 lakefs://demo/v1.1 -y
    """
    unique = list(dict.fromkeys(tags))
    repository = context.synced_repository(*unique)
    names = [ref_of(tag) for tag in unique]
    for name in names:
        library.check_delete(repository, name)
    listed = ", ".join(f"'{name}'" for name in names)
    context.confirm(f"delete tag{'s' if len(names) > 1 else ''} {listed}", yes=yes)
    for name in names:
        context.out.emit(ref_record(library.delete(repository, name)))
