"""``lakecli branch list``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.params import After, Amount, Prefix, RepositoryUri
from lakecli.cli.records import ref_record


def branch_list(
    context: Context,
    repository: RepositoryUri,
    *,
    amount: Amount = 100,
    after: After = "",
    prefix: Prefix = "",
) -> None:
    """List the branches of a repository, ordered by name.

    Examples:
        lakecli branch list lakefs://demo
        lakecli branch list lakefs://demo --prefix dev- --amount 0
    """
    from lakecli.repository import branch

    found = branch.iter_branches(context.repository(repository), prefix=prefix, after=after)
    context.out.table(
        ("Branch", "Commit ID"),
        context.out.page(found, amount=amount, name=lambda item: item.name),
        row=lambda item: (item.name, item.commit_id),
        record=lambda item: ref_record(item.name, item.commit_id),
    )
