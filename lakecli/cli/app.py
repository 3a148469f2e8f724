"""The entry point: connects `lakecli.cli.run` to the streams and signals of this process."""

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from signal import ITIMER_REAL, SIGALRM, SIGINT, default_int_handler, getsignal, setitimer, signal

_GARBAGE_THRESHOLD = 50_000
"""The number of new objects after which Python's garbage collector runs; the default is 700."""

_INTERRUPTED_CODE = 130
"""The value of `ExitCode.INTERRUPTED`, repeated here because an interrupt may stop an import."""


def main() -> None:
    """Run the command line of this process, and exit."""
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode and sys.executable:
        # Paths and arguments are stored and shown as UTF-8. In another locale Python decodes them
        # differently, and a running process cannot change its encoding.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606
    # Objects created at start-up, such as modules, are never garbage. Scanning them for garbage
    # takes a tenth of the start-up time, and again each time the command has allocated some hundred
    # objects.
    gc.disable()
    gc.set_threshold(_GARBAGE_THRESHOLD)
    ended: list[int] = []
    atexit.register(_leave, ended)  # the first registered function runs last, after all threads
    try:
        code = _run_process(sys.argv[1:])
    except KeyboardInterrupt:  # raised while an interrupt was reported, or streams were closed
        code = _INTERRUPTED_CODE
    ended.append(code)
    sys.exit(code)


def _leave(ended: Sequence[int]) -> None:
    """End the process with its exit code, after all other functions that run at exit.

    Python's finalization of modules, which takes a tenth of the start-up time, is skipped.

    Args:
        ended: the exit code as the only item; empty if `main` raised an exception.
    """
    if ended:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # `ValueError`: the stream is closed
                stream.flush()
        os._exit(ended[0])


def _run_process(argv: Sequence[str]) -> int:
    """Run one command line with the streams of this process."""
    for name in ("stdin", "stdout", "stderr"):
        # A stream that was closed before the start is None.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r+", encoding="utf-8"))  # noqa: PTH123, SIM115
        else:
            # A program that shares the pipe or terminal may have made it non-blocking. Python then
            # takes a pause of the writer for the end, and does not write what finds no room.
            with suppress(OSError, ValueError):
                os.set_blocking(getattr(sys, name).fileno(), True)
    if argv[:1] == ["__complete"]:
        from lakecli.cli.manual import complete

        signal(SIGALRM, lambda *_: os._exit(0))
        setitimer(ITIMER_REAL, complete.DEADLINE)
        complete.main(argv[1:], os.environ, sys.stdout)
        return 0
    # Imported here, because `main` has switched the garbage collector off by now.
    from lakecli.cli.context import Environment
    from lakecli.cli.out.output import Guarded
    from lakecli.cli.run import run

    # Paths are bytes: surrogates, which stand for bytes that are not UTF-8, are written as bytes.
    # Answers to questions may have such bytes, too.
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    interrupts = _note_interrupts()
    environ = dict(os.environ)  # what programs get that are run
    environment = Environment(environ, sys.stdin, sys.stdout, sys.stderr, interrupts=interrupts)
    # Arrow imports NumPy, whose OpenBLAS would start a thread for each core that waits busily.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Messages of Python and of libraries on stderr may quote data, too.
    sys.stderr = Guarded(environment.stderr)
    code = run(argv, environment)
    for stream in (environment.stdout, environment.stderr):
        try:
            stream.flush()
        except OSError:
            # The error was already reported. The interpreter flushes again at exit, and would
            # report it once more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def _note_interrupts() -> list[None]:
    """Return a list that grows by one item per interrupt, even if code swallows the exception."""
    came: list[None] = []

    def note(_number: int, _frame: object) -> None:
        came.append(None)
        raise KeyboardInterrupt

    if getsignal(SIGINT) is default_int_handler:
        signal(SIGINT, note)
    return came
