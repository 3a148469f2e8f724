"""Exports by each runner, and with an executor that dies."""

from __future__ import annotations

import os
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.engine.runner import LocalRunner, Runner
from lakecli.errors import Unreachable
from lakecli.exports import run
from lakecli.exports.export_part import export_part
from lakecli.exports.run import ExportOptions
from tests.exports.test_export import files, put
from tests.support.lakes import make_repository, open_lake
from tests.support.recorded_progress import RecordedProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lakecli.engine.spark_runner import SparkRunner
    from lakecli.exports.export_part import ExportOutcome, ExportPart, Job
    from lakecli.repository.contract import Repository
    from lakecli.repository.transfer.plan import PathStep

pytestmark = pytest.mark.xdist_group("spark")

CONTENTS = {f"t/day={n % 120:03d}/p{n}".encode(): f"{n}".encode() for n in range(600)} | {
    b"t/_SUCCESS": b""
}


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with open_lake(tmp_path) as lake:
        yield make_repository(lake, tmp_path)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PART_ENTRIES", 100)
    monkeypatch.setattr(run, "PATHS", 2)


def exported(repository: Repository, target: Path, runner: Runner, **options: Any) -> ExportOutcome:
    progress = RecordedProgress()
    report = run.export(
        repository,
        "main",
        b"",
        str(target),
        runner=runner,
        options=ExportOptions(progress=progress, **options),
    )
    outcome = report.outcome
    tallies = (outcome.new, outcome.changed, outcome.unchanged)
    assert progress.size == sum(each.size for each in tallies)
    assert progress.items == sum(each.count for each in tallies) + outcome.deleted.count
    return outcome


def test_every_runner_exports_the_same(
    repository: Repository, tmp_path: Path, spark_runner: SparkRunner
) -> None:
    first = put(repository, dict(CONTENTS))
    runners: dict[str, Runner] = {
        "one": LocalRunner(), "threads": LocalRunner(parallelism=3), "spark": spark_runner
    }  # fmt: skip
    outcomes = [exported(repository, tmp_path / name, each) for name, each in runners.items()]
    assert outcomes[0].new.count == len(CONTENTS)
    assert outcomes[0] == outcomes[1] == outcomes[2]
    changes: dict[bytes, bytes | None] = dict.fromkeys(list(CONTENTS)[::50], None)
    changes |= dict.fromkeys(list(CONTENTS)[7::50], b"changed")
    put(repository, changes)
    outcomes = [
        exported(repository, tmp_path / name, each, since=first) for name, each in runners.items()
    ]
    assert outcomes[0].deleted.count == sum(each is None for each in changes.values())
    assert outcomes[0] == outcomes[1] == outcomes[2]
    expected = {path: data for path, data in (CONTENTS | changes).items() if data is not None}
    for name in runners:
        assert files(tmp_path / name) == expected
        assert (tmp_path / name / "_SUCCESS").exists()


def test_every_runner_lists_the_same_steps(
    repository: Repository, tmp_path: Path, spark_runner: SparkRunner
) -> None:
    first = put(repository, dict(CONTENTS))
    target = tmp_path / "out"
    exported(repository, target, LocalRunner())
    put(
        repository,
        dict.fromkeys(list(CONTENTS)[:-1:50], None)
        | dict.fromkeys(list(CONTENTS)[7::50], b"changed")
        | {b"new": b"1", b"../out": b"x", b"a/_SUCCESS": b"2"},
    )
    found: list[list[PathStep]] = []
    for runner in (LocalRunner(), LocalRunner(parallelism=3), Backwards(), spark_runner):
        for since in ("", first):
            steps: list[PathStep] = []
            found.append(steps)
            run.export(
                repository,
                "main",
                b"",
                str(target),
                runner=runner,
                options=ExportOptions(dry_run=True, since=since, on_steps=steps.extend),
            )
    whole, changes, *others = found
    assert others == [whole, changes] * 3
    markers = [b"a/_SUCCESS", b"t/_SUCCESS"]
    paths = [step.path for step in whole]
    assert paths == sorted(set(paths) - set(markers)) + markers
    assert Counter(step.action.value for step in changes) == {
        "new": 2, "changed": 12, "deleted": 12, "failed": 1
    }  # fmt: skip


class Backwards(LocalRunner):
    """A runner whose parts finish in the reverse order."""

    def run(self, task: Callable[..., Any], parts: Iterable[Any]) -> Iterator[Any]:
        yield from reversed(list(super().run(task, parts)))


def test_every_runner_reports_failures(
    repository: Repository, tmp_path: Path, spark_runner: SparkRunner
) -> None:
    put(repository, dict(CONTENTS) | {b"../out": b"x", b"a//b": b"y"})
    objects = sorted(path for path in (tmp_path / "namespace/data").rglob("*") if path.is_file())
    for path in objects[::97]:
        path.write_bytes(b"damaged")
    here = exported_failing(repository, tmp_path / "here", LocalRunner())
    there = exported_failing(repository, tmp_path / "there", spark_runner)
    assert here.failed > 3
    assert here == there
    assert files(tmp_path / "here") == files(tmp_path / "there")
    assert not (tmp_path / "there/_SUCCESS").exists()


def exported_failing(repository: Repository, target: Path, runner: Runner) -> ExportOutcome:
    return run.export(repository, "main", b"", str(target), runner=runner).outcome


def dying(part: ExportPart, *, job: Job, marker: str, times: int) -> ExportOutcome:
    """Export a part, then kill the executor's process."""
    outcome = export_part(part, job=job)
    deaths = len(list(Path(marker).iterdir()))
    if part.start and deaths < times:
        (Path(marker) / f"{deaths}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return outcome


class Deadly(Runner):
    """A runner whose executors die a number of times."""

    name = "spark"
    parallelism = 2

    def __init__(self, runner: SparkRunner, marker: Path, times: int) -> None:
        self._runner = runner
        self._marker = marker
        self._times = times
        marker.mkdir()

    def run(self, task: Callable[..., Any], parts: Iterable[Any]) -> Iterator[Any]:
        assert isinstance(task, partial)
        deadly = partial(
            dying, job=task.keywords["job"], marker=str(self._marker), times=self._times
        )
        return self._runner.run(deadly, parts)


def test_a_dead_executor_loses_nothing(
    repository: Repository, tmp_path: Path, spark_runner: SparkRunner
) -> None:
    put(repository, dict(CONTENTS))
    target = tmp_path / "out"
    exported(repository, target, Deadly(spark_runner, tmp_path / "died", 1))
    assert list((tmp_path / "died").iterdir())
    assert files(target) == CONTENTS
    assert (target / "_SUCCESS").exists()


def test_dead_executors_leave_no_success_marker(
    repository: Repository, tmp_path: Path, spark_runner: SparkRunner
) -> None:
    put(repository, dict(CONTENTS))
    target = tmp_path / "out"
    target.mkdir()
    (target / "_SUCCESS").touch()
    with pytest.raises(Unreachable, match="executors died"):
        exported(repository, target, Deadly(spark_runner, tmp_path / "died", 1_000))
    assert not (target / "_SUCCESS").exists()
    exported(repository, target, LocalRunner())
    assert files(target) == CONTENTS
