"""The team finds defects whose fix is taken out, by a story and by random search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.meetings.life import check_some_lives, find_failing_lives
from tests.meetings.mutants import MUTANTS, Mutant
from tests.meetings.team import Team
from tests.meetings.world import Machines
from tests.support.waits import skip_waits

if TYPE_CHECKING:
    from pathlib import Path


def _tell(directory: Path, mutant: Mutant) -> None:
    with Machines(directory) as world:
        team = Team(world)
        mutant.story(team)
        team.check_from_scratch()


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_the_team_refuses_a_mutant_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    skip_waits(monkeypatch)
    _tell(tmp_path / "sound", mutant)
    mutant.apply(monkeypatch)
    with pytest.raises(AssertionError):
        _tell(tmp_path / "mutant", mutant)


FOUND_AT_LEAST = 4
"""Of the mutants, by a random search of bounded time."""

SEARCHED_FOR = 120
"""Seconds of the processor's time, for each mutant."""

MUST_BE_FOUND = "a merge leaves what is staged as the head has it"


@pytest.mark.nightly
@pytest.mark.timeout(0)
def test_random_search_finds_mutants(capfd: pytest.CaptureFixture[str]) -> None:
    """A mutant is found by lives of a team that fail with it, and pass without it."""
    found = []
    for title, mutant in MUTANTS.items():
        with pytest.MonkeyPatch.context() as monkeypatch:
            mutant.apply(monkeypatch)
            number = find_failing_lives(SEARCHED_FOR, first=0)
        if number is not None:
            check_some_lives(number)
            found.append(title)
        with capfd.disabled():
            print(f"{title}: {'not found' if number is None else f'found by lives {number}'}")
    assert len(found) >= FOUND_AT_LEAST, found
    assert MUST_BE_FOUND in found
