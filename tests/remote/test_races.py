"""Processes that move one ref at the same time, on a directory and on servers."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from lakecli.stores.registry import open_store
from tests.remote.chains import checked_moves
from tests.support.azurite import ACCOUNT, new_container
from tests.support.gcs import new_gcs_bucket
from tests.support.servers import new_bucket

if TYPE_CHECKING:
    import pytest

    from tests.support.gcs import GcsServer

RACER = ["-m", "tests.remote.racer"]
ROOT = Path(__file__).parents[2]


def race(uri: str, *, processes: int, moves: int) -> None:
    """Let processes make moves, and check that exactly the applied ones are there, once each."""
    with ExitStack() as stack:
        racers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, *RACER, uri, f"racer-{number}", str(moves)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    cwd=ROOT,
                )
            )
            for number in range(processes)
        ]
        for racer in racers:
            stack.callback(racer.kill)
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("\n")
            racer.stdin.flush()
        told = [racer.communicate(timeout=120)[0].split() for racer in racers]
        assert [racer.returncode for racer in racers] == [0] * processes
    assert [len(applied) for applied in told] == [moves] * processes
    made = checked_moves(open_store(uri))
    assert sorted(move.write_id for move in made) == sorted(chain.from_iterable(told))


def test_a_directory(tmp_path: Path) -> None:
    race(f"local://{tmp_path}", processes=4, moves=25)


def test_s3(aws_environment: pytest.MonkeyPatch, moto_endpoint: str) -> None:
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    race(f"s3://{new_bucket(moto_endpoint)}/name/space", processes=3, moves=12)


def test_google(gcs_environment: pytest.MonkeyPatch, gcs_server: GcsServer) -> None:
    del gcs_environment
    race(f"gs://{new_gcs_bucket(gcs_server)}/name/space", processes=2, moves=6)


def test_azure(azure_environment: pytest.MonkeyPatch, azurite: str) -> None:
    del azure_environment
    container = new_container(azurite)
    race(f"az://{ACCOUNT}/{container}/name/space", processes=2, moves=6)
