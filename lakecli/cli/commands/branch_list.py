"""``lakecli branch list``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from lakecli.base.model import Branch
from lakecli.cli.context import Context
from lakecli.cli.here import repository_here
from lakecli.cli.line.declare import Option
from lakecli.cli.out.answers import pick
from lakecli.cli.out.common_records import ref_record
from lakecli.cli.params import AtOp, HereRepositoryUri, PageOptions
from lakecli.repository import branch

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository


_Long = Annotated[
    bool,
    Option("--long", "-v", help="Show the distance of each branch from the bucket, too"),
]


def branch_list(
    context: Context,
    repository: HereRepositoryUri = None,
    *,
    page: PageOptions,
    long: _Long = False,
    at_op: AtOp = "",
) -> None:
    """List the branches of a repository, ordered by name.

    On a terminal each branch is shown with the age and the subject of its newest commit.

    With -v or --json, in a repository that was pushed, fetched or cloned, each branch is listed
    with the number of commits it is ahead of and behind the bucket, as of the last fetch, pull or
    push.

    Without REPOSITORY, the repository of the linked directory is meant, or what `lakecli use` set.

    Examples:
        lakecli branch list lakefs://demo
        lakecli branch list
        lakecli branch list lakefs://demo -v
        lakecli branch list lakefs://demo --prefix dev- --amount 0
        lakecli branch list s3://my-bucket/demo
    """
    if repository is None:
        repository = repository_here(None, context)

    opened = context.synced_repository(repository, at_op=at_op)
    found = branch.iter_branches(opened, prefix=page.prefix, after=page.after)
    shown = context.out.page(found, amount=page.amount, name=lambda item: item.name)
    if context.out.terminal and not context.out.json:
        _list_for_people(context, opened, shown)
    elif (long or context.out.json) and branch.is_shared(opened):
        _list_shared(context, opened, shown)
    else:
        context.out.table(
            ("Branch", "Commit ID"),
            shown,
            row=lambda item: (item.name, item.commit_id),
            record=ref_record,
        )
    context.out.say("")


def _list_for_people(context: Context, repository: Repository, found: Iterable[Branch]) -> None:
    """Show each branch with the age and the first line of its newest commit."""
    from lakecli.cli.out.text import age, one_line
    from lakecli.cli.sharing import distance_text
    from lakecli.refs.ref_store import RefStore
    from lakecli.repository.status import with_distances

    is_shared = branch.is_shared(repository)
    with repository.lake.kv.read() as txn:
        refs = RefStore(txn, repository.key)
        heads = (
            (item, distance, refs.get_commit(item.commit_id))
            for item, distance in with_distances(repository, found)
        )
        context.out.table(
            ("Branch", "Commit", "Age", *(["Bucket"] if is_shared else []), "Subject"),
            heads,
            row=lambda head: (
                head[0].name,
                head[0].commit_id,
                age(head[2].created_at, context.now()),
                *([distance_text(head[1])] if is_shared else []),
                one_line(head[2].message.partition("\n")[0]),
            ),
            record=lambda head: ref_record(head[0]),
        )


def _list_shared(context: Context, repository: Repository, found: Iterable[Branch]) -> None:
    from lakecli.cli.out.answers.history import ListedBranch
    from lakecli.cli.sharing import distance_text
    from lakecli.repository.status import with_distances

    context.out.table(
        ("Branch", "Commit ID", "Bucket"),
        with_distances(repository, found),
        row=lambda item: (item[0].name, item[0].commit_id, distance_text(item[1])),
        record=lambda item: pick(ListedBranch, *item),
    )
