"""Garbage collection as all clones see it: one tiny object, moved by compare-and-set.

::

    _lakecli/gc/state               {"format": 1, "phase": "condemned", "epoch": 3, "mark": "3-5f…",
                                     "grace": 1209600, "write_id": "0f…"}, see `collection_state`
    _lakecli/gc/rules.json          lakeFS's retention rules
    _lakecli/gc/keep/<epoch>/<id>   keys that writers took into use again while they were condemned
    _lakecli/gc/expired/<epoch>     metaranges that were deleted, 32 bytes each
    _lakecli/gc/seen/<id>           how far refs had come when a collection looked
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
- A sweep belongs to whoever moved the state, for `LEASE` from the date of its object. Whoever
  sweeps writes the state again in time, and begins no deletion that might outlast the lease;
  nobody takes a sweep over, or ends it, before the lease is over. So a machine that fell asleep
  deletes nothing after others have begun to use the objects again.
- Whatever the state says, a sweep computes by itself what is reached, and waits by the dates of the
  objects in the bucket.

An absent state is idle, epoch 0: there never was a collection, and nothing needs to be asked.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from lakecli.errors import IntegrityError, LostRace, OutcomeUnknown, Unreachable
from lakecli.layout import GC, MAX_KEEP_SIZE, MAX_STATE_SIZE
from lakecli.objectstore.base import ABSENT, ANY, ConditionFailed, Match, ObjectNotFound
from lakecli.remote.collection_state import (
    DEFAULT_GRACE,
    LONGEST_GRACE,
    MAX_EPOCH,
    NEVER_RAN,
    SHORTEST_GRACE,
    STATE_KEY,
    DamagedState,
    GcState,
    NewerState,
    Phase,
    dump_state,
    parse_state,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import datetime

    from lakecli.objectstore.base import ObjectStore, Version
    from lakecli.retry import Retries

__all__ = [
    "CLOCK_KEY",
    "DEFAULT_GRACE",
    "EXPIRED",
    "KEEPS",
    "LEASE",
    "LONGEST_GRACE",
    "NEVER_RAN",
    "REFRESHING",
    "RULES_KEY",
    "SHORTEST_GRACE",
    "STALE_AFTER",
    "STATE_KEY",
    "DamagedState",
    "GcState",
    "NewerState",
    "Phase",
    "Seen",
    "StateMoved",
    "SweepRunning",
    "iter_expired",
    "iter_keeps",
    "keep_prefix",
    "look",
    "look_at_damage",
    "may_have_swept",
    "move",
    "read_expired",
    "read_state",
    "settle",
    "store_now",
    "write_keep",
]

RULES_KEY: Final = GC + "rules.json"
CLOCK_KEY: Final = GC + "clock"
KEEPS: Final = GC + "keep/"
EXPIRED: Final = GC + "expired/"
REFRESHING: Final = GC + "refresh/"
"""Where an object is copied to and back, to get a new time."""

STALE_AFTER: Final = timedelta(hours=1)
"""How long a reading of the state is trusted; a sweep begins that much after the grace period."""

LEASE: Final = timedelta(minutes=30)
"""How long after the state was last written, by the bucket's clock, a sweep belongs to whoever
wrote it. Nobody else takes the sweep over, or ends it, earlier."""

MAX_EXPIRED_SIZE: Final = 64 << 20
"""Bytes of one list of expired metaranges, at most."""

_ID_SIZE: Final = 32
_KEYS_OF_A_KEEP: Final = 500_000


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
        return parse_state(_get_state(store))
    except ObjectNotFound:
        return NEVER_RAN


def _get_state(store: ObjectStore) -> bytes:
    return store.get(STATE_KEY, start=0, length=MAX_STATE_SIZE + 1)


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


def settle(store: ObjectStore, retries: Retries) -> GcState:
    """Return the state once nothing is being deleted; wait for a running sweep to end.

    Args:
        store: of the namespace.
        retries: how long to wait, usually `retry.SWEEPS`.

    Raises:
        SweepRunning: it has not ended.
        DamagedState: the state makes no sense.
    """
    for _ in retries.attempts():
        if (state := read_state(store)).phase is not Phase.SWEEPING:
            return state
    raise SweepRunning(
        f"garbage collection is sweeping {store.uri}, nothing can be written meanwhile",
        hint="wait for it; if it was interrupted, finish it: lakecli gc run "
        "lakefs://REPOSITORY (or end it: lakecli gc undo --force)",
    )


def look(store: ObjectStore) -> Seen:
    """Return the state as `move` wants it."""
    try:
        info = store.head(STATE_KEY)
        # Whoever moves the state between these two makes the version stale: then `move` fails.
        state = parse_state(_get_state(store))
    except ObjectNotFound:
        return Seen(NEVER_RAN, None, None)
    return Seen(state, info.version, info.modified_at)


def look_at_damage(store: ObjectStore) -> Seen:
    """Return an idle state for `move` to put in the place of one that is damaged.

    Its epoch is beyond all that left anything beside the state, so that every writer who has read
    an earlier state notices that it changed.
    """
    info = store.head(STATE_KEY)
    epochs = [0]
    for info_beside in store.list(GC):
        number = info_beside.key.removeprefix(GC).partition("/")[2].partition("/")[0]
        number = number.partition("-")[0]
        if number.isdecimal() and len(number) < len(str(MAX_EPOCH)):
            epochs.append(int(number))
    return Seen(GcState(epoch=max(epochs) + 1), info.version, info.modified_at)


def move(store: ObjectStore, seen: Seen, after: GcState) -> None:
    """Move the state by compare-and-set; `after` must have a write ID of its own.

    Raises:
        StateMoved: it is not as it was seen.
        Unreachable: the store does not answer, or refused the move though nobody else made one.
        OutcomeUnknown: the answer was lost, and it cannot be found out what became of it.
    """
    condition = ABSENT if seen.version is None else Match(seen.version)
    try:
        store.put(STATE_KEY, dump_state(after), condition)
    except (ConditionFailed, Unreachable, ObjectNotFound) as error:
        try:
            now = look(store)
        except Unreachable:
            raise OutcomeUnknown(
                f"cannot find out whether garbage collection in {store.uri} is {after.phase} now",
                hint="look again: lakecli gc status lakefs://REPOSITORY",
            ) from error
        if now.state.write_id == after.write_id:
            return
        if (now.state, now.version) == (seen.state, seen.version):
            if not isinstance(error, ConditionFailed):
                raise
            raise Unreachable(  # S3 answers 409 where two conditional writes meet
                f"{store.uri} refused to move the state of garbage collection, though nobody else "
                "moved it",
                hint="wait and repeat the command",
            ) from error
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
    remaining = iter(sorted(keys))
    number = 0
    while some := list(islice(remaining, _KEYS_OF_A_KEEP)):
        body = "".join(f"{key}\n" for key in some).encode("ascii")
        store.put(keep_prefix(epoch) + keep_id + (f"-{number}" if number else ""), body, ANY)
        number += 1


def iter_keeps(store: ObjectStore, epoch: int | None = None) -> Iterator[str]:
    """Yield the keys that a sweep has to spare, some maybe more than once.

    Args:
        store: of the namespace.
        epoch: whose keeps; ``None``: all that are there. A sweep reads all: what the state says
            about the epoch must not make it pass over a keep.

    Raises:
        IntegrityError: a list is too large to be one, so it is not known what has to be spared.
    """
    for info in store.list(KEEPS if epoch is None else keep_prefix(epoch)):
        if info.size > MAX_KEEP_SIZE:
            raise IntegrityError(
                f"{info.key} has {info.size} bytes, a list of keys to spare at most "
                f"{MAX_KEEP_SIZE}",
                hint="something else writes into this namespace: delete that object, and make sure "
                "that nobody needs what it lists",
            )
        try:
            data = store.get(info.key, start=0, length=MAX_KEEP_SIZE)
        except ObjectNotFound:
            continue  # of an epoch that ended, and cleaned up just now
        yield from data.decode("ascii", "replace").split("\n")[:-1]


def iter_expired(store: ObjectStore) -> Iterator[str]:
    """Yield the metaranges that were ever deleted because no commit kept them.

    Some may have come back since. One that is missing is no damage if it is among them. A list
    that is none is passed over: then what it should name counts as missing, and nothing is deleted.
    """
    for info in store.list(EXPIRED):
        yield from read_expired(store, info.key)


def read_expired(store: ObjectStore, key: str) -> list[str]:
    """Return the metaranges of one list; none if it is no such list, or not there."""
    try:
        data = store.get(key, start=0, length=MAX_EXPIRED_SIZE + 1)
    except ObjectNotFound:
        return []
    if len(data) > MAX_EXPIRED_SIZE or len(data) % _ID_SIZE:
        return []
    return [data[at : at + _ID_SIZE].hex() for at in range(0, len(data), _ID_SIZE)]
