"""Completion scripts: the tables of the commands put into the template of a shell.

A template, ``template.bash`` for one, is the script with ``@WORDS@`` and the like where a table
goes.

Readline splits a line at the characters of ``COMP_WORDBREAKS``, the colon among them, so bash
receives a URI in pieces and replaces only the last one. The script for bash therefore reads the
words from the line itself, and cuts from each candidate the part that stays. It needs neither the
bash-completion package nor a bash newer than 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from lakecli.cli.manual.completion.table import ANY, CompletionOption, CompletionTable

SHELLS: Final = {"bash": "lakecli.bash", "zsh": "_lakecli", "fish": "lakecli.fish"}
"""The file of each shell's script."""

_HEADER: Final = (
    "Written by `python -m lakecli.cli.manual.generate` from the command tree; do not edit."
)


def completion_script(shell: str, table: CompletionTable) -> str:
    """Return the completion script of a shell of `SHELLS`."""
    syntax = _SYNTAX[shell]
    flags = {words: _rows(options) for words, options in table.options.items()}
    parts = {
        "HEADER": _HEADER,
        "WORDS": _lines(syntax.names(*row) for row in table.words.items()),
        "OPTIONS": _lines(syntax.names(*row) for row in flags.items()),
        "SHARED": syntax.items(_rows(table.shared)),
        "VALUES": _lines(syntax.value(*row) for row in _values(table)),
        "ARGUMENTS": _lines(
            syntax.value(words, *row) for words, rows in table.arguments.items() for row in rows
        ),
    }
    script = (Path(__file__).parent / f"template.{shell}").read_text("utf-8")
    for name, text in parts.items():
        script = script.replace(f"@{name}@", text)
    return script


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(filter(None, lines))


def _rows(options: Sequence[CompletionOption]) -> list[tuple[str, str]]:
    return [(option.flag, option.summary) for option in options]


def _values(table: CompletionTable) -> Iterator[tuple[str, str, str]]:
    """Yield a command, one of its options, and what completes the option's value."""
    for words, options in [*table.options.items(), (ANY, table.shared)]:
        for option in options:
            if option.value is not None:
                yield words, option.flag, option.value


class _Syntax(NamedTuple):
    """How a shell writes the parts of its tables.

    Attributes:
        names: what may follow the words of a command: names, each with its summary.
        value: what completes a value of a command: that of an option, or of a numbered argument.
        items: names with their summaries alone.
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
    """Return the pattern of bash and zsh for a command and an option or argument of it."""
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
