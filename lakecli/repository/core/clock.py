"""This machine's clock, held against the store's wherever a command that writes dates asked it.

Commits, moves and operations are dated by this machine. The store's clock is in each of its
responses, so comparing the two takes no request; a store that is a directory has this machine's.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lakecli.repository.core.lake import Repository

CLOCK_LIMIT: Final = timedelta(hours=1)
"""How far apart the clocks of a machine and of a store may be that share a history of dates."""

CLOCK_FIX: Final = "set the clock of this machine, for example with `timedatectl set-ntp true`"


def notify_clock(repository: Repository) -> None:
    """Leave a notice where this machine's clock is far from that of a store that has answered."""
    store = repository.store_in_use
    if store is None:
        return
    from lakecli.objectstore.dates import store_time
    from lakecli.repository.core.notice import Notice

    there = store_time(store)
    if there is None:
        return
    ahead = there - repository.lake.runtime.clock()
    if abs(ahead) > CLOCK_LIMIT:
        message = f"{wrong_by(ahead)}; what this command dates is dated wrong for everybody"
        if not any(notice.hint == CLOCK_FIX for notice in repository.notices):
            repository.notify(Notice(message, CLOCK_FIX))


def wrong_by(ahead: timedelta) -> str:
    """Say in words how far the store's clock is ahead of this machine's."""
    side = "behind" if ahead > timedelta(0) else "ahead of"
    return f"this machine's clock is {_shown(abs(ahead))} {side} that of the store"


def _shown(difference: timedelta) -> str:
    if difference >= timedelta(days=2):
        return f"{difference / timedelta(days=1):.0f} days"
    return f"{difference / timedelta(hours=1):.0f} hours"
