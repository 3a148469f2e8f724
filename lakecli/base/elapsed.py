"""A clock for measuring how long something takes, also while the machine is asleep."""

from __future__ import annotations

import time
from typing import Final

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def elapsed() -> float:
    """Return seconds that only grow, by a clock that goes on while the machine is asleep."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
