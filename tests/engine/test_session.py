"""Errors when Spark does not start, interrupts while Java starts, and the log of Py4J."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakecli.engine.session import _last_words, _uninterrupted

if TYPE_CHECKING:
    from collections.abc import Iterator

SLEEPS = (sys.executable, "-c", "import time; time.sleep(60)")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEPS) as started:
        yield started
        started.kill()


def test_an_interrupt_waits_for_java_and_ends_it(process: subprocess.Popen[bytes]) -> None:
    before = signal.getsignal(signal.SIGINT)
    steps = []

    def start() -> None:
        with _uninterrupted() as started:
            signal.raise_signal(signal.SIGINT)
            steps.append("answered")
            started.append(process)

    with pytest.raises(KeyboardInterrupt):
        start()
    assert steps == ["answered"]
    assert process.poll() is not None
    assert signal.getsignal(signal.SIGINT) == before


def test_a_second_interrupt_does_not_wait() -> None:
    def start() -> None:
        with _uninterrupted():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("it waited")

    with pytest.raises(KeyboardInterrupt):
        start()


def test_without_an_interrupt_java_keeps_running(process: subprocess.Popen[bytes]) -> None:
    with _uninterrupted() as started:
        started.append(process)
    assert process.poll() is None


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (("WARNING: Using incubator modules\n"
         "26/03/01 12:00:00 WARN Utils: Set SPARK_LOCAL_IP if you need to\n"
         'Exception in thread "main" org.apache.spark.SparkException: Master must be local\n'
         "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)\n"),
         "Master must be local"),
        ("Invalid maximum heap size: -Xmxlots\nError: Could not create the Java Virtual Machine.\n",
         "Invalid maximum heap size: -Xmxlots"),
        ("", "Java exited without a message"),
    ],
)  # fmt: skip
def test_the_log_says_why_spark_did_not_start(log: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "spark.log"
    file.write_text(log)
    assert _last_words(file) == why


def test_tracebacks_of_py4j_are_not_shown() -> None:
    program = (
        "import logging; from lakecli.cli.commands.engine import silence_py4j; silence_py4j();"
        "logging.exception('Exception while sending command.')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
