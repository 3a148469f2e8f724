"""Checks of conditional writes, which sharing a repository requires.

With one writer, a store that ignores conditions looks like a store that honours them. So these
checks send writes that must be refused, first one after the other and then many in parallel, and
read the object back.

Some stores compare the version first, and write afterwards. Two concurrent writers may then both
succeed, but only by chance, so a single race proves little. If a store fails one race in ten,
`RACES` (66) races detect this with a probability of 1 - 0.9 ** 66, which is more than 99.9 %.
The body of each write is as large as a ref (`BODY_SIZE`). S3Proxy 4.1 compares first and writes
afterwards: 29 of 40 races with such bodies had several winners, and 28 of 40 races with bodies four
times as large.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from time import sleep
from typing import Final, TypeVar

from lakecli.base.progress import elapsed
from lakecli.doctor.checks import BrokenPromise, Check, ScratchObjects, body_of, ok, warning
from lakecli.errors import Unreachable
from lakecli.stores.contract import (
    ABSENT,
    ANY,
    Condition,
    ConditionFailed,
    Match,
    ObjectStore,
    Version,
)

T = TypeVar("T")

WRITERS: Final = 8
"""The number of writers in each race."""

RACES: Final = 66
"""Number of races of each kind (create-only and compare-and-set) that a store must pass."""

LOOK: Final = 12
"""The number of races of each kind if the store has already passed `RACES` races."""

TIME_LIMIT: Final = 50.0
"""Seconds after which no further race begins, so that a run takes at most a minute.

The races of several runs are added up.
"""

BODY_SIZE: Final = 16 << 10
"""The number of bytes that each writer sends."""

PAUSE: Final = 1.5
"""Seconds to wait before a check is repeated because the store did not respond."""

_START_TIMEOUT: Final = 30.0
"""The maximum time, in seconds, until all writers of a race are ready to start."""


def check_create_only(scratch: ScratchObjects) -> Check:
    """Create a key twice; the second write must be refused.

    Raises:
        BrokenPromise: the first write was refused, or the second one was not.
    """
    _patiently(scratch, "create-only", _try_create_only)
    return ok("create-only", "a second create-only write is refused")


def check_match(scratch: ScratchObjects) -> Check:
    """Write with the current and a stale version as the condition, also to a missing object."""
    _patiently(scratch, "compare-and-set", _try_match)
    return ok("compare-and-set", "stale versions are refused, the current one is accepted")


@dataclass(slots=True)
class Races:
    """The results of a number of races, none of which had two winners.

    Attributes:
        run: the number of races of each kind that took place.
        won: the number of races of each kind that had a winner.
        winnerless: the number of races without a winner, of both kinds; such races prove nothing.
    """

    wanted: int
    run: int = 0
    won: int = 0
    winnerless: int = 0

    @property
    def check(self) -> Check:
        """Return the result of the check that ran the races."""
        size = {"races": str(self.won), "writers": str(WRITERS)}
        if self.winnerless:
            return warning(
                "race",
                f"{self.winnerless} of {2 * self.run} races of {WRITERS} writers "
                "had no winner; none had two",
                fix="no data is at risk, but writes to busy branches may need several attempts",
                **size,
            )
        seen = f"{self.won} create-only and {self.won} compare-and-set races of {WRITERS} writers"
        if self.won < self.wanted:
            return warning(
                "race",
                f"{seen}, of {self.wanted} each, in {TIME_LIMIT:.0f} s; one winner each",
                fix="the next run goes on: repeat it",
                **size,
            )
        return ok("race", f"{seen}, one winner each", **size)


def run_races(
    scratch: ScratchObjects, wanted: int, elapsed: Callable[[], float] = elapsed
) -> Races:
    """Run races of many writers for one key; exactly one writer must win each race.

    Args:
        wanted: the number of races of each kind; fewer are run if the time limit is reached.
        elapsed: a function that returns the current time in seconds.

    Raises:
        BrokenPromise: two writers won a race, or the winner's bytes were not stored.
        Unreachable: no writer of a race got a response.
    """
    begun = elapsed()
    races = Races(wanted)
    with ThreadPoolExecutor(WRITERS, "race") as pool:
        # Some stores accept one write per second for a key, so write what is replaced in advance.
        started: dict[str, Version] = {}
        for first in range(0, wanted, WRITERS):
            numbers = range(first, min(first + WRITERS, wanted))
            keys = [scratch.key(f"race-match-{number}") for number in numbers]
            answers = _write_at_once(pool, scratch.store, [(key, b"start", ANY) for key in keys])
            written = zip(keys, answers, strict=True)
            started |= {key: answer for key, answer in written if isinstance(answer, str)}

        def create(scratch: ScratchObjects, name: str) -> bool:
            return _has_winner(pool, scratch.store, scratch.key(name), ABSENT)

        def replace(scratch: ScratchObjects, name: str) -> bool:
            key = scratch.key(name)
            version = started.get(key) or scratch.store.put(key, b"start", ANY)
            return _has_winner(pool, scratch.store, key, Match(version))

        for number in range(wanted):
            if elapsed() - begun >= TIME_LIMIT:
                break
            winners = int(_patiently(scratch, f"race-create-{number}", create))
            winners += _patiently(scratch, f"race-match-{number}", replace)
            races.run += 1
            races.won += winners == 2  # noqa: PLR2004 - one of each kind
            races.winnerless += 2 - winners
    return races


def _patiently(scratch: ScratchObjects, name: str, look: Callable[[ScratchObjects, str], T]) -> T:
    """Run a check; if the store did not respond, run the check once more on another key.

    Adapters never retry conditional writes, and some stores accept only one write per second for a
    key.
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


def _has_winner(pool: Executor, store: ObjectStore, key: str, condition: Condition) -> bool:
    """Run one race, and return whether the bytes of any writer were stored.

    Each writer sends different bytes, so the stored bytes identify the winner.

    Raises:
        BrokenPromise: more than one writer won, or the stored bytes are not the winner's.
        Unreachable: no writer got a response.
    """
    bodies = [(b"writer %d " % number).ljust(BODY_SIZE, b".") for number in range(WRITERS)]
    answers = _write_at_once(pool, store, [(key, body, condition) for body in bodies])
    results = list(zip(bodies, answers, strict=True))
    winners = [body for body, answer in results if isinstance(answer, str)]
    what = "create-only" if condition == ABSENT else "compare-and-set"
    if len(winners) > 1:
        raise BrokenPromise(f"{len(winners)} of {WRITERS} writers won one {what} race")
    unknown = [answer for answer in answers if isinstance(answer, Unreachable)]
    if len(unknown) == WRITERS:
        raise unknown[0]
    found = body_of(store, key)
    if winners and found != winners[0]:
        raise BrokenPromise(f"the one winner of a {what} race was overwritten by a loser")
    losers = {body for body, answer in results if answer is None}
    if found in losers:
        raise BrokenPromise(f"a writer of a {what} race was refused, and its bytes are there")
    return found in bodies


def _write_at_once(
    pool: Executor, store: ObjectStore, writes: Sequence[tuple[str, bytes, Condition]]
) -> list[Version | Unreachable | None]:
    """Write from at most `WRITERS` threads concurrently; return the result of each write, in order.

    A result is the new version, ``None`` if the condition failed, or an error if it is unknown
    whether the write succeeded.

    No write starts before this thread has submitted all writes to the pool. Otherwise an interrupt
    might occur before the pool has recorded a thread that it started, and the pool would not wait
    for that thread.
    """
    barrier = Barrier(len(writes) + 1)

    def write(what: tuple[str, bytes, Condition]) -> Version | Unreachable | None:
        barrier.wait(_START_TIMEOUT)
        try:
            return store.put(*what)
        except ConditionFailed:
            return None
        except Unreachable as error:
            return error

    try:
        answers = pool.map(write, writes)
        barrier.wait(_START_TIMEOUT)
        return list(answers)
    except BaseException:
        barrier.abort()  # otherwise the writers at the barrier would wait for this thread
        raise


def _must_fail(store: ObjectStore, key: str, body: bytes, condition: Condition, fault: str) -> None:
    try:
        store.put(key, body, condition)
    except ConditionFailed:
        return
    raise BrokenPromise(f"{fault}: the store ignores conditions")
