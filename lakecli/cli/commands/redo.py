"""``lakecli redo``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.here import repository_here
from lakecli.cli.params import HereRepositoryUri
from lakecli.cli.undoing import run_redo


def redo(context: Context, repository: HereRepositoryUri = None) -> None:
    """Redo the last undone operation.

    Repeat it for each undo, until another command changes the repository. Nothing moves in the
    bucket; use push for that, unless automatic sync is on. Files of a linked directory that the
    operation had overwritten are overwritten again, unless they have changed since the undo. A
    redo that was interrupted is completed if it is repeated: nothing else is redone.

    Examples:
        lakecli redo lakefs://demo
    """
    run_redo(context, repository_here(repository, context))
