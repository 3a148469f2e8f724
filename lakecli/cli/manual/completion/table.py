"""The command tree as plain tables, for completion scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from lakecli.cli.line.describe import CommandHelp, OptionHelp, global_options
from lakecli.cli.manual.completion.in_place import IN_PLACE
from lakecli.cli.manual.topics import topic_names
from lakecli.cli.reading import Kind
from lakecli.cli.tree import GROUPS, READ_IN_PLACE

ANY: Final = "*"
"""Any number of arguments, and any command."""

FILES: Final = {
    Kind.FILE: "file",
    Kind.DIRECTORY: "directory",
    Kind.NOTHING: "nothing",
    Kind.COMMAND: "file",
}
"""Kinds that a script completes without running lakecli."""

URIS: Final = frozenset(
    {
        *(Kind.REPOSITORY, Kind.BRANCH, Kind.TAG, Kind.REF, Kind.PATH),
        *(Kind.REF_OR_FILE, Kind.REF_OR_OWN_FILE, Kind.PATH_OR_FILE),
    }
)
"""Kinds for which a command that only reads takes the URI of a storage namespace, too."""


class CompletionOption(NamedTuple):
    """One spelling of an option.

    Attributes:
        flag: ``--amount``.
        summary: what it does.
        value: what completes its value (see `completer`), or ``None`` where it takes none.
    """

    flag: str
    summary: str
    value: str | None


class CompletionTable(NamedTuple):
    """The command tree for a script.

    Attributes:
        words: the words that may follow the first words of a command, with summaries.
        options: of each command.
        arguments: of each command, the number of each argument, or `ANY` for one that may be
            repeated, and what completes it.
        shared: options that every command takes.
    """

    words: dict[str, list[tuple[str, str]]]
    options: dict[str, list[CompletionOption]]
    arguments: dict[str, list[tuple[str, str]]]
    shared: list[CompletionOption]


def completer(kind: Kind | None, choices: Sequence[str] = ()) -> str:
    """Return what completes a value.

    This is ``=`` followed by the fixed values; or ``file``, ``directory`` or ``nothing``; or the
    kind for ``lakecli __complete``.
    """
    if choices:
        return "=" + " ".join(choices)
    return FILES[Kind.NOTHING] if kind is None else FILES.get(kind, str(kind))


def make_table(commands: Iterable[CommandHelp]) -> CompletionTable:
    """Return the tables of all commands."""
    table = CompletionTable({"": []}, {}, {}, _options(global_options()))
    for command in commands:
        group, _, last = command.words.rpartition(" ")
        if group and group not in table.words:
            table.words[group] = []
            table.words[""].append((group, GROUPS[group]))
        table.words[group].append((last, command.summary))
        table.options[command.words] = _options(command.options)
        mark = IN_PLACE if command.words in READ_IN_PLACE else ""
        table.arguments[command.words] = [
            (
                ANY if argument.repeatable else str(number),
                completer(argument.kind, argument.choices) + mark * (argument.kind in URIS),
            )
            for number, argument in enumerate(command.arguments, 1)
        ]
    # `help` is no command: what it names has a page, and a group or a command may share its name.
    named = dict.fromkeys([*topic_names(), *(name for name, _ in table.words[""])])
    table.words[""].append(("help", "Show the help of a command or a topic"))
    table.options["help"] = []
    table.arguments["help"] = [("1", completer(None, sorted(named)))]
    for words in table.words.values():
        words.sort()
    return table


def _options(options: Iterable[OptionHelp]) -> list[CompletionOption]:
    found = []
    for option in options:
        value = completer(option.kind, option.choices) if option.metavar else None
        found += [CompletionOption(flag, option.summary, value) for flag in option.flags]
    return sorted(found, key=lambda item: (item.flag.lstrip("-"), item.flag))
