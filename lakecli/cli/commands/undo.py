"""``lakecli undo``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.here import repository_here
from lakecli.cli.params import HereRepositoryUri, Remote
from lakecli.cli.undoing import run_undo


def undo(context: Context, repository: HereRepositoryUri = None, *, remote: Remote = False) -> None:
    """Undo the last operation on a repository.

    An operation is whatever a command changed: a commit, a merge, an upload, a deleted branch with
    its uncommitted changes, even a deleted repository. Run undo again to undo the operation before
    it, and redo to redo it. `lakecli op log` lists the operations of the last 30 days.

    A pushed branch or tag stays as it is in the bucket, unless --remote is given or automatic sync
    is on: then it moves back there too, but never behind what others had pushed before: commits
    that a merge brought from there stay there. If somebody has moved it since, nothing is undone.
    While another process is pushing it, undo is refused. Undoing a clone, fetch or pull affects
    this machine only.

    If an undo is interrupted before all files of a working directory are back, before the bucket
    has what is undone, or before its answer is printed, the next one completes it, and undoes
    nothing else.

    Files that restore, checkout or pull --force had overwritten come back into their directory,
    even if it was renamed. If it is not found, nothing is undone: move it back to its path first.

    Examples:
        lakecli undo
        lakecli undo lakefs://demo
        lakecli undo lakefs://demo --remote
        lakecli op log lakefs://demo
    """
    run_undo(context, repository_here(repository, context), remote=remote)
