"""An endpoint with an empty repository, demo."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.serving.api.site import Site, open_lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.repository.handle.lake import Lake


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    monkeypatch.setenv("LAKECLI_USER_NAME", "Ada")
    monkeypatch.setenv("LAKECLI_USER_EMAIL", "ada@example.com")
    with open_lake(tmp_path) as opened:
        yield opened


@pytest.fixture
def site(lake: Lake) -> Iterator[Site]:
    made = Site(lake)
    yield made
    made.context.threads.shutdown()
