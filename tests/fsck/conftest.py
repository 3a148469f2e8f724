from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.lakes import make_repository, open_lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with open_lake(tmp_path) as opened:
        yield opened


@pytest.fixture
def repository(lake: Lake, tmp_path: Path) -> Repository:
    return make_repository(lake, tmp_path)
