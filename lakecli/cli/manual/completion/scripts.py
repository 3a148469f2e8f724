"""Completion scripts: the tables of the commands put into the template of a shell.

A template, ``template.bash`` for one, is the script with ``@WORDS@`` and the like where a table
goes.

Readline splits a line at the characters of ``COMP_WORDBREAKS``, the colon among them, so bash
receives a URI in pieces and replaces only the last one. The script for bash therefore reads the
words from the line itself, and cuts from each candidate the part that stays. It needs neither the
bash-completion package nor a bash newer than 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from lakecli.cli.manual.completion.table import Option, Table

SHELLS: Final = {"bash": "lakecli.bash", "zsh": "_lakecli", "fish": "lakecli.fish"}
"""The file of each shell's script."""

_HEADER: Final = (
    "Written by `python -m lakecli.cli.manual.generate` from the command tree; do not edit."
)
_ANY: Final = "*"


def completion_script(shell: str, table: Table) -> str:
    """Return the completion script of a shell of `SHELLS`."""
    parts = {"HEADER": _HEADER, **_PARTS[shell](table)}
    script = (Path(__file__).parent / f"template.{shell}").read_text("utf-8")
    for name, text in parts.items():
        script = script.replace(f"@{name}@", text)
    return script


def _values(table: Table) -> Iterator[tuple[str, str, str]]:
    """Yield a command, one of its options, and what completes the option's value."""
    commands = [*table.options.items(), (_ANY, table.shared)]
    for words, options in commands:
        for option in options:
            if option.value is not None:
                yield words, option.flag, option.value


def _arguments(table: Table) -> Iterator[tuple[str, str, str]]:
    """Yield a command, the number of an argument or ``*``, and what completes the argument."""
    for words, completers in table.arguments.items():
        for number, completer in enumerate(completers, 1):
            last = number == len(completers) and words in table.endless
            yield words, _ANY if last else str(number), completer


def _rows(options: Sequence[Option]) -> list[tuple[str, str]]:
    return [(option.flag, option.summary) for option in options]


def _bash(table: Table) -> dict[str, str]:
    def case(words: str, names: Sequence[str]) -> str:
        return f"    {_quoted(words)}) REPLY={_quoted(' '.join(names))} ;;"

    def value(words: str, last: str, completer: str) -> str:
        return f"    {_pattern(words, last)}) REPLY={_quoted(completer)} ;;"

    flags = {words: [option.flag for option in row] for words, row in table.options.items()}
    return {
        "WORDS": _lines(
            case(words, [name for name, _ in row]) for words, row in table.words.items()
        ),
        "OPTIONS": _lines(case(words, row) for words, row in flags.items()),
        "SHARED": " ".join(option.flag for option in table.shared),
        "VALUES": _lines(value(*row) for row in _values(table)),
        "ARGUMENTS": _lines(value(*row) for row in _arguments(table)),
    }


def _zsh(table: Table) -> dict[str, str]:
    def items(rows: Sequence[tuple[str, str]]) -> str:
        # `_describe` splits a candidate from its description at the first bare colon.
        return _lines(
            "        " + _quoted(name.replace(":", "\\:") + ":" + summary) for name, summary in rows
        )

    def case(words: str, rows: Sequence[tuple[str, str]]) -> str:
        listed = f"\n{items(rows)}" if rows else ""
        return f"    ({_quoted(words)}) reply=({listed}\n    ) ;;"

    def value(words: str, last: str, completer: str) -> str:
        return f"    ({_pattern(words, last)}) REPLY={_quoted(completer)} ;;"

    return {
        "WORDS": _lines(case(words, row) for words, row in table.words.items()),
        "OPTIONS": _lines(case(words, _rows(row)) for words, row in table.options.items()),
        "SHARED": items(_rows(table.shared)),
        "VALUES": _lines(value(*row) for row in _values(table)),
        "ARGUMENTS": _lines(value(*row) for row in _arguments(table)),
    }


def _fish(table: Table) -> dict[str, str]:
    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def pairs(rows: Sequence[tuple[str, str]], indent: int) -> str:
        blanks = " " * indent
        return " \\\n".join(f"{blanks}{quoted(name)} {quoted(summary)}" for name, summary in rows)

    def case(pattern: str, body: str) -> str:
        return f"        case {quoted(pattern)}\n            {body}"

    def listed(words: str, rows: Sequence[tuple[str, str]]) -> str:
        return case(words, f"printf '%s\\t%s\\n' \\\n{pairs(rows, 16)}")

    def value(words: str, last: str, completer: str) -> str:
        return case(f"{words} {last}", f"echo {quoted(completer)}")

    return {
        "WORDS": _lines(listed(words, row) for words, row in table.words.items()),
        "OPTIONS": _lines(listed(words, _rows(row)) for words, row in table.options.items() if row),
        "SHARED": pairs(_rows(table.shared), 8),
        "VALUES": _lines(value(*row) for row in _values(table)),
        "ARGUMENTS": _lines(value(*row) for row in _arguments(table)),
    }


_PARTS: Final[dict[str, Callable[[Table], dict[str, str]]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}


def _lines(lines: Iterator[str]) -> str:
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """Return `text` in single quotes, for bash and zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


def _pattern(words: str, last: str) -> str:
    """Return the pattern of bash and zsh for a command and an option or argument of it."""
    if words == _ANY:
        return _ANY + _quoted(f" {last}")
    return _quoted(f"{words} ") + _ANY if last == _ANY else _quoted(f"{words} {last}")
