"""Each reader of tables shows what Spark shows of the same files, or stops where Spark stops."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.shapes import CLUSTER, PARTITIONS, SAMPLE, WRITTEN, compare, lay, rewrite, typed
from tests.spark.shapes_driver import keep, readers
from tests.support.environments import spark_home

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("sample", [SAMPLE, pytest.param((), marks=pytest.mark.nightly)])
def test_tables_of_all_shapes(
    repository: Repository, spark: Any, home: Path, tmp_path: Path, sample: tuple[str, ...]
) -> None:
    found = lay(tmp_path / "t")
    assert len(found) + len(typed()) + len(PARTITIONS) >= 88
    keep(repository, tmp_path / "t")
    samples = {"native": sample} if sample else {}
    wrong = compare(spark, tmp_path / "t", found, readers(spark, home), samples)
    assert not wrong, "\n".join(wrong)


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("names", [CLUSTER, ()])
def test_tables_of_shapes_on_a_cluster(tmp_path: Path, names: tuple[str, ...]) -> None:
    (tmp_path / "installation").mkdir()
    environ = {**os.environ, "SPARK_HOME": str(spark_home(tmp_path / "installation"))}
    environ.pop("PYTHONPATH", None)  # executors inherit it
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.shapes_driver", str(tmp_path), *names],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    wrong = json.loads(done.stdout)
    assert not wrong, "\n".join(wrong)


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("repository")
def test_shapes_are_written_as_spark_writes_them(spark: Any, home: Path, tmp_path: Path) -> None:
    found = lay(tmp_path, WRITTEN)
    wrong = rewrite(spark, tmp_path, found, "lakefs://demo/main/t", home)
    assert not wrong, "\n".join(wrong)
