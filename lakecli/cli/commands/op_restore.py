"""``lakecli op restore``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.operations import changes_line, operation_record
from lakecli.cli.params import OperationId, Remote, RepositoryUri, Yes
from lakecli.cli.undoing import warn_of_gone
from lakecli.repository.undo.log import find_operation
from lakecli.repository.undo.undo import restore


def op_restore(
    context: Context,
    repository: RepositoryUri,
    operation: OperationId,
    *,
    remote: Remote = False,
    yes: Yes = False,
) -> None:
    """Restore a repository to its state right after an operation.

    Branches, tags and uncommitted changes are restored, and the repository itself if it was deleted
    or created since. This is one operation, which a single undo takes back. To look at that state
    first, give --at-op to a command that reads.

    Examples:
        lakecli log lakefs://demo/main --at-op 4f0c21aa83de
        lakecli op restore lakefs://demo 4f0c21aa83de
        lakecli op restore lakefs://demo 4f0c -y
    """
    logged = context.logged_repository(repository, operation=operation)
    opened = context.synced(logged, restores=True)
    wanted = find_operation(opened, operation).operation
    context.confirm(
        f"restore {repository} to its state after operation {wanted.id.hex()[:12]}", yes=yes
    )
    shared = remote or opened.syncs
    who = context.committer() if shared else ""
    done = restore(opened, wanted.id.hex(), remote=shared, committer=who)
    context.out.emit(
        operation_record(done, undone=False),
        text=lambda: [
            f"Restored {repository} to its state after operation {wanted.id.hex()[:12]}",
            f"Changed: {changes_line(done)}",
        ],
    )
    warn_of_gone(context, done)
