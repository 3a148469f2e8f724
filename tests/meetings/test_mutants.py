"""The team finds defects whose fix is taken out, by a story and by random search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.meetings.life import check_lives
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
"""Of the mutants, by a random search of a fixed length."""


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_random_search_finds_mutants() -> None:
    found = []
    for title, mutant in MUTANTS.items():
        with pytest.MonkeyPatch.context() as monkeypatch:
            mutant.apply(monkeypatch)
            try:
                check_lives(examples=150, steps=50)
            except AssertionError:
                found.append(title)
    assert len(found) >= FOUND_AT_LEAST, found
