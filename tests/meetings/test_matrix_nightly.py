"""Longer meetings than the matrix has, sampled by a seed, each kind for some minutes."""

from __future__ import annotations

import time
from random import Random, SystemRandom
from typing import TYPE_CHECKING

import pytest

from tests.meetings.longer import Longer

if TYPE_CHECKING:
    from tests.meetings.hook import Hook
    from tests.meetings.matrix import Matrix

KINDS = {
    "three commands": Longer.three_commands,
    "a clock that jumps": Longer.clock_jump,
    "a bucket that goes back": Longer.rollback,
}
SHOWN = 5
"""Problems after which a kind ends."""


@pytest.mark.nightly
@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", KINDS)
def test_longer_meetings_are_sound(
    matrix: Matrix, hook: Hook, request: pytest.FixtureRequest, kind: str
) -> None:
    seed = request.config.getoption("--meetings-seed")
    seed = SystemRandom().randrange(1_000_000) if seed is None else seed
    longer = Longer(matrix, hook, Random(seed))
    end = time.monotonic() + 60 * request.config.getoption("--meetings-minutes")
    count = 0
    problems: list[str] = []
    while time.monotonic() < end and len(problems) < SHOWN:
        count += 1
        if problem := KINDS[kind](longer):
            problems.append(problem)
    print(f"{count} meetings, --meetings-seed {seed}")
    listed = "\n\n".join(problems)
    assert not problems, f"{len(problems)} of {count}, --meetings-seed {seed}\n{listed}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_longer_meetings_are_sound(matrix: Matrix, hook: Hook, kind: str) -> None:
    longer = Longer(matrix, hook, Random(1))
    problems = [problem for _ in range(5) if (problem := KINDS[kind](longer))]
    assert problems == []
