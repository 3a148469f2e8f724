from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakecli.committed.tree_store import MissingTable
from lakecli.engine.executors import NoLakecli
from lakecli.engine.runner import LocalRunner
from lakecli.engine.session import gist, with_attempts
from lakecli.engine.spark_runner import SparkRunner, raise_translated
from lakecli.errors import ConflictError, LakeError, Unreachable
from tests.engine import tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakecli.engine.runner import Runner

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(params=["local", "threads", "spark"])
def runner(request: pytest.FixtureRequest) -> Runner:
    if request.param == "spark":
        found: SparkRunner = request.getfixturevalue("spark_runner")
        return found
    return LocalRunner(parallelism=4 if request.param == "threads" else 1)


def test_every_part_returns_its_result(runner: Runner) -> None:
    assert sorted(runner.run(tasks.square, range(50))) == [(n, n * n) for n in range(50)]


def test_no_parts(runner: Runner) -> None:
    assert list(runner.run(tasks.square, [])) == []


def test_an_error_of_a_part_is_raised(runner: Runner) -> None:
    with pytest.raises(ConflictError) as caught:
        list(runner.run(tasks.refuse_seven, range(20)))
    assert caught.value.message == "seven"
    assert caught.value.hint == "take another"
    assert caught.value.paths == (b"a\xff", b"b")


def test_an_error_keeps_its_class_whatever_its_arguments(runner: Runner) -> None:
    with pytest.raises(MissingTable, match=r"missing from local:///nowhere: _lakefs/x") as caught:
        list(runner.run(tasks.miss, ["_lakefs/x"]))
    assert "`fsck REPOSITORY`" in str(caught.value.hint)


def test_parts_are_taken_as_runners_become_free(runner: Runner) -> None:
    taken = 0

    def parts() -> Iterator[int]:
        nonlocal taken
        for taken in range(1_000):  # noqa: B007
            yield 1_000

    results = runner.run(tasks.large, parts())
    next(results)
    assert taken < 100
    results.close()  # type: ignore[attr-defined]


def test_an_unexpected_error_takes_one_line(spark_runner: SparkRunner) -> None:
    with pytest.raises(LakeError, match=r"^Spark failed: ZeroDivisionError: division by zero$"):
        list(spark_runner.run(tasks.divide, [1, 0]))


def test_a_part_runs_again_after_its_executor_died(
    spark_runner: SparkRunner, tmp_path: Path
) -> None:
    ((_, pid),) = spark_runner.run(tasks.die_once, [str(tmp_path / "died")])
    assert pid != os.getpid()


def test_dead_executors_are_reported(spark_runner: SparkRunner) -> None:
    with pytest.raises(Unreachable, match="executors died in all attempts"):
        list(spark_runner.run(tasks.die, [1]))


def test_stopping_cancels_running_jobs(spark_runner: SparkRunner, tmp_path: Path) -> None:
    parts = [(str(tmp_path / "quick"), 0.0), *[(str(tmp_path / f"{n}"), 60.0) for n in range(30)]]

    has_ended = threading.Event()

    def interrupt() -> None:
        while not list(tmp_path.glob("*.begun")):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)
        if not has_ended.wait(20):  # Python drops an interrupt that comes inside a destructor
            os.kill(os.getpid(), signal.SIGINT)

    start = time.monotonic()
    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        list(spark_runner.run(tasks.nap, parts))
    has_ended.set()
    assert time.monotonic() - start < 30
    assert list(tmp_path.glob("*.begun"))
    assert [path.name for path in tmp_path.glob("*.ended")] in ([], ["quick.ended"])


def test_a_given_session_stays_open(spark: Any) -> None:
    SparkRunner(spark).close()
    with SparkRunner(environ=os.environ) as runner:  # finds the one that is active
        assert runner.session.sparkContext is spark.sparkContext
    assert spark.sparkContext.parallelize([1, 2]).sum() == 3


def test_the_interrupt_handler_is_restored(spark: Any) -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_executors_run_the_same_python(spark: Any) -> None:
    assert spark.sparkContext.pythonExec == sys.executable
    assert "PYSPARK_PYTHON" not in os.environ


@pytest.mark.parametrize(
    ("master", "becomes"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[3]", "local[3,4]"),
        ("local[3,9]", "local[3,9]"),
        ("local-cluster[2,1,512]", "local-cluster[2,1,512]"),
        ("spark://host:7077", "spark://host:7077"),
        ("yarn", "yarn"),
    ],
)
def test_embedded_spark_retries_parts_as_a_cluster_does(master: str, becomes: str) -> None:
    assert with_attempts(master) == becomes


def test_a_java_exception_takes_one_line() -> None:
    told = "An error occurred while calling o1.x.\n: java.lang.Foo: not so\n\tat org.apache"
    assert gist(told) == "not so"
    assert gist("\n") == "no reason given"


def test_executors_without_lakecli_are_reported() -> None:
    told = RuntimeError("…\nModuleNotFoundError: No module named 'lakecli'\n\tat org.apache…")
    with pytest.raises(NoLakecli, match="lacks the Python module lakecli") as caught:
        raise_translated(told)
    assert "spark.archives" in str(caught.value.hint)


BARE_PYTHON = """
import os, sys
from pathlib import Path
from lakecli.errors import LakeError
from lakecli.engine.spark_runner import SparkRunner

with SparkRunner(
    master="local[1]", conf=dict(pair.split("=", 1) for pair in sys.argv[2:]),
    environ=os.environ, cache=Path(sys.argv[1]), quick_start=True,
) as runner:
    try:
        from tests.engine import tasks
        print(sorted(runner.run(tasks.square, [3, 4])))
    except LakeError as error:
        print(type(error).__name__, error)
"""


@pytest.mark.nightly
def test_packages_alone_suffice_without_java(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    # Everything that Spark's scripts call, but no Java.
    for name in ("bash", "sh", "dirname", "ls", "uname", "rm", "ps", "cat", "nice", "sed", "env"):
        found = shutil.which(name)
        if found is not None:
            (tools / name).symlink_to(found)
    environ = {**os.environ, "PATH": str(tools), "PYTHONPATH": os.getcwd()}  # noqa: PTH109
    environ.pop("JAVA_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", BARE_PYTHON, str(tmp_path / "cache")],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    log = tmp_path / "cache" / "spark.log"
    assert done.stdout == "[(3, 9), (4, 16)]\n", done.stderr + log.read_text("utf-8")
    assert done.stderr == ""
    assert (tmp_path / "cache/java/bin/java").exists()
