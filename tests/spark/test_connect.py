"""Tables through Spark Connect, which has no JVM in the client's process, and no RDDs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.engine.session import java_settings
from tests.support.tools import require_package

if TYPE_CHECKING:
    from lakecli.repository.contract import Repository

ROOT = Path(__file__).parents[2]


@pytest.mark.xdist_group("spark")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_tables_and_entries_through_connect(
    repository: Repository, home: Path, tmp_path: Path
) -> None:
    require_package("grpc_status")
    (tmp_path / "spark").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_client", str(tmp_path / "spark")],
        cwd=ROOT,
        env={
            **os.environ,
            **java_settings(os.environ, tmp_path),
            "SPARK_TESTING": "1",  # a free port for the server, not 15002
            "LAKECLI_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "localhost",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
