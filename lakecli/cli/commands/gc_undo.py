"""``lakecli gc undo``."""

from __future__ import annotations

from typing import Annotated

from lakecli.cli.collection import status_record
from lakecli.cli.context import Context
from lakecli.cli.line.declare import Option
from lakecli.cli.params import RepositoryUri
from lakecli.gc.run import undo


def gc_undo(
    context: Context,
    repository: RepositoryUri,
    *,
    force: Annotated[
        bool,
        Option(
            "--force",
            help="End an interrupted sweep, or replace a damaged state",
        ),
    ] = False,
) -> None:
    """Cancel the condemnation of garbage.

    This is possible until the sweep begins; nothing has been deleted until then. The next `lakecli
    gc run` starts over.

    --force also ends an interrupted sweep, so that other commands can write again. Objects that the
    sweep deleted cannot be restored; `lakecli fsck` lists what is missing. A sweep that may still
    be running is not ended: wait 30 minutes after its last sign of life, which `lakecli gc status`
    shows. If the recorded state of the collection is damaged, --force replaces it by an idle one.

    Examples:
        lakecli gc undo lakefs://demo
        lakecli gc undo lakefs://demo --force
    """
    opened = context.repository(repository)
    found = undo(opened, force=force, grace=context.settings.gc_grace)
    lines = ["Cancelled: nothing is condemned any more."]
    if force:
        lines.append(f"If a sweep had begun, see what is missing: lakecli fsck {opened.uri}")
    context.out.emit(lambda: status_record(found), text=lambda: lines)
