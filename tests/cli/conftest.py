"""Fixtures for tests of commands: runs in one home, and golden outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.meetings.arguments import READS
from tests.support.demo import Demo
from tests.support.golden import Cli, Golden
from tests.support.hints import HintRunner
from tests.support.parts import SERVERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(
    params=[
        pytest.param(False, id=pytest.HIDDEN_PARAM),
        pytest.param(True, id="hints", marks=pytest.mark.nightly),
    ]
)
def cli(tmp_path: Path, home: Path, request: pytest.FixtureRequest) -> Iterator[Cli]:
    """Runs of commands; each night, all that their outputs advise is tried, too."""
    cli = Cli(tmp_path)
    if not request.param:
        yield cli
        return
    on_server = SERVERS.intersection(request.fixturenames)  # its buckets cannot be put back
    runner = HintRunner(cli.as_a_person, tmp_path, home, only=READS if on_server else None)
    cli.on_result = runner
    yield cli
    assert not runner.failures, "\n\n".join(runner.failures)


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
