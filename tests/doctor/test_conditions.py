"""How rare a fault of conditional writes the races find, and how surely."""

from __future__ import annotations

import random
from collections import Counter
from itertools import count
from math import ceil
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import pytest

from lakecli.doctor import conditions
from lakecli.doctor.checks import BrokenPromise, CheckVerdict, ScratchObjects
from lakecli.doctor.conditions import TIME_LIMIT, WRITERS, run_races
from lakecli.stores.contract import ABSENT, ANY, ConditionFailed, Version
from tests.support.memory_store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.races

EVIDENCE: Final = 66
"""Races of each kind, which the tests of other modules do without."""


class Leaky(MemoryStore):
    """Lets a second writer win one race in so many, as a store that compares and writes then.

    Args:
        kind: of the races that it loses: ``create`` or ``match``.
        chance: of each race.
        seed: of the random numbers, so that each run of a test is the same.
    """

    def __init__(self, kind: str, chance: float, seed: int) -> None:
        super().__init__()
        self._kind = f"race-{kind}"
        self._chance = chance
        self._random = random.Random(seed)
        self._leaks: dict[str, bool] = {}
        self._leak = Lock()

    def put(self, *arguments: Any, **options: Any) -> Version:
        key, body, condition = arguments
        if self._kind not in key or condition == ANY:
            return super().put(*arguments, **options)
        try:
            return super().put(*arguments, **options)
        except ConditionFailed:
            with self._leak:
                if key not in self._leaks:
                    self._leaks[key] = self._random.random() < self._chance
                leaks, self._leaks[key] = self._leaks[key], False
            if not leaks:
                raise
            return super().put(key, body, ANY)


def is_found(store: MemoryStore, races: int) -> bool:
    try:
        run_races(ScratchObjects(store, "t/"), races)
    except BrokenPromise:
        return True
    return False


def test_the_evidence_finds_one_failure_in_ten_with_999_in_a_thousand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    assert conditions.RACES == EVIDENCE
    assert 0.9**conditions.RACES < 0.001 < 0.9 ** (conditions.RACES - 1)


@pytest.mark.parametrize("kind", ["create", "match"])
def test_stores_that_fail_one_race_in_ten_are_found(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 20 such stores each; four races of each kind, which were the test once, find a third."""
    monkeypatch.setattr(conditions, "WRITERS", 2)  # the store decides, not the machine's load
    monkeypatch.setattr(conditions, "BODY_SIZE", 16)
    found = Counter(
        races
        for races in (4, EVIDENCE)
        for seed in range(20)
        if is_found(Leaky(kind, 0.1, seed), races)
    )
    assert found[EVIDENCE] == 20
    assert 2 <= found[4] <= 14


def test_a_store_that_always_fails_is_found_by_the_first_race() -> None:
    store = Leaky("match", 1.0, 1)
    scratch = ScratchObjects(store, "t/")
    with pytest.raises(BrokenPromise, match=f"2 of {WRITERS} writers won one compare-and-set race"):
        run_races(scratch, 3)
    scratch.remove()
    assert list(store.list()) == []


def test_a_store_that_never_fails_gives_the_whole_evidence() -> None:
    store = MemoryStore()
    scratch = ScratchObjects(store, "t/")
    races = run_races(scratch, EVIDENCE)
    assert (races.run, races.won, races.winnerless) == (EVIDENCE, EVIDENCE, 0)
    assert races.check.verdict is CheckVerdict.OK
    assert races.check.details == {"races": "66", "writers": "8"}
    assert {info.size for info in store.list("t/race-create")} == {conditions.BODY_SIZE}


@pytest.mark.parametrize("pace", [1.0, 7.0, 60.0])
def test_no_race_begins_after_the_limit(pace: float) -> None:
    """A slow store gives as much evidence as the time allows."""
    races = run_races(ScratchObjects(MemoryStore(), "t/"), EVIDENCE, clock_of(pace))
    assert races.won == ceil(TIME_LIMIT / pace) - 1
    assert races.check.verdict is CheckVerdict.WARNING
    assert f"of {EVIDENCE} each" in races.check.seen
    assert "repeat" in races.check.fix


def clock_of(pace: float) -> Callable[[], float]:
    """Return a clock that goes on by `pace` seconds each time it is read."""
    moments = (number * pace for number in count())
    return lambda: next(moments)


def test_what_is_raced_for_was_there_before_the_first_race() -> None:
    """Google lets an object be written once a second."""

    class Noting(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def put(self, *arguments: Any, **options: Any) -> Version:
            if arguments[2] in (ANY, ABSENT):
                self.seen.append("start" if arguments[2] == ANY else "race")
            return super().put(*arguments, **options)

    store = Noting()
    run_races(ScratchObjects(store, "t/"), 3)
    assert store.seen[:3] == ["start"] * 3
    assert "start" not in store.seen[3:]
