"""The long team: random commands of three people, with every verb that moves anything."""

from __future__ import annotations

import pytest

from tests.meetings.life import check_lives, check_lives_for


@pytest.mark.timeout(300)
def test_a_short_life_of_a_team() -> None:
    check_lives(examples=25, steps=30)


@pytest.mark.nightly
@pytest.mark.timeout(2400)
def test_a_long_life_of_a_team() -> None:
    check_lives_for(1800, steps=60)
