"""``lakecli gc undo``."""

from __future__ import annotations

from typing import Annotated

import typer

from lakecli.cli.collection import status_record
from lakecli.cli.context import Context
from lakecli.cli.params import RepositoryUri


def gc_undo(
    context: Context,
    repository: RepositoryUri,
    *,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="End an interrupted sweep, or replace a damaged state of the collection",
        ),
    ] = False,
) -> None:
    """Take back what garbage collection has condemned.

    Possible until the sweep begins; nothing was deleted till then. The next `lakecli gc run`
    looks anew.

    --force also ends a sweep that was interrupted, so that other commands can write again. What
    the sweep deleted before cannot come back; `lakecli fsck` finds what misses it. A sweep that
    may still be under way is not ended: wait 30 minutes after its last sign of life, which
    `lakecli gc status` shows. Where the state itself is damaged, --force puts an idle one in its
    place.

    Examples:
        lakecli gc undo lakefs://demo
        lakecli gc undo lakefs://demo --force
    """
    from lakecli.pipeline.gc.run import undo

    opened = context.repository(repository)
    found = undo(opened, force=force, grace=context.settings.gc_grace)
    lines = ["Taken back: nothing is condemned any more."]
    if force:
        lines.append(f"If a sweep had begun, look for what it deleted: lakecli fsck {opened.uri}")
    context.out.emit(status_record(found), text=lambda: lines)
