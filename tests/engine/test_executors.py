"""What the probe of executors says, and how long Spark may look for its master."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pytest

import lakecli
from lakecli.engine import executors
from lakecli.engine.executors import ExecutorProblem, NoLakecli, _check, _make_probe, _raise_lost
from lakecli.engine.session import addresses_of, check_master
from lakecli.errors import PermissionDenied, Unreachable

if TYPE_CHECKING:
    from pathlib import Path

LOST = (
    "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: "
    "Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 1): "
)


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (
            'java.io.IOException: Cannot run program "./env/bin/python": error=2, No such file',
            "executor 1 on 10.0.0.7 cannot run the Python at ./env/bin/python: No such file",
        ),
        (
            (
                "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than "
                "that in driver: 3.11, PySpark cannot run"
            ),
            "executor 1 on 10.0.0.7 has Python 3.9 instead of 3.11",
        ),
        (
            "ModuleNotFoundError: No module named 'pyspark.daemon'",
            "executor 1 on 10.0.0.7 lacks the Python module pyspark.daemon",
        ),
    ],
)
def test_a_lost_probe_names_executor_and_lack(told: str, says: str) -> None:
    with pytest.raises(NoLakecli) as caught:
        _raise_lost(RuntimeError(LOST + told))
    assert caught.value.message == says
    assert "spark.archives" in str(caught.value.hint)
    assert "spark.pyspark.python" in str(caught.value.hint)


def test_what_is_awaited_is_explained_by_the_cluster(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    assert executors._warning(log) == executors._warning(None) == ""
    started = "26/11/23 10:50:00 WARN NativeCodeLoader: Unable to load native-hadoop library\n"
    log.write_text(started + "26/11/23 10:50:01 WARN Utils: Set SPARK_LOCAL_IP\n")
    assert executors._warning(log) == ""
    warned = "26/11/23 10:50:16 WARN TaskSchedulerImpl: Initial job has not accepted any resources"
    log.write_text(warned + "\n" + started)
    assert executors._warning(log) == ": Initial job has not accepted any resources"


def test_an_unknown_loss_is_quoted() -> None:
    with pytest.raises(Unreachable, match=r"executor 1 on 10\.0\.0\.7 does not run Python"):
        _raise_lost(RuntimeError(LOST + "java.lang.Error: strange"))


def probed(stores: list[tuple[str, str]], version: str = lakecli.__version__) -> ExecutorProblem:
    ((*answer,),) = _make_probe(version, stores)([])
    return ExecutorProblem(*answer)


def test_the_probe_finds_nothing_missing(tmp_path: Path) -> None:
    assert probed([(f"local://{tmp_path}", "")]).lack == ""


def test_the_probe_compares_versions() -> None:
    finding = probed([], "9.9.9")
    assert finding.lack == f"has lakecli {lakecli.__version__} instead of 9.9.9"
    with pytest.raises(NoLakecli, match=r"instead of 9\.9\.9"):
        _check([finding])


def test_the_probe_reads_the_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = f"local://{tmp_path}/missing"
    finding = probed([(f"local://{tmp_path}", ""), (missing, "")])
    assert finding.store == missing
    with pytest.raises(PermissionDenied, match="cannot read the directory") as caught:
        _check([finding])
    assert "a file system that all executors have" in str(caught.value.hint)


@pytest.mark.parametrize(("scheme", "setting"), [
    ("s3", "spark.executorEnv.AWS_SECRET_ACCESS_KEY"),
    ("gs", "spark.executorEnv.GOOGLE_APPLICATION_CREDENTIALS"),
    ("az", "spark.executorEnv.AZURE_STORAGE_KEY"),
])  # fmt: skip
def test_missing_credentials_name_their_setting(scheme: str, setting: str) -> None:
    uri = f"{scheme}://bucket/ns"
    why = f"cannot read {uri}: no credentials"
    lacking = [
        ExecutorProblem("b", "1", "/w/1", why, uri),
        ExecutorProblem("a", "0", "/w/0", why, uri),
    ]
    with pytest.raises(PermissionDenied) as caught:
        _check([*lacking, ExecutorProblem("c", "2", "/w/2", "", "")])
    assert caught.value.message == (
        f"executor 0 on a cannot read {uri}: no credentials; 1 more executor cannot work either"
    )
    assert setting in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("spark://a:7077,b:7078", [("a", 7077), ("b", 7078)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("k8s://https://kubernetes.default.svc:443", [("kubernetes.default.svc", 443)]),
        ("k8s://https://kubernetes.default.svc", []),
        ("local[2]", []),
        ("yarn", []),
    ],
)
def test_addresses_of_a_master(text: str, found: list[tuple[str, int]]) -> None:
    assert addresses_of(text) == found


def test_a_master_that_does_not_answer_is_an_error_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        start = time.monotonic()
        with pytest.raises(Unreachable, match="no Spark master answers at spark://127"):
            check_master(f"spark://127.0.0.1:{taken.getsockname()[1]}")
    assert time.monotonic() - start < 10


def test_one_of_several_masters_suffices() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        ports = taken.getsockname()[1], server.getsockname()[1]
        check_master(f"spark://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}")


@pytest.mark.parametrize(
    ("present", "expected", "text"),
    [
        (0, 2, "waiting for executors: 0 of 2"),
        (1, 2, "waiting for executors: 1 of 2"),
        (0, None, "waiting for executors: 0 of at least 1"),
        (1, None, "waiting for 1 executor to begin"),
        (2, None, "waiting for 2 executors to begin"),
    ],
)
def test_what_is_awaited_is_said(present: int, expected: int | None, text: str) -> None:
    assert executors.describe_wait(present, expected) == text
