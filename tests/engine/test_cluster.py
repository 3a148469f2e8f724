"""Clusters whose executors are processes of their own, with another Python than the driver."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.engine.session import java_settings
from tests.imports.lists import row_of, write_csv
from tests.support.environments import make_environment, pack_environment, spark_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

pytestmark = pytest.mark.xdist_group("spark")

ROOT = Path(__file__).parents[2]
ROWS = 2_000

SUBMITTED = """
import os
from operator import neg
from pathlib import Path
from lakecli.engine.spark_runner import SparkRunner

with SparkRunner(environ=os.environ, cache=Path("cache")) as runner:
    conf = runner.context.getConf()
    found = sorted(runner.run(neg, [3, 4]))
    print(runner.context.master, runner.context.appName, conf.get("spark.ours.x"), found)
"""

WRONG_MASTER = """
import os, sys
from pathlib import Path
from lakecli.errors import LakeError
from lakecli.engine.spark_runner import SparkRunner

try:
    SparkRunner(master=sys.argv[1], environ=os.environ, cache=Path(sys.argv[2]), quick_start=True)
except LakeError as error:
    print(error)
"""


def environment_of(directory: Path) -> dict[str, str]:
    """Return the environment of a driver, whose Spark keeps its files in a directory."""
    home = directory / "home"
    home.mkdir()
    environ = {**os.environ, "SPARK_HOME": str(spark_home(home))}
    environ.pop("PYTHONPATH", None)  # executors inherit it
    return environ


def write_rows(directory: Path) -> None:
    rows = [row_of(f"{n:05d}", n % 50) for n in range(ROWS)]
    random.Random(3).shuffle(rows)
    write_csv(directory / "mixed.csv", rows)


def drive(
    directory: Path,
    environ: Mapping[str, str],
    *,
    when_waiting: Callable[[], None] = lambda: None,
    **given: Any,
) -> dict[str, Any]:
    """Run `cluster_driver`, and return its report.

    Args:
        directory: of its lake, with the manifest.
        environ: its environment.
        when_waiting: called when it says that it waits for executors.
        given: arguments of its function.
    """
    arguments = json.dumps({"directory": str(directory), **given})
    with subprocess.Popen(
        [sys.executable, "-m", "tests.engine.cluster_driver", arguments],
        cwd=ROOT,
        env={**environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = []
        waits = False
        for line in process.stderr:
            said.append(line)
            if "waiting for executors" in line and not waits:
                waits = True
                when_waiting()
        answer = process.stdout.read()
    log = directory / "spark/spark.log"
    told = log.read_text("utf-8", "replace")[-4_000:] if log.exists() else ""
    assert process.returncode == 0, "".join(said) + told
    found: dict[str, Any] = json.loads(answer)
    return found


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_executors_run_the_python_of_an_archive(tmp_path: Path) -> None:
    write_rows(tmp_path)
    archive = pack_environment(tmp_path)
    bare = make_environment(tmp_path / "bare")
    report = drive(
        tmp_path,
        environment_of(tmp_path),
        master="local-cluster[2,1,1024]",
        conf={
            "spark.archives": f"{archive}#environment",
            "spark.pyspark.python": "./environment/bin/python",
            "spark.executor.memory": "512m",
        },
        bad=["/nowhere/python", str(bare)],
    )
    missing, empty, unreadable = report["refused"]
    assert missing[0] == "NoLakecli"
    assert missing[1].endswith(
        " cannot run the Python at /nowhere/python: No such file or directory"
    )
    assert missing[1].startswith(("executor 0 on ", "executor 1 on "))
    assert empty[0] == "NoLakecli"
    assert "executor 0 on " in empty[1]
    assert empty[1].endswith(" lacks the Python module lakecli; 1 more executor cannot work either")
    assert "spark.archives" in empty[2]
    assert unreadable[0] == "PermissionDenied"
    assert "cannot read the directory /nowhere/at/all" in unreadable[1]
    assert report["spark"] == report["local"]
    assert all("waiting for executors: " in line for line in report["notices"])


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


class Standalone:
    """A standalone master without workers, and what starts workers."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.environ = environment_of(directory)
        java = java_settings(os.environ, directory / "java")
        self._environ = {**self.environ, **java, "SPARK_WORKER_DIR": str(directory / "work")}
        self._directory, self._stack = directory, stack
        port, self.web_port = free_port(), free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._start(
            "master.Master", "--host", "127.0.0.1", "-p", str(port), "--webui-port",
            str(self.web_port),
        )  # fmt: skip
        for listening in (port, self.web_port):
            while not accepts(listening):  # the test's timeout ends it
                time.sleep(0.2)

    def start_workers(self) -> None:
        for _ in range(2):
            self._start(
                "worker.Worker", "--host", "127.0.0.1", "-c", "1", "-m", "1g", "--webui-port", "0",
                self.url,
            )  # fmt: skip

    def _start(self, name: str, *arguments: str) -> None:
        home = Path(self.environ["SPARK_HOME"])
        log = self._stack.enter_context((self._directory / f"{name}.log").open("ab"))
        process = subprocess.Popen(
            [home / "bin/spark-class", f"org.apache.spark.deploy.{name}", *arguments],
            env={key: value for key, value in self._environ.items() if value},
            stdout=log,
            stderr=log,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)


def accepts(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Standalone]:
    with ExitStack() as stack:
        yield Standalone(tmp_path, stack)


@pytest.mark.nightly
@pytest.mark.timeout(1_200)
def test_a_standalone_master_with_two_workers(standalone: Standalone, tmp_path: Path) -> None:
    write_rows(tmp_path)
    report = drive(
        tmp_path,
        standalone.environ,
        when_waiting=standalone.start_workers,
        master=standalone.url,
        conf={
            "spark.archives": f"{pack_environment(tmp_path)}#environment",
            "spark.pyspark.python": "./environment/bin/python",
            "spark.executor.instances": "2",
            "spark.executor.memory": "512m",
        },
        bad=[],
    )
    assert report["notices"][0].startswith(f"waiting for executors: 0 of 2 ({standalone.url})")
    assert report["refused"][0][0] == "PermissionDenied"
    assert report["spark"] == report["local"]


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_port_that_is_no_master_is_an_error(standalone: Standalone, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRONG_MASTER, f"spark://127.0.0.1:{standalone.web_port}", tmp_path],
        env=standalone.environ,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Spark does not answer at spark://" in done.stdout, done.stderr


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_program_of_spark_submit_has_its_master_and_settings(tmp_path: Path) -> None:
    (tmp_path / "inner.py").write_text(SUBMITTED)
    program = tmp_path / "program.py"  # as the page on Spark has it for the cluster mode
    program.write_text(
        "import subprocess, sys\nsubprocess.run([sys.executable, 'inner.py'], check=True)\n"
    )
    environ = environment_of(tmp_path)
    java = java_settings(os.environ, tmp_path / "java")
    variables = {**environ, **java, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [
            Path(environ["SPARK_HOME"], "bin/spark-submit"),
            *("--master", "local[1]", "--name", "mine", "--conf", "spark.ours.x=7"),
            program,
        ],
        cwd=tmp_path,
        env={key: value for key, value in variables.items() if value},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert "local[1] mine 7 [(3, -3), (4, -4)]" in done.stdout, done.stderr[-4_000:]
