"""``lakecli op redo``."""

from __future__ import annotations

from lakecli.cli.context import Context
from lakecli.cli.params import RepositoryUri
from lakecli.cli.undoing import run_redo


def op_redo(context: Context, repository: RepositoryUri) -> None:
    """Redo the last undone operation; the same as lakecli redo.

    Examples:
        lakecli op redo lakefs://demo
    """
    run_redo(context, repository)
