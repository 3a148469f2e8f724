"""``lakecli tag list``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.here import repository_here
from lakecli.cli.out.common_records import ref_record
from lakecli.cli.params import AtOp, HereRepositoryUri, PageOptions
from lakecli.repository import tag


def tag_list(
    context: Context,
    repository: HereRepositoryUri = None,
    *,
    page: PageOptions,
    at_op: AtOp = "",
) -> None:
    """List the tags of a repository, ordered by name.

    Without REPOSITORY, the repository of the linked directory is meant, or what `lakecli use` set.

    Examples:
        lakecli tag list lakefs://demo
        lakecli tag list
        lakecli tag list lakefs://demo --prefix v1. --amount 0
    """
    if repository is None:
        repository = repository_here(None, context)

    found = tag.iter_tags(
        context.synced_repository(repository, at_op=at_op), prefix=page.prefix, after=page.after
    )
    context.out.table(
        ("Tag", "Commit ID"),
        context.out.page(found, amount=page.amount, name=lambda item: item.name),
        row=lambda item: (item.name, item.commit_id),
        record=ref_record,
    )
    context.out.say("")
