"""One run: find the command, build it, run it, and turn whatever happens into an exit code.

This is the one error boundary. Commands and the library raise; here it is said on stderr, as
``error: …`` and ``hint: …`` or with ``--json`` as one JSON object, and becomes an exit code.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from lakecli.cli.argv import Globals, normalise, split
from lakecli.cli.context import Context, Environment
from lakecli.cli.output import Guarded
from lakecli.cli.tree import COMMANDS, GROUPS, PROGRAM, find_command, is_prefix
from lakecli.errors import ErrorKind, LakeError, UsageError, is_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lakecli.cli.build import Built
    from lakecli.cli.output import Output
    from lakecli.cli.topics import Topic

_GARBAGE_THRESHOLD = 50_000
"""Objects that a command may make before garbage is looked for; the interpreter's own is 700."""

INTERRUPTED = "interrupted"
"""What an error is called in JSON that is the user's own doing."""

_INTERRUPTED_CODE = 130
"""`ExitCode.INTERRUPTED`, where nothing can be imported any more."""


def main() -> None:
    """Run the command line of this process, and exit."""
    # What start-up makes, stays; looking through it for garbage costs a tenth of the start, and
    # as much again as soon as the command makes some hundred objects of its own.
    gc.disable()
    gc.set_threshold(_GARBAGE_THRESHOLD)
    try:
        code = _run_process(sys.argv[1:])
    except KeyboardInterrupt:  # while it was being told, or while streams were closed
        code = _INTERRUPTED_CODE
    # Nothing is worth collecting any more; the interpreter would, for as long as it starts.
    gc.freeze()
    sys.exit(code)


def _run_process(argv: Sequence[str]) -> int:
    """Run one command line on the streams of this process."""
    for name in ("stdin", "stdout", "stderr"):
        # A stream that was closed before we started is none.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r+", encoding="utf-8"))  # noqa: PTH123, SIM115
    if argv[:1] == ["__complete"]:
        from lakecli.cli import complete

        complete.main(argv[1:], os.environ, sys.stdout)
        return 0
    # Paths are bytes: what is not UTF-8 came in as surrogates, and goes out as it came.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    interrupts = _note_interrupts()
    environment = Environment(os.environ, sys.stdin, sys.stdout, sys.stderr, interrupts=interrupts)
    # What Python itself and the libraries below say on stderr may quote data, too.
    sys.stderr = Guarded(environment.stderr)
    code = run(argv, environment)
    for stream in (environment.stdout, environment.stderr):
        try:
            stream.flush()
        except OSError:
            # It was told already. The interpreter flushes once more at its end, and would complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def _note_interrupts() -> list[None]:
    """Return a list that gets an item for each interrupt, whatever becomes of the exception."""
    import signal

    came: list[None] = []

    def note(_number: int, _frame: object) -> None:
        came.append(None)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, note)
    return came


def run(argv: Sequence[str], environment: Environment) -> int:
    """Run one command line and return its exit code; whatever was raised has been told."""
    given = Globals()
    try:
        return run_within(argv, environment, given)
    except BaseException as error:  # noqa: BLE001 - the one boundary
        return _report(
            error, Context(environment, given, argv), interrupted=bool(environment.interrupts)
        )


def run_within(argv: Sequence[str], environment: Environment, given: Globals) -> int:
    """Run one command line and return its exit code; whatever it raises is the caller's.

    Args:
        argv: the command line without the program's name.
        environment: what it touches.
        given: takes its global options.
    """
    action = _parse(argv, given)
    context = Context(environment, given, argv, run_within=run_within)
    try:
        if given.verbose:
            _log_to(context.out)
        gc.enable()
        code = action(context)
        context.finish()
        context.out.flush()
    finally:
        context.close()
    return code


def _parse(argv: Sequence[str], given: Globals) -> Callable[[Context], int]:
    """Find out what is asked for.

    Raises:
        UsageError: the line makes no sense; the global options on it were taken all the same.
    """
    topic: Topic | None = None
    words, rest = split(argv, given, is_prefix=is_prefix)
    if not words and rest[:1] == ["help"]:
        given.help = True
        words, rest = split(rest[1:], given, is_prefix=is_prefix)
        topic = _find_topic(words, rest, given)
        if topic is not None and not words:
            return lambda context: _show_help(context, (), topic)
    if given.version:
        words, rest = ("version",), []
    joined = " ".join(words)
    if joined not in COMMANDS:
        if not rest and (given.help or not words):
            return lambda context: _show_group(context, joined, topic)
        normalise(rest, given, ())
        find_command(words, rest[0] if rest else None)
    from lakecli.cli.build import build

    built = build(COMMANDS[joined].load(), joined)
    arguments = normalise(rest, given, built.option_syntax())
    if given.help:
        return lambda context: _show_command(context, built, topic)
    if given.problem is not None:
        raise given.problem
    return lambda context: built.run(context, arguments)


def _find_topic(words: Sequence[str], rest: list[str], given: Globals) -> Topic | None:
    """Return the topic that ``help`` names; a command or a group may have the same name."""
    from lakecli.cli.topics import find_topic

    typed = [*words, *(word for word in normalise(rest, given, ()) if word != "--")]
    return find_topic(typed[0]) if len(typed) == 1 else None


def _show_help(context: Context, lines: Iterable[str], topic: Topic | None) -> int:
    """Print the help of a command or group, and the topic of the same name behind it."""
    from lakecli.cli.help import topic_help

    shown = list(lines)
    if topic is not None:
        shown += [*([""] if shown else []), *topic_help(topic)]
    context.out.emit({"help": shown}, text=lambda: shown)
    return 0


def _show_command(context: Context, built: Built, topic: Topic | None) -> int:
    from lakecli.cli.describe import describe
    from lakecli.cli.help import command_help

    return _show_help(context, command_help(describe(built)), topic)


def _show_group(context: Context, group: str, topic: Topic | None) -> int:
    from lakecli.cli.describe import describe_all
    from lakecli.cli.help import group_help, root_help

    commands = describe_all()
    if group:
        inside = [item for item in commands if item.words.startswith(group + " ")]
        lines = group_help(group, GROUPS[group], inside)
    else:
        from lakecli.cli.topics import find_topic, topic_names

        found = [topic for name in topic_names() if (topic := find_topic(name)) is not None]
        lines = root_help(commands, GROUPS, {each.name: each.summary for each in found})
    return _show_help(context, lines, topic)


def _report(error: BaseException, context: Context, *, interrupted: bool) -> int:
    """Tell what happened on stderr, and return its exit code.

    Args:
        error: that ended the command.
        context: of the command.
        interrupted: whether an interrupt came; what nobody foresaw is its doing then.
    """
    from lakecli.cli.exit_codes import EXIT_CODES, ExitCode
    from lakecli.cli.text import one_line

    if isinstance(error, BrokenPipeError):
        return ExitCode.BROKEN_PIPE
    kind, told = _translate(error)
    if kind == ErrorKind.UNEXPECTED and interrupted:
        kind, told = _translate(KeyboardInterrupt())
    code = ExitCode.INTERRUPTED if kind == INTERRUPTED else EXIT_CODES[ErrorKind(kind)]
    try:
        if context.verbose and kind != INTERRUPTED:
            context.out.traceback(error)
        message = one_line(told.message)
        hint = "\n  ".join(map(one_line, told.hint.split("\n  "))) if told.hint else None
        if context.out.json:
            record = {"kind": kind, "exit_code": int(code), "message": message, "hint": hint}
            context.out.error_record({**record, "paths": list(told.paths)})
        else:
            context.out.error(message, hint=hint, paths=told.paths)
    except BrokenPipeError:  # of standard output, which is written out first
        return ExitCode.BROKEN_PIPE
    return code


def _translate(error: BaseException) -> tuple[str, LakeError]:
    """Return the kind of an error, and the error as lakecli would have put it."""
    if is_interrupt(error):
        return INTERRUPTED, LakeError("interrupted")
    if isinstance(error, LakeError):
        return error.kind, error
    if isinstance(error, OSError):
        from lakecli.cli.exit_codes import kind_of_os_error

        kind = kind_of_os_error(error)
        if kind != ErrorKind.UNEXPECTED:
            named = f": {os.fsdecode(error.filename)}" if error.filename else ""
            reason = error.strerror or str(error)
            return kind, LakeError(reason[:1].lower() + reason[1:] + named)
    usage = _usage_of_typer(error)
    if usage is not None:
        return usage.kind, usage
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return ErrorKind.UNEXPECTED, LakeError(
        f"unexpected {text}", hint="run the command again with --verbose"
    )


def _usage_of_typer(error: BaseException) -> UsageError | None:
    """Put Typer's usage errors into our form."""
    from typer.exceptions import TyperException

    if not isinstance(error, TyperException):
        return None
    message = error.format_message().removesuffix(".")
    options = getattr(error, "possibilities", None)
    if options:
        message = error.message
        hint = "did you mean " + " or ".join(sorted(options)) + "?"
    else:
        typer_context = getattr(error, "ctx", None)
        path = typer_context.command_path if typer_context else PROGRAM
        hint = f"{path} --help"
    return UsageError(message[:1].lower() + message[1:], hint=hint)


def _log_to(out: Output) -> None:
    """Show lakecli's own debug messages."""
    import logging

    class Handler(logging.Handler):
        """Hands messages over to the output, which escapes them."""

        def emit(self, record: logging.LogRecord) -> None:
            out.debug(self.format(record))

    handler = Handler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    logger = logging.getLogger("lakecli")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.DEBUG)
