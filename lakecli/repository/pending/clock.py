"""This machine's clock, compared with that of the store.

Commits, moves and operations are dated by this machine. Each response of a store has the store's
time, so the comparison takes no request; a directory has this machine's clock.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from lakecli.repository.records.notices import Notice
from lakecli.stores.capabilities import store_time

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository

CLOCK_LIMIT: Final = timedelta(hours=1)
"""The largest accepted difference between the clocks of this machine and of the store."""

CLOCK_FIX: Final = "set the clock of this machine, for example with `timedatectl set-ntp true`"


def notify_clock(repository: Repository) -> None:
    """Add a notice if this machine's clock is wrong, compared with a store that has answered."""
    store = repository.store_in_use
    if store is None:
        return

    there = store_time(store)
    if there is None:
        return
    ahead = there - repository.lake.runtime.clock()
    if abs(ahead) > CLOCK_LIMIT:
        message = f"{wrong_by(ahead)}; the dates that this command writes are wrong for everybody"
        if not any(notice.hint == CLOCK_FIX for notice in repository.notices):
            repository.notify(Notice(message, CLOCK_FIX))


def wrong_by(ahead: timedelta) -> str:
    """Describe how far the store's clock is ahead of this machine's."""
    side = "behind" if ahead > timedelta(0) else "ahead of"
    return f"this machine's clock is {_shown(abs(ahead))} {side} that of the store"


def _shown(difference: timedelta) -> str:
    if difference >= timedelta(days=2):
        return f"{difference / timedelta(days=1):.0f} days"
    return f"{difference / timedelta(hours=1):.0f} hours"
