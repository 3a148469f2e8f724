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


def wait(process: int, seconds: float) -> int | None:
    """Return the exit code of a child, or None when it does not end in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    return None


def run(arguments: list[str], seconds: float, output: Path) -> int | None:
    """Run pytest in a fork; whatever it started ends with it."""
    process = os.fork()
    if process == 0:
        os.setsid()
        with output.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        code: int = 99
        try:
            code = int(importlib.import_module("pytest").main(arguments))
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


def main() -> None:
    for name in LIBRARIES:
        importlib.import_module(name)
    assert not any(name.partition(".")[0] == "lakecli" for name in sys.modules)
    for line in sys.stdin:
        request = json.loads(line)
        code = run(request["arguments"], request["seconds"], Path(request["output"]))
        sys.stdout.write(json.dumps(code) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
