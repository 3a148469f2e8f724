"""The long team: random commands of three people, with every verb that moves anything."""

from __future__ import annotations

from random import SystemRandom
from typing import TYPE_CHECKING

import pytest

from tests.meetings.life import check_lives, check_some_lives, find_failing_lives
from tests.meetings.team import Team, days, operations
from tests.meetings.world import Machines

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.timeout(300)
def test_a_short_life_of_a_team() -> None:
    check_lives(examples=25, steps=30)


def test_an_operation_dated_in_the_future_may_expire_with_older_ones(tmp_path: Path) -> None:
    with Machines(tmp_path) as world:
        team = Team(world)
        world.ahead["bob"] = days(60)
        team.upload("bob", "main", "p/1", "early", sync=False)
        world.ahead.clear()
        for passed in (16, 33):
            world.pass_time(days(passed))
            team.upload("bob", "main", "p/1", f"after {passed} days", sync=False)
        assert len([*operations(team, "bob")]) == 1


@pytest.mark.nightly
@pytest.mark.timeout(0)
def test_a_long_life_of_a_team(request: pytest.FixtureRequest) -> None:
    first = request.config.getoption("--meetings-seed")
    first = SystemRandom().randrange(1_000_000) if first is None else first
    seconds = 3 * 60 * request.config.getoption("--meetings-minutes")
    number = find_failing_lives(seconds, first=first)
    if number is not None:
        print(f"these are lives number {number}")
        check_some_lives(number)
    assert number is None
