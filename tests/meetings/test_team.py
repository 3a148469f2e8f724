"""The long team: random commands of three people, with every verb that moves anything."""

from __future__ import annotations

import pytest

from tests.meetings.life import check_lives


@pytest.mark.timeout(300)
def test_a_short_life_of_a_team() -> None:
    check_lives(examples=25, steps=30)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_a_long_life_of_a_team() -> None:
    check_lives(examples=600, steps=60, is_random=True)
