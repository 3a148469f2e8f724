"""``lakecli gc status``."""

from __future__ import annotations

from lakecli.cli.collection import status_lines, status_record
from lakecli.cli.context import Context
from lakecli.cli.params import RepositoryUri
from lakecli.gc.run import status


def gc_status(context: Context, repository: RepositoryUri) -> None:
    """Show the state of garbage collection, and the commands that are possible now.

    Refs dumps that `lakecli refs-dump` wrote are kept for 30 days, and listed.

    Examples:
        lakecli gc status lakefs://demo
    """
    opened = context.repository(repository)
    found = status(opened, grace=context.settings.gc_grace)
    context.out.emit(lambda: status_record(found), text=lambda: status_lines(found, opened.uri))
