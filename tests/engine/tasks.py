"""Tasks for runners in tests: module-level functions, as executors import them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from lakecli.committed.tree_store import MissingTable
from lakecli.errors import ConflictError


def square(number: int) -> int:
    return number * number


def refuse_seven(number: int) -> int:
    if number == 7:
        raise ConflictError("seven", hint="take another", paths=[b"a\xff", b"b"])
    return number


def miss(name: str) -> str:
    raise MissingTable(name, "local:///nowhere")


def divide(number: int) -> float:
    return 1 / number


def die_once(marker: str) -> int:
    """Kill the executor's process the first time, and return its ID the second."""
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return os.getpid()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def die(_part: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def nap(part: tuple[str, float]) -> str:
    """Record the beginning, sleep, and record the end."""
    path, seconds = part
    Path(path + ".begun").touch()
    time.sleep(seconds)
    Path(path + ".ended").touch()
    return path


def large(size: int) -> bytes:
    return b"x" * size
