"""``lakecli tag list``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.params import AtOp, PageOptions, RepositoryUri
from lakecli.cli.records import ref_record


def tag_list(
    context: Context,
    repository: RepositoryUri,
    *,
    page: PageOptions,
    at_op: AtOp = "",
) -> None:
    """List the tags of a repository, ordered by name.

    Examples:
        lakecli tag list lakefs://demo
        lakecli tag list lakefs://demo --prefix v1. --amount 0
    """
    from lakecli.repository import tag

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
