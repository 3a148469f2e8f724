"""Checks whether a store honours conditional writes, which all sharing depends on.

With one writer, a store that ignores conditions looks like one that honours them. So the checks
send writes that must be refused, one after the other and many at once, and read the object back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep
from typing import Final, TypeVar

from lakecli.doctor.check import Check, ScratchObjects, ok, warning
from lakecli.errors import Unreachable, Unsupported
from lakecli.stores.contract import (
    ABSENT,
    ANY,
    Condition,
    ConditionFailed,
    Match,
    ObjectNotFound,
    ObjectStore,
    Version,
)

T = TypeVar("T")

WRITERS: Final = 8
ROUNDS: Final = 4
"""Races of each kind; a store without locks fails nearly every one."""

PAUSE: Final = 1.5
"""Seconds before the second attempt on a store that did not answer."""

_START_TIMEOUT: Final = 30.0
"""Seconds for all writers of a race to get ready."""

FIX: Final = (
    "let one machine at a time write here, or use a store with conditional writes: Amazon S3, "
    "Google Cloud Storage, Azure Blob, a directory"
)


class BrokenPromise(Unsupported):
    """The store did what a condition forbids, or refused what it allows."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint=FIX)


def check_create_only(scratch: ScratchObjects) -> Check:
    """Create the same key twice.

    Raises:
        BrokenPromise: the second write was not refused, or the first was.
    """
    _patiently(scratch, "create-only", _try_create_only)
    return ok("create-only", "a second create-only write is refused")


def check_match(scratch: ScratchObjects) -> Check:
    """Write with the current version, with a stale one, and with one of a missing object.

    Raises:
        BrokenPromise: a version is wrong, or the store ignores it.
    """
    _patiently(scratch, "compare-and-set", _try_match)
    return ok("compare-and-set", "stale versions are refused, the current one is accepted")


def check_races(scratch: ScratchObjects) -> Check:
    """Let many writers race for one key several times; exactly one must win.

    Raises:
        BrokenPromise: two won, or the winner's bytes are not there.
        Unreachable: the store answered none of them.
    """
    winnerless = 0
    for number in range(ROUNDS):
        winnerless += not _patiently(scratch, f"race-create-{number}", _race_to_create)
        winnerless += not _patiently(scratch, f"race-match-{number}", _race_to_replace)
    races = 2 * ROUNDS
    if winnerless:
        return warning(
            "race",
            f"{winnerless} of {races} races of {WRITERS} writers had no winner; none had two",
            fix="no data is at risk, but writes to busy branches may need several attempts",
        )
    return ok("race", f"{races} races of {WRITERS} writers, one winner each")


def _patiently(scratch: ScratchObjects, name: str, look: Callable[[ScratchObjects, str], T]) -> T:
    """Repeat a check once, on another key, if the store did not answer.

    The adapters send conditional writes only once, and some stores need a second between two writes
    of a key.
    """
    try:
        return look(scratch, name)
    except Unreachable:
        sleep(PAUSE)
        return look(scratch, f"{name}-again")


def _try_create_only(scratch: ScratchObjects, name: str) -> None:
    store, key = scratch.store, scratch.key(name)
    try:
        store.put(key, b"first", ABSENT)
    except ConditionFailed as error:
        raise BrokenPromise("a create-only write of a new key was refused") from error
    _must_fail(store, key, b"second", ABSENT, "a second create-only write replaced the first")
    if store.get(key) != b"first":
        raise BrokenPromise("a create-only write was refused, and replaced the object")


def _try_match(scratch: ScratchObjects, name: str) -> None:
    store, key = scratch.store, scratch.key(name)
    first = store.put(key, b"first", ANY)
    if store.head(key).version != first:
        raise BrokenPromise("a write returns another version than the object then has")
    try:
        second = store.put(key, b"second", Match(first))
    except ConditionFailed as error:
        raise BrokenPromise("a write that names the current version is refused") from error
    if second == first:
        raise BrokenPromise("an object kept its version when its contents changed")
    _must_fail(store, key, b"third", Match(first), "a write that names a stale version succeeded")
    missing = scratch.key(f"{name}-missing")
    _must_fail(
        store, missing, b"x", Match(second), "a write that names a version created an object"
    )
    if store.get(key) != b"second":
        raise BrokenPromise("a write with a stale version was refused, and replaced the object")


def _race_to_create(scratch: ScratchObjects, name: str) -> bool:
    return _has_winner(scratch.store, scratch.key(name), ABSENT)


def _race_to_replace(scratch: ScratchObjects, name: str) -> bool:
    key = scratch.key(name)
    version = scratch.store.put(key, b"start", ANY)
    return _has_winner(scratch.store, key, Match(version))


def _has_winner(store: ObjectStore, key: str, condition: Condition) -> bool:
    """Start all writers at once, each with its own bytes, and read back which bytes are stored.

    Raises:
        BrokenPromise: more than one won, or the stored bytes are not the winner's.
        Unreachable: no writer got a response.
    """
    bodies = [b"writer %d" % number for number in range(WRITERS)]
    answers = _write_at_once(store, key, bodies, condition)
    winners = [
        body for body, answer in zip(bodies, answers, strict=True) if isinstance(answer, str)
    ]
    what = "create-only" if condition == ABSENT else "compare-and-set"
    if len(winners) > 1:
        raise BrokenPromise(f"{len(winners)} of {WRITERS} writers won one {what} race")
    unknown = [answer for answer in answers if isinstance(answer, Unreachable)]
    if len(unknown) == WRITERS:
        raise unknown[0]
    try:
        found = store.get(key)
    except ObjectNotFound:
        found = None
    if winners and found != winners[0]:
        raise BrokenPromise(f"the one winner of a {what} race was overwritten by a loser")
    losers = {body for body, answer in zip(bodies, answers, strict=True) if answer is None}
    if found in losers:
        raise BrokenPromise(f"a writer of a {what} race was refused, and its bytes are there")
    return found in bodies


def _write_at_once(
    store: ObjectStore, key: str, bodies: Sequence[bytes], condition: Condition
) -> list[Version | Unreachable | None]:
    """Return each writer's result: a version, ``None`` if it lost, or an error if unknown.

    The writers start when this thread has handed all of them to the pool. Until then the pool may
    not know a thread that it has just started, and an interruption would not wait for that thread.
    """
    barrier = Barrier(len(bodies) + 1)

    def write(body: bytes) -> Version | Unreachable | None:
        barrier.wait(_START_TIMEOUT)
        try:
            return store.put(key, body, condition)
        except ConditionFailed:
            return None
        except Unreachable as error:
            return error

    with ThreadPoolExecutor(len(bodies), "race") as pool:
        try:
            answers = pool.map(write, bodies)
            barrier.wait(_START_TIMEOUT)
            return list(answers)
        except BaseException:
            barrier.abort()  # or the waiting writers would wait for the others
            raise


def _must_fail(
    store: ObjectStore, key: str, body: bytes, condition: Condition, otherwise: str
) -> None:
    try:
        store.put(key, body, condition)
    except ConditionFailed:
        return
    raise BrokenPromise(f"{otherwise}: the store ignores conditions")
