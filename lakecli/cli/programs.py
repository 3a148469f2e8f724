"""Run programs of this machine: checks, hooks and jobs.

A command is split into words and run without a shell. Its words come from the command line or the
configuration file, never from a bucket.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final

from lakecli.cli.out.records import to_json
from lakecli.cli.out.text import human_seconds
from lakecli.errors import HookFailed, LakeError

_STDERR: Final = 2
_SECONDS_TO_END: Final = 5.0


def run_program(
    words: Sequence[str],
    environ: Mapping[str, str],
    failure: type[LakeError],
    what: str = "",
    *,
    timeout: timedelta | None = None,
    given: str | None = None,
    shows: bool = False,
    lock: Sequence[int] = (),
) -> int:
    """Run a program to its end, and return its exit code, or the negative number of a signal.

    Args:
        words: the program and its arguments.
        environ: the environment variables of the program.
        failure: the class of the error for a program that cannot be run or takes too long.
        what: a description of the program for errors, such as ``the hook pre-commit``; ``""`` if
            its name is enough.
        timeout: the time after which the program and all processes that it started are killed;
            ``None`` for no limit.
        given: the text of the program's standard input. With ``None``, the program inherits the
            standard input of this process or, if there is a timeout, gets an empty one.
        shows: whether the program writes to this process's standard output; otherwise its output
            goes to standard error.
        lock: file descriptors that the program inherits, so that a lock on them lasts until the
            program ends.
    """
    is_bounded = timeout is not None
    stdin = subprocess.DEVNULL if is_bounded else None
    try:
        process = subprocess.Popen(
            words,
            env=dict(environ),
            stdin=stdin if given is None else subprocess.PIPE,
            stdout=None if shows else _STDERR,
            start_new_session=is_bounded,
            pass_fds=lock,
            encoding="utf-8",
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise failure(
            f"cannot run {f'{what}, ' if what else ''}{words[0]!r}: {reason}",
            hint="name a program in PATH or by its path; for a shell: sh -c '...'",
        ) from None
    try:
        process.communicate(given, timeout=None if timeout is None else timeout.total_seconds())
    except subprocess.TimeoutExpired:
        assert timeout is not None
        raise failure(
            f"{what} took longer than {human_seconds(timeout.total_seconds())} and was ended",
            hint=f"allow it more time: `config set timeouts.{failure.kind} TIME`",
        ) from None
    finally:
        _end(process, is_group=is_bounded)
    return process.returncode


def _end(process: subprocess.Popen[str], *, is_group: bool) -> None:
    """Terminate, then kill, a program that still runs; with `is_group`, its process group, too."""
    if process.poll() is not None:
        return
    send = partial(os.killpg, process.pid) if is_group else process.send_signal
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            send(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_END)


def outcome_of(code: int) -> str:
    """Return how a program ended, for an error message: ``exited with 1``.

    Args:
        code: the exit code as `run_program` returns it.
    """
    return f"was ended by signal {-code}" if code < 0 else f"exited with {code}"


def hook_of(
    words: Sequence[str], environ: Mapping[str, str], timeout: timedelta, flush: Callable[[], None]
) -> Callable[[Mapping[str, Any]], None]:
    """Return a hook that runs a program, with the event as one line of JSON on standard input."""

    def hook(event: Mapping[str, Any]) -> None:
        name = event["hook"]
        flush()
        code = run_program(
            words,
            {**environ, "LAKECLI_HOOK": name},
            HookFailed,
            f"the hook {name}",
            timeout=timeout,
            given=to_json(event) + "\n",
        )
        if code:
            raise HookFailed(
                f"the hook {name} {outcome_of(code)}",
                hint="do what it asks; commit, merge, push, publish and run can leave hooks out: "
                "--no-verify",
            )

    return hook
