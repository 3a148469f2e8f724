"""The state of a collection in the bucket: lists of condemned objects, status, undo.

The lists are stored in the bucket so that any machine can continue the collection.

::

    _lakecli/gc/marks/<epoch>-<id>/data-<prefix>   data objects: 32 bytes of digest, 8 of size each
    _lakecli/gc/marks/<epoch>-<id>/data-lakefs-…   data objects of lakeFS, by digests of their names
    _lakecli/gc/marks/<epoch>-<id>/others          all other keys, one JSON object per line
    _lakecli/gc/marks/<epoch>-<id>/summary         counts by branch and tag, see `report`

The lists name candidates only: the sweep itself finds the objects in use. Anybody who can write to
the bucket can write a list, so each list is validated and must be older than the grace period.
"""

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final

from lakecli.base import identity, layout, parsing
from lakecli.errors import IntegrityError, NothingToDo, Refused
from lakecli.gc import report
from lakecli.gc.report import Doomed, GcStatus
from lakecli.remote import gc_protocol
from lakecli.remote.gc_protocol import LEASE, STALE_AFTER, GcState, ObservedState, Phase
from lakecli.repository.contract import Repository
from lakecli.repository.lakefs.kept_dumps import all_kept, find_take_over
from lakecli.stores.contract import ANY, ObjectNotFound, ObjectStore, TooLarge, Version, get_bounded
from lakecli.stores.streams import batches

MARKS: Final = layout.GC + "marks/"

MAX_OTHERS_SIZE: Final = 256 << 20
"""Maximum size of the list of other keys in bytes; the next collection condemns the rest."""

MAX_PART_SIZE: Final = 1 << 30
"""Maximum size of a list of data objects in bytes: 27 million objects in each of 256 parts."""

DIGEST: Final = identity.DIGEST_SIZE
RECORD: Final = DIGEST + 8
"""Size of a record of a list in bytes."""

Garbage = tuple[str, Version]
"""The key and the version of an object; with version ``""``, any version may be deleted."""

_DATA: Final = "data-"
_PART: Final = re.compile(r"[0-9a-f]{2}|all|lakefs-[0-9a-z]{3,20}")
_MAX_LINE: Final = 16 << 10
_MAX_OBJECT: Final = 1 << 50


class LostMarks(IntegrityError):
    """A list of condemned objects is missing or damaged."""

    def __init__(self, key: str, why: str = "it is missing") -> None:
        super().__init__(
            f"the list of condemned objects is missing or damaged: {key}: {why}",
            hint="undo the condemnation: `gc undo lakefs://REPOSITORY`",
        )


class Marks:
    """The lists of one condemnation.

    Args:
        name: ``<epoch>-<id>``.
    """

    def __init__(self, store: ObjectStore, name: str) -> None:
        self._store = store
        self.name = name
        self.prefix = f"{MARKS}{name}/"

    def put_data(self, part: str, records: bytes) -> None:
        """Write the condemned data objects of one part of the listing."""
        self._put(_DATA + part, records)

    def put_others(self, doomed: Iterable[Doomed]) -> None:
        """Write all other condemned objects."""
        lines, size = [], 0
        for each in doomed:
            fields = {"key": each.key, "size": each.size, "kind": each.kind}
            line = json.dumps(fields, separators=(",", ":")) + "\n"
            size += len(line)
            if size > MAX_OTHERS_SIZE:
                break
            lines.append(line)
        self._put("others", "".join(lines).encode("ascii"))

    def put_summary(self, summary: report.GarbageSummary) -> None:
        """Write the summary by branch and tag."""
        self._put("summary", report.dump_summary(summary))

    def summary(self) -> report.GarbageSummary | None:
        """Return the summary by branch and tag; ``None`` if it is missing or damaged.

        No error is raised, since the summary is for display only.
        """
        try:
            return report.parse_summary(self._get("summary", report.MAX_SUMMARY_SIZE))
        except LostMarks:
            return None

    def newest(self) -> datetime | None:
        """Return when the newest list was written, by the bucket's clock; ``None`` without lists.

        Unlike a time in the state, this time cannot be forged: with a forged time, lists written
        just now could look old.
        """
        return max((info.modified_at for info in self._store.list(self.prefix)), default=None)

    def check_age(self, now: datetime, grace: timedelta) -> None:
        """Raise an error if a list is younger than the grace period, whatever the state says.

        Raises:
            LostMarks: a list is younger, or there are no lists.
        """
        newest = self.newest()
        if newest is None:
            raise LostMarks(self.prefix)
        if now - newest < grace + STALE_AFTER:
            why = f"it was written {(now - newest).days} days ago, less than the grace period"
            raise LostMarks(self.prefix, why)

    def data_parts(self) -> list[str]:
        """Return the names of the parts that have a list of condemned data objects."""
        start = self.prefix + _DATA
        names = (info.key.removeprefix(start) for info in self._store.list(start))
        return [*filter(_PART.fullmatch, names)]

    def data(self, part: str) -> bytes:
        """Return the records of the condemned data objects of a part, ascending."""
        records = self._get(_DATA + part, MAX_PART_SIZE)
        lead = bytes.fromhex(part) if len(part) == len("00") else b""
        last = b""
        for record in split(records):
            digest = record[:DIGEST]
            if len(record) != RECORD or digest <= last or not digest.startswith(lead):
                raise LostMarks(self.prefix + _DATA + part, "its records are out of order")
            last = digest
        return records

    def others(self) -> list[Doomed]:
        """Return all other condemned objects."""
        found: list[Doomed] = []
        for line in self._get("others", MAX_OTHERS_SIZE).splitlines():
            try:
                found.append(_parse_doomed(line))
            except (KeyError, TypeError, ValueError) as error:
                raise LostMarks(self.prefix + "others", f"line {len(found) + 1}") from error
        return found

    def delete(self) -> None:
        """Delete the lists of condemned objects."""
        self._store.delete([info.key for info in self._store.list(self.prefix)])

    def _put(self, name: str, body: bytes) -> None:
        self._store.put(self.prefix + name, body, ANY)

    def _get(self, name: str, limit: int) -> bytes:
        try:
            return get_bounded(self._store, self.prefix + name, limit)
        except ObjectNotFound:
            raise LostMarks(self.prefix + name) from None
        except TooLarge:
            raise LostMarks(self.prefix + name, f"more than {limit} bytes") from None


def check_lists(repository: Repository, seen: ObservedState) -> None:
    """Check that the lists that a state names exist.

    Raises:
        LostMarks: the list of other objects is missing or damaged.
        StateMoved: another machine has ended the collection meanwhile.
    """
    try:
        Marks(repository.store, seen.state.mark).others()
    except LostMarks as error:
        _check_unmoved(repository, seen, error)
        raise


def _check_unmoved(repository: Repository, seen: ObservedState, error: LostMarks) -> None:
    if gc_protocol.look(repository.store).version != seen.version:
        raise gc_protocol.StateMoved(
            f"another machine has ended the garbage collection of {repository.store.uri}",
            hint=f"see its state: `gc status {repository.uri}`",
        ) from error


def _parse_doomed(line: bytes) -> Doomed:
    fields = parsing.parse_json_object(line, max_size=_MAX_LINE)
    key, size, kind = fields["key"], fields["size"], fields["kind"]
    if not isinstance(key, str) or type(size) is not int or not 0 <= size < _MAX_OBJECT:
        raise ValueError("a key or a size is none")
    if kind not in report.KINDS or not key.startswith(report.KINDS[kind][0]):
        raise ValueError(f"a key of another kind than {kind!r}")
    return Doomed(key, size, kind)


def split(records: bytes, size: int = RECORD) -> Iterator[bytes]:
    """Yield records of `size` bytes each; the last record is shorter if the bytes are damaged."""
    for at in range(0, len(records), size):
        yield records[at : at + size]


def total_of(records: bytes) -> tuple[int, int]:
    """Return how many objects a list has, and their total size in bytes."""
    size = sum(int.from_bytes(record[DIGEST:]) for record in split(records))
    return len(records) // RECORD, size


def add_expired(store: ObjectStore, epoch: int, trees: Iterable[str]) -> None:
    """Record metaranges that are about to be deleted because no retained commit has them.

    Earlier records of the epoch are kept, since this sweep may continue an interrupted sweep.
    """
    key = f"{gc_protocol.EXPIRED}{epoch}"
    noted = set(gc_protocol.read_expired(store, key))
    new = set(trees) - noted
    for info in store.list(f"{key}-"):
        new.difference_update(gc_protocol.read_expired(store, info.key))
    if not new:
        return
    most = gc_protocol.MAX_EXPIRED_SIZE // DIGEST
    if len(new | noted) <= most:
        store.put(key, bytes.fromhex("".join(sorted(new | noted))), ANY)
        return
    for some in batches(sorted(new), most):
        store.put(f"{key}-{some[0]}", bytes.fromhex("".join(some)), ANY)


class SweepBegan(Refused):
    """The sweep has begun, so the condemnation cannot be undone; it can only be ended by force."""


_LEFT_FOR: Final = timedelta(days=1)
"""How long to keep lists and other files that an interrupted command left."""


def move_state(repository: Repository, seen: ObservedState, **changes: Any) -> GcState:  # noqa: ANN401
    """Change the state's phase, or renew the state; each change has its own write ID."""
    write_id = repository.lake.runtime.new_id().hex()
    after = seen.state._replace(write_id=write_id, **changes)
    repository.lake.runtime.on_step(f"gc:{after.phase}")
    gc_protocol.move(repository.store, seen, after)
    return after


def status(repository: Repository) -> GcStatus:
    """Return the state of a repository's garbage collection."""
    store, now = repository.store, repository.lake.runtime.now()
    found = status_of(repository, gc_protocol.look(store))
    taken = find_take_over(store)
    kept = all_kept(store, taken, now)
    stopped_at = None if taken is None else taken.stopped_at
    dumps = tuple(sorted(kept, key=attrgetter("since")))
    return found._replace(dumps=dumps, lakefs_stopped=stopped_at)


def status_of(repository: Repository, seen: ObservedState) -> GcStatus:
    """Return the status for an observed state, without the fields about refs dumps and lakeFS."""
    state = seen.state
    sweep_at = resume_at = None
    marks = Marks(repository.store, state.mark)
    summary = marks.summary() if state.mark else None
    if seen.since is not None and state.phase is Phase.CONDEMNED:
        sweep_at = max(seen.since, marks.newest() or seen.since) + state.grace + STALE_AFTER
    if seen.since is not None and state.phase is Phase.SWEEPING:
        resume_at = seen.since + LEASE
    times = state.grace, seen.since, sweep_at, resume_at
    return GcStatus(state.phase, state.epoch, *times, summary=summary)


def undo(repository: Repository, *, force: bool = False) -> GcStatus:
    """Undo a condemnation; with `force`, end an interrupted sweep or replace a damaged state.

    Args:
        force: accept that objects which a sweep has deleted stay deleted.

    Raises:
        NothingToDo: nothing is condemned.
        Refused: the sweep has begun; with `force`: it may be running.
        DamagedState: the state is damaged and `force` is not given, or a newer lakecli wrote it.
        StateMoved: another machine changed the state at the same time.
        BadRecord: a refs dump's record is not valid, so the status is unknown; the condemnation is
            undone.
    """
    undo_condemnation(repository, force=force)
    return status(repository)


def undo_condemnation(repository: Repository, *, force: bool) -> None:
    """Undo a condemnation, as `undo` does, without returning the status."""
    store = repository.store
    try:
        seen = gc_protocol.look(store)
    except gc_protocol.DamagedState as error:
        if not force or isinstance(error, gc_protocol.NewerState):
            raise
        seen = gc_protocol.look_at_damage(store)
        _check_lease_is_over(repository, seen)
    else:
        if seen.state.phase is Phase.IDLE:
            raise NothingToDo("nothing is condemned")
        if seen.state.phase is Phase.SWEEPING:
            if not force:
                raise SweepBegan(
                    "the sweep has begun; what it has deleted cannot be restored",
                    hint="let it finish, or end it by force if it was interrupted: "
                    f"`gc undo --force {repository.uri}`",
                )
            _check_lease_is_over(repository, seen)
    end_state(repository, seen, gc_protocol.store_now(store))


def end_state(repository: Repository, seen: ObservedState, now: datetime) -> None:
    """Change the state to idle, and delete the lists and keeps that no phase needs any more.

    Args:
        now: the time by the store's clock.
    """
    after = move_state(repository, seen, phase=Phase.IDLE, mark="")
    repository.lake.runtime.on_step("gc:clean-up")
    clean_up(repository.store, after, now, ended=seen.state.mark)


def _check_lease_is_over(repository: Repository, seen: ObservedState) -> None:
    assert seen.since is not None
    until = seen.since + LEASE
    if gc_protocol.store_now(repository.store) <= until:
        raise SweepBegan(
            "a sweep may be running and may still delete objects",
            hint=f"end it by force after {until:%Y-%m-%dT%H:%M:%SZ}: "
            f"`gc undo --force {repository.uri}`",
        )


def clean_up(store: ObjectStore, state: GcState, now: datetime, *, ended: str = "") -> None:
    """Delete lists and keeps that no phase needs any more.

    Args:
        now: the time by the store's clock.
        ended: the name of the lists of the collection that has just ended; ``""`` if none has.
    """
    stale, long_ago = [], now - _LEFT_FOR
    for info in store.list(MARKS):
        mark_name = info.key.removeprefix(MARKS).partition("/")[0]
        # Younger lists may belong to another machine that is about to condemn.
        is_left = mark_name != state.mark and info.modified_at < long_ago
        if is_left or mark_name == ended:
            stale.append(info.key)
    last = state.epoch if state.phase is Phase.IDLE else state.epoch - 1
    for info in store.list(gc_protocol.KEEPS):
        epoch = info.key.removeprefix(gc_protocol.KEEPS).partition("/")[0]
        if epoch.isdecimal() and int(epoch) <= last:
            stale.append(info.key)
    refreshing = store.list(gc_protocol.REFRESHING)
    stale += [info.key for info in refreshing if info.modified_at < long_ago]
    if stale:
        store.delete(stale)
