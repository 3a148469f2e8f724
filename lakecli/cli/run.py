"""Run one command: find it, call it, and turn errors into exit codes.

Errors that commands and the library raise are caught only here. This module writes an error to
stderr, as ``error: …`` and ``hint: …`` or with ``--json`` as one JSON object, and returns its exit
code.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from lakecli.base.uri import NotUri
from lakecli.cli.context import Context, Environment
from lakecli.cli.hints import as_commands
from lakecli.cli.line import Globals, find_action, split, take_globals
from lakecli.cli.out.text import one_line
from lakecli.cli.tree import COMMANDS, PAGED, instead, is_prefix, refuse_command
from lakecli.errors import ErrorKind, JobFailed, LakeError, NotFound, UsageError, is_interrupt

if TYPE_CHECKING:
    from lakecli.cli.manual.topics import Topic
    from lakecli.cli.out.logs import Logs

_HEAD = r"(?:branch|tag|file:) 'HEAD\b"
"""Matches an error about ``HEAD``, which is not the name of a ref in lakecli."""

INTERRUPTED = "interrupted"
"""The ``kind`` in the JSON error for an interrupt."""


def run(argv: Sequence[str], environment: Environment) -> int:
    """Run one command line, report an error if it fails, and return the exit code."""
    given = Globals()
    try:
        return run_within(argv, environment, given)
    except BaseException as error:  # noqa: BLE001 - the one boundary
        context = Context(environment, given, argv)
        error = _with_habit(error, argv, context)
        return _report(error, context, interrupted=bool(environment.interrupts))


def _with_habit(error: BaseException, argv: Sequence[str], context: Context) -> BaseException:
    """Return the error; if the line has a common mistake, such as ``HEAD``, replace its hint."""
    if isinstance(error, NotFound | UsageError) and re.search(_HEAD, error.message):
        error.hint = "there is no HEAD: a branch stands for its newest commit, so write main~1"
    elif isinstance(error, UsageError):
        from lakecli.cli.manual.mistakes import meant_line, meant_repository

        _, line = split(argv, Globals(), is_prefix=lambda _: False)  # without leading options
        hint = meant_line(line, error.message)
        if hint is None and isinstance(error, NotUri):
            with closing(context), suppress(LakeError):
                hint = meant_repository(error.text, line, context)
        error.hint = hint or error.hint
    return error


def run_within(argv: Sequence[str], environment: Environment, given: Globals) -> int:
    """Run one command line and return its exit code; the caller handles errors.

    Args:
        argv: the command line without the name of the program.
        given: receives the global options of the command line.
    """
    action = _parse(argv, given, environment.environ)
    context = Context(environment, given, argv, run_within=run_within)
    logs = _logs(context, given, argv)
    code = 0
    try:
        if given.verbose:
            for line in context.ignored_of_lakectl():
                context.out.debug(line)
        gc.enable()
        code = action(context)
        context.finish()
        context.out.flush()
        context.answered()
    except BaseException as error:
        if isinstance(error, LakeError) and not is_interrupt(error):
            context.answered()  # `run` is about to write the error, which is the output
            error.hint = error.hint and as_commands(
                error.hint, context.out.repository, context.command
            )
        if logs is not None:
            code = _log_error(logs, error)
        raise
    finally:
        context.out.finish_pager()
        context.close()
        if logs is not None:
            logs.close(code)
    return code


def _logs(context: Context, given: Globals, argv: Sequence[str]) -> Logs | None:
    """Return the log of a run; ``None`` if no log is wanted, or if an outer run has one."""
    if not (given.verbose or given.are_logs_wanted):
        return None
    from lakecli.cli.out.logs import Logs, is_open

    if is_open():
        return None
    context.logs = Logs(given, argv, out=context.out, now=context.now)
    return context.logs


def _log_error(logs: Logs, error: BaseException) -> int:
    """Log the error that ends a run, and return its exit code."""
    from lakecli.cli.exit_codes import EXIT_CODES, ExitCode

    if isinstance(error, BrokenPipeError):
        return ExitCode.BROKEN_PIPE
    kind, reported = _translate(error)
    logs.failed(kind, reported.message)
    return ExitCode.INTERRUPTED if kind == INTERRUPTED else EXIT_CODES[ErrorKind(kind)]


def _parse(
    argv: Sequence[str], given: Globals, environ: Mapping[str, str]
) -> Callable[[Context], int]:
    """Return the action of a command line.

    Args:
        argv: the command line without the name of the program.
        given: receives the global options.

    Raises:
        UsageError: the line is malformed; `given` has received the global options nevertheless.
    """
    topic: Topic | None = None
    words, rest = split(argv, given, is_prefix=is_prefix)
    if not words and rest[:1] == ["help"]:
        given.help = True
        words, rest = split(rest[1:], given, is_prefix=is_prefix)
        topic = _find_topic(words, rest, given)
        if topic is not None and not words:
            return lambda context: _show_help(context, (), topic)
        if words and (more := [word for word in rest if not word.startswith("-")]):
            raise UsageError(
                f"no help for {' '.join((*words, *more))!r}",
                hint=f"one page at a time: lakecli help {' '.join(words)}",
            )
    if given.version:
        words, rest = ("version",), []
    if not given.help:
        words = instead(words, rest)
    joined = " ".join(words)
    if joined not in COMMANDS:
        if not rest and (given.help or not words):
            return lambda context: _show_group(context, joined, topic)
        if words == ("config",) and not rest:
            return _configure
        return _find_plugin(words, rest, given, environ)

    return _action(joined, rest, given, topic)


def _action(
    words: str, rest: list[str], given: Globals, topic: Topic | None
) -> Callable[[Context], int]:
    """Return the action that runs a command or shows its help."""
    action = find_action(words, rest, given, _synopsis)
    if action is None:
        return lambda context: _show_command(context, words, topic)

    def run_command(context: Context) -> int:
        context.command = words
        if words in PAGED:
            context.out.start_pager()
        return action(context)

    return run_command


def _configure(context: Context) -> int:
    """Ask for settings on a terminal: the action of ``lakecli config`` without a subcommand.

    Raises:
        UsageError: there is no terminal, so the subcommand is missing.
    """
    from lakecli.cli.commands.config import configure, is_asked

    if not is_asked(context):
        refuse_command(("config",))
    return configure(context)


def _find_plugin(
    words: tuple[str, ...], rest: list[str], given: Globals, environ: Mapping[str, str]
) -> Callable[[Context], int]:
    """Return the action of a plugin.

    Raises:
        UsageError: there is no such plugin, so the command is unknown.
    """
    from lakecli.cli.commands.plugin import find_plugin, run_plugin
    from lakecli.cli.manual.topics import topic_names

    plugin = find_plugin(rest[0], environ) if rest and not words else None
    if plugin is None:
        take_globals(rest, given)
        refuse_command(words, *rest, topics=topic_names())
    passed = ["--help"] if given.help else rest[1:]
    return lambda context: run_plugin(context, plugin, passed)


def _find_topic(words: Sequence[str], rest: list[str], given: Globals) -> Topic | None:
    """Return the help topic that the words name; a command or group may share the name."""
    from lakecli.cli.manual.topics import find_topic

    typed = [*words, *(word for word in take_globals(rest, given) if word != "--")]
    return find_topic(typed[0]) if len(typed) == 1 else None


def _show_help(context: Context, lines: Iterable[str], topic: Topic | None) -> int:
    """Print the help of a command or group, followed by the topic of the same name."""
    from lakecli.cli.manual.help import topic_help

    shown = list(lines)
    if topic is not None:
        shown += [*([""] if shown else []), *topic_help(topic)]
    context.out.start_pager()
    context.out.emit({"help": shown}, text=lambda: shown)
    return 0


def _show_command(context: Context, words: str, topic: Topic | None) -> int:
    from lakecli.cli.manual.describe import describe_command
    from lakecli.cli.manual.help import command_help

    return _show_help(context, command_help(describe_command(words)), topic)


def _synopsis(words: str) -> str:
    from lakecli.cli.manual.describe import describe_command

    return describe_command(words).synopsis


def _show_group(context: Context, group: str, topic: Topic | None) -> int:
    from lakecli.cli.manual.describe import describe_all
    from lakecli.cli.manual.help import group_help, root_help

    commands = describe_all()
    if group:
        inside = [item for item in commands if item.words.startswith(group + " ")]
        lines = group_help(group, inside)
    else:
        from lakecli.cli.manual.topics import topic_names

        lines = root_help(commands, topic_names())
    return _show_help(context, lines, topic)


def _report(error: BaseException, context: Context, *, interrupted: bool) -> int:
    """Report an error on stderr, and return its exit code.

    Args:
        error: the error that ended the command.
        interrupted: whether the user interrupted the command; an unexpected error is then treated
            as an interrupt.
    """
    from lakecli.cli.exit_codes import EXIT_CODES, ExitCode

    if isinstance(error, BrokenPipeError):
        return ExitCode.BROKEN_PIPE
    kind, reported = _translate(error)
    if kind == ErrorKind.UNEXPECTED and interrupted:
        kind, reported = _translate(KeyboardInterrupt())
    code = ExitCode.INTERRUPTED if kind == INTERRUPTED else EXIT_CODES[ErrorKind(kind)]
    try:
        if context.verbose and kind != INTERRUPTED:
            context.out.traceback(error)
        message = one_line(reported.message)
        hint = reported.hint and as_commands(reported.hint, None)
        hint = hint and "\n  ".join(map(one_line, hint.split("\n  ")))
        if context.out.json:
            record = {"kind": kind, "exit_code": int(code), "message": message, "hint": hint}
            context.out.error_record({**record, **_details(reported)})
        else:
            context.out.error(message, hint=hint, paths=reported.paths)
    except BrokenPipeError:  # standard output is flushed before an error is written
        return ExitCode.BROKEN_PIPE
    return code


def _details(reported: LakeError) -> dict[str, object]:
    """Return the JSON fields of an error besides its message, such as its paths.

    The field ``unlike_checksums`` lists paths in conflict whose two checksums have different kinds,
    so that the contents may be equal.
    """
    unlike = getattr(reported, "unlike_checksums", ())
    fields: dict[str, object] = {"paths": list(reported.paths)}
    if unlike:
        fields["unlike_checksums"] = list(unlike)
    if isinstance(reported, JobFailed):
        fields["job_exit_code"] = reported.job_exit_code
    return fields


def _translate(error: BaseException) -> tuple[str, LakeError]:
    """Return the kind of an error, and the error as a `LakeError`."""
    if is_interrupt(error):
        return INTERRUPTED, LakeError("interrupted")
    if isinstance(error, LakeError):
        return error.kind, error
    if isinstance(error, OSError):
        from lakecli.base.os_errors import MACHINE_HINTS
        from lakecli.cli.exit_codes import kind_of_os_error

        kind = kind_of_os_error(error)
        if kind != ErrorKind.UNEXPECTED:
            named = f": {os.fsdecode(error.filename)}" if error.filename else ""
            reason = error.strerror or str(error)
            hint = MACHINE_HINTS.get(error.errno or 0)
            return kind, LakeError(reason[:1].lower() + reason[1:] + named, hint=hint)
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return ErrorKind.UNEXPECTED, LakeError(
        f"unexpected {text}", hint="run the command again with --verbose"
    )
