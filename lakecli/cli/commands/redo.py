"""``lakecli redo``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.params import RepositoryUri


def redo(context: Context, repository: RepositoryUri) -> None:
    """Do again what was undone last.

    As often as there were undos, until something else is done in the repository. In the bucket
    nothing moves: push does that, or sync.

    Examples:
        lakecli redo lakefs://demo
    """
    from lakecli.cli.undoing import run_redo

    run_redo(context, repository)
