"""``lakecli branch list``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.cli.context import Context
from lakecli.cli.params import After, Amount, AtOp, Prefix, RepositoryUri
from lakecli.cli.records import ref_record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakecli.model import Branch
    from lakecli.repository.core.lake import Repository


def branch_list(
    context: Context,
    repository: RepositoryUri,
    *,
    amount: Amount = 100,
    after: After = "",
    prefix: Prefix = "",
    at_op: AtOp = "",
) -> None:
    """List the branches of a repository, ordered by name.

    Where it is shared, with how far each is from where it stood in the bucket.

    Examples:
        lakecli branch list lakefs://demo
        lakecli branch list lakefs://demo --prefix dev- --amount 0
    """
    from lakecli.repository import branch

    opened = context.synced_repository(repository, at_op=at_op)
    found = branch.iter_branches(opened, prefix=prefix, after=after)
    shown = context.out.page(found, amount=amount, name=lambda item: item.name)
    if branch.is_shared(opened):
        _list_shared(context, opened, shown)
        return
    context.out.table(
        ("Branch", "Commit ID"),
        shown,
        row=lambda item: (item.name, item.commit_id),
        record=lambda item: ref_record(item.name, item.commit_id),
    )


def _list_shared(context: Context, repository: Repository, found: Iterable[Branch]) -> None:
    from lakecli.cli.sharing import distance_text
    from lakecli.repository.status import with_distances

    context.out.table(
        ("Branch", "Commit ID", "Bucket"),
        with_distances(repository, found),
        row=lambda item: (
            item[0].name,
            item[0].commit_id,
            distance_text(
                item[1].upstream, item[1].ahead, item[1].behind, is_deleted=item[1].is_deleted
            ),
        ),
        record=lambda item: {
            **ref_record(item[0].name, item[0].commit_id),
            "upstream": item[1].upstream,
            "ahead": item[1].ahead,
            "behind": item[1].behind,
        },
    )
