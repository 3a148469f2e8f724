"""The team finds defects that were fixed, once their fix is taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.meetings.hook import Hook
from tests.meetings.mutants import MUTANTS, Mutant
from tests.meetings.team import Team
from tests.meetings.world import Machines

if TYPE_CHECKING:
    from pathlib import Path


def _live(directory: Path, mutant: Mutant) -> None:
    with Machines(directory) as world:
        team = Team(world)
        mutant.story(team)
        team.check_from_scratch()


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_the_team_refuses_a_mutant_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    Hook().skip_waiting(monkeypatch)
    _live(tmp_path / "sound", mutant)
    mutant.apply(monkeypatch)
    with pytest.raises(AssertionError):
        _live(tmp_path / "mutant", mutant)
