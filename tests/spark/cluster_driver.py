"""A program that imports, exports and writes tables on a cluster; an executor dies in each of them.

It is a process of its own, as a process has one Spark at most, and other tests use that one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext

from lakecli.engine.runner import LocalRunner
from lakecli.engine.spark_runner import SparkRunner
from lakecli.exports import run
from lakecli.exports.export_part import export_part
from lakecli.repository import branch
from lakecli.repository.commit import commit
from lakecli.spark import read_table, register, write_table
from tests.engine.cluster_driver import imported_tree
from tests.spark.conftest import open_home
from tests.support.lakes import make_repository, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lakecli.repository.contract import Repository

MASTER = "local-cluster[2,1,1024]"
TABLE = "lakefs://demo/table/new"
SAVED = "lakefs://demo/saved/new"
ROWS = 400


def main(directory: Path) -> dict[str, Any]:
    """Return trees and files of an import and an export with a death and without one, and rows."""
    vars(run).update(PART_ENTRIES=100, PATHS=2)
    markers = {name: str(directory / f"{name}-died") for name in ("export", "write", "save")}
    with open_home(directory / "home") as lake:
        repository = make_repository(lake, directory)
        stage(repository, "main", {b"t/%04d" % n: b"%d" % n for n in range(ROWS)})
        commit(repository, "main", message="Objects", committer="test")
        for name in ("table", "saved"):
            branch.create(repository, name, source="main")
        with SparkRunner(
            master=MASTER,
            conf={"spark.executor.memory": "512m", "spark.local.dir": str(directory / "spark")},
            environ=os.environ,
            cache=directory,
            quick_start=True,
        ) as runner:
            with killing_an_executor(runner) as killed:
                imported = imported_tree(repository, "imported", directory, runner)
            deadly = Deadly(runner, markers["export"])
            exported = _export(repository, directory / "there", deadly)
            tables = _write(runner.session, directory / "home", markers)
        expected = _export(repository, directory / "here", LocalRunner())
        trees = [imported, imported_tree(repository, "expected", directory, LocalRunner())]
    died = sorted(name for name, path in markers.items() if Path(path).exists())
    return {
        "died": ["import"] * len(killed) + died,
        "trees": trees,
        "exported": exported,
        "expected": expected,
        "tables": tables,
    }


def _write(spark: Any, home: Path, markers: dict[str, str]) -> list[list[int]]:
    """Write both tables, and return the IDs in each."""
    register(spark, home=home)
    rows = spark.range(0, ROWS, 1, 4)
    frame = rows.mapInArrow(partial(pass_on, marker=markers["write"]), "id long")
    write_table(frame, TABLE, home=home)
    frame = rows.mapInArrow(partial(pass_on, marker=markers["save"]), "id long")
    frame.write.format("lakefs").mode("append").save(SAVED)
    return [
        sorted(row.id for row in read_table(spark, uri, home=home).collect())
        for uri in (TABLE, SAVED)
    ]


def _export(repository: Repository, target: Path, runner: Any) -> list[list[str]]:
    """Export, and return names and contents of the files, and what the report counted."""
    report = run.export(repository, "main", b"t", str(target), runner=runner)
    outcome = report.outcome
    assert outcome.failed == 0
    # What the killed task had written is there when the task runs again.
    counts = [
        outcome.new.count + outcome.unchanged.count,
        outcome.new.size + outcome.unchanged.size,
    ]
    exported = [path for path in target.rglob("*") if path.is_file()]
    return [
        list(map(str, counts)),
        *sorted(
            [str(path.relative_to(target)), path.read_text()]
            for path in exported
            if not path.name.startswith("_lakecli")  # its own record, with times and places
        ),
    ]


def pass_on(batches: Iterator[Any], *, marker: str) -> Iterator[Any]:
    """Yield batches; the first task that ends does not live to see it."""
    yield from batches
    die_once(marker)


def exporting(part: Any, *, job: Any, marker: str) -> Any:
    """Export a part, and die before the result is known."""
    outcome = export_part(part, job=job)
    die_once(marker)
    return outcome


def die_once(marker: str) -> None:
    """Kill the executor that runs this, the first time."""
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return
    # Executors start a daemon, which starts workers.
    status = Path(f"/proc/{os.getppid()}/stat").read_text(encoding="ascii")
    executor = int(status.rpartition(")")[2].split()[1])
    command = Path(f"/proc/{executor}/cmdline").read_bytes()
    assert b"CoarseGrainedExecutorBackend" in command, command
    os.kill(executor, signal.SIGKILL)
    time.sleep(60)  # a worker ends with its executor


@contextmanager
def killing_an_executor(runner: SparkRunner) -> Iterator[list[int]]:
    """Kill an executor as soon as a stage runs; yield where its process will be told."""
    killed: list[int] = []
    ended = threading.Event()
    tracker = runner.context.statusTracker()

    def kill() -> None:
        while not ended.wait(0.01):
            if tracker.getActiveStageIds():
                killed.append(_executors()[0])
                os.kill(killed[0], signal.SIGKILL)
                return

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        ended.set()
        thread.join()


def _executors() -> list[int]:
    """Return the processes of the executors, which are children of this process's Java."""
    gateway: Any = SparkContext._gateway
    java = gateway.proc.pid
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            status = (path / "stat").read_text(encoding="ascii", errors="replace")
            is_child = int(status.rpartition(")")[2].split()[1]) == java
            if is_child and b"CoarseGrainedExecutorBackend" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
    return sorted(found)


class Deadly:
    """A runner whose first part kills its executor."""

    name = "spark"
    parallelism = 2

    def __init__(self, runner: SparkRunner, marker: str) -> None:
        self._runner = runner
        self._marker = marker

    def run(self, task: Callable[..., Any], parts: Iterable[Any]) -> Iterator[Any]:
        """Run parts."""
        assert isinstance(task, partial)
        deadly = partial(exporting, job=task.keywords["job"], marker=self._marker)
        return self._runner.run(deadly, parts)

    def close(self) -> None:
        """Leave the runner to its owner."""


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
