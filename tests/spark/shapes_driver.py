"""A program that compares readers with Spark on a cluster, and prints where they differ.

    python -m tests.spark.shapes_driver DIRECTORY [NAME]...

Names are those of tables; without them it compares all.
It is a process of its own, as a process has one Spark at most, and other tests use that one.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from lakecli.engine.spark_runner import SparkRunner
from lakecli.repository.commit import commit
from lakecli.repository.upload import UploadOptions
from lakecli.repository.upload_tree import upload_tree
from lakecli.spark import read_table
from tests.spark.conftest import open_home
from tests.spark.shapes import Case, compare, lay
from tests.support.lakes import make_repository

URI = "lakefs://demo/main/t"


def readers(spark: Any, home: Path) -> dict[str, Any]:
    """Return the readers of tables in the repository `demo`, by their names."""

    def read(place: str, case: Case, *, native: bool | None = None) -> Any:
        return read_table(
            spark,
            f"{URI}/{place}",
            native=native,
            schema=case.schema or None,
            options=dict(case.options),
            home=home,
        )

    def fetched(place: str, case: Case) -> Any:
        return read(place, case, native=False)

    return {"native": read, "fetched": fetched}


def keep(repository: Any, source: Path) -> None:
    """Commit the tables in a directory."""
    report = upload_tree(repository, "main", b"t", source=source, options=UploadOptions())
    assert not report.failures
    commit(repository, "main", message="Shapes", committer="test")


def main(directory: Path, *names: str) -> list[str]:
    """Return the differences."""
    found = lay(directory / "t", names)
    with open_home(directory / "home") as lake:
        keep(make_repository(lake, directory), directory / "t")
    conf = {
        "spark.executor.memory": "512m",
        "spark.local.dir": str(directory / "spark"),
        "spark.task.maxFailures": "1",  # many of them fail, as they should
    }
    with SparkRunner(
        master="local-cluster[2,1,1024]",
        conf=conf,
        environ=os.environ,
        cache=directory,
        quick_start=True,
    ) as runner:
        chosen = readers(runner.session, directory / "home")
        return compare(runner.session, directory / "t", found, chosen)


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), *sys.argv[2:])))
