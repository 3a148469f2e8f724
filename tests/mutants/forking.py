"""Run pytest repeatedly, each time in a fork of a process that has imported only the libraries.

The process must not import lakecli or its tests: each fork imports them anew, and so the mutant.
It reads one JSON object a line from stdin, ``{"arguments", "seconds", "output"}``, and writes
pytest's exit code to stdout as JSON, ``null`` after a timeout.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LIBRARIES = (
    "pytest",
    "hypothesis.stateful",
    "boto3",
    "botocore.session",
    "s3transfer",
    "lmdb",
    "blake3",
    "cramjam",
    "google_crc32c",
    "pathspec",
    "tomlkit",
    "typer",
    "rich.progress",
)

FAILED_TO_RUN = 99
"""The exit code of a fork that raised an exception outside of the tests."""


def wait(process: int, seconds: float) -> int | None:
    """Return the exit code of a child process, or ``None`` if it does not end in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    return None


def run_in_fork(act: Callable[[], int], seconds: float, output: Path) -> int | None:
    """Call `act` in a fork, and then kill the fork's process group.

    Args:
        act: returns the exit code of the fork.
        seconds: how long the fork may run.
        output: the file that receives the standard output and error of the fork.

    Returns:
        The exit code; ``None`` if the fork did not end in time.
    """
    process = os.fork()
    if process == 0:
        os.setsid()
        with output.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        code = FAILED_TO_RUN
        try:
            code = act()
        except BaseException:  # noqa: BLE001  # the parent reads the traceback in `output`
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    exit_code = wait(process, seconds)
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    if exit_code is None:
        os.waitpid(process, 0)
    return exit_code


def accept_slow_tests() -> None:
    """Disable Hypothesis's limits of time: a test that fails on one would count as a kill.

    Nor does it look for a smaller example once a test has failed: any failure kills.
    """
    hypothesis = importlib.import_module("hypothesis")
    hypothesis.settings.register_profile(
        "mutants",
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        report_multiple_bugs=False,
    )
    hypothesis.settings.load_profile("mutants")


def main() -> None:
    for name in LIBRARIES:
        importlib.import_module(name)
    accept_slow_tests()
    assert not any(name.partition(".")[0] == "lakecli" for name in sys.modules)
    for line in sys.stdin:
        request = json.loads(line)

        def act(arguments: list[str] = request["arguments"]) -> int:
            return int(importlib.import_module("pytest").main(arguments))

        code = run_in_fork(act, request["seconds"], Path(request["output"]))
        sys.stdout.write(json.dumps(code) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
