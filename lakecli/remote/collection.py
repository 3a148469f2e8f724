"""Garbage collection as all clones see it: one tiny object, moved by compare-and-set.

::

    _lakecli/gc/state               {"format": 1, "phase": "condemned", "epoch": 3, "mark": "5f…",
                                     "grace": 1209600, "write_id": "0f…"}
    _lakecli/gc/rules.json          lakeFS's retention rules
    _lakecli/gc/keep/<epoch>/<id>   keys that writers took into use again while they were condemned
    _lakecli/gc/expired/<epoch>     metaranges that were deleted, 32 bytes each
    _lakecli/gc/clock               written to learn what time it is by the store's clock

The phases: *idle* → *condemned* (what nothing reaches is listed, nothing is deleted) → *sweeping*
(once the grace period is over, the list is deleted but for what is reached or kept by then) →
*idle*. Each condemnation begins a new epoch; one taken back ends idle, in its epoch.

What keeps writers and the collector out of each other's way:

- Nothing is deleted earlier than a grace period after the state said that it is condemned, and
  `STALE_AFTER` on top. So whoever has read *idle* no longer ago than that may refer to what is
  there: it survives for a grace period at least.
- While something is *condemned*, a writer that refers to an object which was there already first
  writes a keep and then reads the state again. If that is as before, the sweep, which moves the
  state before it reads the keeps and the refs, will see the keep.
- While it is *sweeping*, nobody refers to what was there before; see `settle`.

An absent state is idle, epoch 0: there never was a collection, and nothing needs to be asked.
"""

from __future__ import annotations

import json
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakecli.errors import IntegrityError, LostRace, OutcomeUnknown, Unreachable
from lakecli.layout import GC
from lakecli.objectstore.base import ABSENT, ANY, ConditionFailed, Match, ObjectNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from datetime import datetime

    from lakecli.objectstore.base import ObjectStore, Version

FORMAT: Final = 1
STATE_KEY: Final = GC + "state"
RULES_KEY: Final = GC + "rules.json"
CLOCK_KEY: Final = GC + "clock"
KEEPS: Final = GC + "keep/"
EXPIRED: Final = GC + "expired/"
REFRESHING: Final = GC + "refresh/"
"""Where an object is copied to and back, to get a new time."""

DEFAULT_GRACE: Final = timedelta(days=14)
SHORTEST_GRACE: Final = timedelta(hours=24)

STALE_AFTER: Final = timedelta(hours=1)
"""How long a reading of the state is trusted; a sweep begins that much after the grace period."""

_ID_SIZE: Final = 32
_POLL: Final = 5.0
_PATIENCE: Final = 600.0
_FIELDS: Final = frozenset(("format", "phase", "epoch", "mark", "grace", "write_id"))


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
    """The state says nothing that this lakecli understands."""


class StateMoved(LostRace):
    """Another collector moved the state first."""


class SweepRunning(Unreachable):
    """Garbage is being deleted just now, so nothing that was there before may be referred to."""


class Seen(NamedTuple):
    """A state as it was read in order to move it.

    Attributes:
        state: what it says.
        version: of its object; ``None``: there is none.
        since: when it was written, by the store's clock; ``None``: there is none.
    """

    state: GcState
    version: Version | None
    since: datetime | None


def read_state(store: ObjectStore) -> GcState:
    """Return the state of garbage collection, by one GET.

    Raises:
        DamagedState: it makes no sense, or a newer lakecli wrote it.
    """
    try:
        data = store.get(STATE_KEY)
    except ObjectNotFound:
        return NEVER_RAN
    return _parse(data)


def may_have_swept(before: GcState, after: GcState) -> bool:
    """Tell whether a sweep may have deleted anything from before one reading to after another.

    If so, everything that was found to be there must be looked for again.
    """
    if Phase.SWEEPING in (before.phase, after.phase):
        return True
    if (before.phase, before.epoch) == (after.phase, after.epoch):
        return False
    began = before.phase is Phase.IDLE and after.phase is Phase.CONDEMNED
    return not (began and after.epoch == before.epoch + 1)


def settle(
    store: ObjectStore,
    *,
    sleep: Callable[[float], None],
    patience: float = _PATIENCE,
) -> GcState:
    """Return the state once nothing is being deleted; wait for a running sweep to end.

    Args:
        store: of the namespace.
        sleep: waits for some seconds.
        patience: seconds to wait, at most.

    Raises:
        SweepRunning: it has not ended.
        DamagedState: the state makes no sense.
    """
    waited = 0.0
    while (state := read_state(store)).phase is Phase.SWEEPING:
        if waited >= patience:
            raise SweepRunning(
                f"garbage collection is sweeping {store.uri}, nothing can be written meanwhile",
                hint="wait for it; if it was interrupted, finish it: lakecli gc run "
                "lakefs://REPOSITORY",
            )
        sleep(_POLL)
        waited += _POLL
    return state


def look(store: ObjectStore) -> Seen:
    """Return the state as `move` wants it."""
    try:
        info = store.head(STATE_KEY)
        # Whoever moves the state between these two makes the version stale: then `move` fails.
        state = _parse(store.get(STATE_KEY))
    except ObjectNotFound:
        return Seen(NEVER_RAN, None, None)
    return Seen(state, info.version, info.modified_at)


def move(store: ObjectStore, seen: Seen, after: GcState) -> None:
    """Move the state by compare-and-set; `after` must have a write ID of its own.

    Raises:
        StateMoved: it is not as it was seen.
        OutcomeUnknown: the answer was lost, and it cannot be found out what became of it.
    """
    condition = ABSENT if seen.version is None else Match(seen.version)
    try:
        store.put(STATE_KEY, _dump(after), condition)
    except (ConditionFailed, Unreachable, ObjectNotFound) as error:
        try:
            now = read_state(store)
        except Unreachable:
            raise OutcomeUnknown(
                f"cannot find out whether garbage collection in {store.uri} is {after.phase} now",
                hint="look again: lakecli gc status lakefs://REPOSITORY",
            ) from error
        if now.write_id == after.write_id:
            return
        if now == seen.state and not isinstance(error, ConditionFailed):
            raise
        raise StateMoved(
            f"another garbage collection runs in {store.uri}",
            hint="look at it: lakecli gc status lakefs://REPOSITORY",
        ) from error


def store_now(store: ObjectStore) -> datetime:
    """Return the present by the store's clock, by writing a tiny object."""
    store.put(CLOCK_KEY, b"", ANY)
    return store.head(CLOCK_KEY).modified_at


def keep_prefix(epoch: int) -> str:
    """Return what the keys of an epoch's keeps begin with."""
    return f"{KEEPS}{epoch}/"


def write_keep(store: ObjectStore, epoch: int, keep_id: str, keys: Collection[str]) -> None:
    """Ask the sweep of an epoch to spare objects; read the state again afterwards.

    Args:
        store: of the namespace.
        epoch: that condemned them.
        keep_id: random, of its own.
        keys: of data objects, ranges or metaranges; what these refer to is spared likewise.
    """
    body = "".join(f"{key}\n" for key in sorted(keys)).encode("ascii")
    store.put(keep_prefix(epoch) + keep_id, body, ANY)


def iter_keeps(store: ObjectStore, epoch: int) -> Iterator[str]:
    """Yield the keys that the sweep of an epoch has to spare, some maybe more than once."""
    for info in store.list(keep_prefix(epoch)):
        yield from store.get(info.key).decode("ascii", "replace").split("\n")[:-1]


def iter_expired(store: ObjectStore) -> Iterator[str]:
    """Yield the metaranges that were ever deleted because no commit kept them.

    Some may have come back since. One that is missing is no damage if it is among them.
    """
    for info in store.list(EXPIRED):
        data = store.get(info.key)
        for at in range(0, len(data), _ID_SIZE):
            yield data[at : at + _ID_SIZE].hex()


def _parse(data: bytes) -> GcState:
    try:
        fields = json.loads(data)
        known = int(fields["format"])
        if known > FORMAT:
            raise DamagedState(
                f"{STATE_KEY} is of format {known}, this lakecli knows {FORMAT}",
                hint="a newer lakecli wrote it: upgrade this one",
            )
        unknown = {key: value for key, value in fields.items() if key not in _FIELDS}
        return GcState(
            phase=Phase(fields["phase"]),
            epoch=int(fields["epoch"]),
            mark=str(fields["mark"]),
            grace=timedelta(seconds=int(fields["grace"])),
            write_id=str(fields["write_id"]),
            extra=json.dumps(unknown, separators=(",", ":")) if unknown else "",
        )
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DamagedState(
            f"{STATE_KEY} is nothing that lakecli wrote: {error}",
            hint="something else writes into this namespace: restore the object from a backup, or "
            "delete it if no garbage collection was under way",
        ) from error


def _dump(state: GcState) -> bytes:
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
