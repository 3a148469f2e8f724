"""``lakecli op undo``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.params import Remote, RepositoryUri
from lakecli.cli.undoing import run_undo


def op_undo(context: Context, repository: RepositoryUri, *, remote: Remote = False) -> None:
    """Undo the last operation on a repository; the same as lakecli undo.

    Examples:
        lakecli op undo lakefs://demo
    """
    run_undo(context, repository, remote=remote)
