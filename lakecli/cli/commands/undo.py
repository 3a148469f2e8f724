"""``lakecli undo``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.params import Remote, RepositoryUri


def undo(context: Context, repository: RepositoryUri, *, remote: Remote = False) -> None:
    """Take back the last operation on a repository.

    The newest one that is not undone: a commit, a merge, an upload, a deleted branch with its
    uncommitted changes, even repo delete. Given again, it takes back the one before it; redo does
    them again. The operation log says what there is; it goes back 30 days.

    What was pushed is not taken back behind the others' backs: --remote moves the branch or tag
    back in the bucket too, if it still stands there; that is implied where sync is auto. What a
    clone, fetch or pull brought is taken back on this machine only.

    Examples:
        lakecli undo lakefs://demo
        lakecli undo lakefs://demo --remote
        lakecli op log lakefs://demo
    """
    from lakecli.cli.undoing import run_undo

    run_undo(context, repository, remote=remote)
