"""The interface through which operations report progress, and the clock that measures it.

Every operation that may take long has a parameter or an option `progress`. The command line passes
an object that draws its progress bar; the default, `NO_PROGRESS`, shows nothing.
"""

import time
from typing import Final, Protocol


class Progress(Protocol):
    """Receives the progress of one operation. Safe to call from several threads."""

    def expect(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        """Add objects, bytes and parts of the work to the totals, as the work is discovered.

        `parts` measure the work if the number of objects is unknown. Negative `parts` reduce the
        total, when the work is planned again.
        """

    def advance(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        """Count finished objects, bytes and parts.

        Negative numbers take back progress: a negative `size` if bytes have to be transferred
        again, negative `parts` if the work is planned again.
        """


class NoProgress(Progress):
    """Ignores all progress."""

    def expect(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        """Ignore the totals."""

    def advance(self, *, items: int = 0, size: int = 0, parts: int = 0) -> None:
        """Ignore finished work."""


NO_PROGRESS: Final = NoProgress()


def ignore_step(_name: str) -> None:
    """Do nothing: the default of the parameters `on_step`.

    `on_step` does not report progress. It is called before each step of a protocol, so that tests
    can kill the process, or run another process, exactly at this step.
    """


_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def elapsed() -> float:
    """Return the seconds of a monotonic clock that, where possible, counts system sleep too."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
