from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.lakes import make_repository, open_lake
from tests.support.worktrees import real_now

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository
    from lakecli.repository.handle.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    # The real clock: it is compared with the times of files.
    with open_lake(tmp_path, clock=real_now) as opened:
        yield opened


@pytest.fixture
def repository(lake: Lake, tmp_path: Path) -> Repository:
    return make_repository(lake, tmp_path)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every state of a file count as soon as it was seen."""
    monkeypatch.setattr("lakecli.worktree.index.TICK_NS", 0)
    monkeypatch.setattr("lakecli.worktree.index.MAPPED_NS", 0)


@pytest.fixture
def unsettled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no state of a file count, however long ago it was seen."""
    monkeypatch.setattr("lakecli.worktree.index.TICK_NS", 1 << 62)
    monkeypatch.setattr("lakecli.worktree.index.MAPPED_NS", 1 << 62)
