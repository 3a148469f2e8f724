"""Completion scripts for bash, zsh and fish, generated from the command tree.

At a TAB, a script completes words and options without starting a program. For names and paths, the
script runs lakecli in a mode that loads no command. Typer's own scripts start lakecli with all
commands at every TAB, and in bash they cannot complete a URI.

The command tree is converted to plain tables, which are inserted into the template of a shell. For
example, ``template.bash`` is the script for bash, with placeholders such as ``@WORDS@`` in place of
the tables.

All three scripts work alike: they walk the words before the cursor along the tree, which is part of
the script, and complete command words, options and fixed values without running lakecli. Names of
repositories, branches, tags and objects come from ``lakecli __complete``
(`lakecli.cli.manual.complete`).

In bash, readline splits a line at the characters of ``COMP_WORDBREAKS``, which include the colon of
``lakefs://``, and replaces only the last piece. So the script for bash reads the words from the
line itself, and removes the part before the last piece from each candidate. The script needs
neither the bash-completion package nor a bash newer than 3.2.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from lakecli.cli.line import Kind
from lakecli.cli.manual.describe import CommandHelp, ParameterHelp, global_options
from lakecli.cli.manual.help import GROUP_SUMMARIES
from lakecli.cli.manual.topics import topic_names
from lakecli.cli.tree import GROUPS, IN_PLACE, READ_IN_PLACE

ANY: Final = "*"
"""The sign that stands in the tables for all arguments of a command, or for all commands."""

URIS: Final = frozenset(
    {
        *(Kind.REPOSITORY, Kind.BRANCH, Kind.TAG, Kind.REF, Kind.PATH),
        *(Kind.REF_OR_FILE, Kind.REF_OR_OWN_FILE, Kind.PATH_OR_FILE),
    }
)
"""The kinds of words for which commands that only read also accept the URI of a namespace."""


def completer(kind: Kind | None, choices: Sequence[str] = ()) -> str:
    """Return the text that specifies in a script how a value is completed.

    The text is ``=`` followed by the fixed values, or the kind of the value. A script completes the
    kinds ``file``, ``directory`` and ``nothing`` itself, and passes other kinds to ``lakecli
    __complete``.
    """
    if choices:
        return "=" + " ".join(choices)
    return Kind.FILE if kind is Kind.COMMAND else kind or Kind.NOTHING


SHELLS: Final = {"bash": "lakecli.bash", "zsh": "_lakecli", "fish": "lakecli.fish"}
"""The name of the script file for each shell."""

_HEADER: Final = (
    "Written by `python -m lakecli.cli.manual.generate` from the command tree; do not edit."
)


def completion_script(shell: str, commands: Sequence[CommandHelp]) -> str:
    """Return the completion script for a shell; `SHELLS` lists the shells."""
    syntax = _SYNTAX[shell]
    options = {each.words: _spellings(each.options) for each in commands} | {"help": []}
    shared = _spellings(global_options())
    parts = {
        "HEADER": _HEADER,
        "WORDS": _lines(syntax.names(*row) for row in _words(commands).items()),
        "OPTIONS": _lines(
            syntax.names(words, [row[:2] for row in rows]) for words, rows in options.items()
        ),
        "SHARED": syntax.items([row[:2] for row in shared]),
        "VALUES": _lines(
            syntax.value(words, flag, value)
            for words, rows in [*options.items(), (ANY, shared)]
            for flag, _, value in rows
            if value is not None
        ),
        "ARGUMENTS": _lines(syntax.value(*row) for row in _arguments(commands)),
    }
    script = (Path(__file__).parent / f"template.{shell}").read_text("utf-8")
    for name, text in parts.items():
        script = script.replace(f"@{name}@", text)
    return script


def _spellings(options: Iterable[ParameterHelp]) -> list[tuple[str, str, str | None]]:
    """Return the spellings of options, each with its summary and the `completer` of its value."""
    found = []
    for option in options:
        value = completer(option.kind, option.choices) if option.metavar else None
        found += [(flag, option.summary, value) for flag in option.flags]
    return sorted(found, key=lambda item: (item[0].lstrip("-"), item[0]))


def _words(commands: Iterable[CommandHelp]) -> dict[str, list[tuple[str, str]]]:
    """Return the words that may follow the first words of a command, with their summaries.

    The result also contains `help`, although `commands` does not.
    """
    words = {"": [*GROUP_SUMMARIES.items(), ("help", "Show the help of a command or a topic")]}
    words |= {group: [] for group in GROUPS}
    for command in commands:
        group, _, last = command.words.rpartition(" ")
        words[group].append((last, command.summary))
    return {group: sorted(rows) for group, rows in words.items()}


def _arguments(commands: Iterable[CommandHelp]) -> Iterator[tuple[str, str, str]]:
    """Yield each argument as its command, its number and its completer.

    The number is `ANY` for an argument that may be given several times.
    """
    named = {*topic_names(), *GROUPS}
    for command in commands:
        named.add(command.words.split()[0])
        mark = IN_PLACE if command.words in READ_IN_PLACE else ""
        for number, argument in enumerate(command.arguments, 1):
            place = ANY if argument.repeatable else str(number)
            completed = completer(argument.kind, argument.choices)
            yield command.words, place, completed + mark * (argument.kind in URIS)
    yield "help", "1", completer(None, sorted(named))


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(filter(None, lines))


class _Syntax(NamedTuple):
    """The functions that write the tables in the syntax of a shell.

    Attributes:
        names: writes the names that may follow the words of a command, each with its summary.
        value: writes the completer of a value: the value of an option or of a numbered argument.
        items: writes a list of names, each with its summary.
    """

    names: Callable[[str, Sequence[tuple[str, str]]], str]
    value: Callable[[str, str, str], str]
    items: Callable[[Sequence[tuple[str, str]]], str]


def _bash_items(rows: Sequence[tuple[str, str]]) -> str:
    return " ".join(name for name, _ in rows)


def _zsh_items(rows: Sequence[tuple[str, str]]) -> str:
    # `_describe` splits a candidate from its description at the first bare colon.
    pairs = (_quoted(name.replace(":", "\\:") + ":" + summary) for name, summary in rows)
    return _lines(f"        {pair}" for pair in pairs)


def _zsh_names(words: str, rows: Sequence[tuple[str, str]]) -> str:
    listed = f"\n{_zsh_items(rows)}" if rows else ""
    return f"    ({_quoted(words)}) reply=({listed}\n    ) ;;"


def _fish_items(rows: Sequence[tuple[str, str]], blanks: str = " " * 8) -> str:
    pairs = (f"{_fish_quoted(name)} {_fish_quoted(summary)}" for name, summary in rows)
    return " \\\n".join(blanks + pair for pair in pairs)


def _fish_names(words: str, rows: Sequence[tuple[str, str]]) -> str:
    listed = f"printf '%s\\t%s\\n' \\\n{_fish_items(rows, ' ' * 16)}"
    return _fish_case(words, listed) if rows else ""


def _fish_case(pattern: str, body: str) -> str:
    return f"        case {_fish_quoted(pattern)}\n            {body}"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _quoted(text: str) -> str:
    """Return `text` in single quotes, for bash and zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


def _pattern(words: str, last: str) -> str:
    """Return the pattern that matches a command and its option or argument, for bash and zsh."""
    if words == ANY:
        return ANY + _quoted(f" {last}")
    return _quoted(f"{words} ") + ANY if last == ANY else _quoted(f"{words} {last}")


_SYNTAX: Final = {
    "bash": _Syntax(
        lambda words, rows: f"    {_quoted(words)}) REPLY={_quoted(_bash_items(rows))} ;;",
        lambda words, last, text: f"    {_pattern(words, last)}) REPLY={_quoted(text)} ;;",
        _bash_items,
    ),
    "zsh": _Syntax(
        _zsh_names,
        lambda words, last, text: f"    ({_pattern(words, last)}) REPLY={_quoted(text)} ;;",
        _zsh_items,
    ),
    "fish": _Syntax(
        _fish_names,
        lambda words, last, text: _fish_case(f"{words} {last}", f"echo {_fish_quoted(text)}"),
        _fish_items,
    ),
}
