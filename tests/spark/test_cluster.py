"""An executor dies in an import, an export and writes of tables: the result is the same."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.imports.lists import row_of, write_csv
from tests.spark.cluster_driver import ROWS
from tests.support.environments import spark_home

ROOT = Path(__file__).parents[2]


@pytest.mark.nightly
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(1800)
def test_the_death_of_an_executor_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "installation").mkdir()
    rows = [row_of(f"{number:05d}", number % 50) for number in range(40_000)]
    random.Random(3).shuffle(rows)
    write_csv(tmp_path / "mixed.csv", rows)
    environ = {**os.environ, "SPARK_HOME": str(spark_home(tmp_path / "installation"))}
    environ.pop("PYTHONPATH", None)  # executors inherit it
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.cluster_driver", str(tmp_path)],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    found = json.loads(done.stdout)
    assert found["died"] == ["import", "export", "save", "write"]
    assert found["trees"][0] == found["trees"][1]
    assert found["exported"] == found["expected"]
    assert len(found["expected"]) >= ROWS
    assert found["tables"] == [list(range(ROWS))] * 2
