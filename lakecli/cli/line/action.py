"""From the line after the words of a command to the action that runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lakecli.cli.line.argv import Globals, normalise
from lakecli.cli.line.declare import Declaration, declaration
from lakecli.cli.line.plain import plain
from lakecli.cli.tree import COMMANDS, PAGED, PROGRAM
from lakecli.errors import UsageError

if TYPE_CHECKING:
    from lakecli.cli.context import Context


def find_action(words: str, rest: Sequence[str], given: Globals) -> Callable[[Context], int] | None:
    """Return the action of a command line, or ``None`` if the line asks for help.

    Args:
        words: the words of the command.
        rest: the line after these words.
        given: receives the global options in `rest`.

    Raises:
        UsageError: a global option is malformed.
    """
    declared = declaration(COMMANDS[words].load())
    arguments = normalise(
        rest, given, declared.option_syntax(), ends_at_word=declared.runs_a_command
    )
    if given.help:
        return None
    if given.problem is not None:
        raise given.problem
    values = plain(declared, arguments)

    def run(context: Context) -> int:
        context.command = words
        if words in PAGED:
            context.out.start_pager()
        if values is None:
            return _run_by_typer(words, declared, context, arguments)
        return declared.call(context, values)

    return run


def _run_by_typer(words: str, declared: Declaration, context: Context, arguments: list[str]) -> int:
    """Let Typer read the line, and run the command.

    Raises:
        UsageError: the line has an error; if an option lacks its value, the hint is the usage.
    """
    from lakecli.cli.line.build import MissingValue, build_declared, usage_of
    from lakecli.cli.line.describe import describe

    built = build_declared(declared, words)

    def synopsis() -> str:
        return describe(built).synopsis

    try:
        return built.run(context, arguments)
    except MissingValue as error:
        usage = f"{PROGRAM} {words} {synopsis()}"
        raise UsageError(error.message, hint=f"{usage}\n  {error.hint}") from None
    except Exception as error:
        usage_error = usage_of(error, synopsis)
        if usage_error is None:
            raise
        raise usage_error from error
