"""``lakecli repo``: create, list and delete repositories."""

from pathlib import Path

from lakecli.base.model import RepositoryRecord
from lakecli.cli.context import Context
from lakecli.cli.line import option
from lakecli.cli.out.records import answers
from lakecli.cli.out.text import one_line, quote_path
from lakecli.cli.params import PageOptions, RepositoryUri, StorageNamespace, Yes
from lakecli.stores.uri import is_local, normalise


@answers(RepositoryRecord)
def repo_create(
    context: Context,
    repository: RepositoryUri,
    storage_namespace: StorageNamespace,
    *,
    default_branch: str = option("NAME", "--default-branch", "-d", default="main"),
    range_entries: int = option("N", default=8192),
) -> None:
    """Create a repository in a storage namespace.

    The namespace belongs to this repository alone. The default branch gets an empty first commit. A
    directory is created if necessary; a bucket must exist. Other objects in the namespace are
    neither changed nor versioned, and a note says so. A namespace that contains the namespace of
    another repository is refused. If the command is interrupted, run it again to finish.

    Args:
        default_branch: Name of the first branch.
        range_entries: Average paths per range, a power of two from 16; cannot be changed later.

    Examples:
        lakecli repo create lakefs://demo local:///var/lake/demo
        lakecli repo create lakefs://demo s3://my-bucket/demo -d trunk
    """
    from lakecli.repository import repo

    context.out.say(f"Repository: {repository}")
    place = normalise(storage_namespace)
    above = Path(place.partition("://")[2]).parent if is_local(place) else None
    is_made = above is not None and not above.exists()
    created = repo.create(
        context.lake(),
        repository.repository,
        storage_namespace,
        default_branch=default_branch,
        range_entries=range_entries,
    )
    record = created.record
    context.out.emit(
        record,
        text=lambda: [
            f"Repository '{record.name}' created:",
            f"storage namespace: {one_line(record.storage_namespace)}",
            f"default branch: {record.default_branch}",
            f"timestamp: {int(record.created_at.timestamp())}",
        ],
    )
    if is_made:
        context.out.note(f"the directory {quote_path(str(above))} was not there and was made")
    others = repo.find_other_objects(created)
    if others:
        more = "or more " if len(others) == repo.LISTED else ""
        context.out.note(
            f"the namespace holds {len(others):,} {more}other objects, such as "
            f"{others[0]!r}; none of them is versioned"
        )
        context.out.hint(
            "to version objects where they are, create the repository in a prefix beside them, and "
            f"import them; first delete this one: lakecli repo delete {repository}"
        )


@answers(RepositoryRecord, each=True)
def repo_list(context: Context, *, page: PageOptions) -> None:
    """List the repositories on this machine, ordered by name.

    Examples:
        lakecli repo list
        lakecli repo list --json --amount 0
    """
    found = context.lake().repositories(prefix=page.prefix, after=page.after)
    context.out.table(
        ("Repository", "Creation Date", "Default Ref Name", "Storage ID", "Storage Namespace"),
        context.out.page(found, amount=page.amount, name=lambda item: item.name),
        row=lambda item: (
            item.name,
            context.out.date(item.created_at),
            item.default_branch,
            item.name,  # as lakectl fills this column
            one_line(item.storage_namespace),
        ),
        kept=("Repository", "Default Ref Name", "Storage Namespace"),
    )
    context.out.say("")


@answers(RepositoryRecord)
def repo_delete(context: Context, repository: RepositoryUri, *, yes: Yes = False) -> None:
    """Delete a repository from this machine; the objects in its namespace stay.

    Branches, tags, commits and uncommitted changes are removed from this machine. Nothing is
    deleted from the bucket or directory, which still belongs to this repository. `lakecli undo`
    restores everything for 30 days.

    Examples:
        lakecli repo delete lakefs://demo
        lakecli repo delete lakefs://demo -y
    """
    from lakecli.repository import repo

    context.out.say(f"Repository: {repository}")
    name = context.synced_repository(repository).name
    context.confirm(f"delete repository '{name}' and all its branches, tags and commits", yes=yes)
    record = repo.delete(context.lake(), name)
    context.out.emit(record, text=lambda: [f"Repository '{name}' deleted"])
    context.out.note(f"its objects stay in {one_line(record.storage_namespace)}")
