"""How the runner on Spark keeps cores busy, by a simulated cluster."""

from __future__ import annotations

import heapq
import random
from collections import deque

import pytest

from lakecli.engine.spark_runner import JOBS_AT_ONCE, PARTS_PER_CORE, parts_per_job


def simulate(seconds: list[float], cores: int, *, size: int, jobs: int) -> float:
    """Return how long parts take in jobs of `size`, of which so many are submitted at a time.

    As in Spark, tasks of the job that was submitted first run first, and a job's results arrive
    when its last task is finished.
    """
    batches = deque(seconds[at : at + size] for at in range(0, len(seconds), size))
    waiting: deque[tuple[int, float]] = deque()
    left: dict[int, int] = {}
    running: list[tuple[float, int]] = []
    now = 0.0
    number = 0
    while batches or waiting or running:
        while batches and len(left) < jobs:
            batch = batches.popleft()
            left[number] = len(batch)
            waiting.extend((number, each) for each in batch)
            number += 1
        while waiting and len(running) < cores:
            job, each = waiting.popleft()
            heapq.heappush(running, (now + each, job))
        now, job = heapq.heappop(running)
        left[job] -= 1
        if not left[job]:
            del left[job]
    return now


@pytest.mark.parametrize("cores", [1, 2, 16, 256, 1_000])
def test_a_part_that_takes_long_holds_up_few_others(cores: int) -> None:
    chance = random.Random(5)
    # One part in 50 takes ten times as long.
    seconds = [10.0 if chance.random() < 0.02 else 1.0 for _ in range(40 * cores)]
    ideal = sum(seconds) / cores
    size = parts_per_job(cores)
    jobs = min(JOBS_AT_ONCE, PARTS_PER_CORE * cores)
    waves = simulate(seconds, cores, size=2 * cores, jobs=2)
    ours = simulate(seconds, cores, size=size, jobs=jobs)
    assert size * jobs <= PARTS_PER_CORE * cores
    assert ours <= waves
    assert ours <= 1.25 * ideal  # ten seconds of it are the last part
    if cores >= 16:
        assert waves > 1.5 * ours
