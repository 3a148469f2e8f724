"""Run by `test_cluster`: import a manifest on a cluster whose executors have another Python.

It is a process of its own, as a process has one Spark at most, and other tests use that one.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakecli.engine.runner import LocalRunner, Runner
from lakecli.engine.spark_runner import SparkRunner
from lakecli.errors import LakeError
from lakecli.imports.address_checks import Verify
from lakecli.imports.job import import_objects
from lakecli.imports.report import ImportOptions
from lakecli.imports.sources import open_source
from lakecli.repository import branch
from lakecli.repository.transfer.walk import LinkPolicy
from tests.support.lakes import make_repository, open_lake

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository


def main(directory: Path, master: str, conf: dict[str, str], bad: list[str]) -> dict[str, Any]:
    """Return what happened with each bad Python, and the trees made by Spark and without it."""
    notices: list[str] = []

    def notice(line: str) -> None:
        notices.append(line)
        print(line, file=sys.stderr, flush=True)

    with open_lake(directory) as lake:
        repository = make_repository(lake, directory)
        stores = [(repository.record.storage_namespace, "")]
        with SparkRunner(
            master=master,
            conf=conf,
            environ=os.environ,
            cache=directory / "spark",
            quick_start=True,
            stores=stores,
            notice=notice,
        ) as runner:
            refused = [_refusal(runner, python, stores) for python in bad]
            refused.append(_refusal(runner, "", [("local:///nowhere/at/all", "")]))
            spark = imported_tree(repository, "spark", directory, runner)
        local = imported_tree(repository, "local", directory, LocalRunner())
    return {"notices": notices, "refused": refused, "spark": spark, "local": local}


def _refusal(runner: SparkRunner, python: str, stores: list[tuple[str, str]]) -> list[str | None]:
    """Return kind, message and hint of the error with executors that run another Python."""
    good = runner.context.pythonExec
    try:
        runner.context.pythonExec = python or good
        SparkRunner(runner.session, stores=stores)
    except LakeError as error:
        return [type(error).__name__, error.message, error.hint]
    finally:
        runner.context.pythonExec = good
    return ["", "nothing is missing", None]


def imported_tree(repository: Repository, name: str, directory: Path, runner: Runner) -> str:
    """Return the tree of a new branch with the objects of the manifest in a directory."""
    branch.create(repository, name, source="main")
    report = import_objects(
        repository,
        name,
        b"p",
        source=open_source(repository, str(directory / "mixed.csv"), links=LinkPolicy.FAIL),
        runner=runner,
        committer="c",
        options=ImportOptions(verify=Verify.NONE),  # they are nowhere
    )
    assert report.commit is not None
    return str(report.commit.metarange_id)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    given["directory"] = Path(given["directory"])
    print(json.dumps(main(**given)))
