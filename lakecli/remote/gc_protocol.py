"""Garbage collection as all clones see it: one small object, changed by compare-and-set.

The object holds the state of garbage collection as JSON, which is validated before use::

    {"format": 1, "phase": "condemned", "epoch": 3, "mark": "3-5f…", "grace": 1209600,
     "write_id": "0f…"}

Anyone with write access to the bucket can write this object. So its times are not trusted: a grace
period outside the bounds is refused, and a sweep measures waiting times by the modification times
that the bucket reports.

::

    _lakecli/gc/state               the state
    _lakecli/gc/rules.json          lakeFS's retention rules
    _lakecli/gc/keep/<epoch>/<id>   condemned keys that writers refer to again
    _lakecli/gc/expired/<epoch>     metaranges that were deleted, 32 bytes each
    _lakecli/gc/seen/<id>           the last moves of refs, written about once a day, never changed
    _lakecli/gc/refs                the refs as the last collection saw them, replaced by each run
    _lakecli/gc/clock               an empty object, written to read the store's clock

The phases: *idle* → *condemned* (unreachable objects are listed, nothing is deleted) → *sweeping*
(after the grace period, listed objects are deleted unless they are reachable or kept by then) →
*idle*. Each condemnation begins a new epoch. If a condemnation is undone, the state becomes idle in
the same epoch.

Rules that protect writers from the collector:

- Nothing is deleted before a grace period, plus `STALE_AFTER`, has passed since the state became
  *condemned*. So a writer that read *idle* less than `STALE_AFTER` ago may refer to existing
  objects: they survive for at least a grace period.
- While the state is *condemned*, a writer that refers to an existing object first writes a keep, a
  request not to delete the object, and then reads the state again. If the state has not changed,
  the sweep will see the keep, because the sweep changes the state before it reads the keeps and the
  refs.
- While the state is *sweeping*, no writer refers to existing objects; see `wait_for_sweep`.
- The process that changed the state owns the sweep until `LEASE` after the modification time of the
  state's object. The owner renews the state in time and starts no deletion that might outlast the
  lease. No other process takes the sweep over, or ends it, before the lease has ended. So a machine
  that was suspended deletes nothing after others have begun to use the objects again.
- A sweep does not rely on the state alone: it computes reachability itself, and measures waiting
  times by the modification times of the objects in the bucket.

An absent state means idle, epoch 0: no collection ever ran, and writers need no further check.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

from lakecli.base import layout
from lakecli.base.ids import WriteId
from lakecli.base.parsing import Unparsable, parse_json_object
from lakecli.base.retry import Retries
from lakecli.base.validation import Invalid, Record, choice, identifier, or_empty, text_that, whole
from lakecli.errors import IntegrityError, LostRace, OutcomeUnknown, Unreachable
from lakecli.remote.ref_records import check_format
from lakecli.stores import contract
from lakecli.stores.capabilities import settle
from lakecli.stores.contract import ConditionFailed, Match, ObjectNotFound, ObjectStore, Version
from lakecli.stores.streams import batches

FORMAT: Final = 1

MAX_EPOCH: Final = 10**15

DEFAULT_GRACE: Final = timedelta(days=14)

STALE_AFTER: Final = timedelta(seconds=layout.MAX_STATE_AGE)
"""How long writers may rely on a state that they have read.

A sweep waits for the grace period plus this time.
"""

_MARK: Final = re.compile(r"[1-9][0-9]{0,15}-[0-9a-f]{32}")


class Phase(StrEnum):
    """The phase of a collection."""

    IDLE = "idle"
    CONDEMNED = "condemned"
    SWEEPING = "sweeping"


class GcState(NamedTuple):
    """The state of garbage collection in one namespace.

    Attributes:
        epoch: the number of condemnations so far.
        mark: the common name of this epoch's lists of condemned objects; ``""`` while idle.
        grace: how long this epoch waits between condemning and sweeping.
        write_id: random ID of the write that created this state.
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
        """Whether no object was ever condemned, so that no object can have been deleted."""
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
            int(layout.SHORTEST_GRACE.total_seconds()), int(layout.LONGEST_GRACE.total_seconds())
        ),
        "write_id": identifier(WriteId),
    }
)


class DamagedState(IntegrityError):
    """The state is not valid, or this version does not know its format."""


class NewerState(DamagedState):
    """A newer lakecli wrote the state."""


def state_record(store: ObjectStore) -> bytes:
    """Return the bytes of the state's object, at most one byte more than the size limit."""
    return store.get(layout.GC_STATE, start=0, length=layout.MAX_STATE_SIZE + 1)


def read_state(store: ObjectStore) -> GcState:
    """Return the state of garbage collection, with one GET.

    Raises:
        DamagedState: the state is not valid, or a newer lakecli wrote it.
    """
    try:
        return parse_state(state_record(store))
    except ObjectNotFound:
        return NEVER_RAN


def parse_state(data: bytes) -> GcState:
    """Parse the state's object.

    Raises:
        NewerState: a newer lakecli wrote the state.
        DamagedState: a field is missing or not valid.
    """
    try:
        fields = parse_json_object(data, max_size=layout.MAX_STATE_SIZE)
        check_format(fields.get("format"), FORMAT, layout.GC_STATE, NewerState)
        values = _RECORD.read(fields)
        _check_mark(values)
    except (Invalid, Unparsable) as error:
        hint = "replace it with an idle state, which deletes nothing: `gc undo REPOSITORY --force`"
        what = f"{layout.GC_STATE} is not a state that lakecli wrote: {error}"
        raise DamagedState(what, hint=hint) from error
    unknown = _RECORD.unknown(fields)
    extra = json.dumps(unknown, separators=(",", ":")) if unknown else ""
    del values["format"]
    values |= {"phase": Phase(values["phase"]), "grace": timedelta(seconds=values["grace"])}
    return GcState(**values, extra=extra)


def dump_state(state: GcState) -> bytes:
    """Encode a state as the bytes of its object."""
    fields: dict[str, Any] = json.loads(state.extra) if state.extra else {}
    fields["format"] = FORMAT
    fields |= {name: value for name, value in state._asdict().items() if name in _RECORD.names}
    fields["grace"] = int(state.grace.total_seconds())
    return json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"


def _check_mark(values: Mapping[str, Any]) -> None:
    """Raise `Invalid` unless the mark matches the phase and the epoch."""
    mark = values["mark"]
    if values["phase"] == Phase.IDLE:
        if mark:
            raise Invalid("mark: an idle state has none")
    elif int(mark.partition("-")[0] or 0) != values["epoch"]:
        raise Invalid(f"mark: {mark!r} in epoch {values['epoch']}")


RULES_KEY: Final = layout.GC + "rules.json"
CLOCK_KEY: Final = layout.GC + "clock"
KEEPS: Final = layout.GC + "keep/"
EXPIRED: Final = layout.GC + "expired/"
REFRESHING: Final = layout.GC + "refresh/"
"""Prefix of temporary copies: copying an object there and back gives the object a new date."""

LEASE: Final = timedelta(minutes=30)
"""How long the process that last wrote the state owns the sweep, by the bucket's clock.

Before this time has passed, no other process takes the sweep over or ends it.
"""

MAX_EXPIRED_SIZE: Final = 64 << 20
"""Maximum size of one list of expired metaranges in bytes."""

_ID_SIZE: Final = 32
_KEYS_OF_A_KEEP: Final = 500_000


class StateMoved(LostRace):
    """Another collector changed the state first."""


class SweepRunning(Unreachable):
    """A sweep is running, so writers must not refer to existing objects."""


class ObservedState(NamedTuple):
    """A state that was read in order to change it.

    Attributes:
        version: the version of the state's object; ``None`` if the object does not exist.
        since: when the object was written, by the store's clock; ``None`` if it does not exist.
    """

    state: GcState
    version: Version | None
    since: datetime | None


def may_have_swept(before: GcState, after: GcState) -> bool:
    """Return whether a sweep may have deleted objects between two readings of the state.

    If so, the caller must check again that the objects it found still exist.
    """
    if Phase.SWEEPING in (before.phase, after.phase):
        return True
    if (before.phase, before.epoch) == (after.phase, after.epoch):
        return False
    began = before.phase is Phase.IDLE and after.phase is Phase.CONDEMNED
    return not (began and after.epoch == before.epoch + 1)


def wait_for_sweep(store: ObjectStore, retries: Retries) -> GcState:
    """Wait for a running sweep to end, and return the state.

    Args:
        retries: how long to wait, usually `retry.SWEEPS`.

    Raises:
        SweepRunning: the sweep has not ended.
        DamagedState: the state is not valid.
    """
    for _ in retries.attempts():
        if (state := read_state(store)).phase is not Phase.SWEEPING:
            return state
    what = (
        f"garbage collection is deleting objects in {store.uri}; nothing can be written meanwhile"
    )
    finish = "finish it: `gc run REPOSITORY`; or end it: `gc undo REPOSITORY --force`"
    raise SweepRunning(what, hint=f"wait until it ends; if it was interrupted, {finish}")


def look(store: ObjectStore) -> ObservedState:
    """Return the state, and the version and modification time of its object, for `move`."""
    try:
        info = store.head(layout.GC_STATE)
        # A change between these two requests makes the version stale: then `move` fails.
        state = parse_state(state_record(store))
    except ObjectNotFound:
        return ObservedState(NEVER_RAN, None, None)
    return ObservedState(state, info.version, info.modified_at)


def look_at_damage(store: ObjectStore) -> ObservedState:
    """Return an idle state that `move` can write over a damaged state.

    The new state's epoch is greater than every epoch in the keys of the other objects below
    ``_lakecli/gc/``. So every writer that read an earlier state notices the change.
    """
    info = store.head(layout.GC_STATE)
    epochs = [0]
    for info_beside in store.list(layout.GC):
        number = info_beside.key.removeprefix(layout.GC).partition("/")[2].partition("/")[0]
        number = number.partition("-")[0]
        if number.isdecimal() and len(number) < len(str(MAX_EPOCH)):
            epochs.append(int(number))
    return ObservedState(GcState(epoch=max(epochs) + 1), info.version, info.modified_at)


def move(store: ObjectStore, seen: ObservedState, after: GcState) -> None:
    """Change the state by compare-and-set; `after` must have a new write ID.

    Raises:
        StateMoved: the state has changed since it was read.
        Unreachable: the store does not answer, or refused although nobody else changed the state.
        OutcomeUnknown: the response was lost, and the outcome cannot be determined.
    """
    condition = contract.ABSENT if seen.version is None else Match(seen.version)
    try:
        store.put(layout.GC_STATE, dump_state(after), condition)
    except (ConditionFailed, Unreachable, ObjectNotFound) as error:
        try:
            now = look(store)
            if now.state.write_id == after.write_id:
                settle(store, layout.GC_STATE)
                return
        except Unreachable:
            what = f"cannot find out whether garbage collection in {store.uri} is {after.phase} now"
            raise OutcomeUnknown(what, hint="check the state: `gc status REPOSITORY`") from error
        if (now.state, now.version) == (seen.state, seen.version):
            if not isinstance(error, ConditionFailed):
                raise
            # S3 answers 409 to concurrent conditional writes.
            refused = f"{store.uri} refused to change the state of garbage collection"
            what = f"{refused}, although nobody else changed it"
            raise Unreachable(what, hint="wait and repeat the command") from error
        hint = "see its state: `gc status REPOSITORY`"
        raise StateMoved(f"another garbage collection runs in {store.uri}", hint=hint) from error


def store_now(store: ObjectStore) -> datetime:
    """Return the time by the store's clock: the modification time of an object written now."""
    store.put(CLOCK_KEY, b"", contract.ANY)
    return store.head(CLOCK_KEY).modified_at


def write_keep(store: ObjectStore, epoch: int, keep_id: str, keys: Collection[str]) -> None:
    """Ask the sweep of an epoch to spare objects; the caller must read the state again afterwards.

    Args:
        keys: the keys of data objects, ranges or metaranges. Objects that these ranges and
            metaranges refer to are spared, too.
    """
    for number, some in enumerate(batches(sorted(keys), _KEYS_OF_A_KEEP)):
        body = "".join(f"{key}\n" for key in some).encode("ascii")
        name = f"{keep_id}-{number}" if number else keep_id
        store.put(f"{KEEPS}{epoch}/{name}", body, contract.ANY)


def iter_keeps(store: ObjectStore) -> Iterator[str]:
    """Yield the keys that a sweep must spare; a key may be yielded more than once.

    The keeps of all epochs are read, so that a wrong epoch in the state cannot make a sweep miss a
    keep.

    Raises:
        IntegrityError: a list exceeds the size limit, so the keys to spare are not known.
    """
    for info in store.list(KEEPS):
        if info.size > layout.MAX_KEEP_SIZE:
            limit = f"a list of keys to spare has at most {layout.MAX_KEEP_SIZE}"
            delete = "delete that object if nobody needs what it lists"
            hint = f"another program writes into this namespace: {delete}"
            raise IntegrityError(f"{info.key} has {info.size} bytes, but {limit}", hint=hint)
        try:
            data = store.get(info.key, start=0, length=layout.MAX_KEEP_SIZE)
        except ObjectNotFound:
            continue  # deleted since it was listed, because its epoch has ended
        yield from data.decode("ascii", "replace").split("\n")[:-1]


def iter_expired(store: ObjectStore) -> Iterator[str]:
    """Yield the metaranges that garbage collection has ever deleted by the retention rules.

    A yielded metarange may have been written again since. A missing metarange is not damage if it
    is in one of the lists. A list that is not valid is skipped: if its metaranges are missing, that
    counts as damage, and garbage collection deletes nothing.
    """
    for info in store.list(EXPIRED):
        yield from read_expired(store, info.key)


def read_expired(store: ObjectStore, key: str) -> list[str]:
    """Return the metaranges of one list; an empty list if the object is absent or not valid."""
    try:
        data = store.get(key, start=0, length=MAX_EXPIRED_SIZE + 1)
    except ObjectNotFound:
        return []
    if len(data) > MAX_EXPIRED_SIZE or len(data) % _ID_SIZE:
        return []
    return [data[at : at + _ID_SIZE].hex() for at in range(0, len(data), _ID_SIZE)]
