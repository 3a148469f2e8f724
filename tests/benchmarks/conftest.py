from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.claims import MILLION, Report
from tests.benchmarks.lake import Large, Place
from tests.benchmarks.measure import Machine, environment

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

REPORT = pytest.StashKey[Report]()
DISK = Path("/var/tmp")  # /tmp is memory on many machines


def pytest_configure(config: pytest.Config) -> None:
    config.stash[REPORT] = Report(is_binding=config.getoption("--objects") == MILLION)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave benchmarks to --benchmark-only; run the rows about new files first.

    Then the run has deleted nothing yet.
    """
    if config.getoption("benchmark_only"):
        items.sort(key=lambda item: item.path.name != "test_upload.py")
        return
    left = [item for item in items if "benchmark" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    report = item.config.stash[REPORT]
    before = len(report.rows)
    yield
    failed = report.failed_since(before)
    assert not failed, "\n".join(map(str, failed))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    report = config.stash[REPORT]
    if report.rows or report.notes:
        terminalreporter.section("claims")
        for row in report.rows:
            terminalreporter.line(str(row))
        for note in report.notes:
            terminalreporter.line(f"note    {note}")


@pytest.fixture(scope="session")
def report(pytestconfig: pytest.Config) -> Report:
    """The report that collects the figures, and is shown at the end of the run."""
    return pytestconfig.stash[REPORT]


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """A directory on a disk, which is removed at the end of the run.

    ``TMPDIR`` selects the disk.
    """
    disk = os.environ.get("TMPDIR") or (DISK if os.access(DISK, os.W_OK) else None)
    path = Path(tempfile.mkdtemp(prefix="lakecli-benchmarks-", dir=disk))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def place(scratch: Path) -> Place:
    return Place(scratch / "home", scratch / "namespaces")


@pytest.fixture(scope="session")
def machine(scratch: Path, place: Place) -> Machine:
    return Machine(environment(scratch, place.home), scratch / "log")


@pytest.fixture(scope="session")
def objects(pytestconfig: pytest.Config) -> int:
    """How many objects a million is in this run."""
    count: int = pytestconfig.getoption("--objects")
    return count


@pytest.fixture(scope="session")
def million(place: Place, objects: int) -> Large:
    """A repository of a million entries."""
    return _large(place, "million", objects)


@pytest.fixture(scope="session")
def ten_million(place: Place, objects: int) -> Large:
    """A repository of ten million entries."""
    return _large(place, "ten-million", 10 * objects)


def _large(place: Place, name: str, count: int) -> Large:
    large = Large(place, name, count)
    large.create()
    large.commit_all()
    return large
