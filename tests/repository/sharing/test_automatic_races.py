"""Many machines commit to one branch at once: no commit is lost, none is made twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.base.identity import blake3_of
from lakecli.base.layout import data_key
from lakecli.cli.context import system_now
from lakecli.repository import repo
from lakecli.repository.clone import clone
from lakecli.repository.commit import commit
from lakecli.repository.commit_attempts import MAX_ATTEMPTS
from lakecli.repository.log import LogOptions, log
from lakecli.repository.sharing.automatic import SharedMover
from lakecli.repository.undo.remote_undo import put_back
from tests.support import crashes
from tests.support.clones import RANGE_ENTRIES, machine
from tests.support.lakes import checksums, read, stage
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakecli.repository.handle.lake import Lake
    from tests.support.crashes import Killer


def do(lake: Lake, _killer: Killer, name: str, rounds: int) -> None:
    """Stage and commit one file a round, as a command under ``sync = auto`` does."""
    for number in range(rounds):
        new_id = lake.runtime.new_id
        mover = SharedMover(new_id(), who=lambda: name, put_back=put_back)
        repository = lake.repository("demo")
        repository.mover = mover
        mover.catch_up(repository)
        path = f"{name}/{number}".encode()
        repository.store.put_new(data_key(blake3_of(path).hex()), path)
        stage(repository, "main", {path: path})
        commit(repository, "main", message=f"{name} {number}", committer=name)
        mover.finish(repository)


@pytest.fixture(params=["directory", pytest.param("s3", marks=pytest.mark.nightly)])
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
        running = [
            crashes.start(do, tmp_path / name, name, rounds, seed=name, clock=system_now)
            for name in names
        ]
        outcomes = [each.wait(seconds=timeout) for each in running]
        # No machine came near the limit of attempts for one commit, even in all its commits.
        attempts = [sum(step.startswith("build ") for step in each.steps) for each in outcomes]
        assert max(attempts) < MAX_ATTEMPTS + rounds

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


def test_eight_machines_commit_three_times_each(race: Callable[[int, int, float], None]) -> None:
    race(8, 3, 250)


@pytest.mark.nightly
@pytest.mark.timeout(2700)
def test_thirty_two_machines_commit_ten_times_each(race: Callable[[int, int, float], None]) -> None:
    race(32, 10, 2400)
