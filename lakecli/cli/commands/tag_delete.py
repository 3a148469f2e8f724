"""``lakecli tag delete``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.params import TagUri, Yes
from lakecli.cli.records import ref_record
from lakecli.uri import ref_of


def tag_delete(context: Context, tag: TagUri, *, yes: Yes = False) -> None:
    """Delete a tag; its commit stays.

    Examples:
        lakecli tag delete lakefs://demo/v1.0
        lakecli tag delete lakefs://demo/v1.0 -y
    """
    from lakecli.repository import tag as tags

    repository, name = context.synced_repository(tag), ref_of(tag)
    tags.show(repository, name)
    context.confirm(f"delete tag '{name}'", yes=yes)
    deleted = tags.delete(repository, name)
    context.out.emit(ref_record(deleted))
