"""Opening a repository whose moves go to the bucket at once, where sharing is automatic."""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING

from lakecli.cli.sharing import tell_caught_up
from lakecli.errors import NotFound, Unreachable
from lakecli.repository.contract import Repository
from lakecli.repository.handle.lake import LocalRepository
from lakecli.repository.sharing.automatic import SharedMover
from lakecli.repository.undo.back_in_bucket import put_back

if TYPE_CHECKING:
    from lakecli.cli.context import Context


def synced(context: Context, repository: Repository) -> Repository:
    """Return a handle whose moves go to the bucket, after catching up if it is on this machine."""
    mover = SharedMover(context.new_id(), who=context.committer, sleep=sleep, put_back=put_back)
    opened = context.keep(LocalRepository(context.lake(), repository.record, mover=mover))
    if not repository.is_here():
        return opened
    try:
        caught_up = opened.mover.catch_up(opened)
    except (Unreachable, NotFound) as error:  # not found: a disk that is not mounted
        context.out.warn(f"cannot fetch, using the state of the last fetch: {error.message}")
    else:
        if caught_up.finished or caught_up.unsent:
            tell_caught_up(context, caught_up)
    return opened
