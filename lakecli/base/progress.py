"""How long operations report their progress to whoever shows it, and the clock that measures them.

Every verb that may take long has a parameter or an option `progress`. The command line passes what
draws its bar; the default, `NO_PROGRESS`, shows nothing.
"""

from __future__ import annotations

import time
from typing import Final, Protocol


class Progress(Protocol):
    """Receives the progress of one operation. Safe to call from several threads."""

    def expect(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        """Add objects, bytes and parts of the work to the totals, as the work is discovered.

        Parts are the total where nobody knows how many objects there are. They are negative where
        the work is planned again.
        """

    def advance(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        """Count finished objects, bytes and parts.

        `size` is negative where bytes have to be transferred again, and `parts` where the work is
        planned again.
        """


class NoProgress(Progress):
    """Ignores what it receives."""

    def expect(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        """Ignore the totals."""

    def advance(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        """Ignore what is finished."""


NO_PROGRESS: Final = NoProgress()


def ignore_step(_name: str) -> None:
    """Ignore a protocol step: the default of the `on_step` hooks.

    `on_step` is no progress report. It announces each step of a protocol before the step is taken,
    so that tests can kill a process, or let another one in, exactly there.
    """


_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def elapsed() -> float:
    """Return seconds that only grow, by a clock that goes on while the machine is asleep."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
