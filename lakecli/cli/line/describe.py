"""Describe a command; help, man pages and completion scripts are made from the description.

The docstring of a command is its help: a first line, paragraphs, and a last section ``Examples:``
with command lines. Typer keeps neither the examples (163 lines in 66 commands) nor the kind of a
value (104 of 284 parameters), which man pages and completion need.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lakecli.cli.line.argv import GLOBAL_OPTIONS
from lakecli.cli.line.declare import REQUIRED
from lakecli.cli.reading import Kind
from lakecli.cli.tree import COMMANDS

if TYPE_CHECKING:
    from lakecli.cli.line.build import Built

_EXAMPLES: Final = "Examples:"


@dataclass(frozen=True, slots=True)
class OptionHelp:
    """One option.

    Attributes:
        flags: its spellings, the short ones first.
        metavar: the name of its value; ``""`` for a boolean.
        summary: one line of help.
        default: the default as text; may be ``""``.
        choices: the values of an enumeration.
        kind: the kind of name that its value is.
        repeatable: whether it may be given several times.
        required: whether it must be given.
        negatable: whether ``--flag=false`` differs from leaving it out.
    """

    flags: tuple[str, ...]
    metavar: str
    summary: str
    default: str = ""
    choices: tuple[str, ...] = ()
    kind: Kind | None = None
    repeatable: bool = False
    required: bool = False
    negatable: bool = False


@dataclass(frozen=True, slots=True)
class ArgumentHelp:
    """One positional argument."""

    metavar: str
    summary: str
    required: bool
    repeatable: bool
    choices: tuple[str, ...]
    kind: Kind | None


@dataclass(frozen=True, slots=True)
class CommandHelp:
    """One command.

    Attributes:
        words: the words of the command.
        summary: one line, without a period.
        description: the paragraphs of its help.
        examples: lines of its help.
        arguments: arguments, in order.
        options: options, in the order of the parameters.
    """

    words: str
    summary: str
    description: tuple[str, ...]
    examples: tuple[str, ...]
    arguments: tuple[ArgumentHelp, ...]
    options: tuple[OptionHelp, ...]

    @property
    def synopsis(self) -> str:
        """The part of the usage after the words: ``REPOSITORY [OPTIONS]``."""
        parts = []
        for argument in self.arguments:
            name = argument.metavar + ("..." if argument.repeatable else "")
            parts.append(name if argument.required else f"[{name}]")
        parts += [
            f"{option.flags[-1]} {option.metavar}" for option in self.options if option.required
        ]
        return " ".join([*parts, "[OPTIONS]"])


def global_options() -> tuple[OptionHelp, ...]:
    """Return the options that every command takes."""
    kinds = {"config": Kind.FILE}
    return tuple(
        OptionHelp(
            flags=option.flags,
            metavar=option.metavar or "",
            summary=option.summary,
            kind=kinds.get(option.name),
        )
        for option in GLOBAL_OPTIONS
    )


def describe_all() -> list[CommandHelp]:
    """Describe every command, in alphabetical order."""
    return [describe_command(words) for words in COMMANDS]


def describe_command(words: str) -> CommandHelp:
    """Describe the command of these words."""
    from lakecli.cli.line.build import build

    return describe(build(COMMANDS[words].load(), words))


def describe(built: Built) -> CommandHelp:
    """Describe a built command."""
    summary, description, examples = split_docstring(inspect.getdoc(built.declared.function) or "")
    arguments, options = [], []
    for parameter in built.typer.params:
        name = parameter.name or ""
        own = built.declared.parameters[name]
        if getattr(parameter, "hidden", False):
            continue
        choices = tuple(getattr(parameter.type, "choices", ()))
        if parameter.param_type_name == "argument":
            arguments.append(
                ArgumentHelp(
                    metavar=parameter.metavar or name.upper(),
                    summary=getattr(parameter, "help", None) or "",
                    required=parameter.required,
                    repeatable=parameter.nargs == -1,
                    choices=choices,
                    kind=own.kind,
                )
            )
        else:
            options.append(_describe_option(parameter, choices, own.default, own.kind))
    return CommandHelp(
        words=built.words,
        summary=summary,
        description=description,
        examples=examples,
        arguments=tuple(arguments),
        options=tuple(options),
    )


def _describe_option(
    option: Any,  # noqa: ANN401 - Typer's option class is no public name
    choices: tuple[str, ...],
    default: object,
    kind: Kind | None,
) -> OptionHelp:
    metavar = "" if option.is_flag else option.metavar or "|".join(choices) or "VALUE"
    shown = "" if default in (None, False, "", REQUIRED) else str(default)
    if isinstance(default, (list, tuple, Mapping)) or (
        option.is_flag and not option.secondary_opts
    ):
        shown = ""
    return OptionHelp(
        flags=tuple(sorted(option.opts, key=len)),
        metavar=metavar,
        summary=option.help or "",
        default=shown.lower() if option.is_flag else shown,
        choices=choices,
        kind=kind,
        repeatable=option.multiple,
        required=option.required,
        negatable=bool(option.secondary_opts),
    )


def split_docstring(text: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Split a docstring into its summary, its paragraphs, and the lines of its examples."""
    body, _, examples = text.partition(f"\n{_EXAMPLES}\n")
    summary, _, rest = body.partition("\n\n")
    paragraphs = tuple(part.strip("\n") for part in rest.split("\n\n") if part.strip())
    return (
        " ".join(summary.split()).removesuffix("."),
        paragraphs,
        tuple(inspect.cleandoc("\n" + examples).splitlines()) if examples.strip() else (),
    )
