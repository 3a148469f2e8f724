"""One world in memory for all meetings of a test process."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.meetings import block_write, job, serve_put, spark_write
from tests.meetings.hook import Hook
from tests.meetings.matrix import Matrix
from tests.meetings.recorder import Recorder
from tests.meetings.world import Machines
from tests.support.waits import skip_waits

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def _world() -> Iterator[tuple[Matrix, Hook]]:
    directory = Path(tempfile.mkdtemp())
    hook = Hook()
    with Machines(directory) as world:
        yield Matrix(world, hook, Recorder(world.live)), hook
    shutil.rmtree(directory)


@pytest.fixture
def hook(_world: tuple[Matrix, Hook]) -> Hook:
    """Return the hook of the matrix."""
    return _world[1]


@pytest.fixture
def matrix(_world: tuple[Matrix, Hook], monkeypatch: pytest.MonkeyPatch) -> Matrix:
    """Return the matrix, which remembers the outcomes of serial orders from test to test."""
    matrix, hook = _world
    matrix.recorder.install(monkeypatch)
    hook.install(monkeypatch)
    skip_waits(monkeypatch)
    spark_write.install(monkeypatch)
    block_write.install(monkeypatch)
    job.install(monkeypatch, matrix.world)
    serve_put.install(monkeypatch)
    hook.build_once(monkeypatch)
    hook.use_one_thread(monkeypatch)
    return matrix
