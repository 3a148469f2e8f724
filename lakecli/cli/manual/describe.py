"""Describe a command; help, man pages and completion scripts are made from the description.

The docstring of a command is its help: a first line, paragraphs, a section ``Args:`` with the help
texts of its own parameters, and a last section ``Examples:`` with command lines. A paragraph
``Usage: …`` replaces the usage line that is made from the declaration. All other parts come from
the declaration, so Typer is not loaded.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from lakecli.cli.line import GLOBAL_OPTIONS, REQUIRED, Argument, Declaration, Kind, Parameter
from lakecli.cli.out.records import docstring_entries
from lakecli.cli.tree import COMMANDS

_EXAMPLES: Final = "Examples:"
_USAGE: Final = "Usage: "


@dataclass(frozen=True, slots=True)
class ParameterHelp:
    """The description of an argument or option.

    Attributes:
        metavar: the name of the value; ``""`` for a boolean.
        flags: the spellings of an option, the short ones first.
        default: the default of an option as text; may be ``""``.
        kind: the kind of name that the value is.
        repeatable: whether the argument or option may be given several times.
        required: whether the argument or option must be given.
        negatable: whether ``--flag=false`` differs from omitting the option.
    """

    metavar: str
    summary: str
    flags: tuple[str, ...] = ()
    default: str = ""
    choices: tuple[str, ...] = ()
    kind: Kind | None = None
    repeatable: bool = False
    required: bool = False
    negatable: bool = False


@dataclass(frozen=True, slots=True)
class CommandHelp:
    """The description of a command.

    Attributes:
        summary: one line, without a period.
        arguments: the arguments, in order.
        options: the options, in the order of the parameters.
        usage: the usage line after the words of the command; ``""`` to derive the usage from
            arguments and options.
    """

    words: str
    summary: str
    description: tuple[str, ...]
    examples: tuple[str, ...]
    arguments: tuple[ParameterHelp, ...]
    options: tuple[ParameterHelp, ...]
    usage: str = ""

    @property
    def synopsis(self) -> str:
        """The usage line after the words of the command, such as ``REPOSITORY [OPTIONS]``."""
        if self.usage:
            return self.usage
        parts = []
        for argument in self.arguments:
            name = argument.metavar + ("..." if argument.repeatable else "")
            parts.append(name if argument.required else f"[{name}]")
        parts += [
            f"{option.flags[-1]} {option.metavar}" for option in self.options if option.required
        ]
        return " ".join([*parts, "[OPTIONS]"])


def global_options() -> tuple[ParameterHelp, ...]:
    """Return the options that every command takes."""
    return tuple(
        _describe(Parameter(each.name, str, each, None, None), {}) for each in GLOBAL_OPTIONS
    )


def describe_all() -> list[CommandHelp]:
    """Describe every command, in alphabetical order."""
    return [describe_command(words) for words in COMMANDS]


def describe_command(words: str) -> CommandHelp:
    """Describe a command, given its words, such as ``branch list``."""
    return describe(Declaration(COMMANDS[words].load()), words)


def describe(declared: Declaration, words: str) -> CommandHelp:
    """Describe a command, given its declaration."""
    body, _, examples = (inspect.getdoc(declared.function) or "").partition(f"\n{_EXAMPLES}\n")
    body, _, texts = body.partition("\nArgs:\n")
    summary, description = _split(body)
    helps = docstring_entries(texts)
    for group in declared.groups.values():
        helps |= docstring_entries((inspect.getdoc(group) or "").partition("Attributes:\n")[2])
    arguments, options = [], []
    for each in declared.parameters.values():
        if isinstance(each.mark, Argument):
            arguments.append(_describe(each, helps))
        elif not each.mark.hidden:
            options.append(_describe(each, helps))
    usage = "".join(each.removeprefix(_USAGE) for each in description if each.startswith(_USAGE))
    description = tuple(each for each in description if not each.startswith(_USAGE))
    lines = inspect.cleandoc("\n" + examples).splitlines()
    return CommandHelp(
        words, summary, description, tuple(lines), tuple(arguments), tuple(options), usage
    )


def _describe(parameter: Parameter, helps: Mapping[str, str]) -> ParameterHelp:
    default, mark = parameter.default, parameter.mark
    choices = () if parameter.read else getattr(parameter.type, "__members__", {}).values()
    values = tuple(str(each.value) for each in choices)
    found = ParameterHelp(
        mark.metavar or "|".join(values) or "VALUE",
        mark.help or helps.get(parameter.name, ""),
        choices=values,
        kind=parameter.kind,
        repeatable=parameter.repeatable,
        required=default is REQUIRED,
    )
    if isinstance(mark, Argument):
        return found
    is_plain = mark.takes_value and not isinstance(default, (list, tuple, Mapping))
    has_default = default not in (None, False, "", REQUIRED)
    shown = str(default) if has_default and (is_plain or mark.negative) else ""
    return replace(
        found,
        flags=tuple(sorted(mark.flags, key=len)),
        metavar=found.metavar if mark.takes_value else "",
        default=shown if mark.takes_value else shown.lower(),
        negatable=bool(mark.negative),
    )


def _split(text: str) -> tuple[str, tuple[str, ...]]:
    """Split the text before the sections of a docstring into its summary and its paragraphs."""
    summary, _, rest = text.partition("\n\n")
    paragraphs = tuple(part.strip("\n") for part in rest.split("\n\n") if part.strip())
    return " ".join(summary.split()).removesuffix("."), paragraphs
