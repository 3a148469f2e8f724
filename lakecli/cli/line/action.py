"""Find the action that runs a command, given the rest of the command line.

`plain` parses a line that has no errors, without Typer. For any other line `plain` returns
``None``. The docstring of the package explains why there are two parsers.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from os import PathLike
from typing import Any

from lakecli.cli.line.argv import Globals, normalise
from lakecli.cli.line.declare import MAX_DIGITS, REQUIRED, Argument, Declaration, Option, Parameter
from lakecli.cli.tree import COMMANDS


def find_action(
    words: str, rest: Sequence[str], given: Globals, synopsis: Callable[[str], str]
) -> Callable[[object], int] | None:
    """Return the action of a command line, or ``None`` if the line asks for help.

    Args:
        words: the words of the command.
        rest: the line after `words`.
        given: receives the global options in `rest`.
        synopsis: a function that takes the words of a command and returns the rest of its usage
            line, for a hint.

    Raises:
        UsageError: a global option is malformed.
    """
    declared = Declaration(COMMANDS[words].load())
    arguments = normalise(rest, given, declared.options, ends_at_word=declared.runs_a_command)
    if given.help:
        return None
    if given.problem is not None:
        raise given.problem
    values = plain(declared, arguments)

    def run(context: object) -> int:
        if values is not None:
            return declared.call(context, values)
        from lakecli.cli.line.build import run_by_typer

        return run_by_typer(words, declared, context, arguments, synopsis)

    return run


class _NotPlain(Exception):
    """Raised if the line may have an error; Typer then parses the line."""


def plain(declared: Declaration, arguments: Sequence[str]) -> dict[str, Any] | None:
    """Return the values of a command line, by parameter name.

    Args:
        arguments: the line after the words of the command, as `argv.normalise` returns it.

    Returns:
        The values; ``None`` if the line may have an error, so that Typer must parse the line.
    """
    try:
        return _read(declared, arguments)
    except _NotPlain:
        return None


def _read(declared: Declaration, arguments: Sequence[str]) -> dict[str, Any]:
    options: dict[str, tuple[Parameter, Option]] = {}
    positions = []
    for parameter in declared.parameters.values():
        if isinstance(mark := parameter.mark, Option):
            options |= dict.fromkeys(filter(None, (*mark.flags, mark.negative)), (parameter, mark))
        else:
            positions.append(parameter)
    values: dict[str, Any] = {}
    words: list[str] = []
    todo = iter(arguments)
    for word in todo:
        if word == "--":
            words += todo
        elif len(word) > 1 and word[0] == "-":
            _take_option(word, todo, options, values)
        else:
            words.append(word)
    _take_words(words, positions, values)
    for parameter in declared.parameters.values():
        if parameter.default is REQUIRED and parameter.name not in values:
            raise _NotPlain
    return values


def _take_option(
    word: str,
    todo: Iterator[str],
    options: dict[str, tuple[Parameter, Option]],
    values: dict[str, Any],
) -> None:
    value: str | None
    if word.startswith("--"):
        flag, equals, value = word.partition("=")
        value = value if equals else None
    else:
        flag, value = word[:2], word[2:] or None
    if flag not in options:
        raise _NotPlain
    parameter, option = options[flag]
    name = parameter.name
    if not option.takes_value:
        if value is not None:
            raise _NotPlain
        values[name] = flag != option.negative
        return
    if value is None:
        value = next(todo, None)
        # Typer may take a value that begins with a dash for an option.
        if value is None or value.startswith("-"):
            raise _NotPlain
    if parameter.repeatable:
        values.setdefault(name, []).append(value)
    else:
        values[name] = _converted(value, parameter)


def _take_words(words: list[str], positions: list[Parameter], values: dict[str, Any]) -> None:
    """Store words as the values of the arguments; only the last argument may take several words.

    Args:
        positions: the declared arguments, in order.
        values: receives the value of each argument.
    """
    for parameter in positions:
        if parameter.repeatable:
            if parameter is not positions[-1]:
                raise _NotPlain
            if words:
                values[parameter.name], words = words, []
        elif words:
            values[parameter.name] = _converted(words.pop(0), parameter)
    if words:
        raise _NotPlain


def _converted(text: str, parameter: Parameter) -> object:
    """Return the value of a word; the word itself if the parameter is text or has `read`."""
    type_ = parameter.type
    if parameter.read is not None or type_ is str:
        return text
    if type_ is int:
        least = None if isinstance(parameter.mark, Argument) else parameter.mark.min
        if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
            raise _NotPlain
        number = int(text)
        if least is not None and number < least:
            raise _NotPlain
        return number
    is_enum_or_path = isinstance(type_, type) and issubclass(type_, Enum | PathLike)
    if is_enum_or_path:
        try:
            return type_(text)
        except ValueError:
            raise _NotPlain from None
    raise _NotPlain
