"""The progress of imports: what parts tell before they are finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakecli.engine.runner import LocalRunner
from lakecli.imports import sources as directories
from lakecli.imports.address_checks import Verify
from lakecli.imports.job import import_objects
from lakecli.imports.report import ImportOptions, ShownProgress
from lakecli.imports.sources import open_source
from lakecli.repository.transfer.walk import LinkPolicy
from tests.support.lakes import make_repository, open_lake
from tests.support.recorded_progress import RecordedProgress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakecli.repository.contract import Repository


def test_each_object_is_shown_once_whoever_tells_of_it() -> None:
    steps: list[int] = []
    progress = RecordedProgress(steps.append)
    shown = ShownProgress(progress)
    shown.tell(3, 30)
    shown.tell(2, 20)
    shown.reach(items=3, size=30, parts=1)  # the other two are of a part that still runs
    assert (progress.items, progress.size, progress.parts) == (5, 50, 1)
    shown.reach(items=7, size=50, parts=3)  # two of a part that another run finished
    assert (progress.items, progress.size, progress.parts) == (7, 50, 3)
    shown.tell(1, 10)
    shown.take_back()
    assert (progress.items, progress.size, progress.parts) == (0, 0, 0)
    shown.reach(items=1, size=1, parts=1)
    assert (progress.items, progress.size, progress.parts) == (1, 1, 1)
    assert steps == [3, 2, 0, 2, 1, -8, 1]


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with open_lake(tmp_path) as lake:
        yield make_repository(lake, tmp_path)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "source"
    made.mkdir()
    for number in range(5):
        (made / f"{number}").write_bytes(bytes(number + 1))
    return made


def run(
    repository: Repository, source: Path, steps: list[int], *, copies: bool
) -> RecordedProgress:
    progress = RecordedProgress(steps.append)
    import_objects(
        repository,
        "main",
        None,
        source=open_source(repository, str(source), is_manifest=False, links=LinkPolicy.FAIL),
        runner=LocalRunner(),
        committer="c",
        options=ImportOptions(copies=copies, verify=Verify.NONE, progress=progress),
    )
    return progress


def test_copied_objects_are_shown_one_by_one(repository: Repository, directory: Path) -> None:
    steps: list[int] = []
    progress = run(repository, directory, steps, copies=True)
    assert (progress.items, progress.size, progress.parts) == (5, 15, 1)
    assert steps == [1] * 5 + [0]  # the last of them is the part


def test_objects_that_stay_are_shown_some_at_a_time(
    repository: Repository, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directories, "ROWS_AT_ONCE", 2)
    steps: list[int] = []
    progress = run(repository, directory, steps, copies=False)
    assert (progress.items, progress.size, progress.parts) == (5, 0, 1)
    assert steps == [2, 2, 1, 0]
