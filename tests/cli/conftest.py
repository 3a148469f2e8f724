"""Fixtures for tests of commands: runs in one home, and golden outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.demo import Demo
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


@pytest.fixture
def demo(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Demo:
    """A repository to work on, and a committer that is the same on every machine."""
    monkeypatch.setenv("LAKECLI_USER_NAME", "Ada Lovelace")
    monkeypatch.setenv("LAKECLI_USER_EMAIL", "ada@example.com")
    return Demo(cli)


@pytest.fixture
def forked(demo: Demo) -> Demo:
    """Branches main and dev that both changed ``a``; dev added ``d``, main added ``c``."""
    demo.commit("first", {"a": "1", "b": "2"})
    demo.branch("dev")
    demo.commit("on dev", {"a": "dev", "d": "4"}, "dev")
    demo.commit("on main", {"a": "main", "c": "3"})
    return demo
