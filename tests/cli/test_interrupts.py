"""An interrupt ends a command with exit code 130, wherever it comes."""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from lakecli.cli import run
from lakecli.cli.exit_codes import ExitCode
from lakecli.errors import ConflictError, LakeError, is_interrupt
from lakecli.filesystem.files import WrittenFile
from lakecli.kv.sentinel import Sentinel
from lakecli.repository.transfer.parallel import Workers
from lakecli.repository.transfer.walk import HeldDirectory
from lakecli.repository.undo.interrupted import OwedAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.demo import Demo
    from tests.support.golden import Cli

MAIN = "lakefs://demo/main"
OURS = (str(Path(run.__file__).parents[1]), threading.__file__, contextlib.__file__)


@functools.cache
def with_lines(file: str) -> frozenset[int]:
    """Return the lines of a file's `with` statements."""
    tree = ast.parse(Path(file).read_bytes())
    statements = (node for node in ast.walk(tree) if isinstance(node, ast.With | ast.AsyncWith))
    return frozenset(
        line
        for node in statements
        for line in range(
            node.lineno, max(item.context_expr.end_lineno or 0 for item in node.items) + 1
        )
    )


class Interrupter:
    """Raises a `KeyboardInterrupt` at one line that the main thread comes to, and counts lines.

    Lines of `with` statements are passed over. A trace function is called for them again when the
    block has ended, before ``__exit__``: there Python itself handles no signal, and an exception
    would leave a lock taken for ever.

    The trace functions are kept while they may be called. In CPython 3.11 the event of a call
    allocates a frame, which may collect garbage; a trace function that raises in a destructor then
    is dropped, and the event goes on to call the freed object: "'traceback' object is not
    callable". No lakecli is needed for that.
    """

    def __init__(self, at: int = -1) -> None:
        self.at = at
        self.lines = 0
        self.where = ""
        self._kept = (self.trace, self._in_frame)

    def _in_frame(self, frame: Any, event: str, _argument: object) -> Any:
        if event == "line" and frame.f_lineno not in with_lines(frame.f_code.co_filename):
            self.lines += 1
            if self.lines == self.at:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self._kept[1]

    def trace(self, frame: Any, _event: str, _argument: object) -> Any:
        name = frame.f_code.co_filename
        return self._kept[1] if name.startswith(OURS) else None

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._kept[0])
        return self

    def __exit__(self, *_error: object) -> None:
        sys.settrace(self._before)


def ignore_interrupt(unraisable: Any, report: Callable[[Any], object]) -> None:
    """Report what a destructor could not raise, unless it is an interrupt."""
    if unraisable.exc_type is not KeyboardInterrupt:
        report(unraisable)


def upload(cli: Cli, source: Path, at: int = -1) -> tuple[int, Interrupter, str]:
    with Interrupter(at) as interrupter:
        try:
            result = cli("fs", "upload", "-r", source, f"{MAIN}/data/")
        except KeyboardInterrupt:  # `main` turns it into an exit code where `run` is over
            return ExitCode.INTERRUPTED, interrupter, ""
    return result.exit_code, interrupter, result.stderr


def check_points(demo: Demo, source: Path, count: int) -> None:
    """Interrupt in a generator: an interrupt in a handler can leave its exception as handled.

    A generator has its own state for handled exceptions (CPython), so that no later test meets it.
    """
    next(interrupted(demo, source, count))


def interrupted(demo: Demo, source: Path, count: int) -> Iterator[None]:
    cli = demo.cli
    (source / "0").mkdir(parents=True)
    for name in ("a", "b", "c"):
        (source / "0" / name).write_bytes(os.urandom(100))
    code, counted, _ = upload(cli, source)
    assert code == 0
    assert counted.lines > 500
    wrong = []
    for at in range(1, counted.lines, max(1, counted.lines // count)):
        (source / "0" / "a").write_bytes(os.urandom(100))  # so that there is something to do
        code, interrupter, stderr = upload(cli, source, at)
        # Where a destructor or a callback swallows it, the command goes on to its end. Where the
        # lock of a condition hides it, the handler of a real signal has noted it.
        hidden = "cannot release un-acquired lock" in stderr
        if code not in (ExitCode.INTERRUPTED, ExitCode.OK) and not hidden:
            wrong.append((at, interrupter.where, code, stderr))
    assert wrong == []
    assert upload(cli, source)[0] == 0
    cli.ok("fsck", "lakefs://demo", "--data")
    yield


@pytest.fixture
def _interrupted_destructors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let interrupts come in destructors, where Python only reports them."""
    hook = functools.partial(ignore_interrupt, report=sys.unraisablehook)
    monkeypatch.setattr(sys, "unraisablehook", hook)


@pytest.mark.usefixtures("_interrupted_destructors")
def test_an_upload_interrupted_anywhere_exits_with_130(demo: Demo, tmp_path: Path) -> None:
    check_points(demo, tmp_path / "source", 100)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.usefixtures("_interrupted_destructors")
def test_an_upload_interrupted_at_every_line_exits_with_130(demo: Demo, tmp_path: Path) -> None:
    check_points(demo, tmp_path / "source", 20_000)


def test_other_errors_of_destructors_are_reported() -> None:
    class Failed:
        exc_type: type[BaseException] = KeyboardInterrupt

    reported: list[object] = []
    failed = Failed()
    ignore_interrupt(failed, reported.append)
    assert not reported
    failed.exc_type = OSError
    ignore_interrupt(failed, reported.append)
    assert reported == [failed]


@pytest.mark.parametrize("kind", [Sentinel, OwedAnswer, WrittenFile, HeldDirectory])
def test_a_destructor_is_silent_where_an_interrupt_came_before_the_constructor(
    kind: type[object], monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    kind.__new__(kind)
    assert (unraisable, list(recwarn)) == ([], [])


class Garbage:
    """What is collected while the event of a call allocates a frame."""

    def __init__(self) -> None:
        self.itself = self
        weakref.finalize(self, called)


def called() -> None:
    pass


def collect_before_a_call() -> None:
    Garbage()
    _ = (gc.enable(), called())  # type: ignore[func-returns-value]


def test_an_interrupt_in_a_destructor_leaves_the_trace_functions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "OURS", (__file__,))
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: unraisable.append(each.exc_traceback))
    threshold = gc.get_threshold()
    gc.collect()
    try:
        for at in range(1, 12):
            gc.disable()
            gc.set_threshold(1)
            with contextlib.suppress(KeyboardInterrupt), Interrupter(at):
                collect_before_a_call()
    finally:
        gc.set_threshold(*threshold)
        gc.enable()
    assert unraisable or sys.version_info >= (3, 12)  # where only the interpreter loop collects


def test_an_interrupt_within_a_lock_exits_with_130(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when it comes between two instructions of `Condition.wait`, which then holds no lock."""

    def wait() -> int:
        condition = threading.Condition()
        release = condition._release_save  # type: ignore[attr-defined]

        def release_and_interrupt() -> object:
            release()
            raise KeyboardInterrupt

        condition._release_save = release_and_interrupt  # type: ignore[attr-defined]
        with condition:
            condition.wait(1)
        return 0

    with pytest.raises(RuntimeError, match="un-acquired lock") as caught:
        wait()
    assert is_interrupt(caught.value)
    monkeypatch.setattr(run, "run_within", lambda *_: wait())
    result = cli("version")
    assert (result.exit_code, result.stderr) == (ExitCode.INTERRUPTED, "error: interrupted\n")


def test_an_interrupt_precedes_errors_of_workers() -> None:
    failed = threading.Event()
    both = threading.Barrier(2)

    def work(item: int) -> None:
        both.wait(10)
        if threading.current_thread() is threading.main_thread():
            failed.wait(10)
            raise KeyboardInterrupt
        failed.set()
        raise ConflictError("another one")

    with pytest.raises(KeyboardInterrupt):
        Workers(2).for_each(range(2), work)


def test_other_errors_are_not_interrupts() -> None:
    error = LakeError("x")
    error.__context__ = ValueError()
    error.__cause__ = error  # a chain may even be a circle
    assert not is_interrupt(error)


INTERRUPTED_AND_CONVERTED = """
import os, signal, sys
from lakecli.cli import app, run

def command(argv, world, given):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000): pass
    except KeyboardInterrupt:
        pass
    raise {error}  # as what is written in C does that knows no interrupts

run.run_within = command
sys.argv = ["lakecli", "version"]
app.main()
"""


@pytest.mark.parametrize(
    ("error", "code"),
    [("SystemError('x')", ExitCode.INTERRUPTED), ("run.LakeError('x')", ExitCode.INTERRUPTED)],
)
def test_a_converted_interrupt_is_still_an_interrupt(cli: Cli, error: str, code: int) -> None:
    script = INTERRUPTED_AND_CONVERTED.format(error=error)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (code, b"error: interrupted\n")


def broken_pipe() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["fs", "stat", f"{MAIN}/none"], ExitCode.NOT_FOUND),
        (["fs", "stat", f"{MAIN}/none", "--json"], ExitCode.NOT_FOUND),
        (["nonsense"], ExitCode.USAGE),
        (["repo", "delete", "lakefs://demo", "-y"], ExitCode.OK),  # with a note
        (["branch", "list", "lakefs://demo", "--verbose"], ExitCode.OK),
    ],
)
def test_a_closed_stderr_changes_nothing(demo: Demo, argv: list[str], code: int) -> None:
    writer = broken_pipe()
    done = subprocess.run(
        [sys.executable, "-m", "lakecli", *argv], stdout=subprocess.PIPE, stderr=writer, check=False
    )
    os.close(writer)
    assert done.returncode == code
    if argv[0] == "repo":
        assert demo.cli.ok("repo", "list", "--json").stdout == ""


def test_two_closed_streams_end_the_command_quietly(demo: Demo) -> None:
    writer = broken_pipe()
    done = subprocess.run(
        [sys.executable, "-m", "lakecli", "config", "list"],
        stdout=writer,
        stderr=writer,
        check=False,
    )
    os.close(writer)
    assert done.returncode == ExitCode.BROKEN_PIPE
