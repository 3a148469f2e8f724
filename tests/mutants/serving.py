"""Import lakecli and collect the tests of a suite once, then run tests in forks, one per request.

    python -m tests.mutants.serving OUTPUT PYTEST-ARGUMENT...

The first line on stdout is a JSON list of the names of the tests, ``null`` if collecting failed.
After that, stdin has one request a line, as a JSON object, and stdout one answer:

- With ``traced``, a fork runs all `tests`, and records which lines of the traced files each runs.
- Otherwise, a fork replaces the functions of the file `path` by those of the mutant `after`, and
  runs `tests` in that order, up to the first that fails or takes longer than its number of seconds
  in `limits`.

An answer is the exit code of the fork, ``null`` after a timeout, and what the fork wrote to the
file `result`. The output of pytest goes to the file OUTPUT.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import lakecli
from tests.mutants.forking import FAILED_TO_RUN, accept_slow_tests, run_in_fork
from tests.mutants.hot import loaded_functions, put_in, replacements

if TYPE_CHECKING:
    from types import FrameType, FunctionType
    from typing import TextIO

LEFT_OUT = ("lakecli.spark", "lakecli.filesystem.iceberg")
"""Packages that import too much."""

TRACED_STEPS = 20_000
"""Lines traced in one call, at most. Tracing a longer loop would take minutes, and tests that bound
the processor time of a loop would fail."""


STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"})
"""Python's audit events that start a process."""


class Server(NamedTuple):
    """A plugin of pytest that answers requests instead of running the collected tests.

    Attributes:
        requests: the stream of requests.
        replies: the stream of answers.
        output: the file for the output of pytest.
    """

    requests: TextIO
    replies: TextIO
    output: Path

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        self._reply(None if session.testsfailed else list(items))
        import_all()
        functions = loaded_functions(str(Path(lakecli.__file__).parent))
        gc.freeze()
        for line in self.requests:
            request = json.loads(line)
            result = Path(request["result"])
            result.unlink(missing_ok=True)

            def act(request: dict[str, Any] = request) -> int:
                return answer(session, items, functions, request)

            code = run_in_fork(act, request["seconds"], self.output)
            self._reply([code, json.loads(result.read_text()) if result.exists() else None])
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            print(f"\n{report.nodeid}\n{report.longrepr}", flush=True)

    def _reply(self, what: object) -> None:
        self.replies.write(json.dumps(what) + "\n")
        self.replies.flush()


def import_all() -> None:
    for each in pkgutil.walk_packages(lakecli.__path__, "lakecli."):
        if not each.name.startswith(LEFT_OUT) and not each.name.endswith("__main__"):
            importlib.import_module(each.name)


def answer(
    session: pytest.Session,
    items: dict[str, Any],
    functions: dict[str, list[FunctionType]],
    request: dict[str, Any],
) -> int:
    """Carry out a request in a fork; return 0 if all tests passed, 1 if not."""
    tests = [items[each] for each in request["tests"]]
    result = Path(request["result"])
    if "traced" in request:
        tracer = Tracer(frozenset(request["traced"]))
        used = {}
        for test, after in zip(tests, [*tests[1:], None], strict=True):
            begun = time.monotonic()
            with tracer:
                test.config.hook.pytest_runtest_protocol(item=test, nextitem=after)
            used[test.nodeid] = [time.monotonic() - begun, *tracer.taken()]
        result.write_text(json.dumps(used))
        return int(session.testsfailed > 0)
    codes = replacements(request["path"], request["before"], request["after"])
    if not codes:
        return FAILED_TO_RUN
    put_in(functions[request["path"]], codes)
    following = [*tests[1:], None]
    for test, after, limit in zip(tests, following, request["limits"], strict=True):
        result.write_text(json.dumps(test.nodeid))
        # Ends the process, with exit code 1, even in a loop that never releases the interpreter.
        faulthandler.dump_traceback_later(limit, exit=True, file=2)
        test.config.hook.pytest_runtest_protocol(item=test, nextitem=after)
        if session.testsfailed:
            return 1
    faulthandler.cancel_dump_traceback_later()
    result.unlink()
    return 0


_settrace, _tracing = sys.settrace, threading.Lock()


def one_by_one(trace: Any) -> None:
    """Do as `sys.settrace`, which fails in a thread while it runs in another one."""
    with _tracing:
        _settrace(trace)


class Tracer:
    """Record which lines of some files run, in every thread, and whether a process is started.

    Args:
        paths: of the files.
    """

    def __init__(self, paths: frozenset[str]) -> None:
        self._paths = paths
        self._lines: set[tuple[str, int]] = set()
        self._starts_process = False
        sys.addaudithook(self._audit)
        sys.settrace = one_by_one  # `threading` calls it in each new thread

    def __enter__(self) -> None:
        threading.settrace(self._call)
        one_by_one(self._call)

    def __exit__(self, *_: object) -> None:
        one_by_one(None)
        threading.settrace(None)

    def taken(self) -> tuple[list[tuple[str, int]], bool]:
        """Return the recorded lines, and whether a process was started; forget both."""
        lines, self._lines = self._lines, set()
        starts_process, self._starts_process = self._starts_process, False
        return sorted(lines), starts_process

    def _audit(self, event: str, _arguments: object) -> None:
        self._starts_process |= event in STARTS

    def _call(self, frame: FrameType, _event: str, _value: object) -> Any:
        path = frame.f_code.co_filename
        if path not in self._paths:
            return None
        steps = 0

        def trace_line(frame: FrameType, _event: str, _value: object) -> Any:
            nonlocal steps
            steps += 1
            self._lines.add((path, frame.f_lineno))
            frame.f_trace_lines = steps < TRACED_STEPS
            return trace_line

        return trace_line(frame, "", None)


def main() -> None:
    output, *arguments = sys.argv[1:]
    requests, replies = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDONLY)
    said = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for source, target in ((nothing, 0), (said, 1), (said, 2)):
        os.dup2(source, target)
    accept_slow_tests()
    code = pytest.main(arguments, plugins=[Server(requests, replies, Path(output))])
    if code == pytest.ExitCode.INTERRUPTED:  # the output lists what could not be collected
        replies.write("null\n")
        replies.flush()


if __name__ == "__main__":
    main()
