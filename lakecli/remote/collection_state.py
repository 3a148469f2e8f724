"""The state of garbage collection: what it says, and where it is.

Every command that writes reads the state. Where nothing was ever collected, this module is all that
it needs; `collection_record` parses an existing state, `collection` changes it.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from lakecli.layout import GC, MAX_STATE_SIZE
from lakecli.named_tuple import NamedTuple
from lakecli.typed import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lakecli.objectstore.base import ObjectStore

STATE_KEY: Final = GC + "state"

DEFAULT_GRACE: Final = timedelta(days=14)

STALE_AFTER: Final = timedelta(hours=1)
"""How long a reading of the state is valid; a sweep begins this long after the grace period."""


class Phase(StrEnum):
    """The phase of a collection."""

    IDLE = "idle"
    CONDEMNED = "condemned"
    SWEEPING = "sweeping"


class GcState(NamedTuple):
    """The state of garbage collection in one namespace.

    Attributes:
        phase: the current phase.
        epoch: the number of condemnations so far.
        mark: name of the lists of condemned objects; ``""`` while idle.
        grace: how long this epoch waits between condemning and sweeping.
        write_id: random ID of the change that led here.
        extra: fields that this version does not know, as JSON; ``""`` if there are none.
    """

    phase: Phase = Phase.IDLE
    epoch: int = 0
    mark: str = ""
    grace: timedelta = DEFAULT_GRACE
    write_id: str = ""
    extra: str = ""

    @property
    def never_ran(self) -> bool:
        """Whether nothing was ever condemned, so that nothing can have been deleted."""
        return self.epoch == 0 and self.phase is Phase.IDLE


NEVER_RAN: Final = GcState()


def state_record(store: ObjectStore) -> bytes:
    """Return the object of the state; if it is too large, at least one byte too many.

    Raises:
        ObjectNotFound: there is none.
    """
    return store.get(STATE_KEY, start=0, length=MAX_STATE_SIZE + 1)
