"""The state of garbage collection as one small JSON object, validated whole before it is used.

::

    {"format": 1, "phase": "condemned", "epoch": 3, "mark": "3-5f…", "grace": 1209600,
     "write_id": "0f…"}

Anybody with write access to the bucket can write it. So a state says what was condemned, and never
how long something is protected: a grace period outside of the bounds is refused, and a sweep waits
by the dates that the bucket gives to the objects.
"""

from __future__ import annotations

import json
import re
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.errors import IntegrityError
from lakecli.layout import GC

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT: Final = 1
STATE_KEY: Final = GC + "state"

MAX_STATE_SIZE: Final = 64 << 10
"""Bytes of the state, at most."""

MAX_EPOCH: Final = 10**15

DEFAULT_GRACE: Final = timedelta(days=14)
SHORTEST_GRACE: Final = timedelta(hours=24)
LONGEST_GRACE: Final = timedelta(days=3_650)

_FIELDS: Final = frozenset(("format", "phase", "epoch", "mark", "grace", "write_id"))
_ID: Final = re.compile(r"[0-9a-f]{32}")
_MARK: Final = re.compile(r"([1-9][0-9]{0,15})-[0-9a-f]{32}")


class Phase(StrEnum):
    """Where a collection stands."""

    IDLE = "idle"
    CONDEMNED = "condemned"
    SWEEPING = "sweeping"


class GcState(NamedTuple):
    """The state of garbage collection in one namespace.

    Attributes:
        phase: where it stands.
        epoch: counts the condemnations; 0: there never was one.
        mark: names the lists of what is condemned; ``""`` while idle.
        grace: how long this epoch waits between condemning and sweeping.
        write_id: random, of the move that led here.
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


class DamagedState(IntegrityError):
    """The state is not one that this lakecli understands."""


class NewerState(DamagedState):
    """A newer lakecli wrote the state."""


def parse_state(data: bytes) -> GcState:
    """Return the state that the bytes of its object describe.

    Raises:
        NewerState: a newer lakecli wrote it.
        DamagedState: a field is missing, or is not what it has to be.
    """
    try:
        if len(data) > MAX_STATE_SIZE:
            raise ValueError(f"more than {MAX_STATE_SIZE} bytes")  # noqa: TRY301
        fields = json.loads(data)
        if not isinstance(fields, dict):
            raise ValueError("not an object")  # noqa: TRY004, TRY301
        _check_format(fields)
        return _state_of(fields)
    except KeyError as error:
        raise _damaged(f"no field {error}") from error
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _damaged(str(error)) from error


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


def _check_format(fields: Mapping[str, Any]) -> None:
    known = _number(fields, "format", 1, MAX_EPOCH)
    if known > FORMAT:
        raise NewerState(
            f"{STATE_KEY} is of format {known}, this lakecli knows {FORMAT}",
            hint="a newer lakecli wrote it: upgrade this one",
        )


def _state_of(fields: Mapping[str, Any]) -> GcState:
    phase = Phase(_text(fields, "phase"))
    epoch = _number(fields, "epoch", 0, MAX_EPOCH)
    mark, write_id = _text(fields, "mark"), _text(fields, "write_id")
    shortest, longest = (int(each.total_seconds()) for each in (SHORTEST_GRACE, LONGEST_GRACE))
    grace = timedelta(seconds=_number(fields, "grace", shortest, longest))
    if not _ID.fullmatch(write_id):
        raise ValueError(f"write_id is {write_id[:80]!r}, not 32 hex digits")
    if phase is Phase.IDLE:
        if mark:
            raise ValueError("it is idle and has a mark")
    else:
        found = _MARK.fullmatch(mark)
        if found is None or int(found[1]) != epoch:
            raise ValueError(f"mark is {mark[:80]!r} in epoch {epoch}")
    unknown = {key: value for key, value in fields.items() if key not in _FIELDS}
    return GcState(
        phase=phase,
        epoch=epoch,
        mark=mark,
        grace=grace,
        write_id=write_id,
        extra=json.dumps(unknown, separators=(",", ":")) if unknown else "",
    )


def _number(fields: Mapping[str, Any], name: str, least: int, most: int) -> int:
    value = fields[name]
    if type(value) is not int or not least <= value <= most:
        shown = value if type(value) is float or _is_short(value) else type(value).__name__
        raise ValueError(f"{name} is {shown!r}, not a number from {least} to {most}")
    return value


def _is_short(value: object) -> bool:
    return type(value) is int and abs(value) < 1 << 64


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a text")  # noqa: TRY004 - all of this is one kind of damage
    return value


def _damaged(why: str) -> DamagedState:
    return DamagedState(
        f"{STATE_KEY} is not a state that lakecli wrote: {why}",
        hint="replace it by an idle one, which deletes nothing: "
        "lakecli gc undo --force lakefs://REPOSITORY",
    )
