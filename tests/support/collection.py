"""States of garbage collection as lakecli writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakecli.base.identity import blake3_of
from lakecli.remote.gc_protocol import DEFAULT_GRACE, GcState, Phase

if TYPE_CHECKING:
    from datetime import timedelta


def make_state(
    phase: Phase, epoch: int = 1, *, grace: timedelta = DEFAULT_GRACE, salt: str = ""
) -> GcState:
    """Return a state; its write ID is derived from the arguments."""
    write_id = blake3_of(f"{phase} {epoch} {salt}".encode()).hex()[:32]
    mark = "" if phase is Phase.IDLE else f"{epoch}-{'0' * 32}"
    return GcState(phase, epoch, mark, grace, write_id)
