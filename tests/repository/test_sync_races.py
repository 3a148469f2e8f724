"""Many machines committing to one branch at once: nobody's commit is lost, none is there twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.cli.context import system_now
from lakecli.repository import repo
from lakecli.repository.clone import clone
from lakecli.repository.core.transaction import MAX_ATTEMPTS
from lakecli.repository.log import LogOptions, log
from tests.support.clones import RANGE_ENTRIES, machine
from tests.support.lakes import checksums, read
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from collections.abc import Callable

PROJECT = Path(__file__).parents[2]


@pytest.fixture(params=["directory", "s3"])
def namespace(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "directory":
        return str(tmp_path / "namespace")
    endpoint = request.getfixturevalue("moto_endpoint")
    request.getfixturevalue("aws_environment").setenv("AWS_ENDPOINT_URL", endpoint)
    return f"s3://{new_bucket(endpoint)}/lake"


@pytest.fixture
def race(namespace: str, tmp_path: Path) -> Callable[[int, int, float], None]:
    def run(machines: int, rounds: int, timeout: float) -> None:
        names = [f"machine-{number}" for number in range(machines)]
        for number, name in enumerate(names):
            with machine(tmp_path, name, clock=system_now) as lake:
                if number:
                    clone(lake, namespace, "demo")
                else:
                    repo.create(lake, "demo", namespace, range_entries=RANGE_ENTRIES)
        command = [sys.executable, "-m", "tests.repository.sync_worker", str(tmp_path)]
        workers = [
            subprocess.Popen(
                [*command, name, str(rounds)], cwd=PROJECT, stdout=subprocess.PIPE, text=True
            )
            for name in names
        ]
        try:
            answers = [worker.communicate(timeout=timeout)[0] for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
        assert [worker.returncode for worker in workers] == [0] * machines
        # Bounded: nobody came near the limit of one commit, let alone of all of them.
        assert max(map(int, answers)) < MAX_ATTEMPTS + rounds

        with machine(tmp_path, "observer", clock=system_now) as lake:
            repository = clone(lake, namespace, "demo")
            with log(repository, "main", LogOptions()) as commits:
                messages = [each.message for each in commits][:-1]  # the last is the first of all
            expected = {f"{name} {number}" for name in names for number in range(rounds)}
            assert len(messages) == len(expected)
            assert set(messages) == expected
            paths = [f"{name}/{number}".encode() for name in names for number in range(rounds)]
            assert read(repository, "main") == checksums({path: path for path in paths})

    return run


def test_eight_machines_commit_five_times_each(race: Callable[[int, int, float], None]) -> None:
    race(8, 5, 250)


@pytest.mark.nightly
@pytest.mark.timeout(2700)
def test_thirty_two_machines_commit_ten_times_each(
    race: Callable[[int, int, float], None],
) -> None:
    race(32, 10, 2400)
