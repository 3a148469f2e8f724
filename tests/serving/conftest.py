"""Where the clients that are installed apart are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.azurite import cache_folder


@pytest.fixture(scope="module")
def downloads() -> Path:
    """A directory that is kept between runs, found before tests replace HOME."""
    return cache_folder()
