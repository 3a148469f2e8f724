"""The object of the state of garbage collection: a small JSON object, validated before it is used.

::

    {"format": 1, "phase": "condemned", "epoch": 3, "mark": "3-5f…", "grace": 1209600,
     "write_id": "0f…"}

Anyone with write access to the bucket can write it. So the state is not trusted to say how long an
object is protected: a grace period outside the bounds is refused, and a sweep measures waiting
times by the dates that the bucket gives to the objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.base.ids import WriteId
from lakecli.base.layout import (
    GC_STATE,
    LONGEST_GRACE,
    MAX_STATE_AGE,
    MAX_STATE_SIZE,
    SHORTEST_GRACE,
)
from lakecli.base.parsing import Unparsable, parse_json_object
from lakecli.base.validation import Invalid, Record, choice, identifier, or_empty, text_that, whole
from lakecli.errors import IntegrityError
from lakecli.stores.base import ObjectNotFound

if TYPE_CHECKING:
    from lakecli.stores.base import ObjectStore

FORMAT: Final = 1

MAX_EPOCH: Final = 10**15

DEFAULT_GRACE: Final = timedelta(days=14)

STALE_AFTER: Final = timedelta(seconds=MAX_STATE_AGE)
"""How long a reading of the state is valid; a sweep begins this long after the grace period."""

_MARK: Final = re.compile(r"[1-9][0-9]{0,15}-[0-9a-f]{32}")


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


_RECORD: Final = Record(
    {
        "format": whole(1, FORMAT),
        "phase": choice(*Phase),
        "epoch": whole(0, MAX_EPOCH),
        "mark": or_empty(
            text_that(lambda text: _MARK.fullmatch(text) is not None, "the name of such lists")
        ),
        "grace": whole(
            int(SHORTEST_GRACE.total_seconds()),
            int(LONGEST_GRACE.total_seconds()),
        ),
        "write_id": identifier(WriteId),
    }
)


class DamagedState(IntegrityError):
    """The state is not valid, or not known to this version."""


class NewerState(DamagedState):
    """A newer lakecli wrote the state."""


def state_record(store: ObjectStore) -> bytes:
    """Return the object of the state; if it is too large, at least one byte too many.

    Raises:
        ObjectNotFound: there is none.
    """
    return store.get(GC_STATE, start=0, length=MAX_STATE_SIZE + 1)


def read_state(store: ObjectStore) -> GcState:
    """Return the state of garbage collection, by one GET.

    Raises:
        DamagedState: it is not valid, or a newer lakecli wrote it.
    """
    try:
        return parse_state(state_record(store))
    except ObjectNotFound:
        return NEVER_RAN


def parse_state(data: bytes) -> GcState:
    """Parse the object of the state.

    Raises:
        NewerState: a newer lakecli wrote it.
        DamagedState: a field is missing or not valid.
    """
    try:
        fields = parse_json_object(data, max_size=MAX_STATE_SIZE)
        known = fields.get("format")
        if type(known) is int and known > FORMAT:
            raise NewerState(
                f"{GC_STATE} is of format {known}, this lakecli knows {FORMAT}",
                hint="a newer lakecli wrote it: upgrade this one",
            )
        values = _RECORD.read(fields)
        _check_mark(values)
    except (Invalid, Unparsable) as error:
        raise DamagedState(
            f"{GC_STATE} is not a state that lakecli wrote: {error}",
            hint="replace it with an idle state, which deletes nothing: "
            "lakecli gc undo --force lakefs://REPOSITORY",
        ) from error
    unknown = _RECORD.unknown(fields)
    return GcState(
        phase=Phase(values["phase"]),
        epoch=values["epoch"],
        mark=values["mark"],
        grace=timedelta(seconds=values["grace"]),
        write_id=values["write_id"],
        extra=json.dumps(unknown, separators=(",", ":")) if unknown else "",
    )


def dump_state(state: GcState) -> bytes:
    """Return the bytes of a state's object."""
    fields: dict[str, Any] = json.loads(state.extra) if state.extra else {}
    fields |= {
        "format": FORMAT,
        "phase": state.phase,
        "epoch": state.epoch,
        "mark": state.mark,
        "grace": int(state.grace.total_seconds()),
        "write_id": state.write_id,
    }
    return json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"


def _check_mark(values: Mapping[str, Any]) -> None:
    """Raise `Invalid` unless the mark fits the phase and the epoch."""
    mark = values["mark"]
    if values["phase"] == Phase.IDLE:
        if mark:
            raise Invalid("mark: an idle state has none")
    elif int(mark.partition("-")[0] or 0) != values["epoch"]:
        raise Invalid(f"mark: {mark!r} in epoch {values['epoch']}")
