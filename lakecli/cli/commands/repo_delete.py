"""``lakecli repo delete``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.out.common_records import repository_record
from lakecli.cli.out.text import one_line
from lakecli.cli.params import RepositoryUri, Yes
from lakecli.repository import repo


def repo_delete(context: Context, repository: RepositoryUri, *, yes: Yes = False) -> None:
    """Delete a repository from this machine; the objects in its namespace stay.

    Branches, tags, commits and uncommitted changes are removed from this machine. Nothing is
    deleted from the bucket or directory, and it still belongs to this repository. `lakecli undo`
    restores everything for 30 days.

    Examples:
        lakecli repo delete lakefs://demo
        lakecli repo delete lakefs://demo -y
    """
    context.out.say(f"Repository: {repository}")
    name = context.synced_repository(repository).name
    context.confirm(f"delete repository '{name}' and all its branches, tags and commits", yes=yes)
    record = repo.delete(context.lake(), name)
    context.out.emit(
        lambda: repository_record(record),
        text=lambda: [f"Repository '{name}' deleted"],
    )
    context.out.note(f"its objects stay in {one_line(record.storage_namespace)}")
