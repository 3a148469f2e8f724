"""Fixtures for tests of commands: runs in one home, and golden outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.golden import Cli, Golden

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def golden(tmp_path: Path, home: Path, request: pytest.FixtureRequest) -> Golden:
    places = {str(tmp_path): "<TMP>", str(home): "<HOME>"}
    return Golden(places, update=request.config.getoption("--update-golden"))
