"""``lakecli gc undo``."""

from __future__ import annotations

from lakecli.cli.collection import status_record
from lakecli.cli.context import Context
from lakecli.cli.params import RepositoryUri


def gc_undo(context: Context, repository: RepositoryUri) -> None:
    """Take back what garbage collection has condemned.

    Possible until the sweep begins; nothing was deleted till then. The next `lakecli gc run`
    looks anew.

    Examples:
        lakecli gc undo lakefs://demo
    """
    from lakecli.pipeline.gc.run import undo

    opened = context.repository(repository, sync=False)
    found = undo(opened)
    context.out.emit(
        status_record(found), text=lambda: ["Taken back: nothing is condemned any more."]
    )
