"""Run pytest again and again, each time in a fork of an interpreter with the libraries imported.

Nothing of lakecli or its tests may be imported here: the fork has to find the mutant.
A line of JSON on stdin says what to run; a line on stdout says how it went.
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
    "platformdirs",
    "pathspec",
    "tomlkit",
    "typer",
    "rich.progress",
)

FAILED_TO_RUN = 99
"""The exit code of a fork in which something else than a test went wrong."""


def wait(process: int, seconds: float) -> int | None:
    """Return the exit code of a child, or None when it does not end in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    return None


def run_in_fork(act: Callable[[], int], seconds: float, output: Path) -> int | None:
    """Do something in a fork; whatever it started ends with it.

    Returns:
        What `act` returned; ``None`` if it did not end in time.
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
        except BaseException:  # noqa: BLE001  # said where the parent reads it
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    code_found = wait(process, seconds)
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    if code_found is None:
        os.waitpid(process, 0)
    return code_found


def slow_is_no_failure() -> None:
    """Let Hypothesis report no test as failed because it is slow: no mutant did that."""
    hypothesis = importlib.import_module("hypothesis")
    suppressed = list(hypothesis.HealthCheck)
    hypothesis.settings.register_profile(
        "mutants", deadline=None, database=None, suppress_health_check=suppressed
    )
    hypothesis.settings.load_profile("mutants")


def main() -> None:
    for name in LIBRARIES:
        importlib.import_module(name)
    slow_is_no_failure()
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
