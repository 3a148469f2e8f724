"""A world in memory for all meetings of one test process."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.meetings.matrix import Hook, Matrix
from tests.meetings.world import Machines

if TYPE_CHECKING:
    from collections.abc import Iterator

_IN_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def _world() -> Iterator[tuple[Matrix, Hook]]:
    directory = Path(tempfile.mkdtemp(dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None))
    world, hook = Machines(directory), Hook()
    yield Matrix(world, hook), hook
    world.close()
    shutil.rmtree(directory)


@pytest.fixture
def matrix(_world: tuple[Matrix, Hook], monkeypatch: pytest.MonkeyPatch) -> Matrix:
    """The matrix; what serial orders come to is remembered from test to test."""
    matrix, hook = _world
    hook.install(monkeypatch)
    hook.skip_waiting(monkeypatch)
    hook.build_once(monkeypatch)
    return matrix
